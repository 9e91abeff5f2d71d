#pragma once

#include <memory>

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace basalt::controllers::job {

struct RsaKeyDeleter {
  void operator()(evp_pkey_st* key) const;
};
using RsaKey = std::unique_ptr<evp_pkey_st, RsaKeyDeleter>;

// A key pair of 2048 bits with the public exponent 65537; null if OpenSSL fails, whose error queue then says why.
//
// Made in a quarter of the time of EVP_RSA_gen, which builds its primes from four auxiliary ones (see
// docs/adr/0006-rsa-keys.md): here each prime is the first one after a random number, found with a sieve and
// Miller-Rabin tests. Numbers, arithmetic, randomness and the final check of the pair are OpenSSL's.
[[nodiscard]] RsaKey make_rsa_key();

}  // namespace basalt::controllers::job
