// Whether a pod group may be created.

#include "webhooks/fields.h"
#include "webhooks/rules/queue_rules.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

constexpr std::string_view kBothTiers =
    "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously.";
constexpr std::size_t kSubGroupsMax = 5'000;

bool names_both_tiers(const json::Value& holder) {
  const json::Value* topology = member(holder, "networkTopology");
  return topology != nullptr && member(*topology, "highestTierAllowed") != nullptr &&
         !text_at(*topology, "highestTierName").empty();
}

std::string check_queue(const ClusterView& cluster, std::string_view name) {
  if (name.empty()) return "";
  QueuePtr queue = cluster.queue(name);
  if (!queue || queue->status.state != "Open") queue = cluster.fresh_queue(name);
  if (!queue) return "unable to find queue: " + queue_not_found(cluster, name);
  if (queue->status.state == "Open") return "";
  return "can only submit PodGroup to queue with state `Open`, queue `" + std::string(name) + "` status is `" +
         queue->status.state + "`.";
}

std::string check_topologies(const json::Value& spec) {
  std::string text;
  if (names_both_tiers(spec)) text = kBothTiers;
  const json::Array& groups = list_at(spec, "subGroupPolicy");
  if (groups.size() > kSubGroupsMax) {
    return "spec.subGroupPolicy: Too many: " + std::to_string(groups.size()) + ": must have at most " +
           std::to_string(kSubGroupsMax) + " items";
  }
  for (const json::Value& group : groups) {
    if (!names_both_tiers(group)) continue;
    if (!text.empty()) text += " ";
    text += "in subGroupPolicy '" + std::string(text_at(group, "name")) + "': " + std::string(kBothTiers);
    break;
  }
  return text;
}

}  // namespace

void validate_pod_group(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create) {
    answer.deny("unsupported operation " + std::string(to_string(request.operation)));
    return;
  }
  const json::Value& spec = spec_of(*request.object);
  std::string message = check_queue(context.cluster, text_at(spec, "queue"));
  const std::string topology = check_topologies(spec);
  if (!message.empty() && !topology.empty()) message += "; ";
  message += topology;
  if (!message.empty()) answer.deny(std::move(message));
}

}  // namespace basalt::webhooks
