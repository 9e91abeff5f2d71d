#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <ostream>
#include <utility>

#include "api/conditions.h"
#include "api/gen/core_node.h"
#include "api/gen/core_pod.h"
#include "api/gen/scheduling_queue.h"
#include "base/sort.h"
#include "cli/cli.h"
#include "cli/client/table.h"
#include "cli/inspect/inspect_commands.h"
#include "controllers/podgroup/pod_usage.h"

namespace basalt::cli {
namespace {

using api::scheduling::PodGroup;
using api::scheduling::Queue;

constexpr std::size_t kBarWidth = 10;
constexpr std::size_t kWideEnough = 100;  // columns of a terminal that has room for bars

// "1500m/4", or "1500m" without a limit.
std::string share_text(const api::Quantity& used, const api::Quantity* limit) {
  return limit == nullptr ? used.canonical() : used.canonical() + "/" + limit->canonical();
}

int percent(const api::Quantity& used, const api::Quantity& limit) {
  const double all = limit.to_double();
  if (all <= 0) return 0;
  return static_cast<int>(std::clamp(used.to_double() / all * 100, 0.0, 999.0));
}

std::string bar_text(const Terminal& terminal, const api::Quantity& used, const api::Quantity& limit) {
  const int filled = percent(used, limit);
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%3d%%", filled);
  if (terminal.width != 0 && terminal.width < kWideEnough) return text.data();
  const auto done = static_cast<std::size_t>(std::min(filled, 100));
  const Colour colour = filled >= 95 ? Colour::Red : filled >= 70 ? Colour::Yellow : Colour::Green;
  return paint(terminal, colour, progress_bar(done, 100, kBarWidth)) + text.data();
}

// The names of resources that a table has columns for: cpu and memory, and what else anybody limits or uses.
std::vector<std::string> resource_names(const std::vector<api::ResourceList>& lists) {
  std::vector<std::string> names{"cpu", "memory"};
  for (const auto& list : lists) {
    for (const auto& [name, amount] : list) {
      if (name == "pods" || name == "ephemeral-storage" || name.starts_with("hugepages-") || amount.is_zero()) continue;
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

struct Counts {
  std::size_t running = 0;
  std::size_t waiting = 0;
};

Result<int> top_queues(Session& session, const std::string& output) {
  BASALT_TRY(const auto queues, list_objects<Queue>(session, {}));
  BASALT_TRY(const auto groups, list_objects<PodGroup>(session, {}));
  std::map<std::string, Counts> counts;
  for (const auto& [group, bytes] : groups) {
    Counts& of_queue = counts[group.spec.queue];
    if (group.status.phase == "Running" || group.status.phase == "Unknown") ++of_queue.running;
    if (group.status.phase == "Pending" || group.status.phase == "Inqueue" || group.status.phase.empty())
      ++of_queue.waiting;
  }
  std::vector<api::ResourceList> lists;
  for (const auto& [queue, bytes] : queues) {
    lists.push_back(queue.status.allocated);
    lists.push_back(queue.spec.capability);
  }
  const std::vector<std::string> names = resource_names(lists);
  const Terminal terminal = session.host.terminal();
  std::vector<std::string> headings{"QUEUE", "STATE", "WEIGHT", "RUNNING", "WAITING"};
  for (const std::string& name : names) {
    headings.push_back(name == "cpu" ? "CPU" : name == "memory" ? "MEMORY" : name);
    headings.emplace_back("SHARE");
  }
  Table table(std::move(headings));
  json::Array values;
  for (const auto& [queue, bytes] : queues) {
    const Counts& count = counts[queue.metadata.name];
    std::vector<std::string> cells{
        queue.metadata.name, paint(terminal, colour_of_phase(queue.status.state), queue.status.state),
        std::to_string(queue.spec.weight), std::to_string(count.running), std::to_string(count.waiting)};
    json::Object resources;
    for (const std::string& name : names) {
      const api::Quantity used = queue.status.allocated.get(name);
      const api::Quantity* limit = queue.spec.capability.find(name);
      if (limit == nullptr) limit = queue.spec.deserved.find(name);
      cells.push_back(share_text(used, limit));
      cells.push_back(limit == nullptr ? "-" : bar_text(terminal, used, *limit));
      json::Object one{{"allocated", used.canonical()}};
      if (limit != nullptr) one.set("limit", limit->canonical());
      resources.set(name, std::move(one));
    }
    table.row(std::move(cells));
    values.push_back(json::Object{{"name", queue.metadata.name},
                                  {"state", queue.status.state},
                                  {"weight", queue.spec.weight},
                                  {"running", static_cast<std::int64_t>(count.running)},
                                  {"waiting", static_cast<std::int64_t>(count.waiting)},
                                  {"resources", std::move(resources)}});
  }
  if (!output.empty()) {
    print_value(session.out, output, json::Object{{"queues", std::move(values)}});
  } else if (table.empty()) {
    session.out << "No resources found\n";
  } else {
    table.print(session.out, terminal);
  }
  return kExitOk;
}

struct NodeUse {
  api::ResourceList requests;
  std::int64_t pods = 0;
};

Result<std::map<std::string, NodeUse>> use_of_nodes(Session& session) {
  BASALT_TRY(const auto pods, list_objects<api::core::Pod>(session, {}));
  std::map<std::string, NodeUse> uses;
  for (const auto& [pod, bytes] : pods) {
    if (pod.spec.node_name.empty() || pod.status.phase == api::core::pod_phase::kSucceeded ||
        pod.status.phase == api::core::pod_phase::kFailed)
      continue;
    NodeUse& use = uses[pod.spec.node_name];
    use.requests += controllers::podgroup::pod_requests(pod.spec);
    ++use.pods;
  }
  return uses;
}

Result<int> top_nodes(Session& session, const std::string& output) {
  BASALT_TRY(const auto nodes, list_objects<api::core::Node>(session, {}));
  BASALT_TRY(auto uses, use_of_nodes(session));
  std::vector<api::ResourceList> lists;
  for (const auto& [node, bytes] : nodes) lists.push_back(node.status.allocatable);
  const std::vector<std::string> names = resource_names(lists);
  const Terminal terminal = session.host.terminal();
  std::vector<std::string> headings{"NODE", "STATUS", "PODS"};
  for (const std::string& name : names) {
    headings.push_back(name == "cpu" ? "CPU" : name == "memory" ? "MEMORY" : name);
    headings.emplace_back("REQUESTED");
  }
  Table table(std::move(headings));
  json::Array values;
  for (const auto& [node, bytes] : nodes) {
    const NodeUse& use = uses[node.metadata.name];
    std::string status = api::is_condition_true(node.status.conditions, "Ready") ? "Ready" : "NotReady";
    if (node.spec.unschedulable) status += ",cordoned";
    const api::Quantity pods = api::Quantity::of(use.pods);
    std::vector<std::string> cells{node.metadata.name,
                                   paint(terminal, status == "Ready" ? Colour::Green : Colour::Red, status),
                                   share_text(pods, node.status.allocatable.find("pods"))};
    json::Object resources;
    for (const std::string& name : names) {
      const api::Quantity used = use.requests.get(name);
      const api::Quantity all = node.status.allocatable.get(name);
      cells.push_back(share_text(used, &all));
      cells.push_back(bar_text(terminal, used, all));
      resources.set(name, json::Object{{"requested", used.canonical()}, {"allocatable", all.canonical()}});
    }
    table.row(std::move(cells));
    values.push_back(json::Object{
        {"name", node.metadata.name}, {"status", status}, {"pods", use.pods}, {"resources", std::move(resources)}});
  }
  if (!output.empty()) {
    print_value(session.out, output, json::Object{{"nodes", std::move(values)}});
  } else if (table.empty()) {
    session.out << "No resources found\n";
  } else {
    table.print(session.out, terminal);
  }
  return kExitOk;
}

int top_from_flags(CommandCall& call) {
  std::string output;
  GoFlags flags = call.flags("Shows what queues and nodes have given out.");
  flags.positional("[queues|nodes]");
  add_value_output_flag(flags, output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    const std::string what = flags.words().empty() ? "" : flags.words().front();
    if (what == "queues" || what == "queue") return top_queues(session, output);
    if (what == "nodes" || what == "node") return top_nodes(session, output);
    if (!what.empty()) return Error::invalid_input("there is no list '" + what + "': it takes queues or nodes");
    if (!output.empty()) return Error::invalid_input("-o needs one list: queues or nodes");
    BASALT_TRY(const int exit, top_queues(session, output));
    session.out << "\n";
    if (exit != kExitOk) return exit;
    return top_nodes(session, output);
  });
}

constexpr ClientCommand kTop{"top", "what queues and nodes have given out", &top_from_flags};

}  // namespace

const ClientCommand& top_command() { return kTop; }
int run_top(Invocation& invocation) { return run_single(invocation, kTop); }

}  // namespace basalt::cli
