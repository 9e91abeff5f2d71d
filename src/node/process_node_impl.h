#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "node/pod_status.h"
#include "node/pod_tokens.h"
#include "node/prober.h"
#include "node/process_node.h"

namespace basalt::node {

enum class ProbeKind : std::uint8_t { Startup, Liveness, Readiness };

// The state of one probe of a container that runs.
struct ProcessNode::ProbeRun {
  ProbeKind kind = ProbeKind::Startup;
  const api::core::Probe* probe = nullptr;  // in the pod
  bool is_running = false;
  bool has_result = false;  // guarded by the node's mutex, with the next
  CheckResult result;
  // What is under way: a command, or a check over the network, which keeps its deadline by itself.
  ProcessId process = kNoProcess;
  std::unique_ptr<rt::StopSource> cancel;
  bool is_on_hold = false;  // it has done its work: the container is being ended
  rt::Instant started{};
  rt::Instant next{};
  rt::Instant give_up_at = rt::kNever;
  std::int32_t successes = 0;
  std::int32_t failures = 0;
};

struct ProcessNode::PodWork {
  PodWork(PodPtr first_seen, RestartOptions options) : pod(first_seen), machine(std::move(first_seen), options) {}

  const PodPtr pod;  // as first seen; what a node reads of a pod does not change
  PodMachine machine;
  PodPlace place;
  PodTokens tokens;
  std::string hosts_path;
  api::Time start_time;
  bool is_prepared = false;
  bool is_deleted = false;  // we have asked for it
  bool is_gone = false;     // from the API
  WaitNote note;
  std::uint32_t blocked_times = 0;
  rt::Instant blocked_until{};
  rt::Instant refresh_at = rt::kNever;
  ConditionTimes condition_times;
  std::string written_status;
  std::string written_record;
  // By container: the probes of the run, and which run that is.
  std::vector<std::vector<std::shared_ptr<ProbeRun>>> probes;
  std::vector<std::int32_t> probed_runs;
  std::vector<ProcessSpec> specs;  // of the newest run of each container, for probes

  std::vector<Exit> exits;  // guarded by the node's mutex
};

// Reads for one pod, with the worker's stop token.
class ProcessNode::Objects final : public PodObjects {
 public:
  Objects(rt::Runtime& runtime, kube::Client& client, PodTokens& tokens, const rt::StopToken& stop)
      : runtime_(runtime), client_(client), tokens_(tokens), stop_(stop) {}
  Result<api::core::ConfigMap> config_map(const std::string& ns, const std::string& name) override;
  Result<api::core::Secret> secret(const std::string& ns, const std::string& name) override;
  Done claim(const std::string& ns, const std::string& name) override;
  Result<std::string> token(const api::core::Pod& pod, const TokenWish& wish) override;

 private:
  rt::Runtime& runtime_;
  kube::Client& client_;
  PodTokens& tokens_;
  const rt::StopToken& stop_;
};

}  // namespace basalt::node
