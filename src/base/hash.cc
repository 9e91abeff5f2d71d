#include "base/hash.h"

#include <openssl/evp.h>

#include "base/check.h"
#include "base/encoding.h"

namespace basalt::base {

// OpenSSL fails here only without memory or with a build that has no SHA-256, neither of which we go on from.
struct Sha256::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  Context() { BASALT_CHECK(md != nullptr && EVP_DigestInit_ex(md, EVP_sha256(), nullptr) == 1); }
  ~Context() { EVP_MD_CTX_free(md); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {}
Sha256::~Sha256() = default;

Sha256& Sha256::update(std::string_view bytes) {
  BASALT_CHECK(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1);
  return *this;
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  unsigned size = 0;
  BASALT_CHECK(EVP_DigestFinal_ex(context_->md, digest.data(), &size) == 1 && size == digest.size());
  return digest;
}

Sha256Digest sha256(std::string_view bytes) { return Sha256().update(bytes).finish(); }

std::string sha256_hex(std::string_view bytes) { return hex_encode(as_bytes(sha256(bytes))); }

}  // namespace basalt::base
