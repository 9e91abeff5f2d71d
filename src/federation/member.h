#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/gen/batch_job.h"
#include "api/gen/karmada_cluster.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/expectations.h"
#include "kube/informer.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::federation {

struct MemberOptions {
  rt::Duration probe_period = std::chrono::seconds(5);
  int failures_max = 3;                                  // so many failed probes, and the cluster is not ready
  int summary_every = 6;                                 // every so many probes the nodes are counted
  rt::Duration call_timeout = std::chrono::seconds(10);  // of a call to a member: one that hangs holds up a worker
};

// One member cluster: its API, the jobs that the federation put there, and a thread that says on the host's Cluster
// object how it is. start() before use, stop() before destruction.
class Member {
 public:
  using Changed = std::function<void(const kube::Change<api::batch::Job>&)>;
  Member(rt::Runtime& runtime, kube::Client& host, std::string name, kube::Client& client, const Logger& log,
         const MemberOptions& options, Changed changed, std::function<void(const api::ObjectKey&)> ready);

  void start();
  void stop();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] kube::Informer<api::batch::Job>& jobs() { return jobs_; }
  [[nodiscard]] kube::Expectations& expectations() { return expectations_; }
  // Whether calls have a chance: the last probe went well and the cache is filled.
  [[nodiscard]] bool is_reachable() const { return is_reachable_.load() && jobs_.has_synced(); }
  Result<kube::Response> call(kube::Request request, const rt::StopToken& stop);

 private:
  void run(const rt::StopToken& stop);
  [[nodiscard]] Done probe(const rt::StopToken& stop);
  [[nodiscard]] std::optional<api::karmada::ClusterResourceSummary> summary(const rt::StopToken& stop);
  Done join(const rt::StopToken& stop);
  Done report(bool is_ready, const std::string& why, const rt::StopToken& stop);

  // Fixed after construction.
  rt::Runtime& runtime_;
  kube::Client& host_;
  const std::string name_;
  kube::Client& client_;
  const Logger log_;
  const MemberOptions options_;

  // Self-locking.
  kube::Informer<api::batch::Job> jobs_;
  kube::Expectations expectations_;
  std::atomic<bool> is_reachable_ = false;

  // Used only by the probe's thread.
  bool has_joined_ = false;
  std::optional<api::karmada::ClusterResourceSummary> summary_;

  rt::StopSource stop_;
  rt::Thread thread_;
};

}  // namespace basalt::federation
