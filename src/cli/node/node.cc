#include "cli/node/node.h"

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "api/quantity.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/go_flags.h"
#include "cli/roles.h"
#include "kube/event_recorder.h"
#include "kube/kubeconfig.h"
#include "net/url.h"
#include "node/pod_tokens.h"
#include "node/process_host.h"
#include "node/process_node.h"
#include "node/simulated_nodes.h"
#include "rt/real_runtime.h"
#include "rt/signals.h"

namespace basalt::cli {
namespace {

constexpr std::int32_t kSimulatedNodesMax = 1'000'000;

struct NodeFlags {
  RoleFlags role;
  node::NodeDescription description;
  std::string name;
  std::int64_t pods_max = 110;
  api::Duration lease_period{std::chrono::seconds(10)};
  node::ProcessHostOptions host{.root = ".basalt-node"};
  std::string isolation = "auto";
  std::string host_path_root;
  bool limit_memory = false;
  std::int32_t simulated = 0;
  node::SimulatedNodesOptions nodes;
  api::Duration start_delay;
  api::Duration run_time{std::chrono::seconds(1)};

  [[nodiscard]] bool has_process_node() const { return !name.empty(); }
};

Error not_pairs(std::string_view flag, std::string_view form, std::string_view entry) {
  return Error::invalid_input(std::string(flag) + " takes " + std::string(form) + "; " + base::quote(entry) +
                              " is none");
}

Done take_labels(std::string_view text, api::StringMap& labels) {
  for (const std::string_view entry : base::split(text, ',')) {
    const auto parts = base::split_once(entry, '=');
    if (!parts || parts->first.empty()) return not_pairs("--labels", "NAME=VALUE,...", entry);
    labels.set(parts->first, parts->second);
  }
  return Ok{};
}

// "key=value:Effect" or "key:Effect", as kubectl taint has it.
Done take_taints(std::string_view text, json::Array& taints) {
  for (const std::string_view entry : base::split(text, ',')) {
    const auto parts = base::split_once(entry, ':');
    const std::string_view effect = parts ? parts->second : "";
    if (!parts || parts->first.empty() ||
        (effect != "NoSchedule" && effect != "PreferNoSchedule" && effect != "NoExecute"))
      return not_pairs("--taints", "KEY[=VALUE]:NoSchedule|PreferNoSchedule|NoExecute,...", entry);
    const auto key = base::split_once(parts->first, '=');
    json::Object taint{{"key", key ? key->first : parts->first}, {"effect", effect}};
    if (key) taint.set("value", key->second);
    taints.emplace_back(std::move(taint));
  }
  return Ok{};
}

void add_flags(GoFlags& flags, NodeFlags& target) {
  flags.section("Node");
  flags.text("name", target.name, "name of the node; this machine's, unless only simulated nodes are wanted", "NAME");
  flags.text("address", target.description.address, "address that the Node object shows", "ADDRESS");
  flags.custom("capacity", "what each node offers; what is not named is this machine's, or 32 cpu and 128Gi simulated",
               "cpu=N,memory=N,...", [&target](std::string_view text) {
                 return take_resources("--capacity", text, target.description.capacity);
               });
  flags.number("max-pods", target.pods_max, "pods on each node");
  flags.custom("labels", "labels of the Node objects", "NAME=VALUE,...",
               [&target](std::string_view text) { return take_labels(text, target.description.labels); });
  flags.custom("taints", "taints of the Node objects", "KEY=VALUE:EFFECT,...",
               [&target](std::string_view text) { return take_taints(text, target.description.taints); });
  flags.duration("lease-period", target.lease_period, "time between two renewals of a node's Lease; 0s: never");
  flags.section("Processes");
  flags.text("data-dir", target.host.root, "folder for pods' files, logs and records", "FOLDER");
  flags.choice("isolation", target.isolation, {"auto", "always", "user", "never"},
               "private mounts and hostname of each container: if permitted, or else an error, in a user namespace, "
               "not at all");
  flags.text("pod-addresses", target.host.address_range, "loopback range of the pods' addresses", "RANGE");
  flags.text("host-path-root", target.host_path_root, "folder under which hostPath volumes lie", "FOLDER");
  flags.truth("limit-memory", target.limit_memory, "limits.memory bounds the address space of each process");
  flags.section("Simulation");
  flags.custom("simulated", "so many nodes on which nothing runs; pods go through their phases: 100, 5k", "N",
               [&target](std::string_view value) { return take_count(value, target.simulated); });
  flags.text("prefix", target.nodes.prefix, "of their names", "TEXT");
  flags.number("zones", target.nodes.zones, "so many zones that they lie in, in turn; 0: no zone labels");
  flags.duration("start-delay", target.start_delay, "from bound to Running, for pods without the annotation");
  flags.duration("run-time", target.run_time, "from Running to the end, for pods without the annotation");
  add_role_flags(flags, target.role);
}

Done settle(NodeFlags& flags) {
  if (flags.simulated < 0 || flags.simulated > kSimulatedNodesMax)
    return Error::invalid_input("--simulated is " + std::to_string(flags.simulated) + ": it takes 0 to " +
                                std::to_string(kSimulatedNodesMax));
  if (flags.pods_max < 1) return Error::invalid_input("--max-pods is below 1");
  if (flags.lease_period.value < rt::Duration::zero()) return Error::invalid_input("--lease-period is negative");
  if (flags.name.empty() && flags.simulated == 0) flags.name = base::to_lower_ascii(host_name());
  if (flags.nodes.prefix.empty()) return Error::invalid_input("--prefix is empty");
  using node::Isolation;
  flags.host.isolation = flags.isolation == "always"  ? Isolation::Always
                         : flags.isolation == "user"  ? Isolation::User
                         : flags.isolation == "never" ? Isolation::Never
                                                      : Isolation::Auto;
  flags.nodes.count = flags.simulated;
  flags.nodes.node = flags.description;
  flags.nodes.pods_max = flags.pods_max;
  flags.nodes.lease_period = flags.lease_period.value;
  flags.nodes.fate.start_delay = flags.start_delay.value;
  flags.nodes.fate.run_time = flags.run_time.value;
  return Ok{};
}

int fail(Invocation& invocation, const Error& error) {
  invocation.err << invocation.program << ": " << error.message << "\n";
  return error.reason == Reason::InvalidInput ? kExitUsage : kExitFailed;
}

// The pods' programs speak to the server that the agent speaks to: addresses of services mean nothing on this machine.
node::Environment api_server_environment(const NodeFlags& flags) {
  kube::ConfigOverrides overrides;
  overrides.kubeconfig = flags.role.kubeconfig;
  overrides.server = flags.role.master;
  const auto config = kube::load_manager_config(overrides, kube::ConfigEnvironment::of_process());
  const auto url = config.ok() ? net::parse_url(config->server) : Result<net::Url>(config.error());
  if (!url.ok() || url->scheme != "https") return {};
  return node::service_environment(url->host, url->port);
}

node::ProcessNodeOptions process_options(const NodeFlags& flags, kube::EventRecorder& events) {
  node::ProcessNodeOptions options;
  options.node = flags.description;
  options.node.name = flags.name;
  options.node.capacity = node::machine_capacity(flags.pods_max);
  for (const auto& [name, amount] : flags.description.capacity) options.node.capacity.set(name, amount);
  options.pods_max = flags.pods_max;
  options.lease_period = flags.lease_period.value;
  options.limit_address_space = flags.limit_memory;
  options.host_path_root = flags.host_path_root;
  options.events = &events;
  options.cluster_environment = [&flags] { return api_server_environment(flags); };
  return options;
}

// Until the stop.
Done run(rt::Runtime& runtime, kube::Client& client, const Logger& log, const NodeFlags& flags,
         const rt::StopToken& stop) {
  kube::EventRecorder events(runtime, client, log, {.component = "basalt-node", .host = flags.name});
  std::unique_ptr<node::ProcessHost> host;
  std::vector<std::unique_ptr<node::Node>> nodes;
  if (flags.has_process_node()) {
    BASALT_TRY(host, node::ProcessHost::open(runtime, client, log, flags.host));
    host->start();
    nodes.push_back(std::make_unique<node::ProcessNode>(runtime, client, log, *host, process_options(flags, events)));
  }
  if (flags.simulated > 0) nodes.push_back(std::make_unique<node::SimulatedNodes>(runtime, client, log, flags.nodes));
  events.start();
  for (const auto& one : nodes) one->start();
  static_cast<void>(stop.wait_until(runtime, rt::kNever));
  for (const auto& one : nodes) one->stop();
  if (host) host->stop();
  events.stop();
  return Ok{};
}

int serve(Invocation& invocation, const NodeFlags& flags) {
  rt::block_stop_signals();
  const auto runtime = rt::make_real_runtime();
  const Logger log = make_role_logger(flags.role);
  auto client = connect_role(*runtime, log, flags.role, "basalt-node", nullptr);
  if (!client.ok()) return fail(invocation, client.error());
  return run_until_signal(*runtime, [&](const rt::StopToken& stop) {
    const Done ended = run(*runtime, **client, log, flags, stop);
    return ended.ok() ? kExitOk : fail(invocation, ended.error());
  });
}

}  // namespace

int run_node(Invocation& invocation) {
  NodeFlags target;
  // One status write each time a pod changes; many simulated pods change at once.
  target.role.calls_per_second = 2000;
  target.role.burst = 2000;
  GoFlags flags(invocation.program,
                "Runs the containers of pods as processes of this machine, or simulates nodes, for a Kubernetes API "
                "server.");
  flags.footer(
      "kubectl logs needs an agent that the API server can reach; this one keeps logs in files below --data-dir.");
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
