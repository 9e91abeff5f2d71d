#include "apiserver/registry/metadata.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/names.h"
#include "api/string_map.h"
#include "apiserver/registry/errors.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::array<std::string_view, 9> kTextMembers = {
    "name",     "generateName",      "namespace",         "uid",        "resourceVersion",
    "selfLink", "creationTimestamp", "deletionTimestamp", "clusterName"};

Error type_error(std::string_view key, const json::Value& value, std::string_view expected) {
  return bad_request("metadata." + std::string(key) + ": expected " + std::string(expected) + ", found " +
                     std::string(value.type_name()));
}

Done check_text_map(json::Object& metadata, std::string_view key) {
  json::Value* map = metadata.find(key);
  if (map == nullptr) return Ok{};
  if (map->is_null()) {
    metadata.erase(key);
    return Ok{};
  }
  if (!map->is_object()) return type_error(key, *map, "an object");
  for (const json::Member& member : map->as_object()) {
    if (!member.value.is_string()) {
      return type_error(std::string(key) + "." + member.key, member.value, "a string");
    }
  }
  return Ok{};
}

Done check_list(json::Object& metadata, std::string_view key, bool of_strings) {
  json::Value* list = metadata.find(key);
  if (list == nullptr) return Ok{};
  if (list->is_null() || (list->is_array() && list->as_array().empty())) {
    metadata.erase(key);
    return Ok{};
  }
  if (!list->is_array()) return type_error(key, *list, "an array");
  for (const json::Value& item : list->as_array()) {
    if (of_strings ? !item.is_string() : !item.is_object()) {
      return type_error(key, item, of_strings ? "strings" : "objects");
    }
  }
  return Ok{};
}

api::StringMap text_map(const json::Value& object, std::string_view key) {
  std::vector<api::StringMap::value_type> entries;
  if (const json::Value* map = object.find_path({"metadata", key}); map != nullptr && map->is_object()) {
    for (const json::Member& member : map->as_object()) {
      if (member.value.is_string()) entries.emplace_back(member.key, member.value.as_string());
    }
  }
  return api::StringMap::of(std::move(entries));
}

api::Complaints name_complaints(NameRule rule, std::string_view name) {
  switch (rule) {
    case NameRule::Subdomain:
      return api::dns1123_subdomain_complaints(name);
    case NameRule::Label:
      return api::dns1123_label_complaints(name);
    case NameRule::Dns1035Label:
      return api::dns1035_label_complaints(name);
    case NameRule::PathSegment:
      return api::path_segment_complaints(name);
  }
  return {};
}

void validate_names(const ResourceType& type, const json::Value& object, Causes& causes) {
  const std::string_view prefix = metadata_text(object, "generateName");
  const std::string_view name = metadata_text(object, "name");
  if (!prefix.empty()) {
    for (const std::string& complaint : name_complaints(type.name_rule, api::name_for_prefix_check(prefix))) {
      causes.push_back(invalid_value("metadata.generateName", base::quote(prefix), complaint));
    }
  }
  if (name.empty()) {
    causes.push_back(required("metadata.name", "name or generateName is required"));
    return;
  }
  for (const std::string& complaint : name_complaints(type.name_rule, name)) {
    causes.push_back(invalid_value("metadata.name", base::quote(name), complaint));
  }
}

void validate_owners(const json::Value& object, Causes& causes) {
  const json::Value* owners = object.find_path({"metadata", "ownerReferences"});
  if (owners == nullptr || !owners->is_array()) return;
  std::string controller;
  const json::Array& list = owners->as_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (const std::string_view key : {"apiVersion", "kind", "name", "uid"}) {
      if (!list[i].string_at({key}).empty()) continue;
      causes.push_back(invalid_value("metadata.ownerReferences." + std::string(key), "\"\"",
                                     key == "apiVersion" ? "version must not be empty" : "must not be empty"));
    }
    const json::Value* is_controller = list[i].find("controller");
    if (is_controller == nullptr || !is_controller->is_bool() || !is_controller->as_bool()) continue;
    if (!controller.empty()) {
      causes.push_back(invalid_value("metadata.ownerReferences", shown(*owners),
                                     "Only one reference can have Controller set to true. Found \"true\" in "
                                     "references for " +
                                         controller + " and " + std::string(list[i].string_at({"name"}))));
    }
    controller = std::string(list[i].string_at({"name"}));
  }
}

void validate_finalizers(const json::Value& object, Causes& causes) {
  const json::Value* finalizers = object.find_path({"metadata", "finalizers"});
  if (finalizers == nullptr || !finalizers->is_array()) return;
  for (const json::Value& finalizer : finalizers->as_array()) {
    for (const std::string& complaint : api::qualified_name_complaints(finalizer.as_string())) {
      causes.push_back(invalid_value("metadata.finalizers", shown(finalizer), complaint));
    }
  }
  if (has_finalizer(object, kOrphanFinalizer) && has_finalizer(object, kForegroundFinalizer)) {
    causes.push_back(invalid_value("metadata.finalizers", shown(*finalizers),
                                   "finalizer orphan and foregroundDeletion cannot be both set"));
  }
}

}  // namespace

Done check_metadata_types(json::Value& object) {
  json::Object& members = object.as_object();
  json::Value& metadata = members["metadata"];
  if (metadata.is_null()) metadata = json::Object();
  if (!metadata.is_object()) {
    return bad_request("metadata: expected an object, found " + std::string(metadata.type_name()));
  }
  json::Object& meta = metadata.as_object();
  for (const std::string_view key : kTextMembers) {
    json::Value* value = meta.find(key);
    if (value == nullptr) continue;
    if (value->is_null()) {
      meta.erase(key);
    } else if (!value->is_string()) {
      return type_error(key, *value, "a string");
    }
  }
  BASALT_TRY_DONE(check_text_map(meta, "labels"));
  BASALT_TRY_DONE(check_text_map(meta, "annotations"));
  BASALT_TRY_DONE(check_list(meta, "finalizers", true));
  BASALT_TRY_DONE(check_list(meta, "ownerReferences", false));
  return check_list(meta, "managedFields", false);
}

void validate_metadata(const ResourceType& type, const json::Value& object, Causes& causes) {
  validate_names(type, object, causes);
  api::check_labels(text_map(object, "labels"), "metadata.labels", causes);
  api::check_annotations(text_map(object, "annotations"), "metadata.annotations", causes);
  validate_owners(object, causes);
  validate_finalizers(object, causes);
}

void validate_metadata_update(const ResourceType& type, const json::Value& object, const json::Value& old,
                              Causes& causes) {
  (void)type;
  // What is as it was stored was valid.
  const auto has_changed = [&](std::string_view key) {
    const json::Value* now = object.find_path({"metadata", key});
    const json::Value* before = old.find_path({"metadata", key});
    return now != nullptr && (before == nullptr || *now != *before);
  };
  if (has_changed("labels")) api::check_labels(text_map(object, "labels"), "metadata.labels", causes);
  if (has_changed("annotations"))
    api::check_annotations(text_map(object, "annotations"), "metadata.annotations", causes);
  if (has_changed("ownerReferences")) validate_owners(object, causes);
  if (has_changed("finalizers")) validate_finalizers(object, causes);
  if (!is_being_deleted(old)) return;
  const json::Value* finalizers = object.find_path({"metadata", "finalizers"});
  if (finalizers == nullptr || !finalizers->is_array()) return;
  std::string added;
  for (const json::Value& finalizer : finalizers->as_array()) {
    if (has_finalizer(old, finalizer.as_string())) continue;
    added += (added.empty() ? "" : ", ") + base::quote(finalizer.as_string());
  }
  if (!added.empty()) {
    causes.push_back(forbidden_field("metadata.finalizers",
                                     "no new finalizers can be added if the object is being deleted, found new "
                                     "finalizers []string{" +
                                         added + "}"));
  }
}

std::string_view metadata_text(const json::Value& object, std::string_view key) {
  return object.string_at({"metadata", key});
}

bool has_finalizers(const json::Value& object) {
  const json::Value* list = object.find_path({"metadata", "finalizers"});
  return list != nullptr && list->is_array() && !list->as_array().empty();
}

bool has_finalizer(const json::Value& object, std::string_view finalizer) {
  const json::Value* list = object.find_path({"metadata", "finalizers"});
  return list != nullptr && list->is_array() &&
         std::any_of(list->as_array().begin(), list->as_array().end(),
                     [&](const json::Value& item) { return item.is_string() && item.as_string() == finalizer; });
}

bool is_being_deleted(const json::Value& object) { return !metadata_text(object, "deletionTimestamp").empty(); }

void keep_system_metadata(json::Value& object, const json::Value& old) {
  json::Object& metadata = object.as_object()["metadata"].as_object();
  for (const std::string_view key : {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
                                     "generation", "generateName", "selfLink", "resourceVersion"}) {
    const json::Value* kept = old.find_path({"metadata", key});
    if (kept != nullptr) {
      metadata.set(key, *kept);
    } else {
      metadata.erase(key);
    }
  }
  metadata.erase("managedFields");
}

}  // namespace basalt::apiserver
