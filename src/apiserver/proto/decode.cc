#include "apiserver/proto/decode.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/duration.h"
#include "api/time.h"
#include "apiserver/proto/tables.h"
#include "apiserver/proto/wire.h"
#include "apiserver/registry/errors.h"
#include "base/encoding.h"
#include "base/strings.h"

namespace basalt::apiserver::proto {
namespace {

constexpr std::string_view kMagic("k8s\0", 4);
constexpr int kDepthMax = 100;
// Seconds since 1970 that RFC 3339 can write. The first is what Go calls the zero time, which is null in JSON.
constexpr std::int64_t kSecondsMin = -62'135'596'800;  // 0001-01-01T00:00:00Z
constexpr std::int64_t kSecondsMax = 253'402'300'799;  // 9999-12-31T23:59:59Z
constexpr std::int64_t kNanosMax = 999'999'999;

Error malformed(std::string_view message, std::string_view field, std::string_view why) {
  std::string text = "the body of the request is malformed protobuf: ";
  text += message;
  if (!field.empty()) text.append(".").append(field);
  return bad_request(text.append(": ").append(why));
}

// An object while its message is read. Entries of maps gather beside it and are sorted once, at the end.
struct Frame {
  json::Object object;
  std::vector<std::pair<const FieldFact*, std::vector<json::Member>>> maps;

  std::vector<json::Member>& entries_of(const FieldFact& field) {
    for (auto& [owner, entries] : maps) {
      if (owner == &field) return entries;
    }
    return maps.emplace_back(&field, std::vector<json::Member>()).second;
  }
};

Result<json::Value> decode_message(const MessageFact& message, std::string_view bytes, int depth);
Result<json::Value> decode_envelope(std::string_view body, int depth);

const FieldFact* find_field(const MessageFact& message, std::uint32_t number) {
  const auto fields = field_facts().subspan(message.first_field, message.field_count);
  const auto found = std::ranges::lower_bound(fields, number, {}, &FieldFact::number);
  return found != fields.end() && found->number == number ? &*found : nullptr;
}

WireType wire_type_of(Form form) {
  switch (form) {
    case Form::Bool:
    case Form::Int32:
    case Form::Int64:
      return WireType::Varint;
    case Form::Double:
      return WireType::Fixed64;
    case Form::Text:
    case Form::Bytes:
    case Form::Message:
      break;
  }
  return WireType::Bytes;
}

bool is_packable(Form form) { return wire_type_of(form) != WireType::Bytes; }

// One number, of which the reader stands at the first byte.
std::optional<json::Value> read_number(WireReader& reader, Form form) {
  if (form == Form::Double) {
    const auto number = reader.fixed64();
    if (!number || !std::isfinite(*number)) return std::nullopt;
    return json::Value(*number);
  }
  const auto bits = reader.varint();
  if (!bits) return std::nullopt;
  if (form == Form::Bool) return json::Value(*bits != 0);
  if (form == Form::Int32) return json::Value(static_cast<std::int64_t>(static_cast<std::int32_t>(*bits)));
  return json::Value(static_cast<std::int64_t>(*bits));
}

bool is_zero(const json::Value& value) {
  if (value.is_bool()) return !value.as_bool();
  if (value.is_number()) return value.as_double() == 0;
  return value.is_string() && value.as_string().empty();
}

Result<json::Value> decode_bytes(const MessageFact& message, const FieldFact& field, std::string_view bytes,
                                 int depth) {
  if (field.form == Form::Message) return decode_message(message_facts()[field.message], bytes, depth + 1);
  if (field.form == Form::Bytes) return json::Value(base::base64_encode(bytes));
  if (!base::is_valid_utf8(bytes)) return malformed(message.name, field.json_name, "the text is not UTF-8");
  return json::Value(bytes);
}

// The value of a field whose wire type was checked.
Result<json::Value> decode_value(const MessageFact& message, const FieldFact& field, WireReader& reader, int depth) {
  if (is_packable(field.form)) {
    auto number = read_number(reader, field.form);
    if (!number) return malformed(message.name, field.json_name, "no number");
    return std::move(*number);
  }
  const auto bytes = reader.bytes();
  if (!bytes) return malformed(message.name, field.json_name, "its length is more than there is");
  return decode_bytes(message, field, *bytes, depth);
}

// A map is a list of messages with the key in field 1 and the value in field 2; what is missing is empty.
Done add_map_entry(const MessageFact& message, const FieldFact& field, std::string_view bytes, int depth,
                   Frame& frame) {
  WireReader reader(bytes);
  std::string_view key;
  json::Value value;
  bool has_value = false;
  while (!reader.at_end()) {
    const auto tag = reader.tag();
    if (!tag) return malformed(message.name, field.json_name, "no field number in an entry");
    if (tag->number == 1 && tag->type == WireType::Bytes) {
      const auto text = reader.bytes();
      if (!text || !base::is_valid_utf8(*text)) return malformed(message.name, field.json_name, "no key in an entry");
      key = *text;
    } else if (tag->number == 2 && tag->type == wire_type_of(field.form)) {
      BASALT_TRY(value, decode_value(message, field, reader, depth));
      has_value = true;
    } else if (tag->number <= 2 || !reader.skip(tag->type)) {
      return malformed(message.name, field.json_name, "an entry is neither key nor value");
    }
  }
  if (!has_value && !is_packable(field.form)) {
    BASALT_TRY(value, decode_bytes(message, field, {}, depth));
  }
  frame.entries_of(field).push_back({std::string(key), std::move(value)});
  return Ok{};
}

Done add_packed(const MessageFact& message, const FieldFact& field, std::string_view bytes, json::Array& list) {
  WireReader reader(bytes);
  while (!reader.at_end()) {
    auto number = read_number(reader, field.form);
    if (!number) return malformed(message.name, field.json_name, "no number");
    list.push_back(std::move(*number));
  }
  return Ok{};
}

json::Array& list_of(const FieldFact& field, Frame& frame) {
  json::Value& value = frame.object[field.json_name];
  if (!value.is_array()) value = json::Array();
  return value.as_array();
}

Done decode_fields(const MessageFact& message, std::string_view bytes, int depth, Frame& frame);

Done decode_single(const MessageFact& message, const FieldFact& field, WireReader& reader, int depth, Frame& frame) {
  BASALT_TRY(json::Value value, decode_value(message, field, reader, depth));
  if (field.form == Form::Message) {
    // No encoder writes a message in two parts, and merging them is work that a tenant could make quadratic.
    if (frame.object.contains(field.json_name)) return malformed(message.name, field.json_name, "it occurs twice");
    if (!value.is_null()) frame.object.set(field.json_name, std::move(value));
    return Ok{};
  }
  if (!field.keeps_zero && is_zero(value)) {
    frame.object.erase(field.json_name);
  } else {
    frame.object.set(field.json_name, std::move(value));
  }
  return Ok{};
}

Done decode_field(const MessageFact& message, const FieldFact& field, WireType type, WireReader& reader, int depth,
                  Frame& frame) {
  const bool is_packed = type == WireType::Bytes && field.shape == Shape::Repeated && is_packable(field.form);
  const WireType expected = field.shape == Shape::Map ? WireType::Bytes : wire_type_of(field.form);
  if (type != expected && !is_packed) {
    return malformed(message.name, field.json_name,
                     "wire type " + std::to_string(static_cast<int>(type)) + " instead of " +
                         std::to_string(static_cast<int>(expected)));
  }
  if (field.shape == Shape::Single) return decode_single(message, field, reader, depth, frame);
  if (field.shape == Shape::Repeated && !is_packed) {
    BASALT_TRY(json::Value value, decode_value(message, field, reader, depth));
    list_of(field, frame).push_back(std::move(value));
    return Ok{};
  }
  const auto bytes = reader.bytes();
  if (!bytes) return malformed(message.name, field.json_name, "its length is more than there is");
  if (field.shape == Shape::Map) return add_map_entry(message, field, *bytes, depth, frame);
  if (field.shape == Shape::Inline) return decode_fields(message_facts()[field.message], *bytes, depth + 1, frame);
  return add_packed(message, field, *bytes, list_of(field, frame));
}

Done decode_fields(const MessageFact& message, std::string_view bytes, int depth, Frame& frame) {
  if (depth > kDepthMax) {
    return malformed(message.name, {}, "messages are nested more than " + std::to_string(kDepthMax) + " deep");
  }
  WireReader reader(bytes);
  while (!reader.at_end()) {
    const auto tag = reader.tag();
    if (!tag) return malformed(message.name, {}, "no field number");
    const FieldFact* field = find_field(message, tag->number);
    if (field != nullptr) {
      BASALT_TRY_DONE(decode_field(message, *field, tag->type, reader, depth, frame));
    } else if (!reader.skip(tag->type)) {
      return malformed(message.name, std::to_string(tag->number), "its value is cut off or no value");
    }
  }
  return Ok{};
}

Result<json::Object> decode_plain(const MessageFact& message, std::string_view bytes, int depth) {
  Frame frame;
  BASALT_TRY_DONE(decode_fields(message, bytes, depth, frame));
  for (auto& [field, entries] : frame.maps) {
    json::Object map;
    map.assign(std::move(entries));
    frame.object.set(field->json_name, std::move(map));
  }
  return std::move(frame.object);
}

// The fields 1 to 3 of a message that is a value of its own. What is missing is zero.
struct Parts {
  std::int64_t numbers[3] = {};
  std::string_view texts[3];
};

Result<Parts> read_parts(const MessageFact& message, std::string_view bytes) {
  Parts parts;
  WireReader reader(bytes);
  while (!reader.at_end()) {
    const auto tag = reader.tag();
    if (!tag) return malformed(message.name, {}, "no field number");
    const std::size_t index = tag->number - 1;
    if (index < std::size(parts.texts) && tag->type == WireType::Bytes) {
      const auto text = reader.bytes();
      if (!text) return malformed(message.name, std::to_string(tag->number), "its length is more than there is");
      parts.texts[index] = *text;
    } else if (index < std::size(parts.numbers) && tag->type == WireType::Varint) {
      const auto number = reader.varint();
      if (!number) return malformed(message.name, std::to_string(tag->number), "no number");
      parts.numbers[index] = static_cast<std::int64_t>(*number);
    } else if (!reader.skip(tag->type)) {
      return malformed(message.name, std::to_string(tag->number), "its value is cut off or no value");
    }
  }
  return parts;
}

Result<json::Value> text_value(const MessageFact& message, std::string_view text) {
  if (!base::is_valid_utf8(text)) return malformed(message.name, {}, "the text is not UTF-8");
  return json::Value(text);
}

Result<json::Value> decode_time(const MessageFact& message, std::string_view bytes) {
  if (bytes.empty()) return json::Value();
  BASALT_TRY(const Parts parts, read_parts(message, bytes));
  const std::int64_t seconds = parts.numbers[0];
  const std::int64_t nanos = parts.numbers[1];
  if (seconds < kSecondsMin || seconds > kSecondsMax || nanos < 0 || nanos > kNanosMax) {
    return malformed(message.name, {}, "the time is outside the years 1 to 9999");
  }
  if (seconds == kSecondsMin && nanos == 0) return json::Value();
  if (message.form == MessageForm::Time) return json::Value(api::Time::from_unix(seconds).to_string());
  return json::Value(api::MicroTime::from_unix_micros(seconds * 1'000'000 + nanos / 1000).to_string());
}

Result<json::Value> decode_raw(const MessageFact& message, std::string_view bytes, int depth) {
  BASALT_TRY(const Parts parts, read_parts(message, bytes));
  const std::string_view raw = parts.texts[0];
  if (raw.empty()) return json::Value();
  if (raw.starts_with(kMagic)) return decode_envelope(raw, depth + 1);
  auto value =
      json::Value::parse(raw, {.depth_max = std::max(1, kDepthMax - depth), .duplicate_keys_are_errors = false});
  if (!value.ok()) return malformed(message.name, {}, "not JSON: " + value.error().message);
  return std::move(*value);
}

Result<json::Value> decode_int_or_string(const MessageFact& message, std::string_view bytes) {
  BASALT_TRY(const Parts parts, read_parts(message, bytes));
  if (parts.numbers[0] == 0) return json::Value(static_cast<std::int64_t>(static_cast<std::int32_t>(parts.numbers[1])));
  if (parts.numbers[0] == 1) return text_value(message, parts.texts[2]);
  return malformed(message.name, "type", "neither number nor text");
}

Result<json::Value> decode_union(const MessageFact& message, std::string_view bytes, int depth) {
  BASALT_TRY(json::Object object, decode_plain(message, bytes, depth));
  json::Value* chosen = nullptr;
  const auto rank = [](const json::Value& value) { return value.is_array() ? 2 : value.is_object() ? 1 : 0; };
  for (json::Member& member : object) {
    if (chosen == nullptr || rank(member.value) > rank(*chosen)) chosen = &member.value;
  }
  return chosen == nullptr ? json::Value() : std::move(*chosen);
}

Result<json::Value> decode_message(const MessageFact& message, std::string_view bytes, int depth) {
  switch (message.form) {
    case MessageForm::Object: {
      BASALT_TRY(json::Object object, decode_plain(message, bytes, depth));
      return json::Value(std::move(object));
    }
    case MessageForm::Items: {
      BASALT_TRY(json::Object object, decode_plain(message, bytes, depth));
      return object.empty() ? json::Value(json::Array()) : std::move(object.begin()->value);
    }
    case MessageForm::Union:
      return decode_union(message, bytes, depth);
    case MessageForm::Quantity: {
      BASALT_TRY(const Parts parts, read_parts(message, bytes));
      return text_value(message, parts.texts[0].empty() ? "0" : parts.texts[0]);
    }
    case MessageForm::IntOrString:
      return decode_int_or_string(message, bytes);
    case MessageForm::Raw:
      return decode_raw(message, bytes, depth);
    case MessageForm::Time:
    case MessageForm::MicroTime:
      return decode_time(message, bytes);
    case MessageForm::Duration: {
      BASALT_TRY(const Parts parts, read_parts(message, bytes));
      return json::Value(api::Duration(std::chrono::nanoseconds(parts.numbers[0])).to_string());
    }
  }
  return malformed(message.name, {}, "unknown form");
}

const MessageFact* find_kind(std::string_view api_version, std::string_view kind) {
  for (const KindFact& fact : kind_facts()) {
    const std::string_view version = fact.api_version;
    if (kind == fact.kind && (version.empty() || version == api_version)) return &message_facts()[fact.message];
  }
  return nullptr;
}

// runtime.Unknown: 1 {1 apiVersion, 2 kind}, 2 the object's bytes, 3 content encoding, 4 content type.
struct Envelope {
  std::string_view api_version;
  std::string_view kind;
  std::string_view raw;
  std::string_view encoding;
  std::string_view content_type;
};

Result<Envelope> read_envelope(std::string_view bytes) {
  constexpr MessageFact kUnknown{0, 0, MessageForm::Object, "Unknown"};
  constexpr MessageFact kTypeMeta{0, 0, MessageForm::Object, "TypeMeta"};
  Envelope envelope;
  std::string_view type_meta;
  WireReader reader(bytes);
  while (!reader.at_end()) {
    const auto tag = reader.tag();
    if (!tag) return malformed(kUnknown.name, {}, "no field number");
    if (tag->number > 4 || tag->type != WireType::Bytes) {
      if (tag->number > 4 && reader.skip(tag->type)) continue;
      return malformed(kUnknown.name, std::to_string(tag->number), "its value is cut off or of the wrong type");
    }
    const auto value = reader.bytes();
    if (!value) return malformed(kUnknown.name, std::to_string(tag->number), "its length is more than there is");
    std::string_view* const places[] = {&type_meta, &envelope.raw, &envelope.encoding, &envelope.content_type};
    *places[tag->number - 1] = *value;
  }
  BASALT_TRY(const Parts names, read_parts(kTypeMeta, type_meta));
  envelope.api_version = names.texts[0];
  envelope.kind = names.texts[1];
  return envelope;
}

Result<json::Value> decode_envelope(std::string_view body, int depth) {
  if (depth > kDepthMax) return malformed("Unknown", {}, "objects are nested too deeply");
  if (!body.starts_with(kMagic)) {
    return bad_request("the body of the request does not begin as a protobuf object of Kubernetes does");
  }
  BASALT_TRY(const Envelope envelope, read_envelope(body.substr(kMagic.size())));
  const bool is_protobuf = envelope.content_type.empty() || envelope.content_type == kMediaType;
  if (!envelope.encoding.empty() || !is_protobuf) {
    return bad_request("the protobuf object in the body of the request holds another format");
  }
  const MessageFact* message = find_kind(envelope.api_version, envelope.kind);
  if (message == nullptr) {
    // As Kubernetes answers for custom resources, which have no protobuf form.
    return Error::make(
        Reason::UnsupportedMediaType,
        "no kind " + base::quote(base::ellipsize(envelope.kind, 100)) + " of version " +
            base::quote(base::ellipsize(envelope.api_version, 100)) +
            " has a protobuf form here - accepted media types include: application/json, application/yaml");
  }
  BASALT_TRY(json::Object object, decode_plain(*message, envelope.raw, depth));
  if (!base::is_valid_utf8(envelope.api_version)) return malformed("TypeMeta", "apiVersion", "the text is not UTF-8");
  object.set("apiVersion", envelope.api_version);
  object.set("kind", envelope.kind);
  return json::Value(std::move(object));
}

}  // namespace

Result<json::Value> decode_object(std::string_view body) { return decode_envelope(body, 1); }

}  // namespace basalt::apiserver::proto
