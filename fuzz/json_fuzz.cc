// JSON texts: reading, skipping and strict skipping accept the same ones; what is read, written and read again is the
// same value, however it was written.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "json/raw.h"
#include "json/value.h"

namespace {

using basalt::json::Raw;
using basalt::json::Reader;
using basalt::json::Value;

bool skips(std::string_view text, bool strict) {
  Reader::Options options;
  options.strict = strict;
  Reader reader(text, options);
  reader.skip();
  return reader.finish().ok();
}

// Walks the text by the pull interface with reads of the wrong types mixed in: errors must end every loop.
void read_carelessly(std::string_view text, std::uint64_t choices) {
  Reader reader(text);
  std::string_view key;
  std::uint64_t steps = 0;
  if (!reader.begin_object()) return;
  while (reader.next_member(key)) {
    BASALT_CHECK(++steps <= text.size());
    choices = choices * 6364136223846793005U + 1442695040888963407U;
    switch (choices >> 61) {
      case 0:
        reader.read_int32();
        break;
      case 1:
        reader.read_double();
        break;
      case 2:
        reader.read_string();
        break;
      case 3:
        if (reader.begin_array()) {
          while (reader.next_element()) reader.read_string_view();
        }
        break;
      case 4:
        if (!reader.consume_null()) reader.read_bool();
        break;
      default:
        reader.skip();
    }
  }
  if (!reader.ok()) BASALT_CHECK(!reader.finish().error().message.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Value::ParseOptions lenient;
  lenient.duplicate_keys_are_errors = false;
  const auto value = Value::parse(text, lenient);
  BASALT_CHECK(skips(text, false) == value.ok());
  BASALT_CHECK(skips(text, true) == value.ok());
  read_carelessly(text, size);
  if (!value.ok()) return 0;

  const auto again = Value::parse(value->to_text());
  BASALT_CHECK(again.ok() && *again == *value);
  // From the second time on the text stays (the first may turn -0.0 into the integer 0).
  const auto third = Value::parse(again->to_text());
  BASALT_CHECK(third.ok() && third->to_text() == again->to_text());
  const auto pretty = Value::parse(value->to_pretty_text());
  BASALT_CHECK(pretty.ok() && *pretty == *value);
  const auto raw = basalt::json::from_text<Raw>(text);
  BASALT_CHECK(raw.ok() && raw->value() == *value);
  return 0;
}
