#pragma once

#include <cstdint>
#include <span>

// The facts about Kubernetes' protobuf messages that decoding needs; gen/tables.cc has them, tools/gen_proto writes it.

namespace basalt::apiserver::proto {

enum class Form : std::uint8_t { Bool, Int32, Int64, Double, Text, Bytes, Message };
// Map: string keys to the form. Inline: the fields of the message are fields of the object around it.
enum class Shape : std::uint8_t { Single, Repeated, Map, Inline };

struct FieldFact {
  std::uint16_t number;
  Form form;
  Shape shape;
  // Of single scalars: a zero on the wire is a zero in JSON, since the Go field is a pointer or written always.
  // Otherwise Go's JSON encoding would have left it out ("omitempty").
  bool keeps_zero;
  std::uint16_t message;  // index, if the form is Message
  const char* json_name;
};

enum class MessageForm : std::uint8_t {
  Object,       // by its fields
  Items,        // the list in its only field
  Union,        // what is there of several forms of one value: a list before a message before a scalar
  Quantity,     // the text in field 1
  IntOrString,  // 1: which, 2: number, 3: text
  Raw,          // JSON text in field 1, or a whole enveloped object
  Time,         // 1: seconds since 1970, 2: nanoseconds
  MicroTime,    // the same
  Duration,     // 1: nanoseconds
};

struct MessageFact {
  std::uint16_t first_field;
  std::uint16_t field_count;
  MessageForm form;
  const char* name;
  const char* package;  // "io.k8s.api.core.v1", as OpenAPI documents spell it
};

struct KindFact {
  const char* api_version;  // empty: any
  const char* kind;
  std::uint16_t message;
};

[[nodiscard]] std::span<const FieldFact> field_facts();      // by message, then by number
[[nodiscard]] std::span<const MessageFact> message_facts();  // by name
[[nodiscard]] std::span<const KindFact> kind_facts();

}  // namespace basalt::apiserver::proto
