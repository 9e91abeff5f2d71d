#include "apiserver/registry/generic_strategy.h"

#include "api/duration.h"
#include "apiserver/registry/metadata.h"

namespace basalt::apiserver {
namespace {

// Makes `object`'s member what it is in `old`, absent included.
void keep_member(json::Value& object, const json::Value& old, std::string_view key) {
  const json::Value* kept = old.find(key);
  if (kept != nullptr) {
    object.as_object().set(key, *kept);
  } else {
    object.as_object().erase(key);
  }
}

// What others say about an object, besides whoever looks after it.
constexpr std::string_view kTags[] = {"annotations", "labels"};

json::Value taken_tags(json::Value& object) {
  json::Object tags;
  json::Value* metadata = object.find("metadata");
  for (const std::string_view key : kTags) {
    json::Value* value = metadata != nullptr ? metadata->find(key) : nullptr;
    if (value != nullptr) tags.set(key, std::move(*value));
  }
  return tags;
}

}  // namespace

void GenericStrategy::prune(json::Value&, std::vector<std::string>*) const {}

void GenericStrategy::apply_defaults(json::Value&) const {}

void GenericStrategy::prepare_for_create(json::Value& object) const {
  if (has_status_) object.as_object().erase("status");
}

void GenericStrategy::prepare_for_update(json::Value& object, const json::Value& old, WritePart part) const {
  if (part == WritePart::Internal || !has_status_) return;
  if (part == WritePart::Main) {
    keep_member(object, old, "status");
    return;
  }
  // A status write changes the status and, of built-in kinds, labels and annotations; the version it names is checked
  // elsewhere.
  const bool carries_tags = schema() == nullptr;
  const json::Value tags = carries_tags ? taken_tags(object) : json::Value();
  std::vector<json::Member> members;
  members.reserve(old.as_object().size() + 1);
  for (const json::Member& member : old.as_object()) {
    if (member.key != "status") members.push_back(member);
  }
  json::Value* status = object.find("status");
  json::Value kept = status != nullptr ? std::move(*status) : json::Value();
  const bool has_status = status != nullptr;
  object = json::Object::of_sorted(std::move(members));
  if (has_status) object.as_object().set("status", std::move(kept));
  json::Value* metadata = object.find("metadata");
  for (const std::string_view key : kTags) {
    if (carries_tags && metadata != nullptr && metadata->is_object()) keep_member(*metadata, tags, key);
  }
}

void GenericStrategy::validate_create(const json::Value&, Causes&) const {}

void GenericStrategy::validate_update(const json::Value&, const json::Value&, WritePart, Causes&) const {}

bool GenericStrategy::raises_generation(const json::Value& object, const json::Value& old) const {
  const json::Value* spec = object.find("spec");
  const json::Value* old_spec = old.find("spec");
  if (spec == nullptr || old_spec == nullptr) return spec != old_spec;
  return *spec != *old_spec;
}

std::vector<std::pair<std::string, std::string>> GenericStrategy::selectable_fields(const json::Value&) const {
  return {};
}

bool GenericStrategy::is_selectable(std::string_view) const { return false; }

json::Array GenericStrategy::table_cells(const json::Value& object, std::span<const PrinterColumn> columns,
                                         api::Time now) const {
  json::Array cells;
  for (const PrinterColumn& column : columns) {
    if (column.name == "Name") {
      cells.emplace_back(metadata_text(object, "name"));
    } else {
      cells.emplace_back(age_cell(metadata_text(object, "creationTimestamp"), now));
    }
  }
  return cells;
}

json::Value age_cell(std::string_view timestamp, api::Time now) {
  const auto since = api::Time::parse(timestamp);
  if (timestamp.empty() || !since.ok()) return "<unknown>";
  return api::human_duration(now - *since);
}

std::int64_t GenericStrategy::default_grace_seconds(const json::Value&) const { return 0; }

void GenericStrategy::mark_deleting(json::Value&) const {}

bool GenericStrategy::holds_deletion(const json::Value&) const { return false; }

}  // namespace basalt::apiserver
