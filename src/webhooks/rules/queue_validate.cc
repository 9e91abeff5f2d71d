// Whether a queue may be created, changed so, or deleted.

#include <algorithm>

#include "api/gen/names.h"
#include "base/strings.h"
#include "webhooks/rules/queue_rules.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

using api::scheduling::Queue;

// Things that come in pieces.
bool is_whole(std::string_view name) {
  constexpr std::string_view kCounted[] = {"pods",
                                           "services",
                                           "replicationcontrollers",
                                           "secrets",
                                           "configmaps",
                                           "resourcequotas",
                                           "persistentvolumeclaims",
                                           "services.nodeports",
                                           "services.loadbalancers"};
  if (std::find(std::begin(kCounted), std::end(kCounted), name) != std::end(kCounted)) return true;
  if (name.starts_with("count/")) return true;
  return name.find('/') != std::string_view::npos && name.find("kubernetes.io/") == std::string_view::npos &&
         !name.starts_with("requests.");
}

void check_amounts(const api::ResourceList& amounts, const std::string& path, Problems& problems) {
  for (const auto& [name, amount] : amounts) {
    if (amount.sign() < 0) {
      problems.invalid(path + "." + name, shown(amount.to_string()), "must be greater than or equal to 0");
    } else if (is_whole(name) && amount != api::Quantity::of(amount.value())) {
      problems.invalid(path + "." + name, shown(amount.to_string()), "must be an integer");
    }
  }
}

void check_resource_order(const Queue& queue, Problems& problems) {
  check_amounts(queue.spec.capability, "requestBody.spec.capability", problems);
  check_amounts(queue.spec.deserved, "requestBody.spec.deserved", problems);
  check_amounts(queue.spec.guarantee.resource, "requestBody.spec.guarantee.resource", problems);
  for (const auto& [name, guarantee] : queue.spec.guarantee.resource) {
    const api::Quantity* deserved = queue.spec.deserved.find(name);
    const std::string field = "requestBody.spec.deserved." + name;
    const std::string rule = "] must be >= guarantee[" + name + "]=" + guarantee.to_string();
    if (deserved == nullptr) {
      problems.invalid(field, "\"<nil>\"", "deserved[" + name + rule);
    } else if (*deserved < guarantee) {
      problems.invalid(field, shown(deserved->to_string()),
                       "deserved[" + name + "]=" + deserved->to_string() + rule.substr(1));
    }
  }
  for (const auto& [name, deserved] : queue.spec.deserved) {
    const api::Quantity* capability = queue.spec.capability.find(name);
    if (capability == nullptr || deserved <= *capability) continue;
    problems.invalid("requestBody.spec.deserved." + name, shown(deserved.to_string()),
                     "deserved[" + name + "]=" + deserved.to_string() + " must be <= capability[" + name +
                         "]=" + capability->to_string());
  }
}

void check_state(const Queue& queue, const Queue* old, Problems& problems) {
  const std::string& state = queue.status.state;
  if (state.empty() || state == "Open" || state == "Closed") return;
  // The API server has put the stored status into the object: a queue that is Closing can still be edited.
  if (old != nullptr && old->status.state == state) return;
  problems.invalid("requestBody.spec.state", shown(state), "queue state must be in [Open Closed]");
}

void check_hierarchy_annotations(const ClusterView& cluster, const Queue& queue, Problems& problems) {
  constexpr std::size_t kPartsMax = 64;
  const auto annotation = [&queue](std::string_view key) { return std::string(queue.metadata.annotations.get(key)); };
  const std::string path = annotation(api::keys::kHierarchy);
  const std::string weights = annotation(api::keys::kHierarchyWeights);
  if (path.empty() && weights.empty()) return;
  const std::string field = "requestBody.metadata.annotations";
  const auto path_parts = base::split(path, '/');
  const auto weight_parts = base::split(weights, '/');
  if (path_parts.size() != weight_parts.size()) {
    problems.invalid(field, shown(path),
                     std::string(api::keys::kHierarchy) + " must have the same length with " +
                         std::string(api::keys::kHierarchyWeights));
    return;
  }
  if (path_parts.size() > kPartsMax) return problems.too_many(field, path_parts.size(), kPartsMax);
  for (const std::string_view part : weight_parts) {
    const auto weight = base::parse_double(part);
    if (!weight) {
      problems.invalid(field, shown(weights),
                       std::string(part) + " in the " + weights + " is invalid number: it cannot be read as one");
    } else if (*weight <= 0) {
      problems.invalid(field, shown(weights), std::string(part) + " in the " + weights + " must be larger than 0");
    }
  }
  if (path.empty()) return;
  const std::string below = path + "/";
  cluster.for_each_queue([&](const Queue& other) {
    if (other.metadata.name == queue.metadata.name) return true;
    const std::string_view other_path = other.metadata.annotations.get(api::keys::kHierarchy);
    if (!other_path.starts_with(below)) return true;
    problems.invalid(field, shown(path),
                     path + " is not allowed to be in the sub path of " + std::string(other_path) + " of queue " +
                         other.metadata.name);
    return false;
  });
}

bool have_equal_amounts(const api::ResourceList& a, const api::ResourceList& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

bool have_equal_resources(const Queue& a, const Queue& b) {
  return have_equal_amounts(a.spec.capability, b.spec.capability) &&
         have_equal_amounts(a.spec.deserved, b.spec.deserved) &&
         have_equal_amounts(a.spec.guarantee.resource, b.spec.guarantee.resource);
}

void validate_write(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  const auto decoded = decode_queue(request.object->to_text());
  if (!decoded.ok()) return answer.deny("the queue cannot be read: " + decoded.error().message);
  const Queue& queue = **decoded;
  QueuePtr old;
  if (request.operation == Operation::Update) {
    if (request.old_object == nullptr) return answer.deny("the review of an UPDATE carries no old object");
    const auto decoded_old = decode_queue(request.old_object->to_text());
    if (!decoded_old.ok()) return answer.deny("the stored queue cannot be read: " + decoded_old.error().message);
    old = *decoded_old;
  }

  Problems problems;
  check_resource_order(queue, problems);
  check_state(queue, old.get(), problems);
  check_hierarchy_annotations(context.cluster, queue, problems);
  if (!problems.empty()) {
    answer.deny(problems.causes().size() == 1 ? problems.text() : "[" + problems.text(", ") + "]");
    answer.causes = problems.causes();
    return;
  }
  const HierarchyQuestion question{context, queue};
  const bool is_moved = !old || old->spec.parent != queue.spec.parent;
  if (is_moved) {
    if (std::string complaint = check_parent(question); !complaint.empty()) return answer.deny(std::move(complaint));
  }
  const bool has_new_resources = !old || !have_equal_resources(*old, queue);
  if (queue.metadata.name == kRootQueue) {
    if (old && has_new_resources && context.options.root_queue_is_protected) {
      answer.deny("root queue's resource attributes (capability, deserved, guarantee) cannot be modified");
    }
    return;
  }
  if (!is_moved && !has_new_resources) return;
  if (std::string complaint = check_hierarchy_resources(question); !complaint.empty()) {
    answer.deny(std::move(complaint));
  }
}

void validate_delete(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  const std::string& name = request.name;
  if (name == kDefaultQueue || name == kRootQueue) {
    return answer.deny("`" + name + "` queue can not be deleted: jobs and other queues rely on it");
  }
  QueuePtr queue = context.cluster.queue(name);
  if (!queue) queue = context.cluster.fresh_queue(name);
  if (!queue && request.old_object != nullptr) {
    if (auto decoded = decode_queue(request.old_object->to_text()); decoded.ok()) queue = *decoded;
  }
  if (!queue) return answer.deny(queue_not_found(context.cluster, name));
  if (context.options.queue_with_pods_is_kept) {
    if (const api::Quantity pods = queue->status.allocated.get("pods"); !pods.is_zero()) {
      return answer.deny("queue " + name + " cannot be deleted because it has allocated Pods: " + pods.to_string());
    }
  }
  const auto children = context.cluster.children_of(name);
  if (children.empty()) return;
  std::string list;
  constexpr std::size_t kShownMax = 20;
  for (std::size_t i = 0; i < std::min(children.size(), kShownMax); ++i) {
    list += (i == 0 ? "" : ", ") + children[i]->metadata.name;
  }
  if (children.size() > kShownMax) list += ", ...";
  answer.deny("queue " + name + " can not be deleted because it has " + std::to_string(children.size()) +
              " child queues: " + list);
}

}  // namespace

std::string queue_not_found(const ClusterView& cluster, std::string_view name) {
  constexpr std::size_t kCandidatesMax = 1'000;  // a hint is worth no more
  std::vector<std::string> names;
  cluster.for_each_queue([&](const Queue& queue) {
    names.push_back(queue.metadata.name);
    return names.size() < kCandidatesMax;
  });
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return "queue.scheduling.volcano.sh " + shown(name) + " not found" + base::did_you_mean(name, candidates);
}

void validate_queue(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  switch (request.operation) {
    case Operation::Create:
    case Operation::Update:
      return validate_write(context, request, answer);
    case Operation::Delete:
      return validate_delete(context, request, answer);
    case Operation::Connect:
      answer.deny("invalid operation `CONNECT`, expect operation to be `CREATE`, `UPDATE` or `DELETE`");
  }
}

}  // namespace basalt::webhooks
