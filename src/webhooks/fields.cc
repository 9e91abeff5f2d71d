#include "webhooks/fields.h"

#include <cmath>

#include "api/names.h"
#include "base/strings.h"
#include "webhooks/review.h"

namespace basalt::webhooks {

std::string Path::text() const {
  std::string out;
  append_to(out);
  return out;
}

std::string Path::text(std::string_view member) const {
  std::string out;
  append_to(out);
  if (!out.empty()) out.push_back('.');
  return out.append(member);
}

void Path::append_to(std::string& out) const {
  if (parent_ != nullptr) parent_->append_to(out);
  if (index_ == kMember) {
    if (!out.empty()) out.push_back('.');
    out.append(name_);
  } else if (index_ == kKey) {
    out.append("[").append(name_).append("]");
  } else {
    out.append("[").append(std::to_string(index_)).append("]");
  }
}

const json::Value* member(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string_view text_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string()) : std::string_view();
}

std::optional<std::int64_t> int_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_int()) return value->as_int();
  if (value->is_double() && std::abs(value->as_double()) < 9e15 &&
      value->as_double() == std::floor(value->as_double())) {
    return static_cast<std::int64_t>(value->as_double());
  }
  return std::nullopt;
}

bool flag_at(const json::Value& object, std::string_view name) {
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_bool() && value->as_bool();
}

const json::Array& list_at(const json::Value& object, std::string_view name) {
  static const json::Array kNone;
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_array() ? value->as_array() : kNone;
}

const json::Object& map_at(const json::Value& object, std::string_view name) {
  static const json::Object kNone;
  const json::Value* value = object.find(name);
  return value != nullptr && value->is_object() ? value->as_object() : kNone;
}

const json::Value& spec_of(const json::Value& object) {
  static const json::Value kNone{json::Object()};
  const json::Value* spec = object.find("spec");
  return spec != nullptr && spec->is_object() ? *spec : kNone;
}

Result<api::Quantity> quantity_of(const json::Value& value) {
  if (value.is_string()) return api::Quantity::parse(value.as_string());
  if (value.is_number()) return api::Quantity::parse(value.to_text());
  return Error::invalid_input("expected a quantity, found " + std::string(value.type_name()));
}

std::string name_of(const json::Value& object) {
  const std::string_view name = object.string_at({"metadata", "name"});
  if (!name.empty()) return std::string(name);
  const std::string_view prefix = object.string_at({"metadata", "generateName"});
  return prefix.empty() ? std::string() : std::string(prefix) + "xxxxx";  // the server adds five characters
}

std::string shown(std::string_view text) { return base::quote(base::ellipsize(text, kShownBytesMax)); }

std::string shown(const json::Value& value) {
  if (value.is_string()) return shown(std::string_view(value.as_string()));
  return base::ellipsize(value.to_text(), kShownBytesMax);
}

void Problems::add(std::string field, std::string message, std::string_view type) {
  if (is_full()) {
    ++dropped_;
    return;
  }
  causes_.push_back({std::string(type), std::move(message), std::move(field)});
}

void Problems::invalid(std::string field, std::string value, std::string_view rule) {
  add(std::move(field), "Invalid value: " + std::move(value) + ": " + std::string(rule));
}

void Problems::invalid(std::string field, std::string_view value, std::span<const std::string> rules) {
  for (const std::string& rule : rules) invalid(field, shown(value), rule);
}

void Problems::required(std::string field, std::string_view what) {
  add(std::move(field), what.empty() ? "Required value" : "Required value: " + std::string(what), "FieldValueRequired");
}

void Problems::duplicate(std::string field, std::string_view value) {
  add(std::move(field), "Duplicate value: " + shown(value), "FieldValueDuplicate");
}

void Problems::forbidden(std::string field, std::string_view rule) {
  add(std::move(field), "Forbidden: " + std::string(rule), "FieldValueForbidden");
}

void Problems::not_found(std::string field, std::string_view value, std::span<const std::string_view> candidates) {
  add(std::move(field), "Not found: " + shown(value) + base::did_you_mean(value, candidates), "FieldValueNotFound");
}

void Problems::one_of(std::string field, std::string_view value, std::span<const std::string_view> allowed) {
  if (value.empty()) return;
  std::string list;
  for (const std::string_view word : allowed) {
    if (word == value) return;
    list.append(list.empty() ? "\"" : ", \"").append(word).append("\"");
  }
  add(std::move(field),
      "Unsupported value: " + shown(value) + ": supported values: " + list + base::did_you_mean(value, allowed),
      "FieldValueNotSupported");
}

void Problems::too_many(std::string field, std::size_t count, std::size_t max) {
  add(std::move(field), "Too many: " + std::to_string(count) + ": must have at most " + std::to_string(max) + " items",
      "FieldValueTooMany");
}

std::string Problems::text(std::string_view separator) const {
  std::string out;
  for (const Cause& cause : causes_) {
    if (!out.empty()) out.append(separator);
    if (!cause.field.empty()) out.append(cause.field).append(": ");
    out.append(cause.message);
  }
  if (dropped_ > 0) {
    out.append(separator).append("and ").append(std::to_string(dropped_)).append(" more problems");
  }
  return out;
}

void Problems::deny_if_any(ReviewAnswer& answer) const {
  if (empty()) return;
  answer.deny(text());
  answer.causes = causes_;
}

json::Value add_operation(std::string path, json::Value value) {
  return json::Object{{"op", "add"}, {"path", std::move(path)}, {"value", std::move(value)}};
}

void ensure_object(const json::Value& object, std::string_view name, json::Array& patch) {
  if (member(object, name) == nullptr) patch.push_back(add_operation("/" + std::string(name), json::Object()));
}

}  // namespace basalt::webhooks
