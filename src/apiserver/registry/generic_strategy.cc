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
  // A status write changes the status and nothing else; the version it names is checked elsewhere.
  json::Value status_only = old;
  keep_member(status_only, object, "status");
  object = std::move(status_only);
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
