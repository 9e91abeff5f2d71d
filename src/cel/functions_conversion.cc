// Conversions between types, and the functions of time.

#include <charconv>
#include <cmath>

#include "base/strings.h"
#include "cel/function.h"
#include "cel/time_values.h"

namespace basalt::cel {
namespace {

constexpr double kInt64End = 9223372036854775808.0;
constexpr double kUint64End = 18446744073709551616.0;

Error overflow(std::string_view what) { return Error::invalid_input(std::string(what) + " overflow"); }
Error not_convertible(std::string_view text, std::string_view type) {
  return Error::invalid_input("type conversion error from " + base::quote(base::ellipsize(text, 100)) + " to '" +
                              std::string(type) + "'");
}

Result<Value> to_int(const Call& call) {
  if (call.get<std::int64_t>(0)) return call[0];
  if (const auto* a = call.get<std::uint64_t>(0)) {
    if (*a > INT64_MAX) return overflow("integer");
    return Value::of_int(static_cast<std::int64_t>(*a));
  }
  if (const auto* a = call.get<double>(0)) {
    if (!(*a > -kInt64End && *a < kInt64End)) return overflow("integer");
    return Value::of_int(static_cast<std::int64_t>(*a));
  }
  if (const auto text = call.text(0)) {
    const auto number = base::parse_int64(*text);
    if (!number) return not_convertible(*text, "int");
    return Value::of_int(*number);
  }
  if (const auto* a = call.get<Timestamp>(0)) return Value::of_int(a->seconds);
  if (const auto* a = call.get<Duration>(0)) return Value::of_int(a->nanos);
  return no_overload();
}

Result<Value> to_uint(const Call& call) {
  if (call.get<std::uint64_t>(0)) return call[0];
  if (const auto* a = call.get<std::int64_t>(0)) {
    if (*a < 0) return overflow("unsigned integer");
    return Value(Value::Data(static_cast<std::uint64_t>(*a)));
  }
  if (const auto* a = call.get<double>(0)) {
    if (!(*a >= 0 && *a < kUint64End)) return overflow("unsigned integer");
    return Value(Value::Data(static_cast<std::uint64_t>(*a)));
  }
  if (const auto text = call.text(0)) {
    const auto number = base::parse_uint64(*text);
    if (!number) return not_convertible(*text, "uint");
    return Value(Value::Data(*number));
  }
  return no_overload();
}

Result<Value> to_double(const Call& call) {
  if (call.get<double>(0)) return call[0];
  if (const auto* a = call.get<std::int64_t>(0)) return Value(Value::Data(static_cast<double>(*a)));
  if (const auto* a = call.get<std::uint64_t>(0)) return Value(Value::Data(static_cast<double>(*a)));
  if (const auto text = call.text(0)) {
    if (*text == "NaN") return Value(Value::Data(std::nan("")));
    if (*text == "Infinity" || *text == "+Infinity" || *text == "inf") return Value(Value::Data(HUGE_VAL));
    if (*text == "-Infinity" || *text == "-inf") return Value(Value::Data(-HUGE_VAL));
    const auto number = base::parse_double(*text);
    if (!number) return not_convertible(*text, "double");
    return Value(Value::Data(*number));
  }
  return no_overload();
}

Result<Value> to_bool(const Call& call) {
  if (call.get<bool>(0)) return call[0];
  const auto text = call.text(0);
  if (!text) return no_overload();
  for (const std::string_view yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (*text == yes) return Value::of_bool(true);
  }
  for (const std::string_view no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (*text == no) return Value::of_bool(false);
  }
  return not_convertible(*text, "bool");
}

Result<Value> to_bytes(const Call& call) {
  if (call.get<Bytes>(0)) return call[0];
  if (const auto* text = call.get<Text>(0)) return Value(Value::Data(Bytes{*text}));
  return no_overload();
}

Result<Value> to_timestamp(const Call& call) {
  if (call.get<Timestamp>(0)) return call[0];
  if (const auto text = call.text(0)) {
    const auto time = parse_timestamp(*text);
    if (!time) return not_convertible(*text, "google.protobuf.Timestamp");
    return Value(Value::Data(*time));
  }
  const auto* seconds = call.get<std::int64_t>(0);
  if (seconds == nullptr) return no_overload();
  const auto time = make_timestamp(*seconds, 0);
  if (!time) return overflow("timestamp");
  return Value(Value::Data(*time));
}

Result<Value> to_duration(const Call& call) {
  if (call.get<Duration>(0)) return call[0];
  if (const auto* nanos = call.get<std::int64_t>(0)) return Value(Value::Data(Duration{*nanos}));
  const auto text = call.text(0);
  if (!text) return no_overload();
  const auto duration = parse_duration(*text);
  if (!duration) return not_convertible(*text, "google.protobuf.Duration");
  return Value(Value::Data(*duration));
}

Result<Value> same(const Call& call) { return call[0]; }

Result<Value> type_of(const Call& call) { return Value(Value::Data(TypeName{call[0].type_name()})); }

Result<Value> get_part(const Call& call) {
  if (call.size() == 1) return time_part(call[0], call.name, "");
  const auto zone = call.text(1);
  if (!zone || call.get<Timestamp>(0) == nullptr) return no_overload();
  return time_part(call[0], call.name, *zone);
}

constexpr Function kConversionFunctions[] = {
    {"int", false, 1, 1, to_int, "int"},
    {"uint", false, 1, 1, to_uint, "uint"},
    {"double", false, 1, 1, to_double, "double"},
    {"bool", false, 1, 1, to_bool, "bool"},
    {"string", false, 1, 1, to_text, "string"},
    {"bytes", false, 1, 1, to_bytes, "bytes"},
    {"timestamp", false, 1, 1, to_timestamp, "google.protobuf.Timestamp"},
    {"duration", false, 1, 1, to_duration, "google.protobuf.Duration"},
    {"dyn", false, 1, 1, same},
    {"type", false, 1, 1, type_of, "type"},
    {"getFullYear", true, 0, 1, get_part, "int"},
    {"getMonth", true, 0, 1, get_part, "int"},
    {"getDayOfYear", true, 0, 1, get_part, "int"},
    {"getDayOfMonth", true, 0, 1, get_part, "int"},
    {"getDate", true, 0, 1, get_part, "int"},
    {"getDayOfWeek", true, 0, 1, get_part, "int"},
    {"getHours", true, 0, 1, get_part, "int"},
    {"getMinutes", true, 0, 1, get_part, "int"},
    {"getSeconds", true, 0, 1, get_part, "int"},
    {"getMilliseconds", true, 0, 1, get_part, "int"},
};

}  // namespace

std::span<const Function> conversion_functions() { return kConversionFunctions; }

// The shortest text that reads back as the same number, laid out as Go's %g does.
std::string double_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char buffer[64];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const int exponent = static_cast<int>(base::parse_int64(text.substr(text.find('e') + 1)).value_or(0));
  constexpr int kExponentMin = -4;
  constexpr int kExponentMax = 6;
  if (exponent < kExponentMin || exponent >= kExponentMax) return std::string(text);
  const auto plain = std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::fixed).ptr;
  return {buffer, static_cast<std::size_t>(plain - buffer)};
}

Result<Value> to_text(const Call& call) {
  if (call.get<Text>(0)) return call[0];
  if (const auto* a = call.get<bool>(0)) return Value::of_text(*a ? "true" : "false");
  if (const auto* a = call.get<std::int64_t>(0)) return Value::of_text(std::to_string(*a));
  if (const auto* a = call.get<std::uint64_t>(0)) return Value::of_text(std::to_string(*a));
  if (const auto* a = call.get<double>(0)) return Value::of_text(double_text(*a));
  if (const auto* a = call.get<Timestamp>(0)) return Value::of_text(timestamp_text(*a));
  if (const auto* a = call.get<Duration>(0)) return Value::of_text(duration_text(*a));
  if (const auto* a = call.get<Bytes>(0)) {
    if (!base::is_valid_utf8(a->text.view))
      return Error::invalid_input("invalid UTF-8 in bytes, cannot convert to string");
    return Value(Value::Data(a->text));
  }
  if (const Extension* extension = call[0].extension()) return extension->call("string", {});
  return no_overload();
}

}  // namespace basalt::cel
