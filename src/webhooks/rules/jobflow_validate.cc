// Whether the steps of a flow can be brought into an order.

#include <unordered_map>

#include "base/strings.h"
#include "webhooks/fields.h"
#include "webhooks/graph.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

std::string check_flows(const RuleOptions& options, const json::Array& flows) {
  if (flows.size() > options.flows_max) {
    return "spec.flows: Too many: " + std::to_string(flows.size()) + ": must have at most " +
           std::to_string(options.flows_max) + " items";
  }
  std::unordered_map<std::string_view, std::uint32_t> index_of;
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    names.push_back(text_at(flows[i], "name"));
    if (index_of.emplace(names.back(), static_cast<std::uint32_t>(i)).second) continue;
    // Its jobs would have one name, so the flow could never end.
    return "jobflow Flow has a duplicate name: spec.flows[" + std::to_string(i) + "].name " + shown(names.back()) +
           "; every flow needs its own name";
  }
  Graph graph;
  graph.depends_on.resize(flows.size());
  std::size_t edges = 0;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const json::Value* depends = member(flows[i], "dependsOn");
    if (depends == nullptr) continue;
    for (const json::Value& target : list_at(*depends, "targets")) {
      if (!target.is_string()) continue;
      if (++edges > options.edges_max) {
        return "spec.flows[].dependsOn.targets: Too many: must have at most " + std::to_string(options.edges_max) +
               " items in all";
      }
      const auto found = index_of.find(target.as_string());
      if (found == index_of.end()) {
        return "jobflow Flow is not DAG: vertex is not defined: " +
               base::ellipsize(base::escape_controls(target.as_string()), kShownBytesMax) +
               base::did_you_mean(target.as_string(), names) + " (spec.flows[" + std::to_string(i) +
               "].dependsOn.targets)";
      }
      graph.depends_on[i].push_back(found->second);
    }
  }
  const auto cycle = find_cycle(graph);
  if (cycle.empty()) return "";
  constexpr std::size_t kShownMax = 8;
  std::string way = "jobflow Flow is not DAG: ";
  for (std::size_t i = 0; i < std::min(cycle.size(), kShownMax); ++i) {
    way += std::string(names[cycle[i]]) + " waits for ";
  }
  if (cycle.size() > kShownMax) way += "... ";
  return way + std::string(names[cycle[0]]);
}

}  // namespace

void validate_job_flow(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create && request.operation != Operation::Update) {
    answer.deny("expect operation to be 'CREATE' or 'UPDATE'");
    return;
  }
  const json::Value& spec = spec_of(*request.object);
  if (request.old_object != nullptr && request.operation == Operation::Update && spec == spec_of(*request.old_object)) {
    return;
  }
  if (std::string complaint = check_flows(context.options, list_at(spec, "flows")); !complaint.empty()) {
    answer.deny(std::move(complaint));
  }
}

}  // namespace basalt::webhooks
