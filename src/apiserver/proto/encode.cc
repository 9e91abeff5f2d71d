#include "apiserver/proto/encode.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "api/duration.h"
#include "api/time.h"
#include "apiserver/proto/field_shapes.h"
#include "apiserver/proto/tables.h"
#include "apiserver/proto/wire.h"
#include "base/encoding.h"
#include "base/strings.h"

namespace basalt::apiserver::proto {
namespace {

constexpr std::string_view kMagic("k8s\0", 4);
constexpr int kDepthMax = 100;  // as decode_object takes it

Error unfit(const MessageFact& message, std::string_view field, std::string_view why) {
  std::string text = "the object cannot be written as protobuf: ";
  text += message.name;
  if (!field.empty()) text.append(".").append(field);
  return Error::make(Reason::InternalError, text.append(": ").append(why));
}

// The number of a whole JSON number; a double that is whole is one.
std::optional<std::int64_t> whole(const json::Value& value) {
  if (value.is_int()) return value.as_int();
  constexpr double kExact = 9'007'199'254'740'992.0;  // beyond it not every whole number is a double
  if (!value.is_double() || std::abs(value.as_double()) > kExact) return std::nullopt;
  const auto number = static_cast<std::int64_t>(value.as_double());
  if (static_cast<double>(number) != value.as_double()) return std::nullopt;
  return number;
}

std::span<const FieldFact> fields_of(const MessageFact& message) {
  return field_facts().subspan(message.first_field, message.field_count);
}

Done encode_message(const MessageFact& message, const json::Value& value, int depth, WireWriter& out);

Done encode_value(const MessageFact& message, const FieldFact& field, std::uint32_t number, const json::Value& value,
                  int depth, WireWriter& out) {
  const auto mismatch = [&] {
    return unfit(message, field.json_name, "it is of type " + std::string(value.type_name()));
  };
  switch (field.form) {
    case Form::Bool:
      if (!value.is_bool()) return mismatch();
      out.varint_field(number, value.as_bool() ? 1 : 0);
      return Ok{};
    case Form::Int32:
    case Form::Int64: {
      const auto found = whole(value);
      if (!found) return mismatch();
      out.varint_field(number, static_cast<std::uint64_t>(*found));
      return Ok{};
    }
    case Form::Double:
      if (!value.is_number()) return mismatch();
      out.fixed64_field(number, value.as_double());
      return Ok{};
    case Form::Text:
      if (!value.is_string()) return mismatch();
      out.bytes_field(number, value.as_string());
      return Ok{};
    case Form::Bytes: {
      const auto bytes = value.is_string() ? base::base64_decode(value.as_string()) : std::nullopt;
      if (!bytes) return mismatch();
      out.bytes_field(number, *bytes);
      return Ok{};
    }
    case Form::Message: {
      WireWriter inner;
      BASALT_TRY_DONE(encode_message(message_facts()[field.message], value, depth + 1, inner));
      out.bytes_field(number, inner.bytes());
      return Ok{};
    }
  }
  return mismatch();
}

Done encode_items(const MessageFact& message, const FieldFact& field, const json::Value& list, int depth,
                  WireWriter& out) {
  if (!list.is_array()) return unfit(message, field.json_name, "it is no list");
  for (const json::Value& item : list.as_array()) {
    BASALT_TRY_DONE(encode_value(message, field, field.number, item, depth, out));
  }
  return Ok{};
}

Done encode_map(const MessageFact& message, const FieldFact& field, const json::Value& map, int depth,
                WireWriter& out) {
  if (!map.is_object()) return unfit(message, field.json_name, "it is no map");
  for (const json::Member& member : map.as_object()) {
    WireWriter entry;
    entry.bytes_field(1, member.key);
    if (!member.value.is_null()) BASALT_TRY_DONE(encode_value(message, field, 2, member.value, depth, entry));
    out.bytes_field(field.number, entry.bytes());
  }
  return Ok{};
}

Done encode_fields(const MessageFact& message, const json::Value& object, int depth, WireWriter& out) {
  if (depth > kDepthMax) return unfit(message, {}, "it is nested more than " + std::to_string(kDepthMax) + " deep");
  if (!object.is_object()) return unfit(message, {}, "it is no object");
  for (const FieldFact& field : fields_of(message)) {
    if (field.shape == Shape::Inline) {
      WireWriter inner;
      BASALT_TRY_DONE(encode_fields(message_facts()[field.message], object, depth + 1, inner));
      if (!inner.bytes().empty()) out.bytes_field(field.number, inner.bytes());
      continue;
    }
    const json::Value* value = object.find(field.json_name);
    if (value == nullptr || value->is_null()) continue;
    if (field.shape == Shape::Repeated) {
      BASALT_TRY_DONE(encode_items(message, field, *value, depth, out));
    } else if (field.shape == Shape::Map) {
      BASALT_TRY_DONE(encode_map(message, field, *value, depth, out));
    } else {
      BASALT_TRY_DONE(encode_value(message, field, field.number, *value, depth, out));
    }
  }
  return Ok{};
}

// One of several forms of a value, by what it is. Go's struct of "a schema or a bool" says true beside a schema.
Done encode_union(const MessageFact& message, const json::Value& value, int depth, WireWriter& out) {
  for (const FieldFact& field : fields_of(message)) {
    if (value.is_array() && field.shape == Shape::Repeated) {
      BASALT_TRY_DONE(encode_items(message, field, value, depth, out));
    } else if (value.is_object() && field.form == Form::Message && field.shape == Shape::Single) {
      BASALT_TRY_DONE(encode_value(message, field, field.number, value, depth, out));
    } else if (field.form == Form::Bool && (value.is_bool() || value.is_object())) {
      out.varint_field(field.number, value.is_object() || value.as_bool() ? 1 : 0);
    }
  }
  return Ok{};
}

Done encode_time(const MessageFact& message, const json::Value& value, WireWriter& out) {
  const auto time = api::MicroTime::parse(value.is_string() ? value.as_string() : std::string());
  if (!time.ok()) return unfit(message, {}, time.error().message);
  constexpr std::int64_t kMicros = 1'000'000;
  const std::int64_t micros = time->unix_micros();
  const std::int64_t seconds = micros / kMicros - (micros % kMicros < 0 ? 1 : 0);
  out.varint_field(1, static_cast<std::uint64_t>(seconds));
  const bool has_fraction = message.form == MessageForm::MicroTime;
  out.varint_field(2, has_fraction ? static_cast<std::uint64_t>((micros - seconds * kMicros) * 1000) : 0);
  return Ok{};
}

Done encode_int_or_string(const MessageFact& message, const json::Value& value, WireWriter& out) {
  const auto number = whole(value);
  if (!number && !value.is_string()) return unfit(message, {}, "neither number nor text");
  out.varint_field(1, number ? 0 : 1);
  out.varint_field(2, static_cast<std::uint64_t>(number.value_or(0)));
  out.bytes_field(3, number ? std::string_view() : std::string_view(value.as_string()));
  return Ok{};
}

Done encode_message(const MessageFact& message, const json::Value& value, int depth, WireWriter& out) {
  if (value.is_null()) return Ok{};
  switch (message.form) {
    case MessageForm::Object:
      return encode_fields(message, value, depth, out);
    case MessageForm::Items:
      return encode_items(message, fields_of(message).front(), value, depth, out);
    case MessageForm::Union:
      return encode_union(message, value, depth, out);
    case MessageForm::Quantity:
      out.bytes_field(1, value.is_string() ? value.as_string() : value.to_text());
      return Ok{};
    case MessageForm::IntOrString:
      return encode_int_or_string(message, value, out);
    case MessageForm::Raw:
      out.bytes_field(1, value.to_text());
      return Ok{};
    case MessageForm::Time:
    case MessageForm::MicroTime:
      return encode_time(message, value, out);
    case MessageForm::Duration: {
      const auto duration = api::Duration::parse(value.is_string() ? value.as_string() : std::string());
      if (!duration.ok()) return unfit(message, {}, duration.error().message);
      out.varint_field(1, static_cast<std::uint64_t>(duration->value.count()));
      return Ok{};
    }
  }
  return unfit(message, {}, "unknown form");
}

const MessageFact& list_meta() {
  static const MessageFact& found =
      *std::ranges::find(message_facts(), std::string_view("ListMeta"),
                         [](const MessageFact& message) { return std::string_view(message.name); });
  return found;
}

// Of some kinds, Status among them, every version is the same.
const MessageFact* find_message(std::string_view api_version, std::string_view kind) {
  const MessageFact* message = message_of_kind(api_version, kind);
  return message != nullptr ? message : message_of_kind("", kind);
}

Error no_form(std::string_view api_version, std::string_view kind) {
  return Error::make(Reason::NotAcceptable, "the kind " + base::quote(kind) + " of version " +
                                                base::quote(api_version) + " has no protobuf form");
}

std::string enveloped(std::string_view api_version, std::string_view kind, std::string_view raw) {
  WireWriter type_meta;
  type_meta.bytes_field(1, api_version);
  type_meta.bytes_field(2, kind);
  WireWriter envelope{std::string(kMagic)};
  envelope.bytes_field(1, type_meta.bytes());
  envelope.bytes_field(2, raw);
  envelope.bytes_field(3, {});
  envelope.bytes_field(4, {});
  return std::move(envelope).take();
}

}  // namespace

Result<std::string> encode_object(const json::Value& object) {
  const std::string_view api_version = object.string_at({"apiVersion"});
  const std::string_view kind = object.string_at({"kind"});
  const MessageFact* message = find_message(api_version, kind);
  if (message == nullptr) return no_form(api_version, kind);
  WireWriter raw;
  BASALT_TRY_DONE(encode_message(*message, object, 1, raw));
  return enveloped(api_version, kind, raw.bytes());
}

// All lists have their metadata in field 1 and their items in field 2.
Result<std::string> encode_list(std::string_view api_version, std::string_view item_kind, const json::Value& metadata,
                                std::span<const std::shared_ptr<const std::string>> items) {
  const MessageFact* item_message = find_message(api_version, item_kind);
  if (item_message == nullptr) return no_form(api_version, item_kind);
  WireWriter raw;
  WireWriter head;
  BASALT_TRY_DONE(encode_message(list_meta(), metadata, 2, head));
  raw.bytes_field(1, head.bytes());
  for (const auto& text : items) {
    BASALT_TRY(const json::Value object, json::Value::parse(*text));
    WireWriter item;
    BASALT_TRY_DONE(encode_message(*item_message, object, 2, item));
    raw.bytes_field(2, item.bytes());
  }
  return enveloped(api_version, std::string(item_kind) + "List", raw.bytes());
}

Result<std::string> encode_watch_frame(std::string_view type, const json::Value& object) {
  BASALT_TRY(const std::string body, encode_object(object));
  WireWriter extension;
  extension.bytes_field(1, body);
  WireWriter event{std::string(4, '\0')};
  event.bytes_field(1, type);
  event.bytes_field(2, extension.bytes());
  std::string frame = std::move(event).take();
  const std::size_t length = frame.size() - 4;
  for (std::size_t i = 0; i < 4; ++i) frame[i] = static_cast<char>(length >> (8 * (3 - i)) & 0xFFu);
  return frame;
}

}  // namespace basalt::apiserver::proto
