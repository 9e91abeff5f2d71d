#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/fwd.h"
#include "api/string_map.h"
#include "api/time.h"
#include "api/word.h"
#include "rt/time.h"

namespace basalt::workloads {

inline constexpr std::string_view kJobTrackingFinalizer = "batch.kubernetes.io/job-tracking";
inline constexpr std::string_view kCompletionIndexAnnotation = "batch.kubernetes.io/job-completion-index";
inline constexpr std::string_view kIndexFailuresAnnotation = "batch.kubernetes.io/job-index-failure-count";
inline constexpr std::string_view kDeletionCostAnnotation = "controller.kubernetes.io/pod-deletion-cost";

// What the cache keeps of a pod: who owns it, how it fares, where it listens.
struct Pod {
  struct Metadata {
    api::Word name;
    api::Word namespace_;
    api::Word uid;
    api::Word resource_version;
    api::Word owner_uid;  // of the owner with `controller: true`; "" if there is none
    api::Word owner_kind;
    api::Word owner_name;
    api::Time creation;
    api::Time deletion;
    api::StringMap labels;
  };
  struct Port {
    api::Word name;
    api::Word protocol;
    std::int32_t number = 0;
  };
  struct Exit {  // a container that has ended
    api::Word container;
    std::int32_t code = 0;
  };
  struct Condition {
    api::Word type;
    api::Word status;
  };

  Metadata metadata;
  api::Word node_name;
  api::Word pinned_node;  // the one node that its affinity allows by name
  api::Word hostname;
  api::Word subdomain;
  api::Word phase;
  api::Word reason;
  api::Word address;                // status.podIP
  api::Word completion_index;       // annotation; "" if there is none
  std::int32_t index_failures = 0;  // annotation: pods of this index that failed before
  std::int32_t deletion_cost = 0;
  std::int32_t restarts = 0;  // of all containers
  bool is_tracked = false;    // has the finalizer of jobs
  bool is_stopped = false;    // being deleted, and its node has nothing of it any more (no grace is left)
  bool is_ready = false;
  api::Time ready_since;
  api::Time ended;  // when the last of its containers ended
  std::vector<Port> ports;
  std::vector<Exit> exits;
  std::vector<Condition> conditions;

  [[nodiscard]] bool is_being_deleted() const { return !metadata.deletion.is_zero(); }
  [[nodiscard]] bool has_succeeded() const { return phase == "Succeeded"; }
  [[nodiscard]] bool has_failed() const { return phase == "Failed"; }
  [[nodiscard]] bool is_finished() const { return has_succeeded() || has_failed(); }
  // Runs, or will.
  [[nodiscard]] bool is_active() const { return !is_finished() && !is_being_deleted(); }
  [[nodiscard]] bool counts_as_ready() const { return is_ready && phase == "Running" && !is_being_deleted(); }
};
void decode(json::Reader& reader, Pod& pod);

using PodPtr = std::shared_ptr<const Pod>;

// When a ready pod counts as available; nothing while it is not ready.
[[nodiscard]] std::optional<rt::WallTime> available_at(const Pod& pod, std::int64_t min_ready_seconds);
[[nodiscard]] bool is_available(const Pod& pod, std::int64_t min_ready_seconds, rt::WallTime now);
// The shortest time until one more of them becomes available; nothing if time alone changes nothing.
[[nodiscard]] std::optional<rt::Duration> next_available_in(const std::vector<PodPtr>& pods,
                                                            std::int64_t min_ready_seconds, rt::WallTime now);

}  // namespace basalt::workloads
