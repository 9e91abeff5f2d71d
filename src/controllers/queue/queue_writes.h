#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/gen/scheduling_queue.h"
#include "controllers/queue/queue_plan.h"
#include "kube/client.h"

namespace basalt::controllers::queue {

// The requests that the queue controller sends. Pure.

// What root and the default queue are created as; the same as Volcano's scheduler does.
[[nodiscard]] std::string well_known_queue_body(std::string_view name);

struct MetadataChange {
  bool set_parent = false;   // spec.parent becomes root, unless the queue changed since it was read
  std::optional<bool> mark;  // the annotation closed-by-parent
};
// Of this very queue (its UID), never of one made again under its name.
[[nodiscard]] kube::Request metadata_patch(const api::scheduling::Queue& queue, const MetadataChange& change);

enum class StateWrite : std::uint8_t {
  Apply,  // server-side apply: the field's manager is the one that Volcano's controller uses, so either can take over
  Merge   // the same as a merge patch, for servers without server-side apply
};
// Writes status.state and nothing else, because the scheduler writes other fields of the same status. Takes the field
// over from whoever wrote it last, but only if the queue is still at `resource_version`.
[[nodiscard]] kube::Request state_patch(const api::scheduling::Queue& queue, QueueState state,
                                        std::string_view resource_version, StateWrite how = StateWrite::Apply);

}  // namespace basalt::controllers::queue
