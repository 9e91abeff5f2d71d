#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/encoder.h>
#include <openssl/err.h>
#include <openssl/evp.h>

#include <array>
#include <memory>

#include "base/encoding.h"
#include "controllers/job/plugins/plugin.h"
#include "controllers/job/plugins/rsa_key.h"

namespace basalt::controllers::job {

namespace {

struct Deleter {
  void operator()(BIGNUM* number) const { BN_free(number); }
  void operator()(OSSL_ENCODER_CTX* context) const { OSSL_ENCODER_CTX_free(context); }
  void operator()(unsigned char* bytes) const { OPENSSL_free(bytes); }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

Error openssl_error(std::string_view what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return Error::make(Reason::InternalError, "plugin ssh: cannot " + std::string(what) + ": " + text.data());
}

Result<std::string> private_pem(EVP_PKEY* key) {
  // "type-specific" is PKCS#1 for RSA keys, which every SSH implementation reads.
  const Owned<OSSL_ENCODER_CTX> context(
      OSSL_ENCODER_CTX_new_for_pkey(key, EVP_PKEY_KEYPAIR, "PEM", "type-specific", nullptr));
  unsigned char* data = nullptr;
  std::size_t size = 0;
  if (context == nullptr || OSSL_ENCODER_to_data(context.get(), &data, &size) != 1)
    return openssl_error("write the private key");
  const Owned<unsigned char> owned(data);
  return std::string(reinterpret_cast<const char*>(data), size);
}

// The fields of an SSH public key (RFC 4253, 6.6): a length of four bytes, then the bytes.
void append_field(std::string& out, std::string_view bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>((bytes.size() >> shift) & 0xff));
  out.append(bytes);
}

Done append_number(std::string& out, EVP_PKEY* key, const char* name) {
  BIGNUM* read = nullptr;
  if (EVP_PKEY_get_bn_param(key, name, &read) != 1) return openssl_error("read the public key");
  const Owned<BIGNUM> number(read);
  std::string bytes(static_cast<std::size_t>(BN_num_bytes(number.get())), '\0');
  BN_bn2bin(number.get(), reinterpret_cast<unsigned char*>(bytes.data()));
  // A leading one bit would make the number negative.
  if (!bytes.empty() && (static_cast<unsigned char>(bytes[0]) & 0x80) != 0) bytes.insert(bytes.begin(), '\0');
  append_field(out, bytes);
  return Ok();
}

}  // namespace

Result<SshKeyPair> make_ssh_key_pair() {
  const RsaKey key = make_rsa_key();
  if (key == nullptr) return openssl_error("make an RSA key");
  SshKeyPair pair;
  BASALT_TRY(pair.private_pem, private_pem(key.get()));
  std::string blob;
  append_field(blob, "ssh-rsa");
  BASALT_TRY_DONE(append_number(blob, key.get(), OSSL_PKEY_PARAM_RSA_E));
  BASALT_TRY_DONE(append_number(blob, key.get(), OSSL_PKEY_PARAM_RSA_N));
  pair.authorized_line = "ssh-rsa " + base::base64_encode(blob) + "\n";
  return pair;
}

}  // namespace basalt::controllers::job
