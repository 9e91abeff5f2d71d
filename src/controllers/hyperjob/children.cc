#include "controllers/hyperjob/children.h"

#include <utility>

#include "api/gen/names.h"

namespace basalt::controllers::hyperjob {
namespace {

using api::training::HyperJob;

constexpr std::string_view kJobApi = "batch.volcano.sh/v1alpha1";
constexpr std::string_view kPolicyApi = "policy.karmada.io/v1alpha1";
constexpr std::string_view kHyperJobApi = "training.volcano.sh/v1alpha1";

void drop_nulls(json::Value& value) {
  if (value.is_object()) {
    value.as_object().erase_if([](const json::Member& member) { return member.value.is_null(); });
    for (json::Member& member : value.as_object()) drop_nulls(member.value);
  } else if (value.is_array()) {
    for (json::Value& element : value.as_array()) drop_nulls(element);
  }
}

bool is_go_zero(const json::Value& value) {
  if (value.is_string()) return value.as_string().empty();
  if (value.is_int()) return value.as_int() == 0;
  if (value.is_array()) return value.as_array().empty();
  if (value.is_object()) return value.as_object().empty();
  return false;
}

void drop_zeros(json::Object& object, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const json::Value* value = object.find(key); value != nullptr && is_go_zero(*value)) object.erase(key);
  }
}

json::Value owner_reference(const HyperJob& owner) {
  return json::Object{{"apiVersion", kHyperJobApi}, {"kind", "HyperJob"}, {"name", owner.metadata.name},
                      {"uid", owner.metadata.uid},  {"controller", true}, {"blockOwnerDeletion", true}};
}

json::Value metadata_of(const HyperJob& owner, std::string_view name, json::Object labels) {
  return json::Object{{"name", name},
                      {"namespace", owner.metadata.namespace_},
                      {"labels", std::move(labels)},
                      {"ownerReferences", json::Array{owner_reference(owner)}}};
}

json::Value names_of(const std::vector<std::string>& clusters) {
  json::Array names;
  for (const std::string& cluster : clusters) names.emplace_back(cluster);
  return names;
}

}  // namespace

std::string child_name(std::string_view hyper_job, std::string_view group, std::int64_t index) {
  std::string name(hyper_job);
  return name.append("-").append(group).append("-").append(std::to_string(index));
}

std::string binding_name(std::string_view job) {
  std::string name;
  for (const char c : job) name.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
  return name + "-job";
}

json::Value job_spec_of_template(const json::Value& template_spec) {
  json::Value spec = template_spec.is_object() ? template_spec : json::Value(json::Object());
  drop_nulls(spec);
  json::Object& members = spec.as_object();
  if (json::Value* tasks = members.find("tasks"); tasks != nullptr && tasks->is_array()) {
    for (json::Value& task : tasks->as_array()) {
      // tasks[].minAvailable: 0 and ttlSecondsAfterFinished: 0 are values and stay.
      if (task.is_object())
        drop_zeros(task.as_object(), {"name", "topologyPolicy", "maxRetry", "replicas", "policies"});
    }
  }
  drop_zeros(members, {"schedulerName", "queue", "priorityClassName", "minAvailable", "maxRetry", "volumes", "tasks",
                       "policies", "plugins"});
  return spec;
}

json::Value policy_spec(std::string_view job, const std::vector<std::string>& clusters) {
  json::Object placement{{"replicaScheduling", json::Object{{"replicaDivisionPreference", "Aggregated"},
                                                            {"replicaSchedulingType", "Divided"}}},
                         {"spreadConstraints",
                          json::Array{json::Object{{"maxGroups", 1}, {"minGroups", 1}, {"spreadByField", "cluster"}}}}};
  // Differs: upstream writes an empty affinity for an empty list. It means the same and hashes differently.
  if (!clusters.empty()) placement.set("clusterAffinity", json::Object{{"clusterNames", names_of(clusters)}});
  return json::Object{
      {"placement", std::move(placement)},
      {"propagateDeps", true},
      {"resourceSelectors", json::Array{json::Object{{"apiVersion", kJobApi}, {"kind", "Job"}, {"name", job}}}}};
}

json::Value job_body(const HyperJob& owner, const ChildText& child, json::Value spec) {
  json::Object labels{{api::keys::kHyperJobName, owner.metadata.name},
                      {api::keys::kReplicatedJobName, child.group},
                      {api::keys::kTemplateSpecHash, child.hash}};
  return json::Object{{"apiVersion", kJobApi},
                      {"kind", "Job"},
                      {"metadata", metadata_of(owner, child.name, std::move(labels))},
                      {"spec", std::move(spec)}};
}

json::Value policy_body(const HyperJob& owner, const ChildText& child, json::Value spec) {
  json::Object labels{{api::keys::kHyperJobName, owner.metadata.name}, {api::keys::kPropagationPolicyHash, child.hash}};
  return json::Object{{"apiVersion", kPolicyApi},
                      {"kind", "PropagationPolicy"},
                      {"metadata", metadata_of(owner, child.name, std::move(labels))},
                      {"spec", std::move(spec)}};
}

bool placement_matches(const api::karmada::Placement& found, const std::vector<std::string>& clusters) {
  if (!found.cluster_affinities.empty() || !found.replica_scheduling || found.spread_constraints.size() != 1)
    return false;
  const auto& scheduling = *found.replica_scheduling;
  const auto& spread = found.spread_constraints[0];
  if (scheduling.replica_scheduling_type != "Divided" || scheduling.replica_division_preference != "Aggregated" ||
      !scheduling.weight_preference.empty())
    return false;
  if (spread.spread_by_field != "cluster" || !spread.spread_by_label.empty() || spread.max_groups != 1 ||
      spread.min_groups != 1)
    return false;
  if (!found.cluster_affinity) return clusters.empty();
  const auto& affinity = *found.cluster_affinity;
  return affinity.cluster_names == clusters && affinity.exclude.empty() && !affinity.label_selector &&
         affinity.field_selector.empty();
}

bool policy_matches(const api::karmada::PropagationSpec& found, std::string_view job,
                    const std::vector<std::string>& clusters) {
  if (!found.propagate_deps || found.resource_selectors.size() != 1) return false;
  const auto& selector = found.resource_selectors[0];
  if (selector.api_version != kJobApi || selector.kind != "Job" || selector.name != job || selector.label_selector)
    return false;
  return placement_matches(found.placement, clusters);
}

json::Value policy_spec_patch(std::string_view job, const std::vector<std::string>& clusters) {
  json::Value patch = policy_spec(job, clusters);
  json::Object& placement = patch.find("placement")->as_object();
  // A merge patch keeps what it does not name: what would send the job elsewhere is taken away by name.
  placement.set("clusterAffinities", nullptr);
  placement.find("replicaScheduling")->as_object().set("weightPreference", nullptr);
  if (json::Value* affinity = placement.find("clusterAffinity"); affinity != nullptr) {
    for (const std::string_view key : {"exclude", "labelSelector", "fieldSelector"})
      affinity->as_object().set(key, nullptr);
  } else {
    placement.set("clusterAffinity", nullptr);
  }
  return patch;
}

}  // namespace basalt::controllers::hyperjob
