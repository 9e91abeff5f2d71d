#include "webhooks/resource_groups.h"

#include <algorithm>

#include "api/gen/names.h"
#include "webhooks/fields.h"
#include "yaml/reader.h"

namespace basalt::webhooks {
namespace {

constexpr std::size_t kGroupsMax = 1'000;

std::string annotation_of(const json::Value& pod, std::string_view key) {
  return std::string(pod.string_at({"metadata", "annotations", key}));
}

// Each string holds a YAML map of annotations; the first definition of a key wins.
Done read_annotations(const json::Array& texts, ResourceGroup& group) {
  for (const json::Value& text : texts) {
    if (!text.is_string()) continue;
    BASALT_TRY(const json::Value map, yaml::read(text.as_string()));
    if (!map.is_object()) {
      return Error::invalid_input("resource group " + shown(group.name) + ": object.value " + shown(text) +
                                  " is not a map `key: value`");
    }
    for (const auto& [key, value] : map.as_object()) {
      group.annotations.emplace(key, value.is_string() ? value.as_string() : value.to_text());
    }
  }
  return Ok{};
}

json::Array read_tolerations(const json::Array& list) {
  json::Array tolerations;
  for (const json::Value& item : list) {
    if (!item.is_object()) continue;
    json::Object toleration;
    for (const std::string_view key : {"key", "operator", "value", "effect"}) {
      if (const json::Value* value = member(item, key)) toleration.set(key, *value);
    }
    // Some files spell it without the capital letter.
    for (const std::string_view key : {"tolerationSeconds", "tolerationseconds"}) {
      if (const json::Value* value = member(item, key)) toleration.set("tolerationSeconds", *value);
    }
    tolerations.emplace_back(std::move(toleration));
  }
  return tolerations;
}

Result<ResourceGroup> read_group(const json::Value& entry) {
  ResourceGroup group;
  group.name = text_at(entry, "resourceGroup");
  group.scheduler_name = text_at(entry, "schedulerName");
  group.labels = map_at(entry, "labels");
  group.tolerations = read_tolerations(list_at(entry, "tolerations"));
  static const json::Value kNothing{json::Object()};
  const json::Value* found = member(entry, "object");
  const json::Value& object = found == nullptr ? kNothing : *found;
  const std::string_view key = text_at(object, "key");
  const json::Array& values = list_at(object, "value");
  if (key == "namespace") {
    group.match = ResourceGroup::Match::Namespace;
    for (const json::Value& value : values) {
      if (value.is_string()) group.namespaces.push_back(value.as_string());
    }
  } else if (key == "annotation" || key.empty()) {
    group.match = key.empty() ? ResourceGroup::Match::Either : ResourceGroup::Match::Annotation;
    BASALT_TRY_DONE(read_annotations(values, group));
  }
  if (const std::string_view affinity = text_at(entry, "affinity"); !affinity.empty()) {
    auto value = json::Value::parse(affinity);
    if (!value.ok() || !value->is_object()) {
      return Error::invalid_input("resource group " + shown(group.name) + ": affinity is not a JSON object");
    }
    group.affinity = std::move(*value);
  }
  return group;
}

bool has_annotation(const ResourceGroup& group, const json::Value& pod) {
  return std::any_of(group.annotations.begin(), group.annotations.end(), [&](const auto& wanted) {
    const json::Value* value = pod.find_path({"metadata", "annotations", wanted.first});
    return value != nullptr && value->is_string() && value->as_string() == wanted.second;
  });
}

}  // namespace

Result<ResourceGroupList> parse_resource_groups(std::string_view text) {
  BASALT_TRY(const json::Value document, yaml::read(text, {.size_bytes_max = 1 << 20}));
  ResourceGroupList groups;
  if (document.is_null()) return groups;
  if (!document.is_object()) return Error::invalid_input("the resource-group file is not a map with `resourceGroups`");
  const json::Array& entries = list_at(document, "resourceGroups");
  if (entries.size() > kGroupsMax) {
    return Error::invalid_input("the resource-group file has more than " + std::to_string(kGroupsMax) + " groups");
  }
  for (const json::Value& entry : entries) {
    BASALT_TRY(ResourceGroup group, read_group(entry));
    groups.push_back(std::move(group));
  }
  return groups;
}

Done ResourceGroups::replace(std::string_view text) {
  BASALT_TRY(ResourceGroupList groups, parse_resource_groups(text));
  auto snapshot = std::make_shared<const ResourceGroupList>(std::move(groups));
  const rt::MutexLock lock(mutex_);
  groups_ = std::move(snapshot);
  return Ok{};
}

const ResourceGroup* find_resource_group(const ResourceGroupList& groups, const json::Value& pod, std::string_view ns) {
  for (const ResourceGroup& group : groups) {
    switch (group.match) {
      case ResourceGroup::Match::Namespace:
        if (std::find(group.namespaces.begin(), group.namespaces.end(), ns) != group.namespaces.end()) return &group;
        break;
      case ResourceGroup::Match::Annotation:
        if (has_annotation(group, pod)) return &group;
        break;
      case ResourceGroup::Match::Either:
        if (has_annotation(group, pod)) return &group;
        if (!group.name.empty() && annotation_of(pod, api::keys::kResourceGroup) == group.name) return &group;
        break;
      case ResourceGroup::Match::Never:
        break;
    }
  }
  return nullptr;
}

}  // namespace basalt::webhooks
