#include "cli/scheduler/scheduler.h"

#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "cli/cli.h"
#include "cli/go_flags.h"
#include "cli/roles.h"
#include "kube/health_server.h"
#include "kube/metrics.h"
#include "rt/real_runtime.h"
#include "rt/signals.h"
#include "scheduler/run.h"

namespace basalt::cli {
namespace {

struct SchedulerFlags {
  RoleFlags role;
  scheduler::RunOptions run;
  std::string strategy = "pack";
  std::string shard_mode = "none";
  SideServerFlags servers{.metrics_address = ":8080"};
  ElectionFlags election;
};

void add_flags(GoFlags& flags, SchedulerFlags& target) {
  scheduler::SchedulerOptions& options = target.run.scheduler;
  flags.section("Scheduling");
  flags.repeated("scheduler-name", options.names, "schedulerName of the pods that are ours (repeatable)", "NAME");
  flags.choice("strategy", target.strategy, {"pack", "spread"}, "fill nodes one after the other, or all alike");
  flags.truth("preempt", options.planner.preempt, "gangs of higher priority take the place of others in their queue");
  flags.truth("reclaim", options.planner.reclaim, "queues get back what others use beyond their due");
  flags.truth("create-queues", options.create_queues, "create the queues root and default if they are missing");
  flags.choice("scheduler-sharding-mode", target.shard_mode, {"none", "soft", "hard"},
               "nodes outside the NodeShard: all alike, used last, never used");
  flags.text("scheduler-sharding-name", options.shard_name, "NodeShard to follow", "NAME");
  target.run.election.name = "volcano";
  add_election_flags(flags, target.run.leader_elect, target.election, target.run.election);
  add_side_server_flags(flags, target.servers);
  // Of vc-scheduler: a cycle follows a change at once here, and there are no plugins to configure.
  for (const std::string_view name : {"scheduler-conf", "schedule-period", "default-queue", "plugins-dir",
                                      "minimum-feasible-nodes", "percentage-nodes-to-find", "node-worker-threads",
                                      "resync-period", "node-selector", "leader-elect-resource-lock"})
    flags.ignored(name, true);
  for (const std::string_view name : {"priority-class", "csi-storage", "cache-dumper"}) flags.ignored(name, false);
  add_role_flags(flags, target.role);
}

// Moves what the flags say to where it is used.
Done settle(SchedulerFlags& flags) {
  using scheduler::ShardMode;
  scheduler::PlannerOptions& planner = flags.run.scheduler.planner;
  planner.strategy = flags.strategy == "spread" ? scheduler::Strategy::Spread : scheduler::Strategy::Pack;
  planner.shard_mode = flags.shard_mode == "hard"   ? ShardMode::Hard
                       : flags.shard_mode == "soft" ? ShardMode::Soft
                                                    : ShardMode::None;
  settle_election(flags.election, flags.run.election);
  flags.run.host = host_name();
  return scheduler::validate(flags.run);
}

int fail(Invocation& invocation, const Error& error) {
  invocation.err << invocation.program << ": " << error.message << "\n";
  return kExitFailed;
}

Result<std::unique_ptr<kube::HealthServer>> start_server(rt::Runtime& runtime, const Logger& log, std::string_view flag,
                                                         const std::string& address, kube::Metrics* metrics) {
  BASALT_TRY(const BindAddress where, parse_bind_address(flag, address));
  kube::HealthServerOptions options;
  options.address = where.address;
  options.port = where.port;
  options.serve_health = metrics == nullptr;
  options.metrics = metrics;
  return kube::HealthServer::start(runtime, log, std::move(options), {});
}

int serve(Invocation& invocation, const SchedulerFlags& flags) {
  rt::block_stop_signals();
  const auto runtime = rt::make_real_runtime();
  const Logger log = make_role_logger(flags.role);
  kube::Metrics metrics;
  std::unique_ptr<kube::HealthServer> health;
  std::unique_ptr<kube::HealthServer> figures;
  if (flags.servers.enable_healthz) {
    auto server = start_server(*runtime, log, "--healthz-address", flags.servers.healthz_address, nullptr);
    if (!server.ok()) return fail(invocation, server.error());
    health = std::move(*server);
  }
  if (flags.servers.enable_metrics) {
    auto server = start_server(*runtime, log, "--listen-address", flags.servers.metrics_address, &metrics);
    if (!server.ok()) return fail(invocation, server.error());
    figures = std::move(*server);
  }
  auto client = connect_role(*runtime, log, flags.role, "vc-scheduler", &metrics);
  if (!client.ok()) return fail(invocation, client.error());
  auto elections = connect_role(*runtime, log, flags.role, "vc-scheduler", nullptr);
  if (!elections.ok()) return fail(invocation, elections.error());
  const int code = run_until_signal(*runtime, [&](const rt::StopToken& stop) {
    const Done ended = scheduler::run_scheduler(*runtime, **client, **elections, log, metrics, flags.run, stop);
    return ended.ok() ? kExitOk : fail(invocation, ended.error());
  });
  if (health) health->stop();
  if (figures) figures->stop();
  return code;
}

}  // namespace

int run_scheduler(Invocation& invocation) {
  SchedulerFlags target;
  // Binding thousands of pods is this role's work; what guards the server is its own priority and fairness.
  target.role.calls_per_second = 2000;
  target.role.burst = 2000;
  GoFlags flags(invocation.program, "Places gangs of pods on the nodes of a Kubernetes cluster, all or nothing.");
  add_flags(flags, target);
  if (const auto code = flags.parse_or_exit(invocation.arguments, invocation.out, invocation.err)) return *code;
  if (target.role.print_version) {
    print_role_version(invocation.out);
    return kExitOk;
  }
  if (Done settled = settle(target); !settled.ok()) return fail(invocation, settled.error());
  return serve(invocation, target);
}

}  // namespace basalt::cli
