#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apiserver/registry/resource_type.h"
#include "base/result.h"
#include "json/value.h"

namespace re2 {
class RE2;
}

namespace basalt::cel {
class Shape;
}

namespace basalt::apiserver {

struct SchemaRules;  // schema_rules.h

// A structural OpenAPI v3 schema of a CRD, compiled once: what can be pruned, defaulted and validated without looking
// at the schema's JSON again. Immutable; used from many threads at once.
struct Schema {
  enum class Type : std::uint8_t { Any, Object, Array, String, Integer, Number, Boolean };
  enum class ListType : std::uint8_t { Atomic, Set, Map };

  Type type = Type::Any;
  bool nullable = false;
  bool int_or_string = false;      // x-kubernetes-int-or-string
  bool preserve_unknown = false;   // x-kubernetes-preserve-unknown-fields
  bool embedded_resource = false;  // x-kubernetes-embedded-resource

  std::vector<std::pair<std::string, std::unique_ptr<Schema>>> properties;  // sorted by name
  std::unique_ptr<Schema> additional_properties;
  bool any_additional_property = false;  // additionalProperties: true
  std::unique_ptr<Schema> items;
  std::vector<std::string> required;  // sorted
  json::Array enumeration;
  std::optional<json::Value> default_value;

  std::optional<double> minimum;
  std::optional<double> maximum;
  bool exclusive_minimum = false;
  bool exclusive_maximum = false;
  std::optional<double> multiple_of;
  std::optional<std::int64_t> length_min;
  std::optional<std::int64_t> length_max;
  std::optional<std::int64_t> items_min;
  std::optional<std::int64_t> items_max;
  std::optional<std::int64_t> properties_min;
  std::optional<std::int64_t> properties_max;
  std::string pattern;
  std::shared_ptr<const re2::RE2> pattern_matcher;
  std::string format;

  bool is_atomic_map = false;  // x-kubernetes-map-type: atomic
  ListType list_type = ListType::Atomic;
  std::vector<std::string> list_map_keys;

  // Only for validation.
  std::vector<std::unique_ptr<Schema>> all_of;
  std::vector<std::unique_ptr<Schema>> any_of;
  std::vector<std::unique_ptr<Schema>> one_of;
  std::unique_ptr<Schema> negated;

  // x-kubernetes-validations: of this schema, and whether there are some here or below.
  std::shared_ptr<const SchemaRules> rules;
  bool has_rules = false;
  std::shared_ptr<const cel::Shape> shape;

  // At the root: objects that were stored before this revision, that of the CRD, may lack defaults. 0: none can.
  std::int64_t defaults_since = 0;

  [[nodiscard]] const Schema* property(std::string_view name) const;
};

// Compiles `openAPIV3Schema`. What is wrong with it is added to `causes` with paths below `path`; the result is null
// then. Limits: depth 64, a pattern of 4096 bytes.
[[nodiscard]] std::unique_ptr<Schema> compile_schema(const json::Value& schema, const std::string& path,
                                                     Causes& causes);

// Drops what the schema does not know; names each dropped path in `unknown` if given. At the root and in embedded
// resources apiVersion, kind and metadata always stay.
void prune_object(const Schema& schema, json::Value& object, bool is_root, std::vector<std::string>* unknown);
[[nodiscard]] bool has_defaults(const Schema& schema);  // here or below
void default_object(const Schema& schema, json::Value& object);
void validate_object(const Schema& schema, const json::Value& object, const std::string& path, Causes& causes);

}  // namespace basalt::apiserver
