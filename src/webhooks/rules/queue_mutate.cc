// Defaults of a new queue.

#include "api/gen/names.h"
#include "webhooks/fields.h"
#include "webhooks/rules/queue_rules.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {

void mutate_queue(const RuleContext&, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create) {
    answer.deny("invalid operation `" + std::string(to_string(request.operation)) +
                "`, expect operation to be `CREATE`");
    return;
  }
  const json::Value& queue = *request.object;
  const std::string_view path = queue.string_at({"metadata", "annotations", api::keys::kHierarchy});
  const std::string_view weights = queue.string_at({"metadata", "annotations", api::keys::kHierarchyWeights});
  // A path below root that does not say so. "rootling/x" is one, too: only the whole first part counts.
  const bool is_rooted = path == kRootQueue || path.starts_with("root/");
  if (!path.empty() && !weights.empty() && !is_rooted) {
    answer.patch.push_back(add_operation("/metadata/annotations/volcano.sh~1hierarchy", "root/" + std::string(path)));
    answer.patch.push_back(
        add_operation("/metadata/annotations/volcano.sh~1hierarchy-weights", "1/" + std::string(weights)));
  }
  const json::Value* spec = member(queue, "spec");
  if (spec != nullptr && !spec->is_object()) return;  // the schema refuses it
  ensure_object(queue, "spec", answer.patch);
  if (spec == nullptr || member(*spec, "reclaimable") == nullptr) {
    answer.patch.push_back(add_operation("/spec/reclaimable", true));
  }
  if (int_at(spec_of(queue), "weight").value_or(0) == 0) answer.patch.push_back(add_operation("/spec/weight", 1));
}

}  // namespace basalt::webhooks
