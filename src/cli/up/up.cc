#include "cli/up/up.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/go_flags.h"
#include "cli/roles.h"
#include "cli/up/background.h"
#include "cli/up/data_folder.h"
#include "cli/up/local_cluster.h"
#include "cli/up/run_lock.h"
#include "rt/real_runtime.h"
#include "rt/signals.h"

namespace basalt::cli {
namespace {

constexpr std::int32_t kProcessNodesMax = 1000;
constexpr std::int32_t kSimulatedNodesMax = 1'000'000;
constexpr std::int64_t kPortMax = 65535;

struct UpFlags {
  LocalClusterOptions cluster;
  std::int64_t port = 0;
  std::string strategy = "pack";
  std::string log_level = "warn";
  bool detach = false;
};

int fail(Invocation& invocation, const Error& error) {
  invocation.err << invocation.program << ": " << error.message << "\n";
  return error.reason == Reason::InvalidInput ? kExitUsage : kExitFailed;
}

// "agnhost=/opt/agnhost", "pause=sleep infinity"
Done take_image(std::string_view value, std::map<std::string, std::vector<std::string>>& images) {
  const auto parts = base::split_once(value, '=');
  std::vector<std::string> words;
  if (parts) {
    for (const std::string_view word : base::split(parts->second, ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
  }
  if (!parts || parts->first.empty() || words.empty())
    return Error::invalid_input("--image is " + base::quote(value) +
                                ": it takes IMAGE=PROGRAM, such as pause=sleep 9d");
  images[std::string(parts->first)] = std::move(words);
  return Ok{};
}

void add_flags(GoFlags& flags, UpFlags& target) {
  LocalClusterOptions& cluster = target.cluster;
  flags.section("Cluster");
  flags.text("data-dir", cluster.data_dir, "folder of the cluster: objects, certificates, kubeconfig, logs of pods",
             "FOLDER");
  flags.text("address", cluster.address, "address to listen on", "ADDRESS");
  flags.number("port", target.port, "port to listen on; 0: the one of last time, or any free one");
  flags.choice("durability", cluster.durability, {"full", "fast", "memory"},
               "full: an acknowledged write survives the loss of power; fast: it survives the end of the process; "
               "memory: nothing is kept");
  flags.duration("history", cluster.history,
                 "how long old versions of objects are kept for watches that resume and for pages of lists");
  flags.text("audit-log", cluster.audit_log,
             "file that gets a line of JSON for each request: who did what, when, and what came of it", "FILE");
  flags.truth("detach", target.detach, "go on in the background; 'basalt down' ends it", 'd');
  flags.truth("api-only", cluster.api_only, "only the API server: no nodes, scheduler, controllers or admission");
  flags.number("clusters", cluster.members,
               "above 0: a control plane and so many member clusters, with a stand-in for Karmada between them");
  flags.section("Nodes");
  flags.custom("nodes", "nodes that run the containers' commands as processes of this machine; 1 if not given", "N",
               [&cluster](std::string_view value) { return take_count(value, cluster.nodes); });
  flags.custom(
      "node-capacity", "what each of them offers; what is not named is as this machine has it", "cpu=N,memory=N,...",
      [&cluster](std::string_view value) { return take_resources("--node-capacity", value, cluster.node_capacity); });
  flags.custom("image",
               "a program of this machine, with its first arguments, that containers of an image run if they name no "
               "command; may be given several times",
               "IMAGE=PROGRAM [ARGUMENT...]",
               [&cluster](std::string_view value) { return take_image(value, cluster.images); });
  flags.custom("simulated-nodes", "nodes that only play the pods' lives, for tests of scale: 100, 5k", "N",
               [&cluster](std::string_view value) { return take_count(value, cluster.simulated_nodes); });
  flags.custom("simulated-node-capacity", "what each of them offers", "cpu=N,memory=N,...",
               [&cluster](std::string_view value) {
                 return take_resources("--simulated-node-capacity", value, cluster.simulated_capacity);
               });
  flags.section("Scheduler and controllers");
  flags.choice("strategy", target.strategy, {"pack", "spread"}, "how the scheduler fills nodes");
  flags.choice("scheduler-sharding-mode", cluster.shard_mode, {"none", "soft", "hard"},
               "nodes outside the NodeShard `volcano`: all alike, used last, never used");
  flags.comma_list("controllers", cluster.controllers, "which controllers run: *, NAME, -NAME");
  flags.truth("workloads", cluster.runs_workloads,
              "act on Deployments, ReplicaSets, StatefulSets, core Jobs and Services' endpoints, as Kubernetes does");
  flags.section("Logs");
  flags.choice("log-level", target.log_level, {"debug", "info", "warn", "error"}, "what is written to standard error");
}

Done settle(UpFlags& flags) {
  if (flags.port < 0 || flags.port > kPortMax)
    return Error::invalid_input("--port is " + std::to_string(flags.port) + ": it takes 0 to 65535");
  flags.cluster.port = static_cast<std::uint16_t>(flags.port);
  const auto check = [](std::string_view flag, std::int32_t value, std::int32_t most) -> Done {
    if (value >= 0 && value <= most) return Ok{};
    return Error::invalid_input(std::string(flag) + " is " + std::to_string(value) + ": it takes 0 to " +
                                std::to_string(most));
  };
  BASALT_TRY_DONE(check("--nodes", flags.cluster.nodes, kProcessNodesMax));
  BASALT_TRY_DONE(check("--clusters", flags.cluster.members, kMembersMax));
  BASALT_TRY_DONE(check("--simulated-nodes", flags.cluster.simulated_nodes, kSimulatedNodesMax));
  if (flags.cluster.history.value < std::chrono::seconds(1))
    return Error::invalid_input("--history is " + flags.cluster.history.to_string() + ": it takes 1s or more");
  flags.cluster.spreads = flags.strategy == "spread";
  std::error_code error;
  const auto absolute = std::filesystem::absolute(flags.cluster.data_dir, error);
  if (!error) flags.cluster.data_dir = absolute.lexically_normal().string();
  return Ok{};
}

std::string parts_of(const LocalClusterOptions& options) {
  if (options.api_only) return "only its API server";
  if (options.members > 0)
    return "a control plane with hyper jobs and data dependencies, " + std::to_string(options.members) +
           " members, a stand-in for Karmada";
  std::string text = std::to_string(options.nodes) + (options.nodes == 1 ? " process node" : " process nodes");
  if (options.simulated_nodes > 0) text += ", " + std::to_string(options.simulated_nodes) + " simulated nodes";
  return text + ", gang scheduler, controllers, admission";
}

std::string what_to_try(const LocalCluster& cluster, const LocalClusterOptions& options) {
  std::string text = "\n  export KUBECONFIG=" + cluster.kubeconfig_path() + "\n";
  if (options.api_only) return text + "  kubectl get namespaces\n\n";
  if (options.members > 0) {
    for (const auto& [name, kubeconfig] : cluster.members())
      text += "  # " + name + ": --kubeconfig " + kubeconfig + "\n";
    return text + "  kubectl apply -f examples/hyperjob.yaml && basalt hyperjob list\n\n";
  }
  return text +
         "  basalt run -f examples/hello-gang.yaml   # submit, follow, end with the job's result\n"
         "  basalt job list                          # or: kubectl get vcjob,podgroup,queue,pods\n\n";
}

int serve(Invocation& invocation, const UpFlags& flags, Readiness& readiness) {
  const auto give_up = [&](const Error& error) {
    readiness.failed(error.message);
    return fail(invocation, error);
  };
  auto lock = RunLock::take(flags.cluster.data_dir);
  if (!lock.ok()) return give_up(lock.error());
  LogLevel level = LogLevel::Warn;
  static_cast<void>(log_level_from_string(flags.log_level, level));  // the flag was checked
  rt::block_stop_signals();
  const auto runtime = rt::make_real_runtime();
  return run_until_signal(*runtime, [&](const rt::StopToken& stop) {
    LocalCluster cluster(*runtime, Logger(make_stderr_sink(LogFormat::Text), level), flags.cluster);
    if (Done started = cluster.start(stop); !started.ok()) {
      if (stop.stop_requested()) return kExitOk;
      return give_up(started.error());
    }
    const std::string text = "The cluster is ready at " + cluster.url() + " (" + parts_of(flags.cluster) + ")\n" +
                             what_to_try(cluster, flags.cluster);
    if (flags.detach) {
      readiness.ready(text + "It runs in the background; 'basalt down --data-dir " + flags.cluster.data_dir +
                      "' ends it. Its log is " + background_log_path(flags.cluster.data_dir) + "\n");
    } else {
      invocation.out << text << "Press Ctrl-C to stop.\n" << std::flush;
    }
    static_cast<void>(stop.wait_until(*runtime, rt::kNever));
    if (!flags.detach) invocation.out << "Stopping: the pods' processes end with the cluster.\n" << std::flush;
    cluster.stop();
    return kExitOk;
  });
}

}  // namespace

int run_up(Invocation& invocation) {
  UpFlags target;
  GoFlags flags(invocation.program,
                "Starts a cluster in this process: API server, admission, controllers, gang scheduler and nodes. A "
                "second start on the same folder goes on where the first ended.");
  add_flags(flags, target);
  if (const auto code = flags.parse_or_exit(invocation.arguments, invocation.out, invocation.err)) return *code;
  if (!flags.words().empty())
    return fail(invocation, Error::invalid_input("it takes no arguments besides flags; " +
                                                 base::quote(flags.words().front()) + " is one too many"));
  if (Done settled = settle(target); !settled.ok()) return fail(invocation, settled.error());
  if (Done checked = check_data_folder(target.cluster.data_dir); !checked.ok())
    return fail(invocation, checked.error());
  if (!target.detach) {
    Readiness nobody;
    return serve(invocation, target, nobody);
  }
  // Asked before the process is split, so that the answer comes at once.
  if (const auto running = running_process(target.cluster.data_dir)) {
    return fail(invocation,
                Error::make(Reason::Conflict, "the cluster in " + target.cluster.data_dir +
                                                  " is already running as process " + std::to_string(*running) + "."));
  }
  return detach(invocation, target.cluster.data_dir,
                [&](Readiness& readiness) { return serve(invocation, target, readiness); });
}

}  // namespace basalt::cli
