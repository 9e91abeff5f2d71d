#include "controllers/job/plugins/rsa_key.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace basalt::controllers::job {
namespace {

constexpr int kPrimeBits = 1024;
constexpr BN_ULONG kExponent = 65537;  // prime
// FIPS 186-5, table B.1, asks for 5 for primes of this size that were drawn at random.
constexpr int kRounds = 8;
// 23 mean distances between primes of this size: a window without one is rare, and drawn again.
constexpr std::size_t kWindow = 8192;           // odd numbers
constexpr std::uint32_t kSieveLimit = 1 << 14;  // above it a division costs more than the test that it saves

struct Deleter {
  void operator()(BIGNUM* number) const { BN_clear_free(number); }
  void operator()(BN_CTX* context) const { BN_CTX_free(context); }
  void operator()(BN_MONT_CTX* context) const { BN_MONT_CTX_free(context); }
  void operator()(OSSL_PARAM_BLD* builder) const { OSSL_PARAM_BLD_free(builder); }
  void operator()(OSSL_PARAM* parameters) const { OSSL_PARAM_free(parameters); }
  void operator()(EVP_PKEY_CTX* context) const { EVP_PKEY_CTX_free(context); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

const std::vector<std::uint32_t>& small_primes() {
  static const std::vector<std::uint32_t> primes = [] {
    std::vector<bool> composite(kSieveLimit, false);
    std::vector<std::uint32_t> found;
    for (std::uint32_t n = 3; n < kSieveLimit; n += 2) {
      if (composite[n]) continue;
      found.push_back(n);
      for (std::uint32_t multiple = n * n; n < 128 && multiple < kSieveLimit; multiple += 2 * n)
        composite[multiple] = true;
    }
    return found;
  }();
  return primes;
}

// Which of start, start + 2, start + 4, ... have a small factor or do not suit the exponent. Tells much about the prime
// that is found, so it is wiped when it goes.
struct Sieve {
  std::vector<unsigned char> rejected = std::vector<unsigned char>(kWindow, 0);
  ~Sieve() { OPENSSL_cleanse(rejected.data(), rejected.size()); }
};

void run_sieve(const BIGNUM* start, Sieve& sieve) {
  std::vector<unsigned char>& rejected = sieve.rejected;
  for (const std::uint32_t prime : small_primes()) {
    const auto rest = static_cast<std::uint32_t>(BN_mod_word(start, prime));
    // The least even distance to a multiple: -rest, or the one after it if that is odd.
    std::uint32_t distance = rest == 0 ? 0 : prime - rest;
    if (distance % 2 != 0) distance += prime;
    for (std::size_t i = distance / 2; i < kWindow; i += prime) rejected[i] = 1;
  }
  // p - 1 must have no factor in common with the exponent.
  const std::uint64_t rest = BN_mod_word(start, kExponent);
  for (std::size_t i = 0; i < kWindow; ++i) {
    if ((rest + 2 * i) % kExponent == 1) rejected[i] = 1;
  }
}

// Miller and Rabin's test with random bases. 1: (almost certainly) prime, 0: composite, -1: OpenSSL failed.
int is_prime(const BIGNUM* number, BN_CTX* context) {
  const Owned<BIGNUM> minus_one(BN_dup(number));
  const Owned<BIGNUM> odd(BN_new());
  const Owned<BIGNUM> base(BN_new());
  const Owned<BIGNUM> power(BN_new());
  const Owned<BIGNUM> range(BN_dup(number));
  const Owned<BN_MONT_CTX> montgomery(BN_MONT_CTX_new());
  if (!minus_one || !odd || !base || !power || !range || !montgomery) return -1;
  if (BN_sub_word(minus_one.get(), 1) != 1 || BN_sub_word(range.get(), 3) != 1) return -1;
  int twos = 0;
  while (BN_is_bit_set(minus_one.get(), twos) == 0) ++twos;
  if (BN_rshift(odd.get(), minus_one.get(), twos) != 1) return -1;
  if (BN_MONT_CTX_set(montgomery.get(), number, context) != 1) return -1;
  for (int round = 0; round < kRounds; ++round) {
    // From 2 to number - 2.
    if (BN_priv_rand_range_ex(base.get(), range.get(), 0, context) != 1 || BN_add_word(base.get(), 2) != 1) return -1;
    if (BN_mod_exp_mont_consttime(power.get(), base.get(), odd.get(), number, context, montgomery.get()) != 1)
      return -1;
    bool passes = BN_is_one(power.get()) == 1 || BN_cmp(power.get(), minus_one.get()) == 0;
    for (int i = 1; i < twos && !passes; ++i) {
      if (BN_mod_sqr(power.get(), power.get(), number, context) != 1) return -1;
      passes = BN_cmp(power.get(), minus_one.get()) == 0;
    }
    if (!passes) return 0;
  }
  return 1;
}

// The first suitable prime after a random number whose two highest bits are set, so that the product of two has all
// 2048 bits. Null if OpenSSL failed.
Owned<BIGNUM> make_prime(BN_CTX* context) {
  Owned<BIGNUM> prime(BN_new());
  while (prime) {
    if (BN_priv_rand_ex(prime.get(), kPrimeBits, BN_RAND_TOP_TWO, BN_RAND_BOTTOM_ODD, 0, context) != 1) return nullptr;
    Sieve sieve;
    run_sieve(prime.get(), sieve);
    std::size_t at = 0;
    for (std::size_t i = 0; i < kWindow; ++i) {
      if (sieve.rejected[i] != 0) continue;
      if (BN_add_word(prime.get(), 2 * (i - at)) != 1) return nullptr;
      at = i;
      if (BN_num_bits(prime.get()) != kPrimeBits) break;
      const int verdict = is_prime(prime.get(), context);
      if (verdict < 0) return nullptr;
      if (verdict == 1) return prime;
    }
  }
  return prime;
}

// Primes too near to each other would make the product easy to factor.
bool are_far_apart(const BIGNUM* p, const BIGNUM* q) {
  const Owned<BIGNUM> distance(BN_new());
  return distance && BN_sub(distance.get(), p, q) == 1 && BN_num_bits(distance.get()) > kPrimeBits - 100;
}

// All numbers of a key from its primes, in the order of PKCS #1.
struct Numbers {
  Owned<BIGNUM> n{BN_new()}, e{BN_new()}, d{BN_new()}, p, q, dp{BN_new()}, dq{BN_new()}, q_inverse{BN_new()};

  bool derive(BN_CTX* context) {
    const Owned<BIGNUM> p1(BN_dup(p.get()));
    const Owned<BIGNUM> q1(BN_dup(q.get()));
    const Owned<BIGNUM> gcd(BN_new());
    const Owned<BIGNUM> lcm(BN_new());
    if (!n || !e || !d || !dp || !dq || !q_inverse || !p1 || !q1 || !gcd || !lcm) return false;
    for (BIGNUM* secret : {p.get(), q.get(), p1.get(), q1.get(), lcm.get(), d.get()})
      BN_set_flags(secret, BN_FLG_CONSTTIME);
    return BN_set_word(e.get(), kExponent) == 1 && BN_mul(n.get(), p.get(), q.get(), context) == 1 &&
           BN_sub_word(p1.get(), 1) == 1 && BN_sub_word(q1.get(), 1) == 1 &&
           BN_gcd(gcd.get(), p1.get(), q1.get(), context) == 1 && BN_mul(lcm.get(), p1.get(), q1.get(), context) == 1 &&
           BN_div(lcm.get(), nullptr, lcm.get(), gcd.get(), context) == 1 &&
           BN_mod_inverse(d.get(), e.get(), lcm.get(), context) != nullptr &&
           BN_mod(dp.get(), d.get(), p1.get(), context) == 1 && BN_mod(dq.get(), d.get(), q1.get(), context) == 1 &&
           BN_mod_inverse(q_inverse.get(), q.get(), p.get(), context) != nullptr;
  }

  [[nodiscard]] RsaKey to_key() const {
    const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
    if (!builder) return nullptr;
    for (const auto& [name, number] :
         {std::pair(OSSL_PKEY_PARAM_RSA_N, n.get()), std::pair(OSSL_PKEY_PARAM_RSA_E, e.get()),
          std::pair(OSSL_PKEY_PARAM_RSA_D, d.get()), std::pair(OSSL_PKEY_PARAM_RSA_FACTOR1, p.get()),
          std::pair(OSSL_PKEY_PARAM_RSA_FACTOR2, q.get()), std::pair(OSSL_PKEY_PARAM_RSA_EXPONENT1, dp.get()),
          std::pair(OSSL_PKEY_PARAM_RSA_EXPONENT2, dq.get()),
          std::pair(OSSL_PKEY_PARAM_RSA_COEFFICIENT1, q_inverse.get())}) {
      if (OSSL_PARAM_BLD_push_BN(builder.get(), name, number) != 1) return nullptr;
    }
    const Owned<OSSL_PARAM> parameters(OSSL_PARAM_BLD_to_param(builder.get()));
    const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_name(nullptr, "RSA", nullptr));
    EVP_PKEY* key = nullptr;
    if (!parameters || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
        EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_KEYPAIR, parameters.get()) != 1)
      return nullptr;
    return RsaKey(key);
  }
};

// What one half signs, the other verifies. EVP_PKEY_pairwise_check takes longer than the search for the primes.
bool is_pair(EVP_PKEY* key) {
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const unsigned char message[] = "halves of one key";
  unsigned char signature[2 * kPrimeBits / 8];
  std::size_t size = sizeof signature;
  return context && EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
         EVP_DigestSign(context.get(), signature, &size, message, sizeof message) == 1 &&
         EVP_DigestVerifyInit(context.get(), nullptr, EVP_sha256(), nullptr, key) == 1 &&
         EVP_DigestVerify(context.get(), signature, size, message, sizeof message) == 1;
}

}  // namespace

void RsaKeyDeleter::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

RsaKey make_rsa_key() {
  const Owned<BN_CTX> context(BN_CTX_new());
  if (!context) return nullptr;
  Numbers numbers;
  do {
    numbers.p = make_prime(context.get());
    numbers.q = make_prime(context.get());
    if (!numbers.p || !numbers.q) return nullptr;
  } while (!are_far_apart(numbers.p.get(), numbers.q.get()));
  // PKCS #1 readers expect the larger one first.
  if (BN_cmp(numbers.p.get(), numbers.q.get()) < 0) std::swap(numbers.p, numbers.q);
  if (!numbers.derive(context.get())) return nullptr;
  // Never seen: a private exponent so short that it could be found from the public half.
  if (BN_num_bits(numbers.d.get()) <= kPrimeBits) return nullptr;
  RsaKey key = numbers.to_key();
  if (!key || !is_pair(key.get())) return nullptr;
  return key;
}

}  // namespace basalt::controllers::job
