#include "apiserver/http/openapi_protobuf.h"

#include <array>
#include <cstdint>

#include "apiserver/proto/wire.h"
#include "yaml/writer.h"

namespace basalt::apiserver {
namespace {

using json::Value;
using proto::WireWriter;

// How a member of a JSON object is written into its field.
enum class As : std::uint8_t {
  Text,
  Flag,
  Count,
  Number,
  Texts,    // repeated
  Any,      // its YAML
  Anys,     // repeated
  Type,     // a message around one or several texts
  Schema,   // a message around a schema
  Schemas,  // repeated
  SchemaOrFlag,
  NamedSchemas,
  Docs,
};

struct Field {
  std::string_view name;
  std::uint32_t number;
  As as;
};

constexpr std::uint32_t kSchemaExtensions = 31;
constexpr std::array kSchemaFields = {
    Field{"$ref", 1, As::Text},
    Field{"format", 2, As::Text},
    Field{"title", 3, As::Text},
    Field{"description", 4, As::Text},
    Field{"default", 5, As::Any},
    Field{"multipleOf", 6, As::Number},
    Field{"maximum", 7, As::Number},
    Field{"exclusiveMaximum", 8, As::Flag},
    Field{"minimum", 9, As::Number},
    Field{"exclusiveMinimum", 10, As::Flag},
    Field{"maxLength", 11, As::Count},
    Field{"minLength", 12, As::Count},
    Field{"pattern", 13, As::Text},
    Field{"maxItems", 14, As::Count},
    Field{"minItems", 15, As::Count},
    Field{"uniqueItems", 16, As::Flag},
    Field{"maxProperties", 17, As::Count},
    Field{"minProperties", 18, As::Count},
    Field{"required", 19, As::Texts},
    Field{"enum", 20, As::Anys},
    Field{"additionalProperties", 21, As::SchemaOrFlag},
    Field{"type", 22, As::Type},
    Field{"items", 23, As::Schema},
    Field{"allOf", 24, As::Schemas},
    Field{"properties", 25, As::NamedSchemas},
    Field{"discriminator", 26, As::Text},
    Field{"readOnly", 27, As::Flag},
    Field{"externalDocs", 29, As::Docs},
    Field{"example", 30, As::Any},
};

std::string schema_message(const Value& schema);

void put_text(WireWriter& out, std::uint32_t number, const Value& value) {
  if (value.is_string() && !value.as_string().empty()) out.bytes_field(number, value.as_string());
}

void put_member(WireWriter& out, std::uint32_t number, const Value& object, std::string_view name) {
  if (const Value* value = object.find(name)) put_text(out, number, *value);
}

void put_texts(WireWriter& out, std::uint32_t number, const Value& value) {
  if (!value.is_array()) return;
  for (const Value& one : value.as_array()) {
    if (one.is_string()) out.bytes_field(number, one.as_string());
  }
}

std::string any_message(const Value& value) {
  WireWriter any;
  any.bytes_field(2, yaml::write(value));
  return std::move(any).take();
}

// A pair of a map: 1: the key, 2: the value's message.
void put_named(WireWriter& out, std::uint32_t number, std::string_view name, std::string_view message) {
  WireWriter pair;
  pair.bytes_field(1, name);
  pair.bytes_field(2, message);
  out.bytes_field(number, pair.bytes());
}

void put_extensions(WireWriter& out, std::uint32_t number, const Value& object) {
  for (const json::Member& member : object.as_object()) {
    if (member.key.starts_with("x-")) put_named(out, number, member.key, any_message(member.value));
  }
}

// {1: pairs}; nothing if there are none: a schema with no properties at all would allow none.
void put_named_schemas(WireWriter& out, std::uint32_t number, const Value& schemas) {
  if (!schemas.is_object() || schemas.as_object().empty()) return;
  WireWriter map;
  for (const json::Member& member : schemas.as_object()) put_named(map, 1, member.key, schema_message(member.value));
  out.bytes_field(number, map.bytes());
}

void put_schema_in_message(WireWriter& out, std::uint32_t number, const Value& schema) {
  WireWriter wrapped;
  wrapped.bytes_field(1, schema_message(schema));
  out.bytes_field(number, wrapped.bytes());
}

void put_field(WireWriter& out, const Field& field, const Value& value) {
  switch (field.as) {
    case As::Text:
      return put_text(out, field.number, value);
    case As::Flag:
      if (value.is_bool() && value.as_bool()) out.varint_field(field.number, 1);
      return;
    case As::Count:
      if (value.is_int() && value.as_int() != 0)
        out.varint_field(field.number, static_cast<std::uint64_t>(value.as_int()));
      return;
    case As::Number:
      if (value.is_number() && value.as_double() != 0) out.fixed64_field(field.number, value.as_double());
      return;
    case As::Texts:
      return put_texts(out, field.number, value);
    case As::Any:
      return out.bytes_field(field.number, any_message(value));
    case As::Anys:
      if (!value.is_array()) return;
      for (const Value& one : value.as_array()) out.bytes_field(field.number, any_message(one));
      return;
    case As::Type: {
      WireWriter type;
      put_text(type, 1, value);
      put_texts(type, 1, value);
      return out.bytes_field(field.number, type.bytes());
    }
    case As::Schema:
      return put_schema_in_message(out, field.number, value);
    case As::Schemas:
      if (!value.is_array()) return;
      for (const Value& one : value.as_array()) out.bytes_field(field.number, schema_message(one));
      return;
    case As::SchemaOrFlag: {
      if (!value.is_bool()) return put_schema_in_message(out, field.number, value);
      WireWriter choice;
      choice.varint_field(2, value.as_bool() ? 1 : 0);
      return out.bytes_field(field.number, choice.bytes());
    }
    case As::NamedSchemas:
      return put_named_schemas(out, field.number, value);
    case As::Docs: {
      WireWriter docs;
      put_member(docs, 1, value, "description");
      put_member(docs, 2, value, "url");
      return out.bytes_field(field.number, docs.bytes());
    }
  }
}

// Recurses once per level of the schema, which the reader of the CRD has bounded.
std::string schema_message(const Value& schema) {
  WireWriter out;
  if (!schema.is_object()) return {};
  for (const Field& field : kSchemaFields) {
    if (const Value* value = schema.find(field.name)) put_field(out, field, *value);
  }
  put_extensions(out, kSchemaExtensions, schema);
  return std::move(out).take();
}

// {1: {2: {3: a parameter of the query}}}: neither in the body nor in the path. Others are not in our documents.
std::string parameter_message(const Value& parameter) {
  WireWriter query;
  put_member(query, 2, parameter, "in");
  put_member(query, 4, parameter, "name");
  put_member(query, 6, parameter, "type");
  if (const Value* unique = parameter.find("uniqueItems"); unique != nullptr && *unique == Value(true)) {
    query.varint_field(20, 1);
  }
  std::string message = std::move(query).take();
  for (const std::uint32_t number : {3U, 2U, 1U}) {
    WireWriter outer;
    outer.bytes_field(number, message);
    message = std::move(outer).take();
  }
  return message;
}

// {1: {1: description, 2: {1: schema}}}
std::string response_message(const Value& response) {
  WireWriter inner;
  put_member(inner, 1, response, "description");
  if (const Value* schema = response.find("schema")) put_schema_in_message(inner, 2, *schema);
  WireWriter outer;
  outer.bytes_field(1, inner.bytes());
  return std::move(outer).take();
}

std::string operation_message(const Value& operation) {
  WireWriter out;
  if (const Value* parameters = operation.find("parameters"); parameters != nullptr && parameters->is_array()) {
    for (const Value& one : parameters->as_array()) out.bytes_field(8, parameter_message(one));
  }
  if (const Value* responses = operation.find("responses"); responses != nullptr && responses->is_object()) {
    WireWriter codes;
    for (const json::Member& member : responses->as_object()) {
      put_named(codes, 1, member.key, response_message(member.value));
    }
    out.bytes_field(9, codes.bytes());
  }
  put_extensions(out, 13, operation);
  return std::move(out).take();
}

std::string path_message(const Value& path) {
  constexpr std::pair<std::string_view, std::uint32_t> kMethods[] = {
      {"get", 2}, {"put", 3}, {"post", 4}, {"delete", 5}, {"patch", 8}};
  WireWriter out;
  for (const auto& [method, number] : kMethods) {
    const Value* operation = path.find(method);
    if (operation != nullptr && operation->is_object()) out.bytes_field(number, operation_message(*operation));
  }
  return std::move(out).take();
}

}  // namespace

std::string to_openapi_protobuf(const Value& document) {
  WireWriter out;
  put_member(out, 1, document, "swagger");
  if (const Value* info = document.find("info")) {
    WireWriter message;
    put_member(message, 1, *info, "title");
    put_member(message, 2, *info, "version");
    out.bytes_field(2, message.bytes());
  }
  if (const Value* paths = document.find("paths"); paths != nullptr && paths->is_object()) {
    WireWriter message;
    for (const json::Member& member : paths->as_object()) put_named(message, 2, member.key, path_message(member.value));
    out.bytes_field(8, message.bytes());
  }
  if (const Value* definitions = document.find("definitions")) put_named_schemas(out, 9, *definitions);
  return std::move(out).take();
}

}  // namespace basalt::apiserver
