#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/encoding.h"
#include "base/strings.h"
#include "controllers/job/plugins/plugin.h"

namespace basalt::controllers::job {
namespace {

// Cuts the first length-prefixed field off an SSH key.
std::string take_field(std::string& blob) {
  if (blob.size() < 4) return "short";
  std::size_t size = 0;
  for (int i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(blob[static_cast<std::size_t>(i)]);
  std::string field = blob.substr(4, size);
  blob.erase(0, 4 + size);
  return field;
}

std::string number_of(EVP_PKEY* key, const char* name) {
  BIGNUM* number = nullptr;
  EXPECT_EQ(EVP_PKEY_get_bn_param(key, name, &number), 1);
  std::string bytes(static_cast<std::size_t>(BN_num_bytes(number)), '\0');
  BN_bn2bin(number, reinterpret_cast<unsigned char*>(bytes.data()));
  BN_free(number);
  return bytes;
}

TEST(SshKeysTest, the_two_halves_belong_together) {
  auto pair = make_ssh_key_pair();
  ASSERT_TRUE(pair.ok()) << pair.error().to_string();
  EXPECT_TRUE(pair->private_pem.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
  EXPECT_TRUE(pair->private_pem.ends_with("-----END RSA PRIVATE KEY-----\n"));

  BIO* const bio = BIO_new_mem_buf(pair->private_pem.data(), static_cast<int>(pair->private_pem.size()));
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(EVP_PKEY_get_bits(key), 2048);

  std::string line = pair->authorized_line;
  ASSERT_TRUE(line.ends_with("\n"));
  line.pop_back();
  const auto words = base::split(line, ' ');
  ASSERT_EQ(words.size(), 2U);  // no comment
  EXPECT_EQ(words[0], "ssh-rsa");
  auto blob = base::base64_decode(words[1]);
  ASSERT_TRUE(blob.has_value());
  EXPECT_EQ(take_field(*blob), "ssh-rsa");
  EXPECT_EQ(take_field(*blob), number_of(key, OSSL_PKEY_PARAM_RSA_E));
  // The modulus of a 2048 bit key has its highest bit set, so a zero byte stands before it.
  EXPECT_EQ(take_field(*blob), std::string(1, '\0') + number_of(key, OSSL_PKEY_PARAM_RSA_N));
  EXPECT_TRUE(blob->empty());
  EVP_PKEY_free(key);
}

TEST(SshKeysTest, every_pair_is_new) { EXPECT_NE(make_ssh_key_pair()->private_pem, make_ssh_key_pair()->private_pem); }

TEST(SshKeysTest, keys_are_filled_in_but_the_users_own_stay) {
  json::Value secret = json::Object{{"data", json::Object{{"config", "Yw=="}}}};
  with_keys(secret, {"private", "public\n"});
  EXPECT_EQ(secret.to_text(), R"({"data":{"authorized_keys":"cHVibGljCg==","config":"Yw==","id_rsa":"cHJpdmF0ZQ==",)"
                              R"("id_rsa.pub":"cHVibGljCg=="}})");
  const std::string before = secret.to_text();
  with_keys(secret, {"other", "other\n"});
  EXPECT_EQ(secret.to_text(), before);
}

}  // namespace
}  // namespace basalt::controllers::job
