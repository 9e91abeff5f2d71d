#include "cli/controllers.h"

#include <memory>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "cli/cli.h"
#include "cli/go_flags.h"
#include "cli/roles.h"
#include "controllers/manager/run.h"
#include "kube/health_server.h"
#include "kube/metrics.h"
#include "net/certificates.h"
#include "rt/real_runtime.h"
#include "rt/signals.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kPemBytesMax = 1u << 20;

struct ControllersFlags {
  RoleFlags role;
  controllers::RunOptions run;
  SideServerFlags servers{.metrics_address = ":8081"};
  ElectionFlags election;
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  std::string lock_type = "leases";
  std::string missing_claim = "wait";
  api::Duration shard_sync_period{std::chrono::seconds(60)};
};

void add_flags(GoFlags& flags, ControllersFlags& target) {
  controllers::ManagerOptions& manager = target.run.manager;
  flags.section("Controllers");
  flags.comma_list("controllers", manager.controllers, "which controllers run: *, NAME, -NAME");
  flags.number("worker-threads", manager.workers_job, "threads of the job controller");
  flags.number("worker-threads-for-cronjob", manager.workers_cronjob, "threads of the cron job controller");
  flags.number("worker-threads-for-podgroup", manager.workers_podgroup, "threads of the pod group controller");
  flags.number("worker-threads-for-queue", manager.workers_queue, "threads of the queue controller");
  flags.number("worker-threads-for-gc", manager.workers_gc, "threads of the collector of finished jobs");
  flags.repeated("scheduler-name", manager.scheduler_names, "schedulers whose pods are ours (repeatable)", "NAME");
  flags.truth("inherit-owner-annotations", manager.inherit_owner_annotations,
              "pod groups of plain pods take over annotations of the pod's owner");
  flags.choice("missing-claim", target.missing_claim, {"wait", "emptyDir"},
               "what a job does whose volume claim does not exist");
  flags.custom("feature-gates", "switches, such as WorkLoadSupport=false", "NAME=BOOL,...",
               [&manager](std::string_view value) { return controllers::set_feature_gates(manager.gates, value); });
  flags.number("max-requeue-num", manager.requeues_max,
               "how long a command to a queue waits for its parent: 5 ms, doubled so often; negative: for ever");
  add_election_flags(flags, target.run.leader_elect, target.election, target.run.election);
  flags.text("leader-elect-resource-lock", target.lock_type, "kind of the lock: leases", "KIND");
  flags.hide("leader-elect-resource-lock");
  add_side_server_flags(flags, target.servers);
  flags.text("ca-cert-file", target.ca_file, "with the two below: the health server speaks TLS", "FILE");
  flags.text("tls-cert-file", target.certificate_file, "its certificate", "FILE");
  flags.text("tls-private-key-file", target.key_file, "its key", "FILE");
  flags.section("Sharding");
  controllers::sharding::ShardingOptions& sharding = manager.sharding;
  flags.comma_list("scheduler-configs", sharding.scheduler_configs,
                   "schedulers without a ConfigMap: name:type:minUtil:maxUtil:warmup:minNodes:maxNodes");
  flags.duration("shard-sync-period", target.shard_sync_period, "time between two full comparisons");
  flags.truth("enable-node-event-trigger", sharding.enable_node_event_trigger, "write soon after large changes");
  flags.text("sharding-configmap", sharding.config_map, "its configuration; \"\" for flags only", "NAME");
  flags.text("sharding-configmap-namespace", sharding.config_map_namespace, "where that is", "NAMESPACE");
  add_role_flags(flags, target.role);
}

// Moves what the flags say to where it is used; all problems at once.
Done settle(ControllersFlags& flags) {
  std::string problems;
  const auto collect = [&problems](const Done& done) {
    if (!done.ok()) problems += (problems.empty() ? "" : "; ") + done.error().message;
  };
  kube::LeaderElectionOptions& election = flags.run.election;
  settle_election(flags.election, election);
  flags.run.manager.sharding.shard_sync_period = flags.shard_sync_period.value;
  flags.run.host = host_name();
  if (flags.missing_claim == "emptyDir") flags.run.manager.missing_claim = controllers::MissingClaim::EmptyDir;
  collect(controllers::validate(flags.run.manager));
  if (flags.run.leader_elect) {
    kube::LeaderElectionOptions checked = election;
    checked.identity = flags.run.host;
    collect(kube::validate(checked));
    if (flags.lock_type != "leases")
      collect(
          Error::invalid_input("--leader-elect-resource-lock is " + flags.lock_type + ": only leases is supported"));
  }
  if (!problems.empty()) return Error::invalid_input(problems);
  return Ok{};
}

Result<std::optional<net::TlsServerOptions>> health_tls(const ControllersFlags& flags) {
  if (flags.ca_file.empty() || flags.certificate_file.empty() || flags.key_file.empty())
    return std::optional<net::TlsServerOptions>();
  net::TlsServerOptions tls;
  BASALT_TRY(tls.certificate_pem, net::read_file(flags.certificate_file, kPemBytesMax));
  BASALT_TRY(tls.key_pem, net::read_file(flags.key_file, kPemBytesMax));
  BASALT_TRY(tls.client_ca_pem, net::read_file(flags.ca_file, kPemBytesMax));
  return std::optional(std::move(tls));
}

// The servers that run whether we lead or not.
class SideServers {
 public:
  ~SideServers() {
    if (health_) health_->stop();
    if (metrics_) metrics_->stop();
  }
  Done start_health(rt::Runtime& runtime, const Logger& log, const ControllersFlags& flags,
                    std::optional<net::TlsServerOptions> tls, const controllers::RunHealth& health) {
    if (!flags.servers.enable_healthz) return Ok{};
    BASALT_TRY(const BindAddress where, parse_bind_address("--healthz-address", flags.servers.healthz_address));
    kube::HealthServerOptions options;
    options.address = where.address;
    options.port = where.port;
    options.tls = std::move(tls);
    std::vector<kube::HealthCheck> checks;
    checks.push_back({.name = "caches-filled", .ask = [&health] { return health.ready(); }});
    BASALT_TRY(health_, kube::HealthServer::start(runtime, log, std::move(options), std::move(checks)));
    return Ok{};
  }
  Done start_metrics(rt::Runtime& runtime, const Logger& log, const ControllersFlags& flags, kube::Metrics& metrics) {
    if (!flags.servers.enable_metrics) return Ok{};
    BASALT_TRY(const BindAddress where, parse_bind_address("--listen-address", flags.servers.metrics_address));
    kube::HealthServerOptions options;
    options.address = where.address;
    options.port = where.port;
    options.serve_health = false;
    options.metrics = &metrics;
    BASALT_TRY(metrics_, kube::HealthServer::start(runtime, log, std::move(options), {}));
    return Ok{};
  }

 private:
  std::unique_ptr<kube::HealthServer> health_;
  std::unique_ptr<kube::HealthServer> metrics_;
};

// What the program that this one replaces ends with if its metrics cannot be served.
constexpr int kExitNoMetrics = 255;

int fail(Invocation& invocation, const Error& error, int code = kExitFailed) {
  invocation.err << invocation.program << ": " << error.message << "\n";
  return code;
}

int serve(Invocation& invocation, ControllersFlags& flags) {
  rt::block_stop_signals();
  const auto runtime = rt::make_real_runtime();
  const Logger log = make_role_logger(flags.role);
  kube::Metrics metrics;
  controllers::RunHealth health;
  flags.run.health = &health;
  auto tls = health_tls(flags);
  if (!tls.ok()) return fail(invocation, tls.error());
  auto client = connect_role(*runtime, log, flags.role, "vc-controller-manager", &metrics);
  if (!client.ok()) return fail(invocation, client.error());
  auto elections = connect_role(*runtime, log, flags.role, "vc-controller-manager", nullptr);
  if (!elections.ok()) return fail(invocation, elections.error());
  SideServers servers;
  if (Done started = servers.start_health(*runtime, log, flags, std::move(*tls), health); !started.ok())
    return fail(invocation, started.error());
  if (Done started = servers.start_metrics(*runtime, log, flags, metrics); !started.ok())
    return fail(invocation, started.error(), kExitNoMetrics);
  return run_until_signal(*runtime, [&](const rt::StopToken& stop) {
    const Done ended = controllers::run_controllers(*runtime, **client, **elections, log, metrics, flags.run, stop);
    return ended.ok() ? kExitOk : fail(invocation, ended.error());
  });
}

}  // namespace

int run_controllers(Invocation& invocation) {
  ControllersFlags target;
  GoFlags flags(invocation.program, "Runs the controllers of Volcano's API against a Kubernetes API server.");
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
