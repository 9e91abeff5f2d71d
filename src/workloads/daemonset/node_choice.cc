#include "workloads/daemonset/node_choice.h"

#include <algorithm>
#include <utility>

#include "api/node_fit.h"
#include "json/reader.h"
#include "workloads/common/object.h"

namespace basalt::workloads {
namespace {

struct Borne {
  std::string_view taint;
  std::string_view effect;
};
constexpr Borne kBorne[] = {
    {"node.kubernetes.io/not-ready", "NoExecute"},      {"node.kubernetes.io/unreachable", "NoExecute"},
    {"node.kubernetes.io/disk-pressure", "NoSchedule"}, {"node.kubernetes.io/memory-pressure", "NoSchedule"},
    {"node.kubernetes.io/pid-pressure", "NoSchedule"},  {"node.kubernetes.io/unschedulable", "NoSchedule"}};
constexpr Borne kBorneOnHostNetwork{"node.kubernetes.io/network-unavailable", "NoSchedule"};

json::Array tolerations_of(const json::Value& spec) {
  json::Array all = list_at(spec, {"tolerations"});
  const auto add = [&](const Borne& borne) {
    json::Value toleration = json::Object{{"key", borne.taint}, {"operator", "Exists"}, {"effect", borne.effect}};
    if (std::find(all.begin(), all.end(), toleration) == all.end()) all.push_back(std::move(toleration));
  };
  for (const Borne& borne : kBorne) add(borne);
  if (flag_at(spec, {"hostNetwork"})) add(kBorneOnHostNetwork);
  return all;
}

}  // namespace

Result<NodeChoice> NodeChoice::parse(const json::Value& pod_template) {
  const json::Value& spec = object_at(pod_template, {"spec"});
  NodeChoice choice;
  choice.node_name_ = spec.string_at({"nodeName"});
  choice.labels_ = strings_at(spec, {"nodeSelector"});
  constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  if (const json::Value* required = spec.find_path({"affinity", "nodeAffinity", kRequired})) {
    choice.has_terms_ = true;
    BASALT_TRY(auto selector, json::from_text<api::core::NodeSelector>(required->to_text()));
    choice.terms_ = std::move(selector.node_selector_terms);
  }
  for (const json::Value& text : tolerations_of(spec)) {
    BASALT_TRY(auto toleration, json::from_text<api::core::Toleration>(text.to_text()));
    choice.tolerations_.push_back(std::move(toleration));
  }
  return choice;
}

NodeChoice::Verdict NodeChoice::judge(const api::core::NodeProjection& node) const {
  if (!node_name_.empty() && node_name_ != node.metadata.name.view()) return {};
  if (!labels_.is_subset_of(node.metadata.labels)) return {};
  if (has_terms_ &&
      std::none_of(terms_.begin(), terms_.end(), [&](const auto& term) { return api::holds(term, node); }))
    return {};
  Verdict verdict{true, true};
  for (const auto& taint : node.spec.taints) {
    if (taint.effect == "PreferNoSchedule" || api::tolerates(tolerations_, taint.key, taint.value, taint.effect))
      continue;
    verdict.is_wanted = false;
    if (taint.effect == "NoExecute") verdict.may_stay = false;
  }
  return verdict;
}

void pin_to_node(json::Value& pod, std::string_view node) {
  json::Value term;
  term.ensure_path({"matchFields"}) = json::Array{
      json::Object{{"key", "metadata.name"}, {"operator", "In"}, {"values", json::Array{json::Value(node)}}}};
  // What else was required of nodes has been looked at.
  pod.ensure_path({"spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"}) =
      json::Object{{"nodeSelectorTerms", json::Array{std::move(term)}}};
  json::Array tolerations = tolerations_of(object_at(pod, {"spec"}));
  pod.ensure_path({"spec", "tolerations"}) = std::move(tolerations);
}

}  // namespace basalt::workloads
