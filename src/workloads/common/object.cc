#include "workloads/common/object.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "api/gen/meta.h"
#include "json/reader.h"

namespace basalt::workloads {
namespace {

void read_owner(const json::Value& metadata, Object::Metadata& out) {
  for (const json::Value& owner : list_at(metadata, {"ownerReferences"})) {
    if (!flag_at(owner, {"controller"})) continue;
    out.owner_uid = owner.string_at({"uid"});
    out.owner_kind = owner.string_at({"kind"});
    out.owner_name = owner.string_at({"name"});
  }
}

}  // namespace

void decode(json::Reader& reader, Object& object) {
  decode(reader, object.json);
  const json::Value* metadata = object.json.find("metadata");
  if (metadata == nullptr) return;
  Object::Metadata& out = object.metadata;
  out.name = metadata->string_at({"name"});
  out.namespace_ = metadata->string_at({"namespace"});
  out.uid = metadata->string_at({"uid"});
  out.resource_version = metadata->string_at({"resourceVersion"});
  out.creation = time_at(*metadata, {"creationTimestamp"});
  out.generation = int_at(*metadata, {"generation"});
  out.is_being_deleted = !metadata->string_at({"deletionTimestamp"}).empty();
  read_owner(*metadata, out);
}

Result<Object> object_of(const kube::Response& response) { return json::from_text<Object>(*response.body); }

std::int64_t int_at(const json::Value& value, Path path, std::int64_t fallback) {
  const json::Value* found = value.find_path(path);
  return found != nullptr && found->is_int() ? found->as_int() : fallback;
}

bool flag_at(const json::Value& value, Path path, bool fallback) {
  const json::Value* found = value.find_path(path);
  return found != nullptr && found->is_bool() ? found->as_bool() : fallback;
}

api::Time time_at(const json::Value& value, Path path) {
  const auto time = api::Time::parse(value.string_at(path));
  return time.ok() ? *time : api::Time();
}

const json::Array& list_at(const json::Value& value, Path path) {
  static const json::Array kNone;
  const json::Value* found = value.find_path(path);
  return found != nullptr && found->is_array() ? found->as_array() : kNone;
}

const json::Object& map_at(const json::Value& value, Path path) { return object_at(value, path).as_object(); }

const json::Value& object_at(const json::Value& value, Path path) {
  static const json::Value kNone{json::Object()};
  const json::Value* found = value.find_path(path);
  return found != nullptr && found->is_object() ? *found : kNone;
}

api::StringMap strings_at(const json::Value& value, Path path) {
  std::vector<api::StringMap::value_type> entries;
  for (const json::Member& member : map_at(value, path)) {
    if (member.value.is_string()) entries.emplace_back(member.key, member.value.as_string());
  }
  return api::StringMap::of(std::move(entries));
}

std::string_view annotation_of(const json::Value& object, std::string_view name) {
  return object.string_at({"metadata", "annotations", name});
}

Result<api::Selector> selector_at(const json::Value& value, Path path) {
  const json::Value* found = value.find_path(path);
  if (found == nullptr || !found->is_object()) return api::Selector::nothing();
  BASALT_TRY(const auto selector, json::from_text<api::meta::LabelSelector>(found->to_text()));
  return api::Selector::from(selector);
}

Result<api::Selector> selector_of(const Object& object, const OwnerKind& kind) {
  if (kind.kind != kReplicationControllerKind.kind) return selector_at(object.json, {"spec", "selector"});
  const json::Value as_others_have_it = json::Object{{"matchLabels", object_at(object.json, {"spec", "selector"})}};
  return selector_at(as_others_have_it, {});
}

json::Value controller_reference(const OwnerKind& kind, const Object& owner) {
  return json::Object{{"apiVersion", kind.api_version}, {"kind", kind.kind},  {"name", owner.metadata.name},
                      {"uid", owner.metadata.uid},      {"controller", true}, {"blockOwnerDeletion", true}};
}

const json::Value* find_condition(const json::Value& status, std::string_view type) {
  for (const json::Value& condition : list_at(status, {"conditions"})) {
    if (condition.string_at({"type"}) == type) return &condition;
  }
  return nullptr;
}

void set_condition(json::Value& status, const Condition& condition, api::Time now) {
  json::Value& list = status.ensure_path({"conditions"});
  if (!list.is_array()) list = json::Array();
  json::Array& conditions = list.as_array();
  const auto found = std::find_if(conditions.begin(), conditions.end(),
                                  [&](const json::Value& item) { return item.string_at({"type"}) == condition.type; });
  json::Value& item = found != conditions.end() ? *found : conditions.emplace_back(json::Object());
  if (item.string_at({"status"}) != condition.status) item.ensure_path({"lastTransitionTime"}) = now.to_string();
  item.ensure_path({"type"}) = condition.type;
  item.ensure_path({"status"}) = condition.status;
  item.ensure_path({"reason"}) = condition.reason;
  item.ensure_path({"message"}) = condition.message;
}

void remove_condition(json::Value& status, std::string_view type) {
  json::Value* list = status.find("conditions");
  if (list == nullptr || !list->is_array()) return;
  std::erase_if(list->as_array(), [&](const json::Value& item) { return item.string_at({"type"}) == type; });
  if (list->as_array().empty()) status.as_object().erase("conditions");
}

}  // namespace basalt::workloads
