#include "apiserver/crd/crd_types.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/names.h"
#include "apiserver/crd/crd_strategy.h"
#include "apiserver/crd/json_path.h"
#include "apiserver/crd/schema.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

// Kubernetes stops at fewer by the size of the object alone; this keeps the loops below bounded.
constexpr std::size_t kVersionsMax = 100;

const json::Array& list_at(const json::Value& object, std::initializer_list<std::string_view> path) {
  static const json::Array kEmpty;
  const json::Value* value = object.find_path(path);
  return value != nullptr && value->is_array() ? value->as_array() : kEmpty;
}

bool flag_at(const json::Value& object, std::string_view key) {
  const json::Value* value = object.find(key);
  return value != nullptr && value->is_bool() && value->as_bool();
}

// A default must pass its own schema, or every object without the field would be refused.
void validate_defaults(const Schema& schema, const std::string& path, Causes& causes) {
  if (schema.default_value) validate_object(schema, *schema.default_value, path + ".default", causes);
  for (const auto& [name, child] : schema.properties) {
    validate_defaults(*child, path + ".properties[" + name + "]", causes);
  }
  if (schema.items) validate_defaults(*schema.items, path + ".items", causes);
  if (schema.additional_properties) {
    validate_defaults(*schema.additional_properties, path + ".additionalProperties", causes);
  }
}

void validate_columns(const json::Value& version, const std::string& path, Causes& causes) {
  constexpr std::string_view kTypes[] = {"boolean", "date", "integer", "number", "string"};
  const json::Array& columns = list_at(version, {"additionalPrinterColumns"});
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string at = path + ".additionalPrinterColumns[" + std::to_string(i) + "]";
    if (columns[i].string_at({"name"}).empty()) causes.push_back(required(at + ".name"));
    const std::string_view type = columns[i].string_at({"type"});
    if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes)) {
      causes.push_back(not_supported(at + ".type", base::quote(type), kTypes));
    }
    const std::string_view json_path = columns[i].string_at({"jsonPath"});
    if (json_path.empty()) {
      causes.push_back(required(at + ".jsonPath"));
    } else if (auto parsed = JsonPath::parse(json_path); !parsed.ok()) {
      causes.push_back(invalid_value(at + ".jsonPath", base::quote(json_path), parsed.error().message));
    }
  }
}

void validate_version(const json::Value& version, const std::string& path, Causes& causes) {
  const std::string_view name = version.string_at({"name"});
  for (const std::string& complaint : api::dns1035_label_complaints(name)) {
    causes.push_back(invalid_value(path + ".name", base::quote(name), complaint));
  }
  const json::Value* schema = version.find_path({"schema", "openAPIV3Schema"});
  if (schema == nullptr) {
    causes.push_back(required(path + ".schema.openAPIV3Schema", "schemas are required"));
  } else if (auto compiled = compile_schema(*schema, path + ".schema.openAPIV3Schema", causes)) {
    if (compiled->type != Schema::Type::Object) {
      causes.push_back(invalid_value(path + ".schema.openAPIV3Schema.type", "\"\"", "must be object at the root"));
    }
    validate_defaults(*compiled, path + ".schema.openAPIV3Schema", causes);
  }
  validate_columns(version, path, causes);
}

void validate_versions(const json::Value& crd, Causes& causes) {
  const json::Array& versions = list_at(crd, {"spec", "versions"});
  if (versions.empty()) {
    causes.push_back(required("spec.versions", "must have at least one version"));
    return;
  }
  if (versions.size() > kVersionsMax) {
    causes.push_back(too_many("spec.versions", versions.size(), kVersionsMax));
    return;
  }
  std::set<std::string_view> names;
  int storage = 0;
  for (std::size_t i = 0; i < versions.size(); ++i) {
    const std::string path = "spec.versions[" + std::to_string(i) + "]";
    validate_version(versions[i], path, causes);
    const std::string_view name = versions[i].string_at({"name"});
    if (!names.insert(name).second) causes.push_back(duplicate_value(path + ".name", base::quote(name)));
    storage += flag_at(versions[i], "storage") ? 1 : 0;
  }
  if (storage != 1) {
    causes.push_back(invalid_value("spec.versions", "\"\"", "must have exactly one version marked as storage version"));
  }
}

std::vector<std::string> texts(const json::Array& list) {
  std::vector<std::string> result;
  for (const json::Value& item : list) {
    if (item.is_string()) result.push_back(item.as_string());
  }
  return result;
}

std::vector<PrinterColumn> columns_of(const json::Value& version) {
  std::vector<PrinterColumn> columns{
      {"Name", "string", "name",
       "Name must be unique within a namespace. It is the name that clients ask for the object by.", ".metadata.name",
       0}};
  for (const json::Value& source : list_at(version, {"additionalPrinterColumns"})) {
    PrinterColumn column;
    column.name = std::string(source.string_at({"name"}));
    column.type = std::string(source.string_at({"type"}));
    column.format = std::string(source.string_at({"format"}));
    column.description = std::string(source.string_at({"description"}));
    column.json_path = std::string(source.string_at({"jsonPath"}));
    if (const json::Value* priority = source.find("priority"); priority != nullptr && priority->is_int()) {
      column.priority = static_cast<std::int32_t>(priority->as_int());
    }
    columns.push_back(std::move(column));
  }
  if (columns.size() == 1) {
    columns.push_back({"Age", "date", "", "When the object was created.", ".metadata.creationTimestamp", 0});
  }
  return columns;
}

Result<std::shared_ptr<const Strategy>> strategy_of(const json::Value& version, const ResourceType& type,
                                                    std::int64_t crd_revision) {
  Causes causes;
  const json::Value* source = version.find_path({"schema", "openAPIV3Schema"});
  if (source == nullptr) return Error::make(Reason::Invalid, "a version has no schema");
  auto schema = compile_schema(*source, "", causes);
  if (!schema) return Error::make(Reason::Invalid, causes.empty() ? "the schema is broken" : causes[0].message);
  if (has_defaults(*schema)) schema->defaults_since = crd_revision;
  std::vector<JsonPath> columns;
  for (std::size_t i = 1; i < type.columns.size(); ++i) {
    BASALT_TRY(JsonPath path, JsonPath::parse(type.columns[i].json_path));
    columns.push_back(std::move(path));
  }
  std::vector<CrdStrategy::Field> fields;
  for (const json::Value& field : list_at(version, {"selectableFields"})) {
    const std::string_view path = field.string_at({"jsonPath"});
    BASALT_TRY(JsonPath parsed, JsonPath::parse(path));
    fields.push_back({std::string(path.starts_with(".") ? path.substr(1) : path), std::move(parsed)});
  }
  return std::shared_ptr<const Strategy>(std::make_shared<CrdStrategy>(
      std::unique_ptr<const Schema>(std::move(schema)), type.has_status, std::move(fields), std::move(columns)));
}

}  // namespace

void default_crd(json::Value& crd) {
  json::Value& names = crd.ensure_path({"spec", "names"});
  if (!names.is_object()) return;
  const std::string kind(names.string_at({"kind"}));
  if (names.string_at({"singular"}).empty()) names.as_object().set("singular", base::to_lower_ascii(kind));
  if (names.string_at({"listKind"}).empty() && !kind.empty()) names.as_object().set("listKind", kind + "List");
}

void validate_crd(const json::Value& crd, const json::Value* old, Causes& causes) {
  const std::string group(crd.string_at({"spec", "group"}));
  const std::string plural(crd.string_at({"spec", "names", "plural"}));
  if (group.empty()) {
    causes.push_back(required("spec.group"));
  } else if (!api::is_dns1123_subdomain(group) || group.find('.') == std::string::npos) {
    causes.push_back(invalid_value("spec.group", base::quote(group), "should be a domain with at least one dot"));
  }
  for (const std::string_view key : {"plural", "kind", "singular", "listKind"}) {
    if (crd.string_at({"spec", "names", key}).empty()) causes.push_back(required("spec.names." + std::string(key)));
  }
  if (metadata_text(crd, "name") != plural + "." + group) {
    causes.push_back(invalid_value("metadata.name", base::quote(metadata_text(crd, "name")),
                                   "must be spec.names.plural+\".\"+spec.group"));
  }
  constexpr std::string_view kScopes[] = {"Cluster", "Namespaced"};
  const std::string_view scope = crd.string_at({"spec", "scope"});
  if (scope.empty()) {
    causes.push_back(required("spec.scope"));
  } else if (scope != kScopes[0] && scope != kScopes[1]) {
    causes.push_back(not_supported("spec.scope", base::quote(scope), kScopes));
  }
  if (const json::Value* preserve = crd.find_path({"spec", "preserveUnknownFields"});
      preserve != nullptr && *preserve == json::Value(true)) {
    causes.push_back(invalid_value("spec.preserveUnknownFields", "true",
                                   "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
                                   "spec.versions[*].schema instead"));
  }
  validate_versions(crd, causes);
  if (old == nullptr) return;
  for (const auto& path : {std::initializer_list<std::string_view>{"spec", "group"},
                           {"spec", "scope"},
                           {"spec", "names", "kind"},
                           {"spec", "names", "plural"}}) {
    if (crd.string_at(path) == old->string_at(path)) continue;
    std::vector<std::string_view> parts(path);
    causes.push_back(invalid_value(base::join(parts, "."), base::quote(crd.string_at(path)), "field is immutable"));
  }
}

Result<std::vector<std::shared_ptr<const ResourceType>>> types_of_crd(
    const json::Value& crd, const std::shared_ptr<const VersionConverter>& converter) {
  std::string storage_version;
  const json::Array& versions = list_at(crd, {"spec", "versions"});
  for (const json::Value& version : versions) {
    if (flag_at(version, "storage")) storage_version = std::string(version.string_at({"name"}));
  }
  const std::int64_t crd_revision = base::parse_int64(metadata_text(crd, "resourceVersion")).value_or(0);
  std::vector<std::shared_ptr<ResourceType>> types;
  std::shared_ptr<const Strategy> storage_strategy;
  for (const json::Value& version : versions) {
    const bool is_stored = converter && flag_at(version, "storage");
    if (!flag_at(version, "served") && !is_stored) continue;
    auto type = std::make_shared<ResourceType>();
    type->group = std::string(crd.string_at({"spec", "group"}));
    type->version = std::string(version.string_at({"name"}));
    type->plural = std::string(crd.string_at({"spec", "names", "plural"}));
    type->singular = std::string(crd.string_at({"spec", "names", "singular"}));
    type->kind = std::string(crd.string_at({"spec", "names", "kind"}));
    type->list_kind = std::string(crd.string_at({"spec", "names", "listKind"}));
    type->short_names = texts(list_at(crd, {"spec", "names", "shortNames"}));
    type->categories = texts(list_at(crd, {"spec", "names", "categories"}));
    type->verbs = {"delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"};
    type->namespaced = crd.string_at({"spec", "scope"}) == "Namespaced";
    type->unconditional_update = false;
    type->storage_version = storage_version;
    type->crd_name = std::string(metadata_text(crd, "name"));
    type->columns = columns_of(version);
    type->has_status = version.find_path({"subresources", "status"}) != nullptr;
    if (const json::Value* scale = version.find_path({"subresources", "scale"})) {
      type->scale = ScalePaths{std::string(scale->string_at({"specReplicasPath"})),
                               std::string(scale->string_at({"statusReplicasPath"})),
                               std::string(scale->string_at({"labelSelectorPath"}))};
    }
    BASALT_TRY(type->strategy, strategy_of(version, *type, crd_revision));
    if (is_stored) storage_strategy = type->strategy;
    if (flag_at(version, "served")) types.push_back(std::move(type));
  }
  for (const auto& type : types) {
    type->converter = converter;
    type->storage_strategy = storage_strategy;
  }
  return std::vector<std::shared_ptr<const ResourceType>>(types.begin(), types.end());
}

}  // namespace basalt::apiserver
