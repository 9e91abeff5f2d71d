// What may change in a pod once it is accepted.

#include <algorithm>
#include <limits>

#include "apiserver/builtin/pod_validation.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kMutableFields =
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

// False if containers were added or removed, after which comparing them makes no sense.
bool check_container_count(const json::Value& spec, const json::Value& old, std::string_view name, Causes& causes) {
  if (list_at(spec, name).size() == list_at(old, name).size()) return true;
  causes.push_back(forbidden_field("spec." + std::string(name), "pod updates may not add or remove containers"));
  return false;
}

void check_deadline(const json::Value& spec, const json::Value& old, Causes& causes) {
  const auto now = int_at(spec, "activeDeadlineSeconds");
  const auto before = int_at(old, "activeDeadlineSeconds");
  const std::string field = "spec.activeDeadlineSeconds";
  if (!now) {
    if (before) {
      causes.push_back(invalid_value(field, "null", "must not update from a positive integer to nil value"));
    }
  } else if (*now >= 0 && before && *before < *now) {
    causes.push_back(invalid_value(field, std::to_string(*now), "must be less than or equal to previous value"));
  }
}

// Nobody but tolerationSeconds may change in a toleration that is there.
bool is_same_toleration(const json::Value& a, const json::Value& b) {
  return text_at(a, "key") == text_at(b, "key") && text_at(a, "operator") == text_at(b, "operator") &&
         text_at(a, "value") == text_at(b, "value") && text_at(a, "effect") == text_at(b, "effect");
}

void check_tolerations(const json::Value& spec, const json::Value& old, Causes& causes) {
  const json::Array& now = list_at(spec, "tolerations");
  for (const json::Value& before : list_at(old, "tolerations")) {
    if (std::any_of(now.begin(), now.end(), [&](const json::Value& one) { return is_same_toleration(one, before); })) {
      continue;
    }
    causes.push_back(
        forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"));
    return;
  }
}

void check_scheduling_gates(const json::Value& spec, const json::Value& old, Causes& causes) {
  const json::Array& now = list_at(spec, "schedulingGates");
  const json::Array& before = list_at(old, "schedulingGates");
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::string_view name = text_at(now[i], "name");
    if (std::any_of(before.begin(), before.end(),
                    [&](const json::Value& gate) { return text_at(gate, "name") == name; })) {
      continue;
    }
    causes.push_back(
        forbidden_field("spec.schedulingGates[" + std::to_string(i) + "].name",
                        "only deletion is allowed, but found new scheduling gate '" + std::string(name) + "'"));
  }
}

void restore(json::Object& spec, const json::Value& old, std::string_view name) {
  if (const json::Value* before = old.find(name)) {
    spec.set(name, *before);
  } else {
    spec.erase(name);
  }
}

void restore_images(json::Value& spec, const json::Value& old, std::string_view name) {
  json::Array* now = mutable_list(spec, name);
  if (now == nullptr) return;
  const json::Array& before = list_at(old, name);
  for (std::size_t i = 0; i < now->size() && i < before.size(); ++i) {
    if ((*now)[i].is_object()) restore((*now)[i].as_object(), before[i], "image");
  }
}

// While gates hold a pod back it may still be narrowed down to fewer nodes.
void check_gated(json::Value& spec, const json::Value& old, Causes& causes) {
  if (differs(spec, old, {"nodeSelector"})) {
    const json::Object& now = map_at(spec, "nodeSelector");
    for (const json::Member& before : map_at(old, "nodeSelector")) {
      const json::Value* value = now.find(before.key);
      if (value != nullptr && *value == before.value) continue;
      causes.push_back(invalid_value("spec.nodeSelector", shown(json::Value(now)),
                                     "only additions to spec.nodeSelector are allowed (no mutations or deletions)"));
      break;
    }
    restore(spec.as_object(), old, "nodeSelector");
  }
  if (differs(spec, old, {"affinity", "nodeAffinity"})) {
    // Differs: Kubernetes looks into the terms and allows what narrows them; here any change of the node affinity of a
    // gated pod passes.
    const json::Value* before = old.find_path({"affinity", "nodeAffinity"});
    if (before != nullptr) {
      spec.ensure_path({"affinity", "nodeAffinity"}) = *before;
    } else if (json::Object* affinity = mutable_map(spec, "affinity")) {
      affinity->erase("nodeAffinity");
      if (affinity->empty() && member(old, "affinity") == nullptr) spec.as_object().erase("affinity");
    }
  }
}

void check_rest_unchanged(const json::Value& spec, const json::Value& old, Causes& causes) {
  json::Value restored = spec;
  json::Object& members = restored.as_object();
  restore_images(restored, old, "containers");
  restore_images(restored, old, "initContainers");
  for (const std::string_view name : {"activeDeadlineSeconds", "schedulingGates", "tolerations"}) {
    restore(members, old, name);
  }
  if (int_at(old, "terminationGracePeriodSeconds").value_or(0) < 0 &&
      int_at(spec, "terminationGracePeriodSeconds") == 1) {
    restore(members, old, "terminationGracePeriodSeconds");
  }
  if (!list_at(old, "schedulingGates").empty()) check_gated(restored, old, causes);
  if (restored == old) return;
  std::string changed;
  for (const json::Member& one : members) {
    const json::Value* before = old.find(one.key);
    if (before == nullptr || *before != one.value) changed += (changed.empty() ? "" : ", ") + ("spec." + one.key);
  }
  for (const json::Member& one : old.as_object()) {
    if (members.find(one.key) == nullptr) changed += (changed.empty() ? "" : ", ") + ("spec." + one.key);
  }
  causes.push_back(forbidden_field("spec", std::string(kMutableFields) + "\nchanged: " + changed));
}

bool may_restart(const json::Value& pod, std::string_view container_name, std::int64_t exit_code) {
  std::string_view policy = pod.string_at({"spec", "restartPolicy"});
  for (const json::Value& container : list_at(pod, {"spec", "containers"})) {
    if (text_at(container, "name") != container_name) continue;
    // Rules may restart what the policy would not.
    if (!list_at(container, "restartPolicyRules").empty()) return true;
    if (const std::string_view own = text_at(container, "restartPolicy"); !own.empty()) policy = own;
  }
  return policy == "Always" || (policy == "OnFailure" && exit_code != 0);
}

void check_container_states(const json::Value& pod, const json::Value& old, Causes& causes) {
  const json::Array& before = list_at(old, {"status", "containerStatuses"});
  const json::Array& now = list_at(pod, {"status", "containerStatuses"});
  for (std::size_t i = 0; i < before.size(); ++i) {
    const json::Value* terminated = before[i].find_path({"state", "terminated"});
    if (terminated == nullptr || terminated->is_null()) continue;
    const std::string_view name = text_at(before[i], "name");
    const auto same = std::find_if(now.begin(), now.end(),
                                   [&](const json::Value& status) { return text_at(status, "name") == name; });
    if (same == now.end()) continue;
    const json::Value* still = same->find_path({"state", "terminated"});
    if ((still != nullptr && !still->is_null()) ||
        may_restart(old, name, int_at(*terminated, "exitCode").value_or(0))) {
      continue;
    }
    causes.push_back(forbidden_field("status.containerStatuses[" + std::to_string(i) + "].state",
                                     "may not be transitioned to non-terminated state"));
  }
}

}  // namespace

void validate_pod_update(const json::Value& pod, const json::Value& old_pod, Causes& causes) {
  const json::Value* spec = member(pod, "spec");
  const json::Value* old = member(old_pod, "spec");
  if (spec == nullptr || old == nullptr || !spec->is_object()) {
    causes.push_back(required("spec"));
    return;
  }
  if (*spec == *old) return;  // most updates touch metadata only; what is stored was valid
  validate_pod_spec(*spec, {true, metadata_text(pod, "name")}, FieldPath("spec"), causes);
  if (!check_container_count(*spec, *old, "containers", causes)) return;
  if (!check_container_count(*spec, *old, "initContainers", causes)) return;
  check_deadline(*spec, *old, causes);
  check_tolerations(*spec, *old, causes);
  check_scheduling_gates(*spec, *old, causes);
  check_rest_unchanged(*spec, *old, causes);
}

void validate_pod_status(const json::Value& pod, const json::Value& old, Causes& causes) {
  const json::Array& conditions = list_at(pod, {"status", "conditions"});
  const FieldPath conditions_path("status.conditions");
  for (std::size_t i = 0; i < conditions.size(); ++i) {
    const FieldPath at = conditions_path.index(i);
    check_qualified_name(text_at(conditions[i], "type"), at.child("Type"), causes);
  }
  const std::string_view nominated = pod.string_at({"status", "nominatedNodeName"});
  if (!nominated.empty() && nominated != old.string_at({"status", "nominatedNodeName"})) {
    check_dns_subdomain(nominated, FieldPath("status.nominatedNodeName"), causes);
    if (!old.string_at({"spec", "nodeName"}).empty()) {
      causes.push_back(
          forbidden_field("status.nominatedNodeName", "may not be set on pods that are already bound to a node"));
    }
  }
  check_immutable(pod, old, {"status", "qosClass"}, causes);
  check_container_states(pod, old, causes);
}

}  // namespace basalt::apiserver
