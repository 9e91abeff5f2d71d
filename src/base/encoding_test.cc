#include "base/encoding.h"

#include <gtest/gtest.h>

#include <random>

namespace basalt::base {
namespace {

// The vectors of RFC 4648, section 10.
struct Vector {
  const char* plain;
  const char* base64;
  const char* base64url;
  const char* base32;
  const char* hex;
};
constexpr Vector kVectors[] = {
    {"", "", "", "", ""},
    {"f", "Zg==", "Zg", "my", "66"},
    {"fo", "Zm8=", "Zm8", "mzxq", "666f"},
    {"foo", "Zm9v", "Zm9v", "mzxw6", "666f6f"},
    {"foob", "Zm9vYg==", "Zm9vYg", "mzxw6yq", "666f6f62"},
    {"fooba", "Zm9vYmE=", "Zm9vYmE", "mzxw6ytb", "666f6f6261"},
    {"foobar", "Zm9vYmFy", "Zm9vYmFy", "mzxw6ytboi", "666f6f626172"},
    {"\xfb\xff", "+/8=", "-_8", "7p7q", "fbff"},
};

TEST(Encoding, VectorsBothWays) {
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(base64_encode(vector.plain), vector.base64);
    EXPECT_EQ(base64_decode(vector.base64), vector.plain);
    EXPECT_EQ(base64url_encode(vector.plain), vector.base64url);
    EXPECT_EQ(base64url_decode(vector.base64url), vector.plain);
    EXPECT_EQ(base32_encode(vector.plain), vector.base32);
    EXPECT_EQ(base32_decode(vector.base32), vector.plain);
    EXPECT_EQ(hex_encode(vector.plain), vector.hex);
    EXPECT_EQ(hex_decode(vector.hex), vector.plain);
  }
  EXPECT_EQ(hex_decode("AbCd"), "\xab\xcd");
}

TEST(Encoding, DecodersAreStrict) {
  for (const char* bad :
       {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zg==Zg==", "Z g=", "Zm9v\n", "====", "Z===", "-_8="}) {
    EXPECT_EQ(base64_decode(bad), std::nullopt) << bad;
  }
  for (const char* bad : {"Z", "Zg==", "Zh", "+/8"}) EXPECT_EQ(base64url_decode(bad), std::nullopt) << bad;
  for (const char* bad : {"m", "mz1", "MY", "mz", "mzx", "mzxw6y"}) EXPECT_EQ(base32_decode(bad), std::nullopt) << bad;
  for (const char* bad : {"a", "0g", "abc", " ab"}) EXPECT_EQ(hex_decode(bad), std::nullopt) << bad;
}

TEST(Encoding, RandomBytesComeBack) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string bytes(random() % 80, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    ASSERT_EQ(base64_decode(base64_encode(bytes)), bytes);
    ASSERT_EQ(base64url_decode(base64url_encode(bytes)), bytes);
    ASSERT_EQ(base32_decode(base32_encode(bytes)), bytes);
    ASSERT_EQ(hex_decode(hex_encode(bytes)), bytes);
  }
}

// Whatever a decoder takes has one spelling only.
TEST(Encoding, DecodedTextEncodesToItself) {
  std::mt19937 random(2);
  constexpr std::string_view kLetters = "ABcdwxyzMY2345670189+/-_=";
  int taken = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text(random() % 9, '\0');
    for (char& c : text) c = kLetters[random() % kLetters.size()];
    if (const auto bytes = base64_decode(text)) {
      ASSERT_EQ(base64_encode(*bytes), text);
      ++taken;
    }
    const auto url = base64url_decode(text);
    ASSERT_TRUE(!url || base64url_encode(*url) == text) << text;
    const auto base32 = base32_decode(text);
    ASSERT_TRUE(!base32 || base32_encode(*base32) == text) << text;
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace basalt::base
