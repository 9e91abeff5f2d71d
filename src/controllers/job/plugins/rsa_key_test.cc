#include "controllers/job/plugins/rsa_key.h"

#include <gtest/gtest.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>

#include <memory>
#include <set>
#include <string>

namespace basalt::controllers::job {
namespace {

TEST(RsaKeyTest, passes_every_check_of_the_library) {
  std::set<std::string> seen;
  for (int i = 0; i < 8; ++i) {
    const RsaKey key = make_rsa_key();
    ASSERT_NE(key, nullptr);
    EXPECT_EQ(EVP_PKEY_get_bits(key.get()), 2048);
    EVP_PKEY_CTX* const context = EVP_PKEY_CTX_new(key.get(), nullptr);
    // Primality of both factors, all derived numbers, and that the halves belong together.
    EXPECT_EQ(EVP_PKEY_check(context), 1);
    EVP_PKEY_CTX_free(context);
    for (const char* name : {OSSL_PKEY_PARAM_RSA_FACTOR1, OSSL_PKEY_PARAM_RSA_FACTOR2}) {
      BIGNUM* factor = nullptr;
      ASSERT_EQ(EVP_PKEY_get_bn_param(key.get(), name, &factor), 1);
      EXPECT_EQ(BN_num_bits(factor), 1024);
      EXPECT_EQ(BN_check_prime(factor, nullptr, nullptr), 1);
      char* const text = BN_bn2hex(factor);
      EXPECT_TRUE(seen.insert(text).second) << "a factor twice";
      OPENSSL_free(text);
      BN_free(factor);
    }
  }
}

// What FIPS 186-5 (A.1.1) asks of the numbers, beyond that they fit together.
TEST(RsaKeyTest, numbers_are_as_the_standard_wants_them) {
  const RsaKey key = make_rsa_key();
  ASSERT_NE(key, nullptr);
  const auto number = [&key](const char* name) {
    BIGNUM* value = nullptr;
    EXPECT_EQ(EVP_PKEY_get_bn_param(key.get(), name, &value), 1) << name;
    return std::unique_ptr<BIGNUM, decltype(&BN_free)>(value, &BN_free);
  };
  const auto n = number(OSSL_PKEY_PARAM_RSA_N);
  const auto e = number(OSSL_PKEY_PARAM_RSA_E);
  const auto d = number(OSSL_PKEY_PARAM_RSA_D);
  const auto p = number(OSSL_PKEY_PARAM_RSA_FACTOR1);
  const auto q = number(OSSL_PKEY_PARAM_RSA_FACTOR2);
  ASSERT_TRUE(n && e && d && p && q);
  EXPECT_EQ(BN_num_bits(n.get()), 2048);
  EXPECT_EQ(BN_is_word(e.get(), 65537), 1);
  EXPECT_GT(BN_num_bits(d.get()), 1024);  // a short private exponent can be found from the public half
  EXPECT_LT(BN_cmp(d.get(), n.get()), 0);
  for (const BIGNUM* factor : {p.get(), q.get()}) {
    EXPECT_EQ(BN_is_bit_set(factor, 1023), 1);
    EXPECT_EQ(BN_is_bit_set(factor, 1022), 1);
  }
  EXPECT_GT(BN_cmp(p.get(), q.get()), 0);
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> distance(BN_new(), &BN_free);
  ASSERT_EQ(BN_sub(distance.get(), p.get(), q.get()), 1);
  EXPECT_GT(BN_num_bits(distance.get()), 1024 - 100);
}

TEST(RsaKeyTest, signs_what_its_public_half_verifies) {
  const RsaKey key = make_rsa_key();
  ASSERT_NE(key, nullptr);
  const std::string message = "hello";
  std::string signature(256, '\0');
  std::size_t size = signature.size();
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  ASSERT_EQ(EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, key.get()), 1);
  ASSERT_EQ(EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size,
                           reinterpret_cast<const unsigned char*>(message.data()), message.size()),
            1);
  ASSERT_EQ(EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, key.get()), 1);
  EXPECT_EQ(EVP_DigestVerify(context, reinterpret_cast<const unsigned char*>(signature.data()), size,
                             reinterpret_cast<const unsigned char*>(message.data()), message.size()),
            1);
  EVP_MD_CTX_free(context);
}

}  // namespace
}  // namespace basalt::controllers::job
