#include "scheduler/run.h"

#include <memory>
#include <optional>
#include <utility>

#include "kube/event_recorder.h"

namespace basalt::scheduler {
namespace {

// The scheduler with its events, for as long as it may act.
class Acting {
 public:
  Acting(rt::Runtime& runtime, kube::Client& client, const Logger& log, const RunOptions& options)
      : events_(runtime, client, log, {.component = options.scheduler.names.front(), .host = options.host}),
        scheduler_(runtime, client, log, events_, options.scheduler) {
    events_.start();
    scheduler_.start();
  }
  ~Acting() {
    scheduler_.stop();
    events_.stop();
  }
  Acting(const Acting&) = delete;
  Acting& operator=(const Acting&) = delete;

 private:
  kube::EventRecorder events_;
  Scheduler scheduler_;
};

}  // namespace

Done validate(const RunOptions& options) {
  if (options.scheduler.names.empty()) return Error::invalid_input("--scheduler-name is needed at least once");
  for (const std::string& name : options.scheduler.names) {
    if (name.empty()) return Error::invalid_input("--scheduler-name is empty");
  }
  if (options.scheduler.planner.shard_mode != ShardMode::None && options.scheduler.shard_name.empty())
    return Error::invalid_input("--scheduler-sharding-name is empty, but --scheduler-sharding-mode asks for a shard");
  if (!options.leader_elect) return Ok{};
  kube::LeaderElectionOptions election = options.election;
  if (election.identity.empty()) election.identity = "any";
  return kube::validate(election);
}

Done run_scheduler(rt::Runtime& runtime, kube::Client& client, kube::Client& elections, Logger log,
                   kube::Metrics& metrics, const RunOptions& options, const rt::StopToken& stop) {
  BASALT_TRY_DONE(validate(options));
  RunOptions used = options;
  used.scheduler.metrics = &metrics;
  if (!options.leader_elect) {
    const Acting acting(runtime, client, log, used);
    static_cast<void>(stop.wait_until(runtime, rt::kNever));
    return Ok{};
  }
  kube::LeaderElectionOptions election = options.election;
  if (election.identity.empty()) election.identity = kube::make_identity(runtime, options.host);
  // Made when the leadership begins: a replica that waits holds no caches.
  std::unique_ptr<kube::Client> fenced;
  std::unique_ptr<Acting> acting;
  std::optional<kube::LeaderElector> elector;
  kube::LeaderElector::Callbacks callbacks;
  callbacks.started = [&] {
    fenced = kube::fenced_client(client, *elector);
    acting = std::make_unique<Acting>(runtime, *fenced, log, used);
  };
  callbacks.stopped = [&] { acting.reset(); };
  callbacks.new_leader = [&log](const std::string& identity) { log.info("leader", {{"identity", identity}}); };
  elector.emplace(runtime, elections, log, election, callbacks);
  Done ended = elector->run(stop);
  acting.reset();
  return ended;
}

}  // namespace basalt::scheduler
