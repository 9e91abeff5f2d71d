#include "apiserver/builtin/fields.h"

#include <algorithm>

#include "api/labels.h"
#include "api/names.h"
#include "api/quantity.h"
#include "apiserver/registry/generic_strategy.h"
#include "apiserver/registry/metadata.h"
#include "base/sort.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

const json::Array& no_list() {
  static const json::Array list;
  return list;
}

const json::Object& no_map() {
  static const json::Object map;
  return map;
}

bool is_unset(const json::Value* value) { return value == nullptr || value->is_null(); }

bool is_empty_member(const json::Member& one) {
  if (one.value.is_null()) return true;
  if (one.value.is_array()) return one.value.as_array().empty();
  if (!one.value.is_object() || !one.value.as_object().empty()) return false;
  constexpr std::string_view kMaps[] = {"annotations", "binaryData",   "data",     "labels",   "limits",
                                        "matchLabels", "nodeSelector", "overhead", "requests", "stringData"};
  return std::find(std::begin(kMaps), std::end(kMaps), one.key) != std::end(kMaps);
}

std::string joined(std::initializer_list<std::string_view> path) { return base::join(path, "."); }

}  // namespace

void FieldPath::append_to(std::string& out) const {
  if (parent_ != nullptr) parent_->append_to(out);
  if (index_ == kMember) {
    if (!out.empty()) out += '.';
    out += name_;
    return;
  }
  out += '[';
  if (index_ == kKey) {
    out += name_;
  } else {
    out += std::to_string(index_);
  }
  out += ']';
}

std::string FieldPath::text() const {
  std::string out;
  append_to(out);
  return out;
}

std::string FieldPath::text(std::string_view member) const { return child(member).text(); }

const json::Value* member(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return is_unset(value) ? nullptr : value;
}

std::string_view text_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string()) : std::string_view();
}

std::optional<std::int64_t> int_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  if (value == nullptr || !value->is_int()) return std::nullopt;
  return value->as_int();
}

bool flag_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_bool() && value->as_bool();
}

const json::Array& list_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_array() ? value->as_array() : no_list();
}

const json::Object& map_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_object() ? value->as_object() : no_map();
}

json::Array* mutable_list(json::Value& object, std::string_view name) {
  json::Value* value = object.find(name);
  return value != nullptr && value->is_array() ? &value->as_array() : nullptr;
}

json::Object* mutable_map(json::Value& object, std::string_view name) {
  json::Value* value = object.find(name);
  return value != nullptr && value->is_object() ? &value->as_object() : nullptr;
}

const json::Array& list_at(const json::Value& object, std::initializer_list<std::string_view> path) {
  const json::Value* value = object.find_path(path);
  return value != nullptr && value->is_array() ? value->as_array() : no_list();
}

const json::Object& map_at(const json::Value& object, std::initializer_list<std::string_view> path) {
  const json::Value* value = object.find_path(path);
  return value != nullptr && value->is_object() ? value->as_object() : no_map();
}

std::int64_t int_at(const json::Value& object, std::initializer_list<std::string_view> path) {
  const json::Value* value = object.find_path(path);
  return value != nullptr && value->is_int() ? value->as_int() : 0;
}

void set_default(json::Object& object, std::string_view name, json::Value value) {
  json::Value& place = object[name];
  if (place.is_null()) place = std::move(value);
}

void set_default_text(json::Object& object, std::string_view name, std::string_view value) {
  json::Value& place = object[name];
  if (place.is_null() || (place.is_string() && place.as_string().empty())) place = value;
}

void set_default_int(json::Object& object, std::string_view name, std::int64_t value) {
  json::Value& place = object[name];
  if (place.is_null() || (place.is_int() && place.as_int() == 0)) place = value;
}

json::Object* ensure_map(json::Object& object, std::string_view name) {
  json::Value& place = object[name];
  if (place.is_null()) place = json::Object();
  return place.is_object() ? &place.as_object() : nullptr;
}

void drop_empty(json::Value& value) {
  if (value.is_object()) {
    json::Object& members = value.as_object();
    bool has_empty = false;
    for (json::Member& one : members) {
      drop_empty(one.value);
      has_empty = has_empty || is_empty_member(one);
    }
    if (has_empty) members.erase_if(is_empty_member);
  } else if (value.is_array()) {
    for (json::Value& item : value.as_array()) drop_empty(item);
  }
}

// Digits without a leading zero, and at most three of them before a suffix: such a quantity prints as it reads. Spares
// most lists the way through a number and back.
bool is_plain_quantity(std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() && base::is_digit(text[digits])) ++digits;
  if (digits == 0 || digits > 15 || (text[0] == '0' && text.size() > 1)) return false;
  const std::string_view suffix = text.substr(digits);
  if (suffix.empty()) return digits <= 3 || !text.ends_with("000");
  if (digits > 3) return false;
  return suffix == "m" || suffix == "Ki" || suffix == "Mi" || suffix == "Gi" || suffix == "Ti";
}

void normalise_quantities(json::Object& list) {
  for (json::Member& one : list) {
    if (one.value.is_string() && is_plain_quantity(one.value.as_string())) continue;
    if (!one.value.is_string() && !one.value.is_number()) continue;
    const auto quantity = api::Quantity::parse(one.value.is_string() ? one.value.as_string() : one.value.to_text());
    if (quantity.ok()) one.value = quantity->canonical();
  }
}

void add_invalid(Causes& causes, std::string field, std::string_view value, std::span<const std::string> complaints) {
  for (const std::string& complaint : complaints) causes.push_back(invalid_value(field, base::quote(value), complaint));
}

Cause not_found_value(std::string field, std::string_view value) {
  return Cause{"FieldValueNotFound", "Not found: " + base::quote(value), std::move(field)};
}

Cause immutable_field(std::string field, const json::Value* value) {
  return invalid_value(std::move(field), value == nullptr ? "null" : shown(*value), "field is immutable");
}

void check_dns_label(std::string_view value, const FieldPath& path, Causes& causes) {
  if (api::is_dns1123_label(value)) return;
  add_invalid(causes, path.text(), value, api::dns1123_label_complaints(value));
}

void check_dns_subdomain(std::string_view value, const FieldPath& path, Causes& causes) {
  if (api::is_dns1123_subdomain(value)) return;
  add_invalid(causes, path.text(), value, api::dns1123_subdomain_complaints(value));
}

void check_qualified_name(std::string_view value, const FieldPath& path, Causes& causes) {
  if (api::is_qualified_name(value)) return;
  add_invalid(causes, path.text(), value, api::qualified_name_complaints(value));
}

void check_label_value(std::string_view value, const FieldPath& path, Causes& causes) {
  if (api::is_label_value(value)) return;
  add_invalid(causes, path.text(), value, api::label_value_complaints(value));
}

void check_port(std::int64_t port, const FieldPath& path, Causes& causes) {
  if (port >= 1 && port <= 65535) return;
  for (const std::string& complaint : api::port_number_complaints(port)) {
    causes.push_back(invalid_value(path.text(), std::to_string(port), complaint));
  }
}

void check_port_or_name(const json::Value* port, const FieldPath& path, Causes& causes) {
  if (port != nullptr && port->is_string()) {
    if (api::is_port_name(port->as_string())) return;
    add_invalid(causes, path.text(), port->as_string(), api::port_name_complaints(port->as_string()));
    return;
  }
  check_port(port != nullptr && port->is_int() ? port->as_int() : 0, path, causes);
}

void check_not_negative(const json::Value& object, std::string_view name, const FieldPath& path, Causes& causes) {
  const auto value = int_at(object, name);
  if (!value || *value >= 0) return;
  causes.push_back(invalid_value(path.text(name), std::to_string(*value), "must be greater than or equal to 0"));
}

void check_one_of(std::string_view value, const FieldPath& path, std::span<const std::string_view> allowed,
                  Causes& causes) {
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  if (value.empty()) {
    causes.push_back(required(path.text()));
  } else {
    causes.push_back(not_supported(path.text(), base::quote(value), allowed));
  }
}

void check_label_map(const json::Object& labels, const FieldPath& path, Causes& causes) {
  for (const json::Member& label : labels) {
    check_qualified_name(label.key, path, causes);
    if (label.value.is_string()) {
      check_label_value(label.value.as_string(), path, causes);
    } else {
      causes.push_back(wrong_type(path.key(label.key).text(), shown(label.value), "must be a string"));
    }
  }
}

void check_label_selector(const json::Value& selector, const FieldPath& path, Causes& causes) {
  check_label_map(map_at(selector, "matchLabels"), path.child("matchLabels"), causes);
  const FieldPath expressions = path.child("matchExpressions");
  const json::Array& list = list_at(selector, "matchExpressions");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const FieldPath at = expressions.index(i);
    const json::Array& values = list_at(list[i], "values");
    const std::string_view op = text_at(list[i], "operator");
    if (op == "In" || op == "NotIn") {
      if (values.empty()) {
        causes.push_back(required(at.text("values"), "must be specified when `operator` is 'In' or 'NotIn'"));
      }
    } else if (op == "Exists" || op == "DoesNotExist") {
      if (!values.empty()) {
        causes.push_back(
            forbidden_field(at.text("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
      }
    } else {
      causes.push_back(invalid_value(at.text("operator"), base::quote(op), "not a valid selector operator"));
    }
    check_qualified_name(text_at(list[i], "key"), at.child("key"), causes);
    const FieldPath values_path = at.child("values");
    for (std::size_t j = 0; j < values.size(); ++j) {
      if (values[j].is_string()) check_label_value(values[j].as_string(), values_path.index(j), causes);
    }
  }
}

bool differs(const json::Value& object, const json::Value& old, std::initializer_list<std::string_view> path) {
  const json::Value* now = object.find_path(path);
  const json::Value* before = old.find_path(path);
  if (is_unset(now) || is_unset(before)) return is_unset(now) != is_unset(before);
  return *now != *before;
}

void check_immutable(const json::Value& object, const json::Value& old, std::initializer_list<std::string_view> path,
                     Causes& causes) {
  if (differs(object, old, path)) causes.push_back(immutable_field(joined(path), object.find_path(path)));
}

std::string label_text(const json::Object& labels) {
  std::string text;
  for (const json::Member& label : labels) {
    if (!text.empty()) text += ',';
    text += label.key + "=" + (label.value.is_string() ? label.value.as_string() : "");
  }
  return or_none(text);
}

std::string selector_cell(const json::Value* selector) {
  if (selector == nullptr) return "<none>";
  std::vector<std::pair<std::string, std::string>> terms;
  for (const json::Member& label : map_at(*selector, "matchLabels")) {
    terms.emplace_back(label.key, label.key + "=" + (label.value.is_string() ? label.value.as_string() : ""));
  }
  for (const json::Value& term : list_at(*selector, "matchExpressions")) {
    const std::string key(text_at(term, "key"));
    const std::string_view op = text_at(term, "operator");
    std::vector<std::string> values;
    for (const json::Value& value : list_at(term, "values")) {
      if (value.is_string()) values.push_back(value.as_string());
    }
    std::sort(values.begin(), values.end());
    const std::string list = "(" + base::join(values, ",") + ")";
    if (op == "In") terms.emplace_back(key, key + " in " + list);
    if (op == "NotIn") terms.emplace_back(key, key + " notin " + list);
    if (op == "Exists") terms.emplace_back(key, key);
    if (op == "DoesNotExist") terms.emplace_back(key, "!" + key);
  }
  base::stable_sort(terms, [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string text;
  for (const auto& term : terms) text += (text.empty() ? "" : ",") + term.second;
  return or_none(text);
}

std::string or_none(std::string_view text) { return text.empty() ? "<none>" : std::string(text); }

json::Value age_of(const json::Value& object, api::Time now) {
  return age_cell(metadata_text(object, "creationTimestamp"), now);
}

PrinterColumn name_column() {
  return {"Name", "string", "name", "Name of the object, unique in its namespace.", "", 0};
}

PrinterColumn age_column() { return column("Age", "string", "How long ago the object was created."); }

PrinterColumn column(std::string_view name, std::string_view type, std::string_view description,
                     std::int32_t priority) {
  return {std::string(name), std::string(type), "", std::string(description), "", priority};
}

}  // namespace basalt::apiserver
