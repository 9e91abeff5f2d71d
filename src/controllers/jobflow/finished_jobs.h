#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/object_key.h"
#include "controllers/jobflow/flow_planner.h"
#include "rt/mutex.h"

namespace basalt::controllers::jobflow {

// How jobs were when they vanished, until their flows have it in their status: a job that finishes and deletes itself
// at once must not look as if it had never been. At `kJobsMax` no more are kept, and such a job would be made again.
// The cache changes a moment before its handlers are called, so the jobs that handlers were told of are known, too: one
// that the cache does not have any more, and whose end nobody was told of yet, has not gone without a trace.
// Any thread.
class FinishedJobs {
 public:
  using ByName = std::map<std::string, JobPtr, std::less<>>;
  static constexpr std::size_t kJobsMax = 10'000;

  // What a handler was told: the job is there and belongs to this flow; or it is gone, or belongs to no flow any more.
  void note_alive(const api::ObjectKey& flow, const std::string& flow_uid, const std::string& job_uid);
  void note_gone(const std::string& job_uid);
  // The same, of a job whose end its flow is to know.
  void keep(const api::ObjectKey& flow, JobPtr job);
  // Whether the cache, which showed these jobs of the flow, is ahead of the handlers. Asked before of().
  [[nodiscard]] bool misses(const api::ObjectKey& flow, const std::string& flow_uid,
                            const std::vector<JobPtr>& jobs) const;
  [[nodiscard]] ByName of(const api::ObjectKey& flow) const;
  // These very jobs are in the status now.
  void forget(const api::ObjectKey& flow, const ByName& jobs);
  void forget_all(const api::ObjectKey& flow);

 private:
  struct Owner {
    api::ObjectKey flow;
    std::string uid;
  };
  void drop_alive(const std::string& job_uid) BASALT_REQUIRES(mutex_);

  mutable rt::Mutex mutex_;
  std::unordered_map<std::string, Owner> owner_of_ BASALT_GUARDED_BY(mutex_);  // by the UID of the job
  std::map<api::ObjectKey, std::set<std::string>> alive_ BASALT_GUARDED_BY(mutex_);
  std::map<api::ObjectKey, ByName> jobs_ BASALT_GUARDED_BY(mutex_);
  std::size_t count_ BASALT_GUARDED_BY(mutex_) = 0;
};

}  // namespace basalt::controllers::jobflow
