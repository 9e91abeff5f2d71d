#include "apiserver/crd/crd_strategy.h"

#include <algorithm>

#include "apiserver/crd/schema_rules.h"
#include "apiserver/registry/metadata.h"

namespace basalt::apiserver {
namespace {

std::string text_of(const json::Value& value) { return value.is_string() ? value.as_string() : value.to_text(); }

json::Value cell_of(const json::Value& value, const PrinterColumn& column, api::Time now) {
  if (column.type == "date") return value.is_string() ? age_cell(value.as_string(), now) : json::Value("<invalid>");
  if (column.type == "integer" || column.type == "number") return value.is_number() ? value : json::Value();
  if (column.type == "boolean") return value.is_bool() ? value : json::Value();
  return text_of(value);
}

}  // namespace

CrdStrategy::CrdStrategy(std::unique_ptr<const Schema> schema, bool has_status, std::vector<Field> selectable,
                         std::vector<JsonPath> columns)
    : GenericStrategy(has_status),
      schema_(std::move(schema)),
      selectable_(std::move(selectable)),
      columns_(std::move(columns)) {}

void CrdStrategy::prune(json::Value& object, std::vector<std::string>* unknown) const {
  prune_object(*schema_, object, true, unknown);
}

void CrdStrategy::apply_defaults(json::Value& object) const { default_object(*schema_, object); }

void CrdStrategy::validate_create(const json::Value& object, Causes& causes) const {
  validate_object(*schema_, object, "", causes);
  if (causes.empty()) validate_rules(*schema_, object, nullptr, causes);
}

void CrdStrategy::validate_update(const json::Value& object, const json::Value& old, WritePart, Causes& causes) const {
  validate_object(*schema_, object, "", causes);
  if (causes.empty()) validate_rules(*schema_, object, &old, causes);
}

bool CrdStrategy::raises_generation(const json::Value& object, const json::Value& old) const {
  const auto counts = [this](const json::Member& member) {
    return member.key != "metadata" && !(has_status() && member.key == "status");
  };
  const json::Object& now = object.as_object();
  const json::Object& before = old.as_object();
  if (std::count_if(now.begin(), now.end(), counts) != std::count_if(before.begin(), before.end(), counts)) return true;
  return std::any_of(now.begin(), now.end(), [&](const json::Member& member) {
    if (!counts(member)) return false;
    const json::Value* was = before.find(member.key);
    return was == nullptr || *was != member.value;
  });
}

std::vector<std::pair<std::string, std::string>> CrdStrategy::selectable_fields(const json::Value& object) const {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const Field& field : selectable_) {
    const auto found = field.path.find(object);
    fields.emplace_back(field.name, found.empty() ? std::string() : text_of(*found.front()));
  }
  return fields;
}

bool CrdStrategy::is_selectable(std::string_view field) const {
  for (const Field& one : selectable_) {
    if (one.name == field) return true;
  }
  return false;
}

json::Array CrdStrategy::table_cells(const json::Value& object, std::span<const PrinterColumn> columns,
                                     api::Time now) const {
  json::Array cells;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i == 0) {
      cells.emplace_back(metadata_text(object, "name"));
      continue;
    }
    const auto found = columns_[i - 1].find(object);
    cells.push_back(found.empty() ? json::Value() : cell_of(*found.front(), columns[i], now));
  }
  return cells;
}

}  // namespace basalt::apiserver
