#include "api/quantity.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <type_traits>

#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {
namespace {

using Format = Quantity::Format;

Quantity q(std::string_view text) {
  Result<Quantity> parsed = Quantity::parse(text);
  EXPECT_TRUE(parsed.ok()) << text;
  return parsed.ok() ? *parsed : Quantity();
}

static_assert(std::is_trivially_copyable_v<Quantity>);

struct Case {
  const char* text;
  const char* canonical;
  Format format;
  std::int64_t value;
};

// What resource.ParseQuantity of k8s.io/apimachinery v0.36.4 makes of these.
constexpr Case kCases[] = {
    {"0", "0", Format::DecimalSI, 0},
    {"-0", "0", Format::DecimalSI, 0},
    {"+1", "1", Format::DecimalSI, 1},
    {"1000m", "1", Format::DecimalSI, 1},
    {"100m", "100m", Format::DecimalSI, 1},
    {"1.5", "1500m", Format::DecimalSI, 2},
    {"1.", "1", Format::DecimalSI, 1},
    {".5", "500m", Format::DecimalSI, 1},
    {"0.1m", "100u", Format::DecimalSI, 1},
    {"0.1n", "1n", Format::DecimalSI, 1},
    {"1.1n", "2n", Format::DecimalSI, 1},
    {"1u", "1u", Format::DecimalSI, 1},
    {"1k", "1k", Format::DecimalSI, 1000},
    {"1000000", "1M", Format::DecimalSI, 1'000'000},
    {"1500", "1500", Format::DecimalSI, 1500},
    {"1500k", "1500k", Format::DecimalSI, 1'500'000},
    {"00012", "12", Format::DecimalSI, 12},
    {"1Ki", "1Ki", Format::BinarySI, 1024},
    {"1.5Ki", "1536", Format::BinarySI, 1536},
    {"0.5Ki", "512", Format::BinarySI, 512},
    {"0.1Ki", "102400m", Format::BinarySI, 103},
    {"0.0001Ki", "102400u", Format::DecimalSI, 1},
    {"1023Ki", "1023Ki", Format::BinarySI, 1'047'552},
    {"1024Ki", "1Mi", Format::BinarySI, 1'048'576},
    {"1.5Mi", "1536Ki", Format::BinarySI, 1'572'864},
    {"1000Mi", "1000Mi", Format::BinarySI, 1'048'576'000},
    {"0Ki", "0", Format::BinarySI, 0},
    {"-1023Ki", "-1023Ki", Format::BinarySI, -1'047'552},
    {"-0.5Ki", "-512", Format::BinarySI, -512},
    {"1Ei", "1Ei", Format::BinarySI, 1'152'921'504'606'846'976},
    {"8Ei", "9223372036854775807", Format::BinarySI, std::numeric_limits<std::int64_t>::max()},
    {"-9Ei", "-9223372036854775807", Format::BinarySI, -std::numeric_limits<std::int64_t>::max()},
    {"7.99999Ei", "9223360507639729739530240u", Format::BinarySI, 9'223'360'507'639'729'740},
    {"1.234567891234Gi", "1325607179385428771n", Format::BinarySI, 1'325'607'180},
    {"1E", "1E", Format::DecimalSI, 1'000'000'000'000'000'000},
    {"1e18", "1e18", Format::DecimalExponent, 1'000'000'000'000'000'000},
    {"1E3", "1e3", Format::DecimalExponent, 1000},
    {"1e+03", "1e3", Format::DecimalExponent, 1000},
    {"1e-3", "1e-3", Format::DecimalExponent, 1},
    {"1e-10", "1e-9", Format::DecimalExponent, 1},
    {"1e-9999", "1e-9", Format::DecimalExponent, 1},
    {"1e7", "10e6", Format::DecimalExponent, 10'000'000},
    {"15e5", "1500e3", Format::DecimalExponent, 1'500'000},
    {"12e0", "12", Format::DecimalExponent, 12},
    {"0e5", "0", Format::DecimalExponent, 0},
    {"9223372036854775807", "9223372036854775807", Format::DecimalSI, std::numeric_limits<std::int64_t>::max()},
    {"123456789012345678901234567", "123456789012345678901234567", Format::DecimalSI,
     std::numeric_limits<std::int64_t>::max()},
    {"1.23456789012", "1234567891n", Format::DecimalSI, 2},
};

TEST(Quantity, ParsesAndPrintsAsKubernetesDoes) {
  for (const Case& each : kCases) {
    SCOPED_TRACE(each.text);
    const Quantity quantity = q(each.text);
    EXPECT_EQ(quantity.canonical(), each.canonical);
    EXPECT_EQ(quantity.format(), each.format);
    EXPECT_EQ(quantity.value(), each.value);
    EXPECT_EQ(quantity.to_string(), std::string(each.text).size() <= 15 ? each.text : each.canonical);
  }
}

TEST(Quantity, RefusesWhatIsNone) {
  struct Bad {
    const char* text;
    const char* message;
  };
  const char* const format =
      "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
  const char* const suffix = "unable to parse quantity's suffix";
  const char* const number = "unable to parse numeric part of quantity";
  const Bad cases[] = {
      {"", format},     {"1 Gi", format},  {" 1", format},   {"1GiB", format},
      {"1gi", format},  {"1.2.3", format}, {"1e3m", format}, {"1_000", format},
      {"0x10", format}, {"1K", suffix},    {"1i", suffix},   {"1Mii", suffix},
      {"1e", suffix},   {"1e-", suffix},   {"1ee3", suffix}, {"1e99999999999999999999", suffix},
      {"m", number},    {".", number},     {"-", number},    {"e5", number},
      {"1\n", format},  {"1+", suffix},    {"1m3", suffix},  {"one", format},
  };
  for (const Bad& bad : cases) {
    const Result<Quantity> parsed = Quantity::parse(bad.text);
    ASSERT_FALSE(parsed.ok()) << bad.text;
    EXPECT_TRUE(parsed.error().message.ends_with(bad.message)) << parsed.error().message;
  }
  EXPECT_EQ(Quantity::parse("1x\n").error().message.substr(0, 18), R"(quantity "1x\n": q)");
  EXPECT_LT(Quantity::parse(std::string(100'000, 'x')).error().message.size(), 300) << "long text is cut";
}

TEST(Quantity, TextIsKeptUntilTheValueChanges) {
  Quantity quantity = q("1000m");
  EXPECT_EQ(quantity.to_string(), "1000m");
  const Quantity copy = quantity;
  quantity += Quantity();
  EXPECT_EQ(quantity.to_string(), "1");
  EXPECT_EQ(copy.to_string(), "1000m");
  EXPECT_EQ(copy, quantity);
  EXPECT_EQ(q("0000000000000000000000001").to_string(), "1") << "longer than 15 bytes";
}

TEST(Quantity, ArithmeticKeepsTheFormatOfTheFirst) {
  struct Sum {
    const char* a;
    const char* b;
    const char* sum;
  };
  const Sum sums[] = {
      {"1", "1Gi", "1073741825"},
      {"0", "1Gi", "1Gi"},
      {"1Gi", "0", "1Gi"},
      {"1Gi", "1", "1073741825"},
      {"1Gi", "1m", "1073741824001m"},
      {"1Gi", "-1Gi", "0"},
      {"1e3", "1", "1001"},
      {"0.5Ki", "0.5Ki", "1Ki"},
      {"100m", "900m", "1"},
      {"0", "1e3", "1e3"},
      {"8Ei", "1", "8Ei"},
      {"7Ei", "7Ei", "14Ei"},
      {"1e3", "1m", "1000001e-3"},
      {"999", "1", "1k"},
      {"1023Ki", "1Ki", "1Mi"},
      {"1Ki", "0.5", "1024500m"},
      {"1Ki", "-1", "1023"},
      {"0", "-1Gi", "-1Gi"},
      {"1Gi", "-1.5", "1073741822500m"},
  };
  for (const Sum& each : sums) {
    SCOPED_TRACE(std::string(each.a) + " + " + each.b);
    EXPECT_EQ((q(each.a) + q(each.b)).to_string(), each.sum);
    EXPECT_EQ((q(each.a) - -q(each.b)).to_string(), each.sum);
  }
  EXPECT_EQ((q("1Gi") * 3).to_string(), "3Gi");
  EXPECT_EQ((q("100m") * 10).to_string(), "1");
  EXPECT_EQ((q("1e3") * 1000).to_string(), "1e6");
  EXPECT_EQ((q("1Gi") * -2).to_string(), "-2Gi");
  EXPECT_EQ((q("8Ei") * 100).to_string(), "922337203685477580700");
  EXPECT_EQ((q("1Gi") * 0).to_string(), "0");
}

TEST(Quantity, AbsurdAmountsSaturate) {
  const Quantity huge = q("1e40");
  EXPECT_EQ(huge.to_string(), "1e40");
  EXPECT_EQ(huge, q("1e9999999999"));
  EXPECT_EQ(huge, huge + huge);
  EXPECT_EQ(huge, huge * std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(-huge, huge * -7);
  EXPECT_EQ((huge - huge).sign(), 0);
  EXPECT_GT(huge, q("9E"));
  EXPECT_EQ(huge.value(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ((-huge).milli_value(), std::numeric_limits<std::int64_t>::min());
  EXPECT_GT(huge.to_double(), 1e29);
  EXPECT_EQ(q("1" + std::string(1000, '0')), huge);
  EXPECT_EQ(Quantity::of(std::numeric_limits<std::int64_t>::min()).value(), std::numeric_limits<std::int64_t>::min());
  // Kubernetes prints "1" for these.
  EXPECT_EQ(q("1000E").canonical(), "1000E");
  EXPECT_EQ((q("1Ei") * 1024).canonical(), "1024Ei");
}

TEST(Quantity, ValuesAreRoundedAwayFromZero) {
  EXPECT_EQ(q("1n").value(), 1);
  EXPECT_EQ(q("-1n").value(), -1);
  EXPECT_EQ(q("1.0001").milli_value(), 1001);
  EXPECT_EQ(q("-1.0001").milli_value(), -1001);
  EXPECT_EQ(q("9223372036854775807").milli_value(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(q("1500m").to_double(), 1.5);
  EXPECT_EQ(Quantity::of_milli(1500).to_string(), "1500m");
  EXPECT_EQ(Quantity::of_nano(-5).to_string(), "-5n");
  EXPECT_EQ(Quantity::of(2048, Format::BinarySI).to_string(), "2Ki");
}

TEST(Quantity, ComparesByValue) {
  EXPECT_EQ(q("1000m"), q("1"));
  EXPECT_EQ(q("1Ki"), q("1024"));
  EXPECT_LT(q("-1"), q("0"));
  EXPECT_LT(q("-2"), q("-1n"));
  EXPECT_LT(q("999999999n"), q("1"));
  EXPECT_GT(q("1Gi"), q("1G"));
  EXPECT_EQ(q("-5").sign(), -1);
  EXPECT_EQ(q("0n").sign(), 0);
}

TEST(Quantity, Codec) {
  EXPECT_EQ(json::to_text(q("1000m")), R"("1000m")");
  EXPECT_EQ(json::from_text<Quantity>("\"1.5Gi\"")->to_string(), "1.5Gi");
  EXPECT_EQ(json::from_text<Quantity>("\" 2 \"")->to_string(), "2");
  EXPECT_EQ(json::from_text<Quantity>("1.5")->canonical(), "1500m");
  EXPECT_EQ(json::to_text(*json::from_text<Quantity>("3")), R"("3")");
  EXPECT_TRUE(json::from_text<Quantity>("null")->is_zero());
  for (const char* bad : {"true", "[]", "{}", "\"\"", "\"null\"", "\"1x\""}) {
    EXPECT_FALSE(json::from_text<Quantity>(bad).ok()) << bad;
  }
  EXPECT_NE(json::from_text<Quantity>("\"1x\"").error().message.find("\"1x\""), std::string::npos);
}

// A number as written, and the same number worked out with other means: an integer mantissa times a power of ten or
// two.
struct Written {
  std::string text;
  __extension__ using Wide = __int128;
  Wide numerator = 0;    // value in nano units = numerator / denominator, exactly
  Wide denominator = 1;  // a power of ten
};

Written random_quantity(std::mt19937_64& random) {
  struct Suffix {
    const char* text;
    std::int64_t factor;   // of the nano value
    std::int64_t divisor;  // of the nano value
  };
  static constexpr Suffix kSuffixes[] = {{"", 1'000'000'000, 1},
                                         {"n", 1, 1},
                                         {"u", 1000, 1},
                                         {"m", 1'000'000, 1},
                                         {"k", 1'000'000'000'000, 1},
                                         {"M", 1'000'000'000'000'000, 1},
                                         {"Ki", 1024'000'000'000, 1},
                                         {"Mi", 1'048'576'000'000'000, 1},
                                         {"e-10", 1, 10},
                                         {"e3", 1'000'000'000'000, 1}};
  Written written;
  const Suffix& suffix = kSuffixes[random() % std::size(kSuffixes)];
  const bool negative = random() % 4 == 0;
  std::string digits = std::to_string(random() % (random() % 2 == 0 ? 1000 : 1'000'000'000'000));
  written.numerator = static_cast<Written::Wide>(std::stoll(digits));
  if (random() % 2 == 0) {
    const std::size_t places = random() % 7;
    digits.push_back('.');
    for (std::size_t i = 0; i < places; ++i) {
      const int digit = static_cast<int>(random() % 10);
      digits.push_back(static_cast<char>('0' + digit));
      written.numerator = written.numerator * 10 + digit;
      written.denominator *= 10;
    }
  }
  written.numerator *= suffix.factor;
  written.denominator *= suffix.divisor;
  if (negative) written.numerator = -written.numerator;
  written.text = (negative ? "-" : "") + digits + suffix.text;
  return written;
}

// Rounded away from zero.
Written::Wide nano_of(const Written& written) {
  Written::Wide quotient = written.numerator / written.denominator;
  if (written.numerator % written.denominator != 0) quotient += written.numerator < 0 ? -1 : 1;
  return quotient;
}

TEST(Quantity, OrderAgreesWithExactArithmetic) {
  std::mt19937_64 random(20260101);
  for (int i = 0; i < 20'000; ++i) {
    const Written a = random_quantity(random);
    const Written b = random_quantity(random);
    const Quantity x = q(a.text);
    const Quantity y = q(b.text);
    ASSERT_EQ(x <=> y, nano_of(a) <=> nano_of(b)) << a.text << " " << b.text;
    ASSERT_EQ(x == y, nano_of(a) == nano_of(b)) << a.text << " " << b.text;
    const Written::Wide sum = nano_of(a) + nano_of(b);
    ASSERT_EQ((x + y).sign(), sum < 0 ? -1 : (sum == 0 ? 0 : 1)) << a.text << " " << b.text;
  }
}

TEST(Quantity, PrintsReadBack) {
  std::mt19937_64 random(20260102);
  for (int i = 0; i < 20'000; ++i) {
    const Written written = random_quantity(random);
    const Quantity quantity = q(written.text);
    ASSERT_EQ(q(quantity.to_string()), quantity) << written.text;
    const std::string canonical = quantity.canonical();
    ASSERT_EQ(q(canonical), quantity) << written.text;
    // A binary amount without a suffix reads back as a decimal one, for which there may be a shorter form.
    if (quantity.format() == q(canonical).format()) {
      ASSERT_EQ(q(canonical).canonical(), canonical) << written.text;
    }
    ASSERT_EQ((quantity + Quantity()).to_string(), canonical) << written.text;
    ASSERT_EQ((quantity + q("1") - q("1")), quantity) << written.text;
    ASSERT_EQ(quantity * 3, quantity + quantity + quantity) << written.text;
    ASSERT_EQ(-(-quantity), quantity) << written.text;
  }
}

}  // namespace
}  // namespace basalt::api
