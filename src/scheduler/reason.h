#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace basalt::scheduler {

enum class PendingKind : std::uint8_t {
  None,                 // it does not wait
  GroupMissing,         // its pods name a pod group that does not exist
  QueueMissing,         // the queue does not exist
  QueueClosed,          // the queue takes no work
  QueueCapability,      // the queue, or one above it, has reached its limit
  ReservedForOthers,    // what is free is guaranteed to other queues
  ClusterTooSmall,      // more than all nodes have
  ClusterFull,          // the cluster has no room to admit it
  NotEnoughPods,        // fewer pods than the gang needs
  NotEnoughPodsOfTask,  // fewer pods of a task than the gang needs
  NotEnoughSubGroups,   // fewer complete sub-groups than the gang needs
  Gated,                // pods are held back by scheduling gates
  NoRoom,               // nodes lack room, or do not match
  MakingRoom,           // pods are being evicted for it
  QueueBlocked,         // the queue is first-in-first-out and another job is ahead
  Refused,              // the API server refused to bind
};
[[nodiscard]] std::string_view to_string(PendingKind kind);
[[nodiscard]] PendingKind pending_kind_of(std::string_view word);  // None for a word that is none of them
// The word for a pod group's condition.
[[nodiscard]] std::string_view condition_reason_of(PendingKind kind);

struct ResourceShortage {
  std::string name;
  std::string requested;
  std::string free;
  std::string lacking;
  bool operator==(const ResourceShortage&) const = default;
};

// Why a gang waits, with numbers. What is not known is 0 or empty.
struct PendingReason {
  PendingKind kind = PendingKind::None;
  std::vector<ResourceShortage> shortages;
  std::string text;          // one sentence for people; made when somebody is to read it
  std::string queue;         // in which it waits
  std::int32_t needed = 0;   // pods that must be placed together
  std::int32_t fitted = 0;   // of them, in the best attempt
  std::size_t position = 0;  // in the queue: 1 is the next
  std::size_t waiting = 0;   // how many wait in the queue
  std::string ahead;         // "namespace/name" of the one right before it
  std::string holder;        // "namespace/name" of the group that holds most of what is short
  std::string unblock;       // what would help, one sentence
  bool operator==(const PendingReason&) const = default;
};

}  // namespace basalt::scheduler
