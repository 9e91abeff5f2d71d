// ResourceBindings of a Karmada: a workload whose data is claimed is held back until the data is found, and the
// clusters that are not near it are excluded, before any scheduler sees the binding.

#include "json/merge_patch.h"
#include "webhooks/fields.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {

void mutate_binding(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create && request.operation != Operation::Update) {
    answer.deny("expect operation to be 'CREATE' or 'UPDATE'");
    return;
  }
  if (!context.options.binding_patch) return;
  const bool is_new = request.operation == Operation::Create;
  if (!is_new && request.old_object == nullptr) return;
  const auto patch = context.options.binding_patch(*request.object, is_new ? nullptr : request.old_object);
  if (!patch.ok()) return answer.refuse_for_now(patch.error());
  if (!*patch) return;
  const json::Value after = json::apply_merge_patch(*request.object, **patch);
  const auto replace = [&](std::string_view above, std::string_view name) {
    const json::Value* now = request.object->find_path({above, name});
    const json::Value* then = after.find_path({above, name});
    const std::string path = "/" + std::string(above) + "/" + std::string(name);
    if (then != nullptr && (now == nullptr || *now != *then)) answer.patch.push_back(add_operation(path, *then));
    if (then == nullptr && now != nullptr) answer.patch.push_back(json::Object{{"op", "remove"}, {"path", path}});
  };
  replace("metadata", "annotations");
  for (const std::string_view name : {"placement", "suspension", "clusters"}) replace("spec", name);
}

}  // namespace basalt::webhooks
