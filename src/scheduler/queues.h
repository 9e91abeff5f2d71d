#pragma once

#include <vector>

#include "scheduler/reason.h"
#include "scheduler/snapshot.h"

namespace basalt::scheduler {

// What queues are due, and what they may still take. Made for one cycle; reads the snapshot's sums as they change.
class QueueShares {
 public:
  explicit QueueShares(const Snapshot& snapshot);

  [[nodiscard]] const Amounts& deserved(QueueId queue) const { return deserved_[queue]; }
  // Used part of its due, by the resource that is used most; above 1 the queue lives on others.
  [[nodiscard]] double share(QueueId queue) const { return share_with(queue, {}, 1); }
  // The same if it held that much more (or less: factor -1).
  [[nodiscard]] double share_with(QueueId queue, const Amounts& change, std::int64_t factor) const;
  // Whether `a` is served before `b`, both below one parent: priority, then share, then name.
  [[nodiscard]] bool is_before(QueueId a, QueueId b) const;

  // The first queue from this one up whose capability has no room for as much more; kNone if all have.
  [[nodiscard]] QueueId first_over_capability(QueueId queue, const SparseAmounts& more) const;
  // What is free but guaranteed to queues that are not on the way from this one to the root.
  [[nodiscard]] Amounts withheld_from(QueueId queue) const;
  [[nodiscard]] bool has_guarantees() const { return has_guarantees_; }

 private:
  void divide(QueueId parent, int depth);
  [[nodiscard]] Amounts unmet_guarantee(QueueId queue, int depth) const;
  [[nodiscard]] bool is_active(QueueId queue, int depth) const;

  const Snapshot& snapshot_;
  std::vector<Amounts> deserved_;
  bool has_guarantees_ = false;
};

}  // namespace basalt::scheduler
