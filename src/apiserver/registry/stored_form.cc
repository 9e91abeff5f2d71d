#include "apiserver/registry/stored_form.h"

#include <utility>

#include "apiserver/crd/schema.h"
#include "apiserver/registry/selection.h"
#include "base/check.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kStart = "{\"apiVersion\":\"";

// How the stored text begins, always: object_text.h. "" if it does not.
std::string_view stored_api_version(std::string_view text) {
  if (!text.starts_with(kStart)) return {};
  const std::size_t end = text.find('"', kStart.size());
  return end == std::string_view::npos ? std::string_view() : text.substr(kStart.size(), end - kStart.size());
}

// Written before its definition was: it may lack what is a default now.
bool may_lack_defaults(const ResourceType& type, const Entry& entry) {
  const Schema* schema = type.strategy->schema();
  return schema != nullptr && entry.mod_revision() < schema->defaults_since;
}

void convert_plainly(const ResourceType& type, json::Value& object) {
  object.as_object().set("apiVersion", type.api_version());
  if (type.conversion != nullptr) type.conversion->from_storage(object);
}

// What an answer of a webhook becomes in the version that it is in: fields that the version does not have are dropped.
void complete(const ResourceType& type, const Entry& entry, json::Value& object) {
  type.strategy->prune(object, nullptr);
  if (may_lack_defaults(type, entry)) type.strategy->apply_defaults(object);
}

}  // namespace

std::string without_type(std::string_view text, const ResourceType& type) {
  std::string prefix;
  prefix.append(kStart).append(type.api_version()).append("\",\"kind\":\"").append(type.kind).append("\",");
  if (!text.starts_with(prefix)) {
    auto object = type.conversion != nullptr ? json::Value::parse(text) : Result<json::Value>(json::Value());
    if (!object.ok() || !object->is_object()) return std::string(text);
    object->as_object().erase("apiVersion");
    object->as_object().erase("kind");
    return object->to_text();
  }
  std::string rest = "{";
  return rest.append(text.substr(prefix.size()));
}

bool needs_converter(const ResourceType& type, const Entry& entry) {
  return type.converter != nullptr && stored_api_version(*entry.object()) != type.api_version();
}

Bytes present_plain(const ResourceType& type, const Entry& entry) {
  if (type.conversion != nullptr || may_lack_defaults(type, entry)) {
    auto object = json::Value::parse(*entry.object());
    if (BASALT_BUG(!object.ok())) return entry.object();
    convert_plainly(type, *object);
    if (type.conversion == nullptr) type.strategy->apply_defaults(*object);
    return kube::make_bytes(object->to_text());
  }
  const std::string_view text = *entry.object();
  const std::string wanted = type.api_version();
  const std::string_view stored = stored_api_version(text);
  if (stored.empty() || stored == wanted) return entry.object();
  std::string changed;
  changed.reserve(text.size() + wanted.size());
  changed.append(kStart).append(wanted).append(text.substr(kStart.size() + stored.size()));
  return std::make_shared<const std::string>(std::move(changed));
}

Result<Bytes> present(const ResourceType& type, const Entry& entry) {
  if (!needs_converter(type, entry)) return present_plain(type, entry);
  BASALT_TRY(const json::Value object, from_storage(type, entry));
  return kube::make_bytes(object.to_text());
}

Result<std::vector<Bytes>> present_all(const ResourceType& type, std::span<const EntryRef> entries,
                                       const rt::StopToken& stop) {
  std::vector<Bytes> shown;
  shown.reserve(entries.size());
  std::vector<json::Value> converted;
  std::vector<std::size_t> places;  // of those that are converted
  for (const EntryRef& entry : entries) {
    if (!needs_converter(type, *entry)) {
      shown.push_back(present_plain(type, *entry));
      continue;
    }
    BASALT_TRY(json::Value object, json::Value::parse(*entry->object()));
    places.push_back(shown.size());
    converted.push_back(std::move(object));
    shown.push_back(nullptr);
  }
  if (converted.empty()) return shown;
  BASALT_TRY_DONE(type.converter->convert(type.api_version(), converted, stop));
  for (std::size_t i = 0; i < places.size(); ++i) {
    complete(type, *entries[places[i]], converted[i]);
    shown[places[i]] = kube::make_bytes(converted[i].to_text());
  }
  return shown;
}

Result<json::Value> from_storage(const ResourceType& type, const Entry& entry) {
  BASALT_TRY(json::Value object, json::Value::parse(*entry.object()));
  if (!needs_converter(type, entry)) {
    convert_plainly(type, object);
    return object;
  }
  std::vector<json::Value> objects;
  objects.push_back(std::move(object));
  BASALT_TRY_DONE(type.converter->convert(type.api_version(), objects, {}));
  complete(type, entry, objects.front());
  return std::move(objects.front());
}

Done to_storage(const ResourceType& type, json::Value& object) {
  if (type.conversion != nullptr) type.conversion->to_storage(object);
  if (type.converter != nullptr && type.version != type.storage_version) {
    std::vector<json::Value> objects;
    objects.push_back(std::move(object));
    BASALT_TRY_DONE(type.converter->convert(storage_api_version(type), objects, {}));
    object = std::move(objects.front());
    if (type.storage_strategy) type.storage_strategy->prune(object, nullptr);
    return Ok{};
  }
  object.as_object().set("apiVersion", storage_api_version(type));
  return Ok{};
}

}  // namespace basalt::apiserver
