// A queue in the tree of queues: its place, and what it may ask for beside the others.

#include <algorithm>
#include <cstdio>
#include <set>

#include "webhooks/rules/queue_rules.h"

namespace basalt::webhooks {
namespace {

using api::scheduling::Queue;

// A tree of queues is small; these keep a strange one (a cycle, a hundred thousand queues) from holding a review.
constexpr int kAncestorsMax = 64;
constexpr std::size_t kVisitsMax = 20'000;

bool is_below_root(const Queue& queue) { return !queue.spec.parent.empty() && queue.spec.parent != kRootQueue; }

QueuePtr find_queue(const ClusterView& cluster, std::string_view name) {
  QueuePtr queue = cluster.queue(name);
  return queue ? queue : cluster.fresh_queue(name);
}

// Whether the scheduler counts this resource.
bool is_counted(std::string_view name) {
  return name == "cpu" || name == "memory" || name == "pods" || name == "ephemeral-storage" ||
         (name.find('/') != std::string_view::npos && !name.starts_with("count/")) || name.starts_with("hugepages-") ||
         name.starts_with("attachable-volumes-");
}

double amount_of(std::string_view name, const api::Quantity& quantity) {
  if (name == "memory" || name == "pods") return static_cast<double>(quantity.value());
  return static_cast<double>(quantity.milli_value());
}

std::string check_against_ancestors(const HierarchyQuestion& question) {
  const Queue& queue = question.queue;
  for (const auto& [name, amount] : amounts_of(queue.spec.capability)) {
    if (amount <= 0) continue;
    std::string above = queue.spec.parent;
    for (int level = 0; level < kAncestorsMax && !above.empty() && above != kRootQueue; ++level) {
      const QueuePtr ancestor = question.context.cluster.queue(above);
      if (!ancestor) break;
      const api::Quantity* limit = ancestor->spec.capability.find(name);
      if (limit != nullptr && limit->sign() > 0) {
        const double limit_amount = amount_of(name, *limit);
        if (amount > limit_amount) {
          return "queue " + queue.metadata.name + " capability[" + name + "]=" + amount_text(name, amount) +
                 " exceeds its ancestor's capability=" + amount_text(name, limit_amount) + " (queue " + above + ")";
        }
        break;
      }
      above = ancestor->spec.parent;
    }
  }
  return "";
}

// The sums of what the children of a queue reserve, the given one in its new form among them.
std::string check_sums(std::string_view prefix, const Queue& parent, const std::vector<QueuePtr>& children,
                       const Queue* changed) {
  struct Kind {
    std::string_view word;
    const api::ResourceList& (*list)(const Queue&);
  };
  constexpr Kind kKinds[] = {
      {"guarantee", [](const Queue& queue) -> const api::ResourceList& { return queue.spec.guarantee.resource; }},
      {"deserved", [](const Queue& queue) -> const api::ResourceList& { return queue.spec.deserved; }},
  };
  for (const Kind& kind : kKinds) {
    Amounts sum;
    const auto add = [&](const Queue& queue) {
      for (const auto& [name, amount] : amounts_of(kind.list(queue))) sum[name] += amount;
    };
    for (const QueuePtr& child : children) {
      if (changed == nullptr || child->metadata.name != changed->metadata.name) add(*child);
    }
    if (changed != nullptr) add(*changed);
    const Amounts limit = amounts_of(kind.list(parent));
    for (const auto& [name, amount] : sum) {
      const auto found = limit.find(name);
      if (amount <= (found == limit.end() ? 0 : found->second)) continue;
      const std::string word(kind.word);
      return std::string(prefix) + " validation failed: sum of children's " + word + " (" + amounts_text(sum) +
             ") exceeds parent's " + word + " limit (" + amounts_text(limit) + ") in " + name;
    }
  }
  return "";
}

// The largest amount below a queue; a queue that sets it hides those below itself.
double largest_below(const ClusterView& cluster, const std::string& root, std::string_view resource) {
  double largest = 0;
  std::size_t visits = 0;
  std::vector<std::string> open{root};
  std::set<std::string> seen{root};
  while (!open.empty() && visits < kVisitsMax) {
    const std::string parent = std::move(open.back());
    open.pop_back();
    for (const QueuePtr& child : cluster.children_of(parent)) {
      if (++visits > kVisitsMax || !seen.insert(child->metadata.name).second) continue;
      const api::Quantity* amount = child->spec.capability.find(resource);
      if (amount != nullptr) {
        largest = std::max(largest, amount_of(resource, *amount));
      } else {
        open.push_back(child->metadata.name);
      }
    }
  }
  return largest;
}

}  // namespace

Amounts amounts_of(const api::ResourceList& list) {
  Amounts amounts;
  for (const auto& [name, quantity] : list) {
    if (is_counted(name)) amounts[name] = amount_of(name, quantity);
  }
  return amounts;
}

std::string amounts_text(const Amounts& amounts) {
  const auto decimals = [](double value) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.2f", value);
    return std::string(buffer);
  };
  const auto get = [&](std::string_view name) {
    const auto found = amounts.find(name);
    return found == amounts.end() ? 0 : found->second;
  };
  std::string text = "cpu " + decimals(get("cpu")) + ", memory " + decimals(get("memory"));
  for (const auto& [name, amount] : amounts) {
    if (name != "cpu" && name != "memory") text += ", " + name + " " + decimals(amount);
  }
  return text;
}

std::string amount_text(std::string_view name, double amount) {
  constexpr double kInt64Max = 9e18;
  const auto whole = static_cast<std::int64_t>(std::min(amount, kInt64Max));
  if (name == "cpu") return api::Quantity::of_milli(whole).canonical();
  if (name == "memory") return api::Quantity::of(whole, api::Quantity::Format::BinarySI).canonical();
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.2f", amount);
  return buffer;
}

std::string check_parent(const HierarchyQuestion& question) {
  const Queue& queue = question.queue;
  const ClusterView& cluster = question.context.cluster;
  if (!is_below_root(queue)) return "";
  const std::string& name = queue.metadata.name;
  if (queue.spec.parent == name) return "queue " + name + " cannot use itself as parent";
  int depth = 1;
  std::string above = queue.spec.parent;
  while (!above.empty() && above != kRootQueue) {
    if (++depth > question.context.options.queue_depth_max) {
      return "queue " + name + " exceeds the maximum allowed depth of " +
             std::to_string(question.context.options.queue_depth_max);
    }
    const QueuePtr ancestor = find_queue(cluster, above);
    if (!ancestor) {
      return "failed to get parent queue " + above + " of queue " + name + ": " + queue_not_found(cluster, above);
    }
    above = ancestor->spec.parent;
  }
  const QueuePtr parent = find_queue(cluster, queue.spec.parent);
  const api::Quantity pods = parent->status.allocated.get("pods");
  if (!pods.is_zero() && cluster.children_of(queue.spec.parent).empty()) {
    return "queue " + queue.spec.parent + " cannot be the parent queue of queue " + name +
           " because it has allocated Pods: " + pods.to_string();
  }
  return "";
}

std::string check_hierarchy_resources(const HierarchyQuestion& question) {
  const Queue& queue = question.queue;
  const ClusterView& cluster = question.context.cluster;
  const std::string& name = queue.metadata.name;
  if (is_below_root(queue)) {
    const QueuePtr parent = find_queue(cluster, queue.spec.parent);
    if (!parent) {
      return "parent queue " + queue.spec.parent + " not found: " + queue_not_found(cluster, queue.spec.parent);
    }
    if (std::string complaint = check_against_ancestors(question); !complaint.empty()) return complaint;
    std::string complaint =
        check_sums("parent queue " + queue.spec.parent, *parent, cluster.children_of(queue.spec.parent), &queue);
    if (!complaint.empty()) return complaint;
  }
  const auto children = cluster.children_of(name);
  if (children.empty()) return "";
  for (const auto& [resource, amount] : amounts_of(queue.spec.capability)) {
    const double largest = largest_below(cluster, name, resource);
    if (amount < largest) {
      return "queue " + name + " capability[" + resource + "]=" + amount_text(resource, amount) +
             " is smaller than its descendants' max capability=" + amount_text(resource, largest);
    }
  }
  return check_sums("queue " + name, queue, children, nullptr);
}

}  // namespace basalt::webhooks
