#include "scheduler/queues.h"

#include <algorithm>

#include "api/gen/names.h"

namespace basalt::scheduler {

namespace {
// Queues are at most this deep; what is deeper counts for nothing.
constexpr int kDepthMax = 32;
}  // namespace

QueueShares::QueueShares(const Snapshot& snapshot) : snapshot_(snapshot), deserved_(snapshot.queues().size()) {
  for (const Queue& queue : snapshot.queues()) has_guarantees_ = has_guarantees_ || !is_zero(queue.guarantee);
  const QueueId root = snapshot.find_queue(api::queues::kRoot);
  if (root == kNone) return;
  deserved_[root] = snapshot.total();
  divide(root, 0);
}

bool QueueShares::is_active(QueueId id, int depth) const {
  const Queue& queue = snapshot_.queues()[id];
  if (!queue.waiting.empty() || !is_zero(queue.allocated)) return true;
  return depth < kDepthMax &&
         std::any_of(
             queue.children.begin(), queue.children.end(), [&](QueueId child) { return is_active(child, depth + 1); });
}

// What is said by `deserved` is given first; the rest is divided by weight among the queues that use or want something.
void QueueShares::divide(QueueId parent, int depth) {
  const auto& children = snapshot_.queues()[parent].children;
  if (children.empty() || depth > kDepthMax) return;
  std::vector<bool> active(children.size());
  for (std::size_t i = 0; i < children.size(); ++i) active[i] = is_active(children[i], depth + 1);
  const std::size_t size = deserved_[parent].size();
  for (const QueueId child : children) deserved_[child].assign(size, 0);
  for (std::size_t r = 0; r < size; ++r) {
    std::int64_t rest = deserved_[parent][r];
    std::int64_t weights = 0;
    for (std::size_t i = 0; i < children.size(); ++i) {
      const Queue& child = snapshot_.queues()[children[i]];
      const std::int64_t said = r < child.deserved.size() ? child.deserved[r] : -1;
      if (said >= 0) {
        deserved_[children[i]][r] = said;
        rest -= said;
      } else if (active[i]) {
        weights += child.weight;
      }
    }
    rest = std::max<std::int64_t>(rest, 0);
    for (std::size_t i = 0; i < children.size(); ++i) {
      const Queue& child = snapshot_.queues()[children[i]];
      std::int64_t& amount = deserved_[children[i]][r];
      if (r >= child.deserved.size() || child.deserved[r] < 0) {
        const std::int64_t divisor = active[i] ? weights : weights + child.weight;
        amount = static_cast<std::int64_t>(static_cast<double>(rest) * child.weight / static_cast<double>(divisor));
      }
      amount = std::max(amount, at(child.guarantee, r));
      if (r < child.capability.size()) amount = std::min(amount, child.capability[r]);
    }
  }
  for (const QueueId child : children) divide(child, depth + 1);
}

double QueueShares::share_with(QueueId queue, const Amounts& change, std::int64_t factor) const {
  const Amounts& held = snapshot_.queues()[queue].allocated;
  const Amounts& due = deserved_[queue];
  double share = 0;
  for (std::size_t r = 0; r < std::max(held.size(), change.size()); ++r) {
    if (r == ResourceTable::kPods) continue;
    const std::int64_t amount = at(held, r) + factor * at(change, r);
    if (amount <= 0) continue;
    share = std::max(share, at(due, r) > 0 ? static_cast<double>(amount) / static_cast<double>(due[r]) : 1e9);
  }
  return share;
}

bool QueueShares::is_before(QueueId a, QueueId b) const {
  const Queue& first = snapshot_.queues()[a];
  const Queue& second = snapshot_.queues()[b];
  if (first.priority != second.priority) return first.priority > second.priority;
  const double first_share = share(a);
  const double second_share = share(b);
  if (first_share != second_share) return first_share < second_share;
  return first.name < second.name;
}

QueueId QueueShares::first_over_capability(QueueId queue, const SparseAmounts& more) const {
  for (QueueId q = queue; q != kNone; q = snapshot_.queues()[q].parent) {
    const Queue& checked = snapshot_.queues()[q];
    for (const auto& [r, amount] : more) {
      if (r < checked.capability.size() && at(checked.allocated, r) + amount > checked.capability[r]) return q;
    }
  }
  return kNone;
}

Amounts QueueShares::unmet_guarantee(QueueId id, int depth) const {
  const Queue& queue = snapshot_.queues()[id];
  Amounts below;
  if (depth < kDepthMax) {
    for (const QueueId child : queue.children) add_to(below, unmet_guarantee(child, depth + 1));
  }
  if (below.size() < queue.guarantee.size()) below.resize(queue.guarantee.size());
  for (std::size_t r = 0; r < queue.guarantee.size(); ++r)
    below[r] = std::max(below[r], queue.guarantee[r] - at(queue.allocated, r));
  return below;
}

Amounts QueueShares::withheld_from(QueueId queue) const {
  Amounts withheld;
  for (QueueId q = queue; q != kNone; q = snapshot_.queues()[q].parent) {
    const QueueId parent = snapshot_.queues()[q].parent;
    if (parent == kNone) break;
    for (const QueueId sibling : snapshot_.queues()[parent].children) {
      if (sibling != q) add_to(withheld, unmet_guarantee(sibling, 0));
    }
  }
  return withheld;
}

}  // namespace basalt::scheduler
