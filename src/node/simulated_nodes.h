#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/time.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "node/node.h"
#include "node/node_object.h"
#include "node/simulated_pod.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "rt/workers.h"

namespace basalt::node {

struct SimulatedNodesOptions {
  std::string prefix = "sim-";  // the nodes are sim-0, sim-1, ...
  std::int32_t count = 1;
  NodeDescription node;  // of each; its name is not read; what its capacity lacks is 32 cpu, 128Gi, pods_max
  std::int64_t pods_max = 110;
  std::int32_t zones = 0;  // above zero: topology.kubernetes.io/zone is zone-0, zone-1, ... in turn
  SimulatedFate fate;      // of pods without annotations
  // Of containers that fail or end again and again: the least time between two starts doubles from base to cap.
  rt::Duration restart_base = std::chrono::seconds(10);
  rt::Duration restart_cap = std::chrono::seconds(300);
  // Each node's Lease is renewed so often, spread over the period; zero: never, for embedded use.
  rt::Duration lease_period{};
  int workers = 2;
  std::size_t batch_max = 500;  // writes of a worker that are sent together
  int in_flight_max = 64;
};

// Many nodes on which nothing runs: pods walk through their phases on a schedule (see simulated_pod.h). One cache of
// pods, a few workers that take what is due in batches, one thread for registration and leases; 100,000 nodes and as
// many pods are fine. A second agent goes on where the first one stopped: a run ends when it would have.
//
// At start() nodes of an earlier run that are no longer wanted are deleted, with `count` 0 all of this prefix.
class SimulatedNodes final : public Node {
 public:
  SimulatedNodes(rt::Runtime& runtime, kube::Client& client, const Logger& log, SimulatedNodesOptions options);
  ~SimulatedNodes() override;

  void start() override;
  void stop() override;
  [[nodiscard]] bool has_pod(const std::string& ns, const std::string& name) override;
  // One line that says that nothing ran.
  Result<ProcessExit> run_command(const Command& command, ProcessRunner::OnOutput on_output,
                                  const rt::StopToken& stop) override;
  Done read_log(const std::string& ns, const std::string& name, const std::string& container, const LogOptions& options,
                const LogSink& sink, const rt::StopToken& stop) override;
  // Waits until all Node objects are there; false if stopped first.
  [[nodiscard]] bool wait_registered(const rt::StopToken& stop);

 private:
  using PodPtr = std::shared_ptr<const SimulatedPod>;
  // What this agent did with a pod.
  struct Life {
    bool is_running = false;  // we have written so
    bool is_ending = false;   // it is being deleted; `due` is when it goes
    bool is_over = false;     // we have written its end, or removed it: the watch will show it
    std::int32_t restarts = 0;
    api::Time started;
    rt::Instant due{};
    std::uint32_t restarts_in_row = 0;
  };
  // A pod of ours until the cache shows its end.
  struct Known {
    PodPtr pod;  // as the cache has it; null: gone
    std::optional<Life> life;
  };
  enum class Move : std::uint8_t { Run, Finish, Restart, Refuse, Remove };
  // One write that is due.
  struct Step {
    std::string uid;
    PodPtr pod;
    Life life;  // as it will be
    Move move = Move::Run;
    std::int32_t exit_code = 0;
    kube::Request request;
  };

  [[nodiscard]] bool is_mine(std::string_view node_name) const;
  [[nodiscard]] std::string node_name(std::int32_t index) const { return options_.prefix + std::to_string(index); }
  void see(const kube::Change<SimulatedPod>& change);
  void work();
  // The write that is due for a pod, or when one will be.
  struct Plan {
    std::optional<Step> step;
    rt::Instant wake_at = rt::kNever;
  };
  [[nodiscard]] Plan plan(const std::string& uid);
  [[nodiscard]] Plan plan_removal(const PodPtr& pod, Life life, rt::Duration stop_delay);
  void remember(const std::string& uid, const Life& life);
  // Of a pod that this agent has done nothing with yet.
  [[nodiscard]] Life begin_life(const SimulatedPod& pod, const SimulatedFate& fate);
  [[nodiscard]] Step make_step(const PodPtr& pod, Life life, Move move, std::int32_t exit_code, std::string_view why);
  void settle(const Step& step, const Result<kube::Response>& answer);
  void register_and_renew();
  [[nodiscard]] bool register_all(const rt::StopToken& stop);
  [[nodiscard]] Done untaint(const std::vector<json::Value>& nodes, const rt::StopToken& stop);
  [[nodiscard]] bool remove_all_unwanted(const rt::StopToken& stop);
  [[nodiscard]] Done remove_unwanted(const rt::StopToken& stop);
  [[nodiscard]] json::Value make_node(std::int32_t index) const;
  // False if some were not renewed.
  bool renew_leases(std::int32_t begin, std::int32_t end, const rt::StopToken& stop);
  [[nodiscard]] api::Time wall() const;
  // The answers of those that did not succeed, by their index in the requests.
  std::map<std::size_t, Error> send(const std::vector<kube::Request>& requests, const rt::StopToken& stop);

  // Fixed after construction.
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  const SimulatedNodesOptions options_;

  // Self-locking.
  rt::StopSource stop_;
  kube::Informer<SimulatedPod> pods_;
  rt::WorkQueue<std::string> queue_;  // UIDs

  rt::Mutex mutex_;
  rt::Condition registered_changed_;
  bool is_registered_ BASALT_GUARDED_BY(mutex_) = false;
  std::unordered_map<std::string, Known> known_ BASALT_GUARDED_BY(mutex_);  // by UID

  api::Time ready_since_;            // used only by the thread that registers
  std::vector<rt::Thread> threads_;  // used only by the owner
  bool started_ = false;
};

}  // namespace basalt::node
