// Random values and mutated texts: through our own reader and writer, and compared with Boost.JSON as a second
// implementation. Boost.JSON is compiled into this file only.
//
// Deliberate differences from Boost.JSON 1.81:
// - a number beyond the largest double is an error here, infinity there;
// - Boost's doubles may be off by a few units in the last place, ours are exact: compared with a tolerance.

#include <gtest/gtest.h>

#include <boost/json/src.hpp>
#include <cmath>
#include <string>
#include <string_view>

#include "json/raw.h"
#include "json/testing/print.h"
#include "json/testing/random_value.h"
#include "json/value.h"

namespace basalt::json {
namespace {

Result<Value> parse_lenient(std::string_view text) {
  Value::ParseOptions options;
  options.duplicate_keys_are_errors = false;
  return Value::parse(text, options);
}

bool same_number(double ours, double theirs) {
  return ours == theirs || std::fabs(ours - theirs) <= 1e-14 * std::fabs(ours) || std::fabs(ours - theirs) < 1e-300;
}

bool same(const Value& ours, const boost::json::value& theirs) {
  switch (theirs.kind()) {
    case boost::json::kind::null:
      return ours.is_null();
    case boost::json::kind::bool_:
      return ours.is_bool() && ours.as_bool() == theirs.get_bool();
    case boost::json::kind::int64:
      return ours.is_number() && ours == Value(std::int64_t{theirs.get_int64()});
    case boost::json::kind::uint64:
      return ours.is_double() && same_number(ours.as_double(), static_cast<double>(theirs.get_uint64()));
    case boost::json::kind::double_:
      return ours.is_number() && same_number(ours.as_double(), theirs.get_double());
    case boost::json::kind::string:
      return ours.is_string() && ours.as_string() == std::string_view(theirs.get_string());
    case boost::json::kind::array: {
      const auto& list = theirs.get_array();
      if (!ours.is_array() || ours.as_array().size() != list.size()) return false;
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (!same(ours.as_array()[i], list[i])) return false;
      }
      return true;
    }
    case boost::json::kind::object: {
      const auto& object = theirs.get_object();
      if (!ours.is_object() || ours.as_object().size() != object.size()) return false;
      for (const auto& member : object) {
        const Value* const found = ours.find(std::string_view(member.key()));
        if (found == nullptr || !same(*found, member.value())) return false;
      }
      return true;
    }
  }
  return false;
}

bool has_infinity(const boost::json::value& value) {
  if (value.is_double()) return !std::isfinite(value.get_double());
  if (value.is_array()) {
    return std::any_of(value.get_array().begin(), value.get_array().end(), has_infinity);
  }
  if (value.is_object()) {
    return std::any_of(value.get_object().begin(), value.get_object().end(),
                       [](const auto& member) { return has_infinity(member.value()); });
  }
  return false;
}

// A few bytes of the text changed, most of them to bytes that mean something in JSON.
std::string mutated(std::string text, testing::RandomValues& random) {
  constexpr std::string_view kBytes = "{}[]:,\"\\ \n\t0123456789-+.eEtrufalsn/b\x01\x7f\xC3\xA9\xED\xA0\xF0\x9F";
  for (auto changes = random.below(4); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random.below(text.size());
    const char byte = kBytes[random.below(kBytes.size())];
    switch (random.below(3)) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.insert(at, 1, byte);
        break;
      default:
        text.erase(at, 1 + random.below(3));
    }
  }
  return text;
}

TEST(JsonPropertyTest, ValuesRoundTrip) {
  testing::RandomValues random(31);
  for (int round = 0; round < 1500; ++round) {
    const Value value = random.value(5);
    const std::string text = value.to_text();
    const auto back = Value::parse(text);
    ASSERT_TRUE(back.ok()) << text << ": " << back.error().message;
    ASSERT_EQ(*back, value) << text;
    ASSERT_EQ(back->to_text(), text);
    const auto pretty = Value::parse(value.to_pretty_text());
    ASSERT_TRUE(pretty.ok());
    ASSERT_EQ(*pretty, value);
    const auto raw = from_text<Raw>(value.to_pretty_text());
    ASSERT_TRUE(raw.ok());
    ASSERT_EQ(raw->text(), text);
  }
}

TEST(JsonPropertyTest, AgreesWithBoostJson) {
  testing::RandomValues random(32);
  boost::json::parse_options options;
  options.max_depth = 256;
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 10'000; ++round) {
    const Value value = random.value(3);
    const std::string text = mutated(random.one_in(2) ? value.to_text() : value.to_pretty_text(), random);
    boost::system::error_code error;
    const boost::json::value theirs = boost::json::parse(text, error, {}, options);
    const auto ours = parse_lenient(text);
    if (!error && has_infinity(theirs)) {
      ASSERT_FALSE(ours.ok()) << text;
      continue;
    }
    ASSERT_EQ(ours.ok(), !error) << text << "\nours: " << (ours.ok() ? "accepted" : ours.error().message)
                                 << "\ntheirs: " << error.message();
    if (ours.ok()) {
      ASSERT_TRUE(same(*ours, theirs)) << text;
      ++accepted;
    } else {
      ++refused;
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

// Reading, skipping and strict skipping accept the same texts.
TEST(JsonPropertyTest, SkippingAgreesWithReading) {
  testing::RandomValues random(33);
  for (int round = 0; round < 6000; ++round) {
    const std::string text = mutated(random.value(3).to_pretty_text(), random);
    const bool read = parse_lenient(text).ok();
    for (const bool strict : {false, true}) {
      Reader::Options options;
      options.strict = strict;
      Reader reader(text, options);
      reader.skip();
      ASSERT_EQ(reader.finish().ok(), read) << text;
    }
  }
}

}  // namespace
}  // namespace basalt::json
