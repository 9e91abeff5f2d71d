#include "base/hash.h"

#include <gtest/gtest.h>

#include "base/encoding.h"
#include "base/random_name.h"

namespace basalt::base {
namespace {

TEST(Hash, Sha256OfKnownTexts) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Hash, Sha256InPieces) {
  Sha256 hash;
  hash.update("a").update("").update("bc");
  EXPECT_EQ(hex_encode(as_bytes(hash.finish())), sha256_hex("abc"));
}

TEST(Hash, Sha256AsLabelValue) { EXPECT_EQ(base32_encode(as_bytes(sha256("abc"))).size(), 52); }

TEST(Hash, FnvIsThatOfGo) {
  EXPECT_EQ(fnv1a_32(""), 2166136261U);
  EXPECT_EQ(fnv1a_32("a"), 0xe40c292cU);
  EXPECT_EQ(fnv1a_32("foobar"), 0xbf9cf968U);
  EXPECT_EQ(fnv1a_64("a"), 0xaf63dc4c8601ec8cULL);
  EXPECT_EQ(fnv1a_64("foobar"), 0x85944171f73967e8ULL);
  EXPECT_EQ(fnv1_32("a"), 0x050c5d7eU);
  EXPECT_EQ(fnv1_32("foobar"), 0x31f0b262U);
  EXPECT_EQ(fnv1a_32("bar", fnv1a_32("foo")), fnv1a_32("foobar"));
  EXPECT_EQ(fnv1a_32("\x80"), (2166136261U ^ 0x80U) * 16777619U) << "bytes above 127 count as unsigned";
}

TEST(RandomName, SafeEncodeMapsEachByte) {
  EXPECT_EQ(safe_encode(""), "");
  EXPECT_EQ(safe_encode("0123456789"), "456789bcdf");
  EXPECT_EQ(safe_encode("hello"), "62bbf");
}

TEST(RandomName, GenerateNameCutsThePrefix) {
  const auto last = [](std::size_t n) { return n - 1; };
  EXPECT_EQ(generate_name("job-", last), "job-99999");
  EXPECT_EQ(random_suffix(last, 2), "99");
  const std::string name = generate_name(std::string(100, 'a'), last);
  EXPECT_EQ(name.size(), 63);
  EXPECT_TRUE(name.ends_with("a99999"));
}

TEST(RandomUuid, IsOfVersionFourWhateverIsDrawn) {
  EXPECT_EQ(random_uuid([] { return 0ULL; }), "00000000-0000-4000-8000-000000000000");
  EXPECT_EQ(random_uuid([] { return ~0ULL; }), "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

}  // namespace
}  // namespace basalt::base
