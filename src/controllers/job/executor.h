#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "controllers/common/controller.h"
#include "controllers/job/planner.h"
#include "controllers/job/plugins/plugin.h"
#include "kube/client.h"
#include "kube/expectations.h"
#include "rt/executor.h"
#include "rt/mutex.h"

namespace basalt::controllers::job {

// Key pairs for the ssh plugin, made on a thread of their own because one takes 100 ms and more. Thread-safe.
class KeyPairs {
 public:
  using Make = std::function<Result<SshKeyPair>()>;
  using Ready = std::function<void(const api::ObjectKey&)>;
  KeyPairs(rt::Runtime& runtime, Make make, Ready ready);
  // The pair of this job. Cancelled while it is being made: `ready` is then called with the key. Any other error (too
  // many wait, the making failed) is to be tried again.
  [[nodiscard]] Result<SshKeyPair> take(const api::ObjectKey& key, const std::string& uid);
  void forget(const std::string& uid);
  void stop();
  static constexpr std::size_t kWaitingMax = 10'000;

 private:
  const Make make_;
  const Ready ready_;
  rt::Mutex mutex_;
  std::map<std::string, std::optional<Result<SshKeyPair>>> entries_ BASALT_GUARDED_BY(mutex_);  // nothing: being made
  rt::Executor executor_;
};

// How far a plan came.
struct CarriedOut {
  std::optional<Error> error;
  bool status_is_written = true;  // or needed no write: what the plan remembers is true
  JobMemory memory;
};

// Makes the calls of a plan, in its order, and notes what the caches must show before the next pass. Stateless but for
// its references; any thread, one job at a time.
class PlanExecutor {
 public:
  struct Options {
    int pods_in_flight = 64;  // pods of one job that are made or deleted at once
  };
  PlanExecutor(ControllerContext& context, kube::Expectations& expectations, KeyPairs& keys, Options options);

  [[nodiscard]] CarriedOut carry_out(const ObservedJob& observed, JobPlan plan, const PluginSet* plugins,
                                     const rt::StopToken& stop);

 private:
  struct Pass;
  Done patch_job(Pass& pass);
  Done mark_pods(Pass& pass, const std::vector<PodRef>& pods);
  Done write_status(Pass& pass);
  Done consume_commands(Pass& pass);
  Done delete_pods(Pass& pass);
  Done delete_plugin_objects(Pass& pass);
  Done delete_pod_group(Pass& pass);
  Done create_claims(Pass& pass);
  Done ensure_plugin_objects(Pass& pass);
  Done ensure_object(Pass& pass, const PluginObject& wanted, bool needs_keys);
  Done fill_keys(Pass& pass, const json::Value* existing, json::Value& secret);
  Done ensure_pod_group(Pass& pass);
  Done create_pods(Pass& pass);
  Done create_portion(Pass& pass, std::span<const PlannedPod> planned);
  [[nodiscard]] bool is_still_wanted(const Pass& pass) const;
  Done accept_existing(Pass& pass, const kube::Resource& resource, const std::string& name);
  Done create(Pass& pass, const kube::Resource& resource, const std::string& name, std::string body);
  // Notes what keeps the job from its pods and does not go away by itself: on the object with the next status.
  Error problem(Pass& pass, std::string_view reason, std::string_view event_reason, Error error);
  void tell(const Pass& pass, kube::EventType type, std::string_view reason, std::string_view message);
  void count_results(const Pass& pass);

  ControllerContext& context_;
  kube::Expectations& expectations_;
  KeyPairs& keys_;
  const Options options_;
  kube::Histogram creation_latency_;
};

// The series of a job that is gone.
void remove_job_metrics(kube::Metrics& metrics, const api::batch::Job& job);

}  // namespace basalt::controllers::job
