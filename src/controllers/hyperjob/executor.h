#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/training.h"
#include "api/object_key.h"
#include "controllers/common/controller.h"
#include "controllers/hyperjob/plan.h"
#include "controllers/hyperjob/status.h"
#include "kube/expectations.h"
#include "kube/typed.h"
#include "rt/stop.h"

namespace basalt::controllers::hyperjob {

// What became of a plan.
struct Executed {
  PassResult pass;
  std::optional<Error> error;  // the first failure that a retry may mend
};

// Carries plans out: policies first, then the jobs that have one, then what is no longer wanted. A failure with one
// child keeps nothing from the others. Thread-safe; one key is with one worker at a time.
class Executor {
 public:
  Executor(ControllerContext& context, kube::EventRecorder& events, kube::Expectations& expectations);

  // `failures` is how often this hyper job failed in a row: what fails for long is told on the object.
  Executed carry_out(const api::training::HyperJob& hyper_job, const Plan& plan, std::uint32_t failures,
                     const rt::StopToken& stop);
  // The hyper job is gone or over.
  void forget(const api::ObjectKey& key);

  void event(const api::training::HyperJob& hyper_job, kube::EventType type, std::string_view reason,
             const std::string& message);

 private:
  struct Pass;
  struct Refusal {
    std::string hash;
    std::string path;
  };
  enum class ChildKind : std::uint8_t { Policy, Job };

  void create_policies(Pass& pass);
  void mend_policies(Pass& pass);
  void create_jobs(Pass& pass);
  void mend_jobs(Pass& pass);
  void check_job(Pass& pass, const ChildPlan& child, const Group& group);
  void delete_stale(Pass& pass, ChildKind kind, const std::vector<StaleChild>& stale);

  void take_created(Pass& pass, ChildKind kind, const ChildPlan& child, const Result<kube::Response>& answer);
  void take_existing(Pass& pass, ChildKind kind, const ChildPlan& child);
  void take_written(Pass& pass, ChildKind kind, const std::string& child, const Result<kube::Response>& answer);
  void add_conflict(Pass& pass, ChildKind kind, const std::string& child, const std::string& holder);
  void add_failure(Pass& pass, std::string_view event_reason, const std::string& child, const Error& error);
  std::optional<std::string> known_refusal(Pass& pass, const ChildPlan& child, const Group& group);
  void add_refusal(Pass& pass, const ChildPlan& child, const std::string& path, bool is_news);
  [[nodiscard]] bool may_move(Pass& pass, const ChildPlan& child);
  void count(ChildKind kind, std::string_view verb);

  // Fixed after construction.
  kube::Client& client_;
  const Logger log_;
  kube::EventRecorder& events_;
  kube::Expectations& expectations_;
  kube::Metrics& metrics_;

  rt::Mutex mutex_;
  // Template changes that a job cannot take, by hyper job and job UID; told once, and not asked about again.
  std::map<api::ObjectKey, std::map<std::string, Refusal>> refused_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::controllers::hyperjob
