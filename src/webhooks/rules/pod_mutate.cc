// What a resource group gives to a new pod, and the gate that holds it until its queue has room.

#include "api/gen/names.h"
#include "webhooks/fields.h"
#include "webhooks/resource_groups.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

void add_gate(const json::Value& pod, json::Array& patch) {
  if (pod.string_at({"metadata", "annotations", api::keys::kQueueAllocationGate}) != "true") return;
  const json::Array& gates = list_at(spec_of(pod), "schedulingGates");
  for (const json::Value& gate : gates) {
    if (text_at(gate, "name") == api::keys::kQueueAllocationGate) return;
  }
  json::Value gate = json::Object{{"name", std::string(api::keys::kQueueAllocationGate)}};
  if (gates.empty()) {
    json::Array list;
    list.push_back(std::move(gate));
    patch.push_back(add_operation("/spec/schedulingGates", std::move(list)));
  } else {
    patch.push_back(add_operation("/spec/schedulingGates/-", std::move(gate)));
  }
}

}  // namespace

void mutate_pod(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create) {
    answer.deny("expect operation to be 'CREATE'");
    return;
  }
  if (context.resource_groups == nullptr) return;
  const json::Value& pod = *request.object;
  const json::Value& spec = spec_of(pod);
  if (context.options.scheduling_gates_queue_admission) add_gate(pod, answer.patch);
  const auto groups = context.resource_groups->current();
  std::string_view ns = pod.string_at({"metadata", "namespace"});
  if (ns.empty()) ns = request.ns;
  const ResourceGroup* group = find_resource_group(*groups, pod, ns);
  if (group == nullptr) return;
  if (!group->labels.empty()) {
    json::Object selector = map_at(spec, "nodeSelector");
    for (const auto& [key, value] : group->labels) selector.set(key, value);
    answer.patch.push_back(add_operation("/spec/nodeSelector", std::move(selector)));
  }
  if (!group->affinity.is_null() && member(spec, "affinity") == nullptr) {
    answer.patch.push_back(add_operation("/spec/affinity", group->affinity));
  }
  if (!group->tolerations.empty()) {
    json::Array tolerations = list_at(spec, "tolerations");
    for (const json::Value& toleration : group->tolerations) tolerations.push_back(toleration);
    answer.patch.push_back(add_operation("/spec/tolerations", std::move(tolerations)));
  }
  if (!group->scheduler_name.empty()) {
    answer.patch.push_back(add_operation("/spec/schedulerName", group->scheduler_name));
  }
}

}  // namespace basalt::webhooks
