// The queue of a new pod group that names none.

#include "api/gen/names.h"
#include "webhooks/fields.h"
#include "webhooks/rules/queue_rules.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {

void mutate_pod_group(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create) {
    answer.deny("invalid operation `" + std::string(to_string(request.operation)) +
                "`, expect operation to be `CREATE`");
    return;
  }
  // The schema writes `default` first, so it cannot be told from a wish for it.
  const std::string_view queue = text_at(spec_of(*request.object), "queue");
  if (queue != kDefaultQueue) return;
  const auto wanted = context.cluster.namespace_annotation(request.ns, api::keys::kPodQueueName);
  if (wanted && !wanted->empty()) answer.patch.push_back(add_operation("/spec/queue", *wanted));
}

}  // namespace basalt::webhooks
