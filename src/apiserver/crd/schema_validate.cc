// Validation by a compiled schema, with the complaints worded as Kubernetes words them.

#include <algorithm>
#include <cmath>
#include <set>

#include <re2/re2.h>

#include "api/duration.h"
#include "api/time.h"
#include "apiserver/crd/schema.h"
#include "apiserver/registry/errors.h"

namespace basalt::apiserver {
namespace {

// More complaints than this help nobody, and a tenant's list could make millions.
constexpr std::size_t kCausesMax = 100;

std::string_view name_of(Schema::Type type) {
  switch (type) {
    case Schema::Type::Object:
      return "object";
    case Schema::Type::Array:
      return "array";
    case Schema::Type::String:
      return "string";
    case Schema::Type::Integer:
      return "integer";
    case Schema::Type::Number:
      return "number";
    case Schema::Type::Boolean:
      return "boolean";
    case Schema::Type::Any:
      break;
  }
  return "any";
}

bool is_integral(const json::Value& value) {
  return value.is_int() || (value.is_double() && std::trunc(value.as_double()) == value.as_double());
}

bool has_type(const json::Value& value, Schema::Type type) {
  switch (type) {
    case Schema::Type::Object:
      return value.is_object();
    case Schema::Type::Array:
      return value.is_array();
    case Schema::Type::String:
      return value.is_string();
    case Schema::Type::Integer:
      return is_integral(value);
    case Schema::Type::Number:
      return value.is_number();
    case Schema::Type::Boolean:
      return value.is_bool();
    case Schema::Type::Any:
      return true;
  }
  return true;
}

std::string number_text(double value) {
  return json::Value(value == std::trunc(value) && std::abs(value) < 9e15
                         ? json::Value(static_cast<std::int64_t>(value))
                         : json::Value(value))
      .to_text();
}

// Characters, not bytes, as JSON schema counts.
std::int64_t character_count(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

class Validator {
 public:
  explicit Validator(Causes& causes) : causes_(causes) {}

  void validate(const Schema& schema, const json::Value& value, const std::string& path) {
    if (causes_.size() >= kCausesMax) return;
    if (value.is_null()) {
      if (!schema.nullable && schema.type != Schema::Type::Any) complain_type(schema, value, path);
      return;
    }
    if (schema.int_or_string) {
      if (!is_integral(value) && !value.is_string()) {
        add(wrong_type(path, shown(value), body(path) + " must be of type int-or-string"));
        return;
      }
    } else if (!has_type(value, schema.type)) {
      complain_type(schema, value, path);
      return;
    }
    if (!schema.enumeration.empty()) validate_enum(schema, value, path);
    if (value.is_number()) validate_number(schema, value, path);
    if (value.is_string()) validate_string(schema, value, path);
    if (value.is_array()) validate_array(schema, value.as_array(), path);
    if (value.is_object()) validate_members(schema, value.as_object(), path);
    validate_groups(schema, value, path);
  }

 private:
  void add(Cause cause) {
    if (causes_.size() < kCausesMax) causes_.push_back(std::move(cause));
  }

  static std::string body(const std::string& path) { return path + " in body"; }

  void complain_type(const Schema& schema, const json::Value& value, const std::string& path) {
    const std::string_view given = value.is_int() ? "integer" : value.type_name();
    add(wrong_type(
        path, "\"" + std::string(given) + "\"",
        body(path) + " must be of type " + std::string(name_of(schema.type)) + ": \"" + std::string(given) + "\""));
  }

  void validate_enum(const Schema& schema, const json::Value& value, const std::string& path) {
    if (std::find(schema.enumeration.begin(), schema.enumeration.end(), value) != schema.enumeration.end()) return;
    std::vector<std::string> texts;
    for (const json::Value& allowed : schema.enumeration) {
      texts.push_back(allowed.is_string() ? allowed.as_string() : allowed.to_text());
    }
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    add(not_supported(path, shown(value), views));
  }

  void validate_number(const Schema& schema, const json::Value& value, const std::string& path) {
    const double number = value.as_double();
    if (schema.minimum && (number < *schema.minimum || (schema.exclusive_minimum && number == *schema.minimum))) {
      add(invalid_value(
          path, shown(value),
          body(path) +
              (schema.exclusive_minimum ? " should be greater than " : " should be greater than or equal to ") +
              number_text(*schema.minimum)));
    }
    if (schema.maximum && (number > *schema.maximum || (schema.exclusive_maximum && number == *schema.maximum))) {
      add(invalid_value(path, shown(value),
                        body(path) +
                            (schema.exclusive_maximum ? " should be less than " : " should be less than or equal to ") +
                            number_text(*schema.maximum)));
    }
    if (schema.multiple_of && std::fmod(number, *schema.multiple_of) != 0) {
      add(invalid_value(path, shown(value),
                        body(path) + " should be a multiple of " + number_text(*schema.multiple_of)));
    }
    if (schema.format == "int32" && (number < -2147483648.0 || number > 2147483647.0)) {
      add(invalid_value(path, shown(value), body(path) + " must be of type int32: " + shown(value)));
    }
  }

  void validate_string(const Schema& schema, const json::Value& value, const std::string& path) {
    const std::string& text = value.as_string();
    const std::int64_t length = character_count(text);
    if (schema.length_max && length > *schema.length_max) {
      add(too_long(path, static_cast<std::size_t>(*schema.length_max)));
    }
    if (schema.length_min && length < *schema.length_min) {
      add(invalid_value(path, shown(value),
                        body(path) + " should be at least " + std::to_string(*schema.length_min) + " chars long"));
    }
    if (schema.pattern_matcher && !RE2::PartialMatch(text, *schema.pattern_matcher)) {
      add(invalid_value(path, shown(value), body(path) + " should match '" + schema.pattern + "'"));
    }
    const bool bad_format = (schema.format == "date-time" && !api::Time::parse(text).ok()) ||
                            (schema.format == "duration" && !api::Duration::parse(text).ok());
    if (bad_format) {
      add(invalid_value(path, shown(value), body(path) + " must be of type " + schema.format + ": " + shown(value)));
    }
  }

  void validate_array(const Schema& schema, const json::Array& items, const std::string& path) {
    const auto count = static_cast<std::int64_t>(items.size());
    if (schema.items_max && count > *schema.items_max) {
      add(too_many(path, items.size(), static_cast<std::size_t>(*schema.items_max)));
    }
    if (schema.items_min && count < *schema.items_min) {
      add(invalid_value(path, std::to_string(count),
                        body(path) + " should have at least " + std::to_string(*schema.items_min) + " items"));
    }
    validate_uniqueness(schema, items, path);
    if (!schema.items) return;
    for (std::size_t i = 0; i < items.size() && causes_.size() < kCausesMax; ++i) {
      validate(*schema.items, items[i], path + "[" + std::to_string(i) + "]");
    }
  }

  void validate_uniqueness(const Schema& schema, const json::Array& items, const std::string& path) {
    if (schema.list_type == Schema::ListType::Atomic) return;
    std::set<std::string> seen;
    for (std::size_t i = 0; i < items.size() && causes_.size() < kCausesMax; ++i) {
      json::Value key = items[i];
      if (schema.list_type == Schema::ListType::Map) {
        if (!items[i].is_object()) continue;
        key = json::Object();
        for (const std::string& name : schema.list_map_keys) {
          if (const json::Value* part = items[i].find(name)) key.as_object().set(name, *part);
        }
      }
      std::string text = key.to_text();
      if (seen.insert(text).second) continue;
      add(duplicate_value(path + "[" + std::to_string(i) + "]", shown(key)));
    }
  }

  void validate_members(const Schema& schema, const json::Object& members, const std::string& path) {
    const auto below = [&](std::string_view key) {
      return path.empty() ? std::string(key) : path + "." + std::string(key);
    };
    for (const std::string& name : schema.required) {
      if (!members.contains(name)) add(required(below(name)));
    }
    const auto count = static_cast<std::int64_t>(members.size());
    if (schema.properties_max && count > *schema.properties_max) {
      add(too_many(path, members.size(), static_cast<std::size_t>(*schema.properties_max)));
    }
    if (schema.properties_min && count < *schema.properties_min) {
      add(invalid_value(
          path, std::to_string(count),
          body(path) + " should have at least " + std::to_string(*schema.properties_min) + " properties"));
    }
    for (const json::Member& member : members) {
      const Schema* child = schema.property(member.key);
      if (child == nullptr) child = schema.additional_properties.get();
      if (child != nullptr) validate(*child, member.value, below(member.key));
    }
  }

  bool is_valid(const Schema& schema, const json::Value& value, const std::string& path) {
    Causes causes;
    Validator(causes).validate(schema, value, path);
    return causes.empty();
  }

  void validate_groups(const Schema& schema, const json::Value& value, const std::string& path) {
    for (const auto& part : schema.all_of) validate(*part, value, path);
    const auto matches = [&](const std::unique_ptr<Schema>& part) { return is_valid(*part, value, path); };
    if (!schema.any_of.empty() && std::none_of(schema.any_of.begin(), schema.any_of.end(), matches)) {
      add(invalid_value(path, shown(value), body(path) + " must validate at least one schema (anyOf)"));
    }
    if (!schema.one_of.empty() && std::count_if(schema.one_of.begin(), schema.one_of.end(), matches) != 1) {
      add(invalid_value(path, shown(value), body(path) + " must validate one and only one schema (oneOf)"));
    }
    if (schema.negated && is_valid(*schema.negated, value, path)) {
      add(invalid_value(path, shown(value), body(path) + " must not validate the schema (not)"));
    }
  }

  Causes& causes_;
};

}  // namespace

void validate_object(const Schema& schema, const json::Value& object, const std::string& path, Causes& causes) {
  Validator(causes).validate(schema, object, path);
}

}  // namespace basalt::apiserver
