#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "json/value.h"

// What the claims of a workload make of its ResourceBinding. Pure: objects in, the wanted change out.

namespace basalt::controllers::datadependency {

inline constexpr std::string_view kInjectedAnnotation = "datadependency.volcano.sh/placement-injected";
inline constexpr std::string_view kExcludedAnnotation = "datadependency.volcano.sh/excluded-clusters";
inline constexpr std::string_view kRecordAnnotation = "datadependency.volcano.sh/injected-placement";
// On bindings that we suspended: whoever else suspends one releases it himself.
inline constexpr std::string_view kGatedAnnotation = "datadependency.volcano.sh/gated";

// One claim on the workload that is not being deleted.
struct ClaimOnWorkload {
  std::string uid;
  bool is_bound = false;
  std::vector<std::string> clusters;  // of its data source, if bound
};

enum class PlacementVerdict : std::uint8_t {
  None,               // no claims: our part is removed
  Waiting,            // a claim is not bound yet: a workload that was never scheduled stays gated
  Injected,           // the constraint stands
  NoFeasibleCluster,  // the constraint stands, and no cluster that is registered and not excluded by the user fits
  Over,               // the workload has ended: it stays where it was, or it would run again elsewhere
  Contradiction,      // the claims have no cluster in common: gated if never scheduled, else the last constraint stays
};

struct PlacementPlan {
  PlacementVerdict verdict = PlacementVerdict::None;
  std::vector<std::string> allowed;  // sorted
  // The merge patch that brings the binding there (metadata.annotations, spec.placement); nothing if it is there.
  std::optional<json::Value> patch;
  bool was_overwritten = false;  // the record says more than the placement has: somebody replaced it
};

// `binding` is the whole object. `clusters` are all that are registered.
[[nodiscard]] PlacementPlan plan_placement(const json::Value& binding, const std::vector<ClaimOnWorkload>& claims,
                                           const std::vector<std::string>& clusters);

// The same with the gate: a binding that must not be scheduled yet is suspended, and released when it may. Only
// `spec.suspension.scheduling` is touched, and released is only what we suspended.
[[nodiscard]] PlacementPlan plan_binding(const json::Value& binding, const std::vector<ClaimOnWorkload>& claims,
                                         const std::vector<std::string>& clusters);

// What an API server is told about a write of a binding: the merge patch to add to it, or nothing. `before` is null for
// a new one. An update is left alone by whoever wrote our annotations: he knows what he does; all others may have
// replaced the placement without knowing of us, and the constraint is put back. A new binding that must wait loses the
// clusters that its author chose: nobody has heard of them yet.
[[nodiscard]] std::optional<json::Value> admission_patch(const json::Value& binding, const json::Value* before,
                                                         const std::vector<ClaimOnWorkload>& claims,
                                                         const std::vector<std::string>& clusters);

// Whether the workload has ended in every cluster that was chosen for it, as the members say.
[[nodiscard]] bool is_over(const json::Value& binding);
// Whether somebody chose clusters for it.
[[nodiscard]] bool was_scheduled(const json::Value& binding);
[[nodiscard]] std::vector<std::string> current_clusters(const json::Value& binding);

// Whether the binding may be scheduled: all claims bound, recorded, and every recorded name really excluded.
[[nodiscard]] bool may_be_scheduled(const json::Value& binding, const std::vector<ClaimOnWorkload>& claims);

}  // namespace basalt::controllers::datadependency
