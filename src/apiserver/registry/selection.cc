#include "apiserver/registry/selection.h"

#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

using FieldValues = std::vector<std::pair<std::string, std::string>>;

std::string_view value_in(const FieldValues& values, std::string_view field) {
  for (const auto& [name, value] : values) {
    if (name == field) return value;
  }
  return {};
}

}  // namespace

Result<Selection> Selection::parse(const ResourceType& type, std::string_view labels, std::string_view fields) {
  Selection selection;
  if (!labels.empty()) {
    auto parsed = api::Selector::parse(labels);
    if (!parsed.ok()) return bad_request("unable to parse requirement: " + parsed.error().message);
    selection.labels_ = std::move(*parsed);
  }
  if (!fields.empty()) {
    auto parsed = api::FieldSelector::parse(fields);
    if (!parsed.ok()) return bad_request(parsed.error().message);
    selection.fields_ = std::move(*parsed);
    for (const auto& term : selection.fields_.terms()) {
      const bool is_name = term.field == "metadata.name" || (type.namespaced && term.field == "metadata.namespace");
      if (!is_name && !type.strategy->is_selectable(term.field)) {
        return bad_request("Unable to find " + base::quote(type.api_version() + ", Resource=" + type.plural) +
                           " that match label selector " + base::quote(labels) + ", field selector " +
                           base::quote(fields) + ": field label not supported: " + term.field);
      }
    }
    if (type.conversion != nullptr) {
      auto terms = selection.fields_.terms();
      for (auto& term : terms) term.field = type.conversion->storage_field(term.field);
      selection.fields_ = api::FieldSelector::of(std::move(terms));
    }
  }
  if (type.strategy->schema() != nullptr) selection.custom_ = type.strategy;
  if (type.converter) {
    std::vector<api::FieldSelector::Term> of_entry;
    std::vector<api::FieldSelector::Term> of_object;
    for (const auto& term : selection.fields_.terms())
      (term.field.starts_with("metadata.") ? of_entry : of_object).push_back(term);
    selection.fields_ = api::FieldSelector::of(std::move(of_entry));
    selection.object_fields_ = api::FieldSelector::of(std::move(of_object));
  }
  selection.matches_all_ =
      selection.labels_.is_everything() && selection.fields_.is_everything() && !selection.needs_object();
  return selection;
}

bool Selection::matches(const Entry& entry) const {
  if (matches_all_) return true;
  const Attributes attributes = entry.attributes();
  if (!labels_.matches_with([&](std::string_view key) { return attributes.label(key); })) return false;
  FieldValues read;
  return fields_.matches_with([&](std::string_view field) -> std::string_view {
    if (field == "metadata.name") return entry.name();
    if (field == "metadata.namespace") return entry.ns();
    if (const auto packed = attributes.field(field)) return *packed;
    // Written in another version, or before its CRD had the field.
    if (custom_ && read.empty()) {
      if (const auto object = json::Value::parse(*entry.object()); object.ok())
        read = custom_->selectable_fields(*object);
    }
    return value_in(read, field);
  });
}

bool Selection::matches_object(const json::Value& object) const {
  if (!needs_object()) return true;
  const FieldValues read = custom_ ? custom_->selectable_fields(object) : FieldValues();
  return object_fields_.matches_with([&](std::string_view field) { return value_in(read, field); });
}

void index_object(const ResourceType& type, const json::Value& object, AttributesWriter& attributes) {
  attributes.reset(metadata_text(object, "uid"));
  if (const json::Value* labels = object.find_path({"metadata", "labels"}); labels != nullptr && labels->is_object()) {
    for (const json::Member& label : labels->as_object()) {
      if (label.value.is_string()) attributes.add_label(label.key, label.value.as_string());
    }
  }
  if (type.converter) return;  // its fields are not those of what is stored
  for (const auto& [path, value] : type.strategy->selectable_fields(object)) attributes.add_field(path, value);
}

std::string storage_api_version(const ResourceType& type) {
  const std::string& group = type.storage_group ? *type.storage_group : type.group;
  return group.empty() ? type.storage_version : group + "/" + type.storage_version;
}

}  // namespace basalt::apiserver
