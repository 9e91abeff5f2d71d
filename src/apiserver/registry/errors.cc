#include "apiserver/registry/errors.h"

#include "base/strings.h"

namespace basalt::apiserver {
namespace {

// A value in a message is cut here: clients and logs need its beginning, not a megabyte.
constexpr std::size_t kShownBytesMax = 256;

Error about(Reason reason, const ResourceType& type, std::string_view name, std::string message) {
  Error error = Error::make(reason, std::move(message));
  error.subject = {std::string(name), type.group, type.plural, ""};
  return error;
}

std::string resource_and_name(const ResourceType& type, std::string_view name) {
  return qualified_resource(type.group, type.plural) + " " + base::quote(name);
}

Cause make_cause(std::string_view type, std::string field, std::string message) {
  return Cause{std::string(type), std::move(message), std::move(field)};
}

}  // namespace

std::string qualified_resource(std::string_view group, std::string_view plural) {
  std::string text(plural);
  if (!group.empty()) text.append(".").append(group);
  return text;
}

Error no_such_resource() { return Error::make(Reason::NotFound, "the server could not find the requested resource"); }

Error not_found(const ResourceType& type, std::string_view name) {
  return about(Reason::NotFound, type, name, resource_and_name(type, name) + " not found");
}

Error already_exists(const ResourceType& type, std::string_view name) {
  return about(Reason::AlreadyExists, type, name, resource_and_name(type, name) + " already exists");
}

Error modified_conflict(const ResourceType& type, std::string_view name) {
  return conflict(type, name,
                  "the object has been modified; please apply your changes to the latest version and try again");
}

Error conflict(const ResourceType& type, std::string_view name, std::string_view why) {
  return about(Reason::Conflict, type, name,
               "Operation cannot be fulfilled on " + resource_and_name(type, name) + ": " + std::string(why));
}

Error forbidden(const ResourceType& type, std::string_view name, std::string_view why) {
  return about(Reason::Forbidden, type, name, resource_and_name(type, name) + " is forbidden: " + std::string(why));
}

Error invalid(const ResourceType& type, std::string_view name, Causes causes) {
  const std::string kind = type.group.empty() ? type.kind : type.kind + "." + type.group;
  std::string details;
  for (const Cause& one : causes) {
    if (!details.empty()) details += ", ";
    details += one.field.empty() ? one.message : one.field + ": " + one.message;
  }
  if (causes.size() > 1) details = "[" + details + "]";
  Error error = Error::make(Reason::Invalid, kind + " " + base::quote(name) + " is invalid: " + details);
  error.subject = {std::string(name), type.group, type.kind, ""};
  error.causes = std::move(causes);
  return error;
}

Error method_not_allowed(const ResourceType&, std::string_view) {
  return Error::make(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource");
}

Error bad_request(std::string message) { return Error::make(Reason::BadRequest, std::move(message)); }

Error invalid_options(Cause cause) {
  ResourceType options;
  options.group = "meta.k8s.io";
  options.kind = "ListOptions";
  return invalid(options, "", {std::move(cause)});
}

Error expired(std::string message) { return Error::make(Reason::Expired, std::move(message)); }

Cause required(std::string field, std::string_view detail) {
  std::string message = "Required value";
  if (!detail.empty()) message.append(": ").append(detail);
  return make_cause("FieldValueRequired", std::move(field), std::move(message));
}

Cause invalid_value(std::string field, std::string_view value, std::string_view detail) {
  return make_cause("FieldValueInvalid", std::move(field),
                    "Invalid value: " + std::string(value) + ": " + std::string(detail));
}

Cause forbidden_field(std::string field, std::string_view detail) {
  return make_cause("FieldValueForbidden", std::move(field), "Forbidden: " + std::string(detail));
}

Cause duplicate_value(std::string field, std::string_view value) {
  return make_cause("FieldValueDuplicate", std::move(field), "Duplicate value: " + std::string(value));
}

Cause not_supported(std::string field, std::string_view value, std::span<const std::string_view> allowed) {
  std::string list;
  for (const std::string_view one : allowed) {
    if (!list.empty()) list += ", ";
    list += base::quote(one);
  }
  return make_cause("FieldValueNotSupported", std::move(field),
                    "Unsupported value: " + std::string(value) + ": supported values: " + list);
}

Cause too_long(std::string field, std::size_t bytes_max) {
  return make_cause("FieldValueTooLong", std::move(field),
                    "Too long: may not be more than " + std::to_string(bytes_max) + " bytes");
}

Cause too_many(std::string field, std::size_t count, std::size_t count_max) {
  return make_cause(
      "FieldValueTooMany", std::move(field),
      "Too many: " + std::to_string(count) + ": must have at most " + std::to_string(count_max) + " items");
}

Cause wrong_type(std::string field, std::string_view value, std::string_view detail) {
  return make_cause("FieldValueTypeInvalid", std::move(field),
                    "Invalid value: " + std::string(value) + ": " + std::string(detail));
}

std::string shown(const json::Value& value) {
  if (value.is_string()) return base::quote(base::ellipsize(value.as_string(), kShownBytesMax));
  return base::ellipsize(value.to_text(), kShownBytesMax);
}

}  // namespace basalt::apiserver
