#include "controllers/manager/run.h"

#include <memory>
#include <optional>
#include <utility>

#include "controllers/manager/controller_manager.h"
#include "kube/event_recorder.h"
#include "rt/runtime.h"

namespace basalt::controllers {
namespace {

// Speaks of a manager for as long as this lives.
class Followed {
 public:
  Followed(RunHealth* health, const ControllerManager& manager) : health_(health) {
    if (health_ != nullptr) health_->follow(&manager);
  }
  ~Followed() {
    if (health_ != nullptr) health_->follow(nullptr);
  }
  Followed(const Followed&) = delete;
  Followed& operator=(const Followed&) = delete;

 private:
  RunHealth* const health_;
};

// Without an election: begin, wait, end.
Done run_alone(rt::Runtime& runtime, kube::Client& client, const Logger& log, kube::Metrics& metrics,
               const RunOptions& options, const rt::StopToken& stop) {
  ControllerManager manager(runtime, client, log, metrics, options.manager);
  const Followed followed(options.health, manager);
  const Done started = manager.start(stop);
  if (started.ok()) static_cast<void>(stop.wait_until(runtime, rt::kNever));
  manager.stop();
  return Ok{};
}

}  // namespace

Done RunHealth::ready() const {
  const rt::MutexLock lock(mutex_);
  if (manager_ == nullptr || manager_->is_ready()) return Ok{};
  const std::string waiting = manager_->waiting_for();
  return Error::make(Reason::ServiceUnavailable,
                     waiting.empty() ? "the controllers are not started yet" : "caches not filled: " + waiting);
}

void RunHealth::follow(const ControllerManager* manager) {
  const rt::MutexLock lock(mutex_);
  manager_ = manager;
}

Done run_controllers(rt::Runtime& runtime, kube::Client& client, kube::Client& elections, Logger log,
                     kube::Metrics& metrics, const RunOptions& options, const rt::StopToken& stop) {
  BASALT_TRY_DONE(validate(options.manager));
  if (!options.leader_elect) return run_alone(runtime, client, log, metrics, options, stop);

  kube::LeaderElectionOptions election = options.election;
  if (election.identity.empty()) election.identity = kube::make_identity(runtime, options.host);
  BASALT_TRY_DONE(kube::validate(election));
  kube::EventRecorder::Options recorder_options;
  recorder_options.component = "vc-controller-manager";
  kube::EventRecorder recorder(runtime, elections, log, recorder_options);
  recorder.start();
  election.recorder = &recorder;

  // Made when the leadership begins: a replica that waits holds no caches. The start waits for the caches on a thread
  // of its own, so that the lease is renewed meanwhile.
  std::unique_ptr<kube::Client> fenced;
  std::unique_ptr<ControllerManager> manager;
  std::optional<Followed> followed;
  std::optional<rt::Thread> starter;
  rt::StopSource starting(runtime);
  std::optional<kube::LeaderElector> elector;
  kube::LeaderElector::Callbacks callbacks;
  callbacks.started = [&] {
    fenced = kube::fenced_client(client, *elector);
    manager = std::make_unique<ControllerManager>(runtime, *fenced, log, metrics, options.manager);
    followed.emplace(options.health, *manager);
    starter.emplace(runtime, "start-controllers", [&] { static_cast<void>(manager->start(starting.token())); });
  };
  callbacks.stopped = [&] {
    starting.request_stop();
    if (starter) starter->join();
    starter.reset();
    if (manager) manager->stop();
  };
  callbacks.new_leader = [&log](const std::string& identity) { log.info("leader", {{"identity", identity}}); };
  elector.emplace(runtime, elections, log, election, callbacks);
  Done ended = elector->run(stop);
  followed.reset();
  manager.reset();
  recorder.stop();
  return ended;
}

}  // namespace basalt::controllers
