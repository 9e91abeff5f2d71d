#include "controllers/podgroup/group_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/gen/names.h"
#include "api/owner.h"
#include "base/strings.h"
#include "controllers/podgroup/pod_usage.h"
#include "json/value.h"

namespace basalt::controllers::podgroup {
namespace {

using api::scheduling::NetworkTopologySpec;
using api::scheduling::PodGroup;
namespace keys = api::keys;

constexpr std::string_view kInheritedPrefix = "volcano.sh/";

std::int32_t min_member_of(const api::StringMap& owner_annotations) {
  const auto text = owner_annotations.find(keys::kGroupMinMember);
  if (!text) return 1;
  const auto number = base::parse_int64(*text);
  if (!number || *number < 0 || *number > std::numeric_limits<std::int32_t>::max()) return 1;
  return static_cast<std::int32_t>(*number);
}

std::optional<NetworkTopologySpec> topology_of(const api::core::Pod& pod, std::vector<std::string>& complaints) {
  namespace modes = api::scheduling::network_topology_mode;
  const auto mode = pod.metadata.annotations.find(keys::kNetworkTopologyMode);
  const auto tier = pod.metadata.annotations.find(keys::kNetworkTopologyHighestTier);
  if (!mode && !tier) return std::nullopt;
  NetworkTopologySpec topology;
  topology.mode = mode && base::equals_ignore_case_ascii(*mode, modes::kSoft) ? modes::kSoft : modes::kHard;
  if (!tier) return topology;
  const auto number = base::parse_int64(*tier);
  if (number && *number >= 0) {
    topology.highest_tier_allowed = *number;
  } else {
    complaints.push_back("annotation " + std::string(keys::kNetworkTopologyHighestTier) + " of pod " +
                         pod.metadata.name + " is \"" + std::string(*tier) +
                         "\" and not a number of 0 or more; it is left out");
  }
  return topology;
}

std::vector<api::meta::OwnerReference> owners_of(const api::core::Pod& pod) {
  if (api::controller_of(pod.metadata) != nullptr) return pod.metadata.owner_references;
  return {api::controller_reference(api::core::Pod::kind_info(), pod.metadata)};
}

json::Value map_patch(const api::StringMap& found, const api::StringMap& wanted) {
  json::Object changed;
  for (const auto [key, value] : wanted) {
    if (found.find(key) != value) changed.set(key, value);
  }
  return changed.empty() ? json::Value() : json::Value(std::move(changed));
}

}  // namespace

std::string group_name(std::string_view owner_uid) { return std::string(kGroupNamePrefix).append(owner_uid); }

PodGroup build_group(const api::core::Pod& pod, const api::StringMap& owner_annotations, api::Time now,
                     std::vector<std::string>& complaints) {
  const api::meta::OwnerReference* controller = api::controller_of(pod.metadata);
  PodGroup group;
  group.metadata.name = group_name(controller != nullptr ? controller->uid : pod.metadata.uid);
  group.metadata.namespace_ = pod.metadata.namespace_;
  group.metadata.owner_references = owners_of(pod);

  const api::StringMap& own = pod.metadata.annotations;
  std::vector<api::StringMap::value_type> annotations;
  for (const auto [key, value] : owner_annotations) {
    if (base::strip_prefix(key, kInheritedPrefix)) annotations.emplace_back(key, value);
  }
  const auto take_over = [&](std::string_view key) {
    const auto value = own.find(key);
    if (value) annotations.emplace_back(key, *value);
    return value.has_value();
  };
  take_over(keys::kPreemptable);
  take_over(keys::kCooldownTime);
  take_over(keys::kRevocableZone);
  if (!take_over(keys::kJdbMinAvailable)) take_over(keys::kJdbMaxUnavailable);
  group.metadata.annotations = api::StringMap::of(std::move(annotations));
  for (const std::string_view key : {keys::kPreemptable, keys::kCooldownTime}) {
    if (const auto value = pod.metadata.labels.find(key)) group.metadata.labels.set(key, *value);
  }

  group.spec.min_member = min_member_of(owner_annotations);
  group.spec.min_resources =
      group.spec.min_member == 0 ? api::ResourceList() : pod_usage(pod, now) * std::int64_t{group.spec.min_member};
  group.spec.priority_class_name = pod.spec.priority_class_name;
  group.spec.queue = std::string(own.get(keys::kPodQueueName));
  group.spec.network_topology = topology_of(pod, complaints);
  group.status.phase = api::scheduling::pod_group_phase::kPending;
  return group;
}

std::string group_patch(const PodGroup& found, const PodGroup& wanted) {
  json::Object spec;
  if (found.spec.min_member != wanted.spec.min_member) spec.set("minMember", wanted.spec.min_member);
  const api::ResourceList stored = found.spec.min_resources.value_or(api::ResourceList());
  const api::ResourceList next = wanted.spec.min_resources.value_or(api::ResourceList());
  if (stored != next) {
    json::Object resources;
    for (const auto& [name, amount] : stored) {
      if (!next.contains(name)) resources.set(name, nullptr);
    }
    for (const auto& [name, amount] : next) resources.set(name, amount.to_string());
    spec.set("minResources", std::move(resources));
  }
  const auto set_word = [&spec](std::string_view key, const std::string& old, const std::string& word) {
    if (!word.empty() && old != word) spec.set(key, word);
  };
  set_word("queue", found.spec.queue, wanted.spec.queue);
  set_word("priorityClassName", found.spec.priority_class_name, wanted.spec.priority_class_name);
  if (const auto& topology = wanted.spec.network_topology; topology && found.spec.network_topology != topology) {
    json::Object members{{"mode", topology->mode}};
    if (topology->highest_tier_allowed) {
      members.set("highestTierAllowed", *topology->highest_tier_allowed);
      members.set("highestTierName", nullptr);
    }
    spec.set("networkTopology", std::move(members));
  }
  json::Object metadata;
  if (json::Value labels = map_patch(found.metadata.labels, wanted.metadata.labels); !labels.is_null())
    metadata.set("labels", std::move(labels));
  if (json::Value annotations = map_patch(found.metadata.annotations, wanted.metadata.annotations);
      !annotations.is_null()) {
    metadata.set("annotations", std::move(annotations));
  }
  if (spec.empty() && metadata.empty()) return {};
  metadata.set("uid", found.metadata.uid);
  json::Object patch{{"metadata", std::move(metadata)}};
  if (!spec.empty()) patch.set("spec", std::move(spec));
  return json::Value(std::move(patch)).to_text();
}

std::string pod_patch(std::string_view pod_uid, std::string_view group) {
  json::Object metadata;
  metadata.set("uid", pod_uid);
  metadata.set("annotations", json::Object{{keys::kGroupName, group}});
  return json::Value(json::Object{{"metadata", std::move(metadata)}}).to_text();
}

}  // namespace basalt::controllers::podgroup
