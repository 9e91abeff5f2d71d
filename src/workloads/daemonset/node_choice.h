#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/gen/core_affinity.h"
#include "api/gen/core_node.h"
#include "api/string_map.h"
#include "base/result.h"
#include "json/value.h"

namespace basalt::workloads {

using NodePtr = std::shared_ptr<const api::core::NodeProjection>;

// What a DaemonSet's template says about nodes. The defaults that its pods get beside: they stay on nodes that are not
// ready, unreachable, short of something or closed for others.
class NodeChoice {
 public:
  [[nodiscard]] static Result<NodeChoice> parse(const json::Value& pod_template);

  struct Verdict {
    bool is_wanted = false;  // a pod belongs there
    bool may_stay = false;   // one that is there may stay
  };
  [[nodiscard]] Verdict judge(const api::core::NodeProjection& node) const;

 private:
  std::string node_name_;
  api::StringMap labels_;
  bool has_terms_ = false;
  std::vector<api::core::NodeSelectorTerm> terms_;  // one of them must hold
  std::vector<api::core::Toleration> tolerations_;
};

// Ties a pod to a node, and lets it bear what the pods of DaemonSets bear.
void pin_to_node(json::Value& pod, std::string_view node);

}  // namespace basalt::workloads
