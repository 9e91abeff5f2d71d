#pragma once

#include <map>
#include <string>
#include <string_view>

#include "api/resource_list.h"
#include "webhooks/fields.h"
#include "webhooks/rule_context.h"

namespace basalt::webhooks {

inline constexpr std::string_view kRootQueue = "root";
inline constexpr std::string_view kDefaultQueue = "default";

// `queue.scheduling.volcano.sh "x" not found`, with the queue that was probably meant.
[[nodiscard]] std::string queue_not_found(const ClusterView& cluster, std::string_view name);

// Amounts as the scheduler counts them: processors in thousandths, memory in bytes, pods in pieces, everything else in
// thousandths. Names that the scheduler does not know are left out.
using Amounts = std::map<std::string, double, std::less<>>;
[[nodiscard]] Amounts amounts_of(const api::ResourceList& list);
// "cpu 9000.00, memory 1024.00, nvidia.com/gpu 1000.00"
[[nodiscard]] std::string amounts_text(const Amounts& amounts);
// Processors and memory as quantities, others with two decimals.
[[nodiscard]] std::string amount_text(std::string_view name, double amount);

// What a queue may ask for beside its ancestors, its siblings and the queues below it (queue_hierarchy.cc).
struct HierarchyQuestion {
  const RuleContext& context;
  const api::scheduling::Queue& queue;
};
// The complaint; "" if there is none. `check_parent` is about the place in the tree, `check_resources` about amounts.
[[nodiscard]] std::string check_parent(const HierarchyQuestion& question);
[[nodiscard]] std::string check_hierarchy_resources(const HierarchyQuestion& question);

}  // namespace basalt::webhooks
