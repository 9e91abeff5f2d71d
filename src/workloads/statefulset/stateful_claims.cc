// The claims that follow the pods of a StatefulSet, and the pods that use them.
#include <algorithm>

#include "workloads/common/pod_template.h"
#include "workloads/statefulset/stateful_set_controller.h"

namespace basalt::workloads {
namespace {

const json::Array& claim_templates(const Object& set) { return list_at(set.json, {"spec", "volumeClaimTemplates"}); }

bool deletes_claims(const Object& set, std::string_view when) {
  return set.json.string_at({"spec", "persistentVolumeClaimRetentionPolicy", when}) == "Delete";
}

// An owner that is no controller: the claim goes with it, nothing else.
json::Value owner_of_claim(const OwnerKind& kind, std::string_view name, std::string_view uid) {
  return json::Object{{"apiVersion", kind.api_version}, {"kind", kind.kind}, {"name", name}, {"uid", uid}};
}

bool has_owner(const Object& claim, std::string_view uid) {
  const json::Array& owners = list_at(claim.json, {"metadata", "ownerReferences"});
  return std::any_of(owners.begin(), owners.end(), [&](const json::Value& o) { return o.string_at({"uid"}) == uid; });
}

Writer::Patch owner_patch(const Object& claim, json::Value owner) {
  Writer::Patch patch;
  patch.target = {claim.metadata.name, claim.metadata.uid};
  patch.type = kube::PatchType::StrategicMerge;
  patch.body.ensure_path({"metadata", "ownerReferences"}) = json::Array{std::move(owner)};
  return patch;
}

json::Value claim_of(const Object& set, const json::Value& claim_template, std::int64_t ordinal) {
  json::Value claim = json::Object{{"apiVersion", "v1"}, {"kind", "PersistentVolumeClaim"}};
  claim.ensure_path({"metadata", "name"}) = claim_name(claim_template, set, ordinal);
  claim.ensure_path({"metadata", "namespace"}) = set.metadata.namespace_;
  json::Value labels = object_at(claim_template, {"metadata", "labels"});
  for (const json::Member& member : map_at(set.json, {"spec", "selector", "matchLabels"}))
    labels.as_object().set(member.key, member.value);
  claim.ensure_path({"metadata", "labels"}) = std::move(labels);
  if (const json::Value* annotations = claim_template.find_path({"metadata", "annotations"}))
    claim.ensure_path({"metadata", "annotations"}) = *annotations;
  if (deletes_claims(set, "whenDeleted"))
    claim.ensure_path({"metadata", "ownerReferences"}) =
        json::Array{owner_of_claim(kStatefulSetKind, set.metadata.name, set.metadata.uid)};
  claim.as_object().set("spec", object_at(claim_template, {"spec"}));
  return claim;
}

}  // namespace

std::string claim_name(const json::Value& claim_template, const Object& set, std::int64_t ordinal) {
  return std::string(claim_template.string_at({"metadata", "name"})) + "-" + set.metadata.name + "-" +
         std::to_string(ordinal);
}

json::Value stateful_pod(const Object& set, const json::Value& pod_template, const std::string& revision,
                         std::int64_t ordinal) {
  json::Value pod = pod_of_template(pod_template, kStatefulSetKind, set);
  const std::string name = set.metadata.name + "-" + std::to_string(ordinal);
  pod.ensure_path({"metadata", "name"}) = name;
  pod.ensure_path({"metadata", "generateName"}) = set.metadata.name + "-";
  pod.ensure_path({"metadata", "labels", stateful_keys::kRevision}) = revision;
  pod.ensure_path({"metadata", "labels", stateful_keys::kPodName}) = name;
  pod.ensure_path({"metadata", "labels", stateful_keys::kPodIndex}) = std::to_string(ordinal);
  pod.ensure_path({"spec", "hostname"}) = name;
  if (const auto service = set.json.string_at({"spec", "serviceName"}); !service.empty())
    pod.ensure_path({"spec", "subdomain"}) = service;
  if (claim_templates(set).empty()) return pod;
  json::Value& volumes = pod.ensure_path({"spec", "volumes"});
  if (!volumes.is_array()) volumes = json::Array();
  for (const json::Value& claim : claim_templates(set)) {
    const std::string_view volume = claim.string_at({"metadata", "name"});
    std::erase_if(volumes.as_array(), [&](const json::Value& item) { return item.string_at({"name"}) == volume; });
    volumes.as_array().emplace_back(json::Object{
        {"name", volume}, {"persistentVolumeClaim", json::Object{{"claimName", claim_name(claim, set, ordinal)}}}});
  }
  return pod;
}

Done StatefulSetController::ensure_claims(const Object& set, std::int64_t ordinal, const rt::StopToken& stop) {
  for (const json::Value& claim_template : claim_templates(set)) {
    const std::string name = claim_name(claim_template, set, ordinal);
    const auto existing = context_.caches.claims.get({set.metadata.namespace_, name});
    if (existing && existing->metadata.is_being_deleted)
      return Error::make(Reason::ServiceUnavailable, "the claim " + name + " of an earlier pod is being deleted");
    if (existing) continue;
    const auto created = writer_.create(set.key(), resources::kClaims, claim_of(set, claim_template, ordinal), stop);
    if (created.ok()) {
      tell(set, kube::EventType::Normal, "SuccessfulCreate", "Created claim: " + name);
    } else if (!created.error().is(Reason::AlreadyExists)) {
      return created.error().with_context("claim " + name + " could not be made");
    }
  }
  return Ok{};
}

// spec.persistentVolumeClaimRetentionPolicy.whenDeleted: the claims go with the set, or stay.
Done StatefulSetController::keep_claim_owners(const Object& set, const std::vector<PodPtr>& pods,
                                              const rt::StopToken& stop) {
  const bool owns = deletes_claims(set, "whenDeleted");
  std::vector<Writer::Patch> patches;
  for (const PodPtr& pod : pods) {
    const auto ordinal = ordinal_of(set.metadata.name, pod->metadata.name);
    for (const json::Value& claim_template : claim_templates(set)) {
      if (!ordinal) break;
      const auto claim =
          context_.caches.claims.get({set.metadata.namespace_, claim_name(claim_template, set, *ordinal)});
      // What goes with a pod that is scaled away is no longer the set's.
      if (!claim || claim->metadata.is_being_deleted || has_owner(*claim, pod->metadata.uid)) continue;
      if (has_owner(*claim, set.metadata.uid) == owns) continue;
      patches.push_back(
          owner_patch(*claim, owns ? owner_of_claim(kStatefulSetKind, set.metadata.name, set.metadata.uid)
                                   : json::Value(json::Object{{"$patch", "delete"}, {"uid", set.metadata.uid}})));
    }
  }
  return writer_.patch_all(set.key(), resources::kClaims, patches, stop);
}

// ... whenScaled: they go with the pod that is scaled away.
Done StatefulSetController::hand_claims_to_pods(const Object& set, const std::vector<PodPtr>& pods,
                                                const rt::StopToken& stop) {
  if (!deletes_claims(set, "whenScaled")) return Ok{};
  std::vector<Writer::Patch> patches;
  for (const PodPtr& pod : pods) {
    const auto ordinal = ordinal_of(set.metadata.name, pod->metadata.name);
    for (const json::Value& claim_template : claim_templates(set)) {
      const auto claim =
          context_.caches.claims.get({set.metadata.namespace_, claim_name(claim_template, set, *ordinal)});
      if (!claim || has_owner(*claim, pod->metadata.uid)) continue;
      // The set would keep it: an object goes when its last owner does.
      Writer::Patch patch = owner_patch(*claim, owner_of_claim({"v1", "Pod"}, pod->metadata.name, pod->metadata.uid));
      if (has_owner(*claim, set.metadata.uid))
        patch.body.find_path({"metadata", "ownerReferences"})
            ->as_array()
            .emplace_back(json::Object{{"$patch", "delete"}, {"uid", set.metadata.uid}});
      patches.push_back(std::move(patch));
    }
  }
  return writer_.patch_all(set.key(), resources::kClaims, patches, stop);
}

}  // namespace basalt::workloads
