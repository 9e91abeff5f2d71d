#include "apiserver/http/openapi_schemas.h"

#include <utility>

#include "apiserver/proto/field_shapes.h"
#include "apiserver/proto/tables.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

using proto::FieldFact;
using proto::Form;
using proto::MessageFact;
using proto::MessageForm;
using proto::Shape;

json::Value reference(const std::string& name) {
  return json::Object{{"allOf", json::Array{json::Object{{"$ref", "#/components/schemas/" + name}}}}};
}

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

// Messages that are something else than an object in JSON.
std::optional<json::Value> special(MessageForm form) {
  switch (form) {
    case MessageForm::Quantity:
      return json::Object{{"oneOf", json::Array{json::Object{{"type", "string"}}, json::Object{{"type", "number"}}}}};
    case MessageForm::IntOrString:
      return json::Object{{"format", "int-or-string"},
                          {"oneOf", json::Array{json::Object{{"type", "integer"}}, json::Object{{"type", "string"}}}}};
    case MessageForm::Time:
    case MessageForm::MicroTime:
      return json::Object{{"type", "string"}, {"format", "date-time"}};
    case MessageForm::Duration:
      return json::Object{{"type", "string"}};
    case MessageForm::Raw:
    case MessageForm::Union:
    case MessageForm::Items:
      return json::Object{{"type", "object"}};
    case MessageForm::Object:
      break;
  }
  return std::nullopt;
}

void put_kind(const ResourceType& type, json::Object& schema) {
  schema.set("x-kubernetes-group-version-kind",
             json::Array{json::Object{{"group", type.group}, {"kind", type.kind}, {"version", type.version}}});
  json::Value& properties = schema["properties"];
  if (!properties.is_object()) properties = json::Object();
  constexpr std::string_view kVersionText =
      "The version of the API that the object is written in, such as batch.volcano.sh/v1alpha1.";
  properties.as_object().set("apiVersion", json::Object{{"type", "string"}, {"description", kVersionText}});
  properties.as_object().set("kind", json::Object{{"type", "string"}, {"description", "What the object is."}});
}

const MessageFact& message(std::uint16_t index) { return proto::message_facts()[index]; }

}  // namespace

std::string OpenApiSchemas::name_of(const ResourceType& type) {
  return (type.group.empty() ? "core" : type.group) + "." + type.version + "." + type.kind;
}

std::string OpenApiSchemas::add_message(std::uint16_t index) {
  std::string name = "message." + std::string(message(index).name);
  if (messages_.insert(index).second) {
    // The name is taken first: messages may refer to themselves.
    schemas_.set(name, json::Object());
    json::Value schema = schema_of_message(index);
    schemas_.set(name, std::move(schema));
  }
  return name;
}

json::Value OpenApiSchemas::schema_of_message(std::uint16_t index) {
  const MessageFact& fact = message(index);
  if (auto other = special(fact.form)) return *other;
  json::Object properties;
  for (const FieldFact& field : proto::field_facts().subspan(fact.first_field, fact.field_count)) {
    json::Value one = field.form == Form::Message ? json::Value() : scalar(field.form);
    if (field.form == Form::Message) {
      const auto other = special(message(field.message).form);
      one = other ? *other : reference(add_message(field.message));
    }
    if (field.shape == Shape::Inline) {
      const json::Value inner = schema_of_message(field.message);
      if (const json::Value* members = inner.find("properties"); members != nullptr && members->is_object()) {
        for (const json::Member& member : members->as_object()) properties.set(member.key, member.value);
      }
      continue;
    }
    if (field.shape == Shape::Repeated) one = json::Object{{"type", "array"}, {"items", std::move(one)}};
    if (field.shape == Shape::Map) one = json::Object{{"type", "object"}, {"additionalProperties", std::move(one)}};
    properties.set(field.json_name, std::move(one));
  }
  return json::Object{{"type", "object"}, {"properties", std::move(properties)}};
}

void OpenApiSchemas::add_builtin(const ResourceType& type) {
  const MessageFact* fact = proto::message_of_kind(type.api_version(), type.kind);
  if (fact == nullptr) return;
  const auto index = static_cast<std::uint16_t>(fact - proto::message_facts().data());
  json::Value schema = schema_of_message(index);
  if (!schema.is_object()) return;
  put_kind(type, schema.as_object());
  schemas_.set(name_of(type), std::move(schema));
}

void OpenApiSchemas::add_metadata() {
  for (std::uint16_t i = 0; i < proto::message_facts().size(); ++i) {
    if (std::string_view(message(i).name) == "ObjectMeta") add_message(i);
  }
}

void OpenApiSchemas::add_custom(const ResourceType& type, const json::Value& crd) {
  const json::Value* versions = crd.find_path({"spec", "versions"});
  if (versions == nullptr || !versions->is_array()) return;
  for (const json::Value& version : versions->as_array()) {
    if (version.string_at({"name"}) != type.version) continue;
    const json::Value* found = version.find_path({"schema", "openAPIV3Schema"});
    json::Value schema =
        found != nullptr && found->is_object() ? *found : json::Value(json::Object{{"type", "object"}});
    put_kind(type, schema.as_object());
    add_metadata();
    schema.as_object()["properties"].as_object().set("metadata", reference("message.ObjectMeta"));
    schemas_.set(name_of(type), std::move(schema));
  }
}

}  // namespace basalt::apiserver
