#include <algorithm>
#include <cmath>

#include <re2/re2.h>

#include "apiserver/crd/schema.h"
#include "apiserver/crd/schema_rules.h"
#include "apiserver/registry/errors.h"

namespace basalt::apiserver {
namespace {

constexpr int kSchemaDepthMax = 64;  // Kubernetes' own limits on cost end far below
constexpr std::size_t kPatternBytesMax = 4096;

class Compiler {
 public:
  explicit Compiler(Causes& causes) : causes_(causes) {}

  // `structural` is false inside allOf, anyOf, oneOf and not, which may only validate.
  std::unique_ptr<Schema> compile(const json::Value& source, const std::string& path, int depth, bool structural) {
    if (!source.is_object()) {
      causes_.push_back(wrong_type(path, shown(source), "must be an object"));
      return nullptr;
    }
    if (depth > kSchemaDepthMax) {
      causes_.push_back(invalid_value(path, "\"\"", "schema is nested deeper than " + std::to_string(kSchemaDepthMax)));
      return nullptr;
    }
    auto schema = std::make_unique<Schema>();
    read_type(source, path, structural, *schema);
    read_limits(source, path, *schema);
    read_values(source, path, *schema);
    read_list_rules(source, path, *schema);
    read_children(source, path, depth, structural, *schema);
    schema->shape = shape_of(*schema);
    if (structural) compile_rules(source, path, *schema, causes_);
    return schema;
  }

 private:
  static bool flag(const json::Value& source, std::string_view key) {
    const json::Value* value = source.find(key);
    return value != nullptr && value->is_bool() && value->as_bool();
  }

  static std::optional<double> number(const json::Value& source, std::string_view key) {
    const json::Value* value = source.find(key);
    if (value == nullptr || !value->is_number()) return std::nullopt;
    return value->as_double();
  }

  static std::optional<std::int64_t> integer(const json::Value& source, std::string_view key) {
    const json::Value* value = source.find(key);
    if (value == nullptr || !value->is_int()) return std::nullopt;
    return value->as_int();
  }

  static std::string below(const std::string& path, std::string_view key) {
    return path.empty() ? std::string(key) : path + "." + std::string(key);
  }

  void read_type(const json::Value& source, const std::string& path, bool structural, Schema& schema) {
    schema.nullable = flag(source, "nullable");
    schema.int_or_string = flag(source, "x-kubernetes-int-or-string");
    schema.preserve_unknown = flag(source, "x-kubernetes-preserve-unknown-fields");
    schema.embedded_resource = flag(source, "x-kubernetes-embedded-resource");
    const std::string_view type = source.string_at({"type"});
    using Type = Schema::Type;
    constexpr std::pair<std::string_view, Type> kTypes[] = {{"object", Type::Object}, {"array", Type::Array},
                                                            {"string", Type::String}, {"integer", Type::Integer},
                                                            {"number", Type::Number}, {"boolean", Type::Boolean}};
    for (const auto& [name, value] : kTypes) {
      if (type == name) schema.type = value;
    }
    if (!type.empty() && schema.type == Type::Any) {
      constexpr std::string_view kNames[] = {"array", "boolean", "integer", "number", "object", "string"};
      causes_.push_back(not_supported(below(path, "type"), shown(json::Value(type)), kNames));
    }
    if (type.empty() && structural && !schema.int_or_string && !schema.preserve_unknown) {
      causes_.push_back(required(below(path, "type"), "must not be empty for specified object fields"));
    }
  }

  void read_limits(const json::Value& source, const std::string& path, Schema& schema) {
    schema.minimum = number(source, "minimum");
    schema.maximum = number(source, "maximum");
    schema.exclusive_minimum = flag(source, "exclusiveMinimum");
    schema.exclusive_maximum = flag(source, "exclusiveMaximum");
    schema.multiple_of = number(source, "multipleOf");
    schema.length_min = integer(source, "minLength");
    schema.length_max = integer(source, "maxLength");
    schema.items_min = integer(source, "minItems");
    schema.items_max = integer(source, "maxItems");
    schema.properties_min = integer(source, "minProperties");
    schema.properties_max = integer(source, "maxProperties");
    schema.format = std::string(source.string_at({"format"}));
    schema.pattern = std::string(source.string_at({"pattern"}));
    if (schema.pattern.empty()) return;
    if (schema.pattern.size() > kPatternBytesMax) {
      causes_.push_back(too_long(below(path, "pattern"), kPatternBytesMax));
      return;
    }
    RE2::Options options;
    options.set_log_errors(false);
    auto matcher = std::make_shared<RE2>(schema.pattern, options);
    if (!matcher->ok()) {
      causes_.push_back(invalid_value(below(path, "pattern"), shown(json::Value(schema.pattern)),
                                      "must be a valid regular expression, but isn't: " + matcher->error()));
      return;
    }
    schema.pattern_matcher = std::move(matcher);
  }

  void read_values(const json::Value& source, const std::string& path, Schema& schema) {
    if (const json::Value* list = source.find("enum")) {
      if (list->is_array()) {
        schema.enumeration = list->as_array();
      } else {
        causes_.push_back(wrong_type(below(path, "enum"), shown(*list), "must be an array"));
      }
    }
    if (const json::Value* value = source.find("default")) schema.default_value = *value;
    if (const json::Value* list = source.find("required"); list != nullptr && list->is_array()) {
      for (const json::Value& name : list->as_array()) {
        if (name.is_string()) schema.required.push_back(name.as_string());
      }
      std::sort(schema.required.begin(), schema.required.end());
    }
  }

  void read_list_rules(const json::Value& source, const std::string& path, Schema& schema) {
    schema.is_atomic_map = source.string_at({"x-kubernetes-map-type"}) == "atomic";
    const std::string_view type = source.string_at({"x-kubernetes-list-type"});
    if (type == "set") schema.list_type = Schema::ListType::Set;
    if (type == "map") schema.list_type = Schema::ListType::Map;
    if (const json::Value* keys = source.find("x-kubernetes-list-map-keys"); keys != nullptr && keys->is_array()) {
      for (const json::Value& key : keys->as_array()) {
        if (key.is_string()) schema.list_map_keys.push_back(key.as_string());
      }
    }
    if (schema.list_type == Schema::ListType::Map && schema.list_map_keys.empty()) {
      causes_.push_back(
          required(below(path, "x-kubernetes-list-map-keys"), "must not be empty if x-kubernetes-list-type is map"));
    }
  }

  void read_children(const json::Value& source, const std::string& path, int depth, bool structural, Schema& schema) {
    if (const json::Value* map = source.find("properties"); map != nullptr && map->is_object()) {
      for (const json::Member& member : map->as_object()) {
        auto child = compile(member.value, below(path, "properties") + "[" + member.key + "]", depth + 1, structural);
        if (child) schema.properties.emplace_back(member.key, std::move(child));
      }
    }
    if (const json::Value* additional = source.find("additionalProperties")) {
      if (additional->is_bool()) {
        schema.any_additional_property = additional->as_bool();
      } else {
        schema.additional_properties = compile(*additional, below(path, "additionalProperties"), depth + 1, structural);
      }
      if (!schema.properties.empty() && (schema.any_additional_property || schema.additional_properties)) {
        causes_.push_back(forbidden_field(below(path, "additionalProperties"),
                                          "additionalProperties and properties are mutual exclusive"));
      }
    }
    if (const json::Value* items = source.find("items")) {
      schema.items = compile(*items, below(path, "items"), depth + 1, structural);
    } else if (schema.type == Schema::Type::Array && structural) {
      causes_.push_back(required(below(path, "items"), "must be specified"));
    }
    read_group(source, "allOf", path, depth, schema.all_of);
    read_group(source, "anyOf", path, depth, schema.any_of);
    read_group(source, "oneOf", path, depth, schema.one_of);
    if (const json::Value* negated = source.find("not")) {
      schema.negated = compile(*negated, below(path, "not"), depth + 1, false);
    }
  }

  void read_group(const json::Value& source, std::string_view key, const std::string& path, int depth,
                  std::vector<std::unique_ptr<Schema>>& out) {
    const json::Value* list = source.find(key);
    if (list == nullptr || !list->is_array()) return;
    for (std::size_t i = 0; i < list->as_array().size(); ++i) {
      auto child = compile(list->as_array()[i], below(path, key) + "[" + std::to_string(i) + "]", depth + 1, false);
      if (child) out.push_back(std::move(child));
    }
  }

  Causes& causes_;
};

}  // namespace

const Schema* Schema::property(std::string_view name) const {
  const auto it = std::lower_bound(properties.begin(), properties.end(), name,
                                   [](const auto& entry, std::string_view wanted) { return entry.first < wanted; });
  return it != properties.end() && it->first == name ? it->second.get() : nullptr;
}

std::unique_ptr<Schema> compile_schema(const json::Value& schema, const std::string& path, Causes& causes) {
  const std::size_t before = causes.size();
  auto compiled = Compiler(causes).compile(schema, path, 0, true);
  if (causes.size() != before) return nullptr;
  return compiled;
}

}  // namespace basalt::apiserver
