#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/gen/scheduling_podgroup.h"
#include "api/gen/scheduling_queue.h"
#include "api/time.h"
#include "scheduler/reason.h"

// Why does a pod group wait? Answered from the objects alone, so that it works against any cluster, whichever scheduler
// runs there. Pure.

namespace basalt::scheduler {

// On a pod group that waits: its PendingReason as JSON, written by our scheduler together with the condition and taken
// away when the gang is placed.
inline constexpr std::string_view kPendingAnnotation = "basalt.volcano.sh/pending";
// Positions up to this one are kept up to date in it; farther behind, it is written again when they are halved.
inline constexpr std::size_t kExactPositionMax = 10;
// A longer value is not believed.
inline constexpr std::size_t kPendingBytesMax = 16 * 1024;

[[nodiscard]] std::string encode_reason(const PendingReason& reason);
// Nothing if the text is not one of ours.
[[nodiscard]] std::optional<PendingReason> decode_reason(std::string_view text);

struct Explanation {
  PendingReason reason;      // kind None: it does not wait
  std::string phase;         // of the pod group; "Pending" if it has none yet
  std::string said_by;       // "annotation", "condition", "objects": where the reason was found
  api::Time since;           // of the condition; zero if there is none
  bool is_numbered = false;  // by a scheduler that gives numbers
};

// What more of the cluster can be told to; all of it may be missing.
struct ExplainFacts {
  const api::scheduling::Queue* queue = nullptr;  // of the group
  bool queue_is_known_missing = false;
  std::span<const api::scheduling::PodGroup> groups;  // of all namespaces; others' queues are skipped
  std::function<std::int32_t(std::string_view priority_class)> priority_of;
};

// From the annotation, else from the condition, else from phase and queue. With `facts.groups` the position is that of
// now, not of the time when the reason was written.
[[nodiscard]] Explanation explain_group(const api::scheduling::PodGroup& group, const ExplainFacts& facts = {});

// What helps against this kind of waiting, one sentence; "" for None.
[[nodiscard]] std::string unblock_text(const PendingReason& reason);

}  // namespace basalt::scheduler
