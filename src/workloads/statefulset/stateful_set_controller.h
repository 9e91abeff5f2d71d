#pragma once

#include <memory>
#include <string>
#include <vector>

#include "workloads/common/keyed_controller.h"
#include "workloads/common/revisions.h"
#include "workloads/statefulset/stateful_set_plan.h"

namespace basalt::workloads {

// Keeps pods with names, claims and an order of their own. See README.md.
class StatefulSetController final : public KeyedController {
 public:
  explicit StatefulSetController(Context& context);

 private:
  // The revisions of a set, and the templates that pods are made of.
  struct History {
    std::vector<ObjectPtr> sorted;
    StatefulRevisions names;
    json::Value current_template;
    json::Value update_template;
    std::int64_t collisions = 0;
  };
  rt::Outcome reconcile(const Object& set, const rt::StopToken& stop) override;
  Result<History> history_of(const Object& set, const rt::StopToken& stop);
  Done carry_out(const Object& set, const History& history, const StatefulSetPlan& plan, const rt::StopToken& stop);
  Done create_pods(const Object& set, const History& history, const StatefulSetPlan& plan, const rt::StopToken& stop);
  Done delete_pods(const Object& set, const StatefulSetPlan& plan, const rt::StopToken& stop);
  // stateful_claims.cc: the volumes of one ordinal.
  Done ensure_claims(const Object& set, std::int64_t ordinal, const rt::StopToken& stop);
  Done keep_claim_owners(const Object& set, const std::vector<PodPtr>& pods, const rt::StopToken& stop);
  Done hand_claims_to_pods(const Object& set, const std::vector<PodPtr>& pods, const rt::StopToken& stop);
  Done clean_history(const Object& set, const History& history, const std::vector<PodPtr>& pods,
                     const rt::StopToken& stop);
};

// stateful_claims.cc. The name of the claim of a template and ordinal.
[[nodiscard]] std::string claim_name(const json::Value& claim_template, const Object& set, std::int64_t ordinal);
// A pod of the set, with its names and volumes.
[[nodiscard]] json::Value stateful_pod(const Object& set, const json::Value& pod_template, const std::string& revision,
                                       std::int64_t ordinal);

}  // namespace basalt::workloads
