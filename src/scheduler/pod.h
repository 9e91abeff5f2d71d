#pragma once

#include <cstdint>

#include "api/fwd.h"
#include "api/kind_info.h"
#include "api/string_map.h"
#include "api/time.h"
#include "api/word.h"

namespace basalt::scheduler {

// What the scheduler keeps of a pod: identity, state, and `shape`, the text of everything that decides where it may
// run. Pods of one task have equal shapes, so whatever is computed for one is computed for all of them (PodShape).
struct SchedulablePod {
  static constexpr api::KindInfo kKindInfo{"", "v1", "Pod", "pods", "pod", true, true};
  static constexpr const api::KindInfo& kind_info() { return kKindInfo; }

  struct Metadata {
    api::Word name;
    api::Word namespace_;
    api::Word uid;
    api::Word resource_version;
    api::Time creation_timestamp;
    api::Time deletion_timestamp;
    api::StringMap labels;
  };

  Metadata metadata;
  api::Word group;           // annotation scheduling.k8s.io/group-name
  api::Word queue;           // annotation scheduling.volcano.sh/queue-name, for pods outside groups
  api::Word task;            // label or annotation volcano.sh/task-spec
  api::Word scheduler_name;  // spec.schedulerName
  api::Word node_name;       // spec.nodeName
  api::Word phase;           // status.phase
  api::Word shape;           // see above; parsed by PodShape::parse
  std::int32_t priority = 0;
  bool is_preemptable = true;  // annotation or label volcano.sh/preemptable
  bool never_preempts = false;
  bool is_gated = false;                 // has scheduling gates
  std::uint64_t unschedulable_hash = 0;  // of reason and message of PodScheduled=False; 0 if there is none
  [[nodiscard]] bool is_finished() const { return phase == "Succeeded" || phase == "Failed"; }
};

void decode(json::Reader& reader, SchedulablePod& pod);

// What unschedulable_hash is of.
[[nodiscard]] std::uint64_t hash_of_condition(std::string_view reason, std::string_view message);

}  // namespace basalt::scheduler
