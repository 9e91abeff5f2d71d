#include "api/int_or_string.h"

#include "base/strings.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {

std::string IntOrString::to_string() const {
  return is_int() ? std::to_string(int_value()) : std::string(string_value());
}

Result<std::int64_t> IntOrString::resolve(std::int64_t total, Rounding rounding) const {
  if (is_int()) return std::int64_t{int_value()};
  const auto bad = [&](const char* why) {
    return Error::invalid_input(base::quote(base::ellipsize(string_value(), 64)) + " " + why);
  };
  const std::optional<std::string_view> number = base::strip_suffix(string_value(), "%");
  if (!number) return bad("is neither a number nor a percentage");
  const std::optional<std::int64_t> percent = base::parse_int64(*number);
  if (!percent) return bad("is not a percentage: a whole number has to stand before '%'");
  __extension__ using Wide = __int128;
  const Wide product = Wide{*percent} * total;
  Wide quotient = product / 100;
  const bool inexact = product % 100 != 0;
  if (inexact && product > 0 && rounding == Rounding::Up) ++quotient;
  if (inexact && product < 0 && rounding == Rounding::Down) --quotient;
  if (quotient > std::numeric_limits<std::int64_t>::max() || quotient < std::numeric_limits<std::int64_t>::min()) {
    return bad("is too large a percentage");
  }
  return static_cast<std::int64_t>(quotient);
}

void decode(json::Reader& reader, IntOrString& value) {
  if (reader.consume_null()) {
    value = IntOrString();
  } else if (reader.peek() == json::Kind::String) {
    value = IntOrString(reader.read_string());
  } else {
    value = IntOrString(reader.read_int32());
  }
}

void encode(json::Writer& writer, const IntOrString& value) {
  if (value.is_int()) {
    writer.integer(value.int_value());
  } else {
    writer.string(value.string_value());
  }
}

}  // namespace basalt::api
