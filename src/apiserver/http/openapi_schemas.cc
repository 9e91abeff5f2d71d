#include "apiserver/http/openapi_schemas.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "apiserver/apply/merge_shape.h"
#include "apiserver/proto/field_shapes.h"
#include "apiserver/proto/tables.h"
#include "base/strings.h"
#include "json/strategic_core.h"

namespace basalt::apiserver {
namespace {

using proto::FieldFact;
using proto::Form;
using proto::MessageFact;
using proto::MessageForm;
using proto::Shape;

// What kubectl explains the metadata of every object by.
struct Described {
  std::string_view field;
  std::string_view text;
};
constexpr std::string_view kMetadataText = "Standard object's metadata: what every object has, whatever its kind.";
constexpr Described kMetadataFields[] = {
    {"annotations", "Annotations are texts that tools keep with the object; nothing is selected by them."},
    {"creationTimestamp", "CreationTimestamp is a timestamp of when the server made the object. Set by the server."},
    {"deletionGracePeriodSeconds", "How many seconds the object has left after its deletion was asked for."},
    {"deletionTimestamp", "When the object will be gone, or may be once its finalizers are; set when it is deleted."},
    {"finalizers", "Who has something to do before the object may vanish; it stays until the list is empty."},
    {"generateName", "The start of a name that the server completes, if no name is given."},
    {"generation", "Counts the changes of what is asked for. Set by the server."},
    {"labels", "Labels are short texts that objects are selected by."},
    {"managedFields", "Who set which field; kept by the server."},
    {"name", "Name of the object, unique in its namespace among those of its kind."},
    {"namespace", "The namespace that the object is in; empty for kinds of the whole cluster."},
    {"ownerReferences", "The objects that this one belongs to; it is deleted when all of them are."},
    {"resourceVersion", "The version of the object, changed by every write. Compare it for equality only."},
    {"selfLink", "Not used any more."},
    {"uid", "UID of the object, different for every object that there ever was. Set by the server."},
};
constexpr std::string_view kVersionText =
    "APIVersion defines the form that the object is written in, such as batch.volcano.sh/v1alpha1.";
constexpr std::string_view kKindText = "Kind is what the object is, such as Job.";

json::Value scalar(Form form) {
  switch (form) {
    case Form::Bool:
      return json::Object{{"type", "boolean"}};
    case Form::Int32:
      return json::Object{{"type", "integer"}, {"format", "int32"}};
    case Form::Int64:
      return json::Object{{"type", "integer"}, {"format", "int64"}};
    case Form::Double:
      return json::Object{{"type", "number"}, {"format", "double"}};
    case Form::Bytes:
      return json::Object{{"type", "string"}, {"format", "byte"}};
    case Form::Text:
    case Form::Message:
      break;
  }
  return json::Object{{"type", "string"}};
}

json::Value either(std::string_view one, std::string_view other) {
  return json::Object{{"oneOf", json::Array{json::Object{{"type", one}}, json::Object{{"type", other}}}}};
}

// Messages of which no type can be said. They keep a schema of their own, as kubectl explains a field of no type by the
// name of what it refers to.
bool is_of_any_type(const MessageFact& fact) {
  return fact.form == MessageForm::Union || std::string_view(fact.name) == "JSON";
}

// Messages that are something else than an object in JSON.
std::optional<json::Value> special(const MessageFact& fact, OpenApiVersion version) {
  const bool is_v2 = version == OpenApiVersion::V2;
  switch (fact.form) {
    case MessageForm::Quantity:
      return is_v2 ? json::Value(json::Object{{"type", "string"}}) : either("string", "number");
    case MessageForm::IntOrString: {
      json::Value schema = is_v2 ? json::Value(json::Object{{"type", "string"}}) : either("integer", "string");
      schema.as_object().set("format", "int-or-string");
      return schema;
    }
    case MessageForm::Time:
    case MessageForm::MicroTime:
      return json::Object{{"type", "string"}, {"format", "date-time"}};
    case MessageForm::Duration:
      return json::Object{{"type", "string"}};
    case MessageForm::Raw:
      if (is_of_any_type(fact)) return json::Object{{"description", "Any JSON value."}};
      return json::Object{{"type", "object"}};
    case MessageForm::Union:
      return json::Object{{"description", "One of several forms of a value."}};
    case MessageForm::Items:
      return json::Object{{"type", "array"}, {"items", json::Object{{"type", "string"}}}};
    case MessageForm::Object:
      break;
  }
  return std::nullopt;
}

json::Value kind_of(const ResourceType& type) {
  return json::Array{json::Object{{"group", type.group}, {"kind", type.kind}, {"version", type.version}}};
}

bool keeps_unknown(const json::Value& schema) {
  const json::Value* keeps = schema.find("x-kubernetes-preserve-unknown-fields");
  return keeps != nullptr && *keeps == json::Value(true);
}

void put_kind(const ResourceType& type, json::Object& schema) {
  schema.set("x-kubernetes-group-version-kind", kind_of(type));
  json::Value& properties = schema["properties"];
  if (!properties.is_object()) properties = json::Object();
  properties.as_object().set("apiVersion", json::Object{{"type", "string"}, {"description", kVersionText}});
  properties.as_object().set("kind", json::Object{{"type", "string"}, {"description", kKindText}});
}

const MessageFact& message(std::uint16_t index) { return proto::message_facts()[index]; }

std::string full_name(const MessageFact& fact) { return std::string(fact.package) + "." + fact.name; }

// The kind that the message is; null if it is only a part of others.
const proto::KindFact* kind_of_message(std::uint16_t index) {
  for (const proto::KindFact& kind : proto::kind_facts()) {
    if (kind.message == index && *kind.api_version != '\0') return &kind;
  }
  return nullptr;
}

std::string_view group_of(const proto::KindFact& kind) {
  const auto parts = base::split_once(kind.api_version, '/');
  return parts ? parts->first : std::string_view();
}

json::Value keys_of_list(std::string_view field, std::string_view merge_key) {
  json::Array keys;
  for (const std::string& key : list_map_keys(field, merge_key)) keys.emplace_back(key);
  return keys;
}

void describe(std::span<const Described> texts, std::string_view field, json::Value& schema) {
  for (const Described& one : texts) {
    if (one.field == field) schema.as_object().set("description", one.text);
  }
}

void drop_required(json::Object& schema, std::string_view name) {
  json::Value* list = schema.find("required");
  if (list == nullptr || !list->is_array()) return;
  std::erase(list->as_array(), json::Value(name));
  if (list->as_array().empty()) schema.erase("required");
}

}  // namespace

// Until its end, the message is one of another kind, or that of a field.
class OpenApiSchemas::Place {
 public:
  Place(OpenApiSchemas& schemas, std::string_view group, std::string_view kind, std::vector<std::string_view> path = {})
      : schemas_(schemas), strategies_(schemas.strategies_), path_(std::move(schemas.path_)) {
    schemas.strategies_ = json::core_strategic_schema(group, kind);
    schemas.path_ = std::move(path);
  }
  ~Place() {
    schemas_.strategies_ = strategies_;
    schemas_.path_ = std::move(path_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

 private:
  OpenApiSchemas& schemas_;
  const json::StrategicSchema* const strategies_;
  std::vector<std::string_view> path_;
};

std::string OpenApiSchemas::name_of(const ResourceType& type) {
  if (type.crd_name.empty()) {
    const MessageFact* fact = proto::message_of_kind(type.api_version(), type.kind);
    if (fact != nullptr) return full_name(*fact);
  }
  auto parts = base::split(type.group, '.');
  std::reverse(parts.begin(), parts.end());
  std::string name;
  for (const std::string_view part : parts) name.append(part).append(".");
  return name.append(type.version).append(".").append(type.kind);
}

json::Value OpenApiSchemas::reference(const std::string& name) const {
  const bool is_v2 = version_ == OpenApiVersion::V2;
  return json::Object{{"$ref", (is_v2 ? "#/definitions/" : "#/components/schemas/") + name}};
}

// In the newer form nothing may stand beside a reference, so it is wrapped.
json::Value OpenApiSchemas::member_reference(const std::string& name) const {
  if (version_ == OpenApiVersion::V2) return reference(name);
  return json::Object{{"allOf", json::Array{reference(name)}}};
}

std::string OpenApiSchemas::add_message(std::uint16_t index) {
  std::string name = full_name(message(index));
  if (messages_.insert(index).second && schemas_.find(name) == nullptr) {
    // The name is taken first: messages may refer to themselves.
    schemas_.set(name, json::Object());
    std::optional<Place> as_kind;
    if (const proto::KindFact* kind = kind_of_message(index)) as_kind.emplace(*this, group_of(*kind), kind->kind);
    json::Value schema = schema_of_message(index);
    schemas_.set(name, std::move(schema));
  }
  return name;
}

void OpenApiSchemas::put_strategy(json::Value& field) const {
  if (strategies_ == nullptr) return;
  const json::FieldStrategy strategy = strategies_->strategy_of(path_);
  std::string patching = strategy.retain_keys ? "retainKeys" : "";
  json::Object& schema = field.as_object();
  switch (strategy.kind) {
    case json::FieldStrategy::Kind::Default:
      break;
    case json::FieldStrategy::Kind::Replace:
      patching = "replace";
      break;
    case json::FieldStrategy::Kind::MergeByKey:
      patching = patching.empty() ? "merge" : "merge," + patching;
      schema.set("x-kubernetes-patch-merge-key", strategy.merge_key);
      schema.set("x-kubernetes-list-type", "map");
      schema.set("x-kubernetes-list-map-keys", keys_of_list(path_.back(), strategy.merge_key));
      break;
    case json::FieldStrategy::Kind::MergePrimitives:
      patching = "merge";
      schema.set("x-kubernetes-list-type", "set");
      break;
  }
  if (!patching.empty()) schema.set("x-kubernetes-patch-strategy", patching);
}

json::Value OpenApiSchemas::schema_of_message(std::uint16_t index) {
  const MessageFact& fact = message(index);
  if (auto other = special(fact, version_)) return *other;
  const bool is_metadata = std::string_view(fact.name) == "ObjectMeta";
  json::Object properties;
  for (const FieldFact& field : proto::field_facts().subspan(fact.first_field, fact.field_count)) {
    if (field.shape == Shape::Inline) {
      const json::Value inner = schema_of_message(field.message);
      if (const json::Value* members = inner.find("properties"); members != nullptr && members->is_object()) {
        for (const json::Member& member : members->as_object()) properties.set(member.key, member.value);
      }
      continue;
    }
    path_.emplace_back(field.json_name);
    json::Value one = field.form == Form::Message ? json::Value() : scalar(field.form);
    if (field.form == Form::Message) {
      const MessageFact& inner = message(field.message);
      const auto other = is_of_any_type(inner) ? std::nullopt : special(inner, version_);
      one = other ? *other : member_reference(add_message(field.message));
    }
    if (field.shape == Shape::Repeated) one = json::Object{{"type", "array"}, {"items", std::move(one)}};
    if (field.shape == Shape::Map) one = json::Object{{"type", "object"}, {"additionalProperties", std::move(one)}};
    if (is_metadata) describe(kMetadataFields, field.json_name, one);
    put_strategy(one);
    path_.pop_back();
    properties.set(field.json_name, std::move(one));
  }
  json::Object schema{{"type", "object"}, {"properties", std::move(properties)}};
  if (is_metadata) schema.set("description", kMetadataText);
  return schema;
}

void OpenApiSchemas::add_builtin(const ResourceType& type) {
  const MessageFact* fact = proto::message_of_kind(type.api_version(), type.kind);
  if (fact == nullptr) return;
  const auto index = static_cast<std::uint16_t>(fact - proto::message_facts().data());
  const Place place(*this, type.group, type.kind);
  json::Value schema = schema_of_message(index);
  if (!schema.is_object()) return;
  put_kind(type, schema.as_object());
  schemas_.set(name_of(type), std::move(schema));
}

std::string OpenApiSchemas::add_metadata() {
  const Place place(*this, "", "Pod", {"metadata"});  // as every kind has it
  std::string name;
  for (std::uint16_t i = 0; i < proto::message_facts().size(); ++i) {
    if (std::string_view(message(i).name) == "ObjectMeta") name = add_message(i);
  }
  return name;
}

void OpenApiSchemas::add_custom(const ResourceType& type, const json::Value& crd) {
  const json::Value* versions = crd.find_path({"spec", "versions"});
  if (versions == nullptr || !versions->is_array()) return;
  for (const json::Value& version : versions->as_array()) {
    if (version.string_at({"name"}) != type.version) continue;
    const json::Value* found = version.find_path({"schema", "openAPIV3Schema"});
    json::Value schema =
        found != nullptr && found->is_object() ? *found : json::Value(json::Object{{"type", "object"}});
    if (version_ == OpenApiVersion::V2 && keeps_unknown(schema)) {
      // Whatever is said of its fields would forbid others.
      schema = json::Object{{"type", "object"}, {"x-kubernetes-group-version-kind", kind_of(type)}};
    } else {
      if (version_ == OpenApiVersion::V2) reduce_to_v2(schema);
      put_kind(type, schema.as_object());
      json::Value metadata = member_reference(add_metadata());
      metadata.as_object().set("description", kMetadataText);
      schema.as_object()["properties"].as_object().set("metadata", std::move(metadata));
    }
    schemas_.set(name_of(type), std::move(schema));
  }
}

void reduce_to_v2(json::Value& schema) {
  if (!schema.is_object()) return;
  json::Object& members = schema.as_object();
  for (const std::string_view name : {"allOf", "anyOf", "oneOf", "not"}) members.erase(name);
  const bool is_nullable = members.find("nullable") != nullptr && *members.find("nullable") == json::Value(true);
  members.erase("nullable");
  if (is_nullable) members.erase("type");
  if (is_nullable || keeps_unknown(schema)) {
    members.erase("items");
    members.erase("properties");
    if (keeps_unknown(schema) && schema.string_at({"type"}) == "object") members.erase("type");
  }
  if (members.find("items") == nullptr && schema.string_at({"type"}) == "array") members.erase("type");
  if (json::Value* properties = members.find("properties"); properties != nullptr && properties->is_object()) {
    for (json::Member& property : properties->as_object()) {
      const json::Value* null_allowed = property.value.find("nullable");
      if (null_allowed != nullptr && *null_allowed == json::Value(true)) drop_required(members, property.key);
      reduce_to_v2(property.value);
    }
  }
  for (const std::string_view name : {"items", "additionalProperties"}) {
    if (json::Value* inner = members.find(name)) reduce_to_v2(*inner);
  }
}

}  // namespace basalt::apiserver
