#pragma once

#include <map>
#include <string>

#include "api/object_key.h"
#include "controllers/jobflow/flow_planner.h"
#include "rt/mutex.h"

namespace basalt::controllers::jobflow {

// How jobs were when they vanished, until their flows have it in their status: a job that finishes and deletes itself
// at once must not look as if it had never been. At `kJobsMax` no more are kept, and such a job would be made again.
// Any thread.
class FinishedJobs {
 public:
  using ByName = std::map<std::string, JobPtr, std::less<>>;
  static constexpr std::size_t kJobsMax = 10'000;

  void keep(const api::ObjectKey& flow, JobPtr job);
  [[nodiscard]] ByName of(const api::ObjectKey& flow) const;
  // These very jobs are in the status now.
  void forget(const api::ObjectKey& flow, const ByName& jobs);
  void forget_all(const api::ObjectKey& flow);

 private:
  mutable rt::Mutex mutex_;
  std::map<api::ObjectKey, ByName> jobs_ BASALT_GUARDED_BY(mutex_);
  std::size_t count_ BASALT_GUARDED_BY(mutex_) = 0;
};

}  // namespace basalt::controllers::jobflow
