#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace basalt::base {

using Sha256Digest = std::array<std::uint8_t, 32>;

[[nodiscard]] Sha256Digest sha256(std::string_view bytes);
[[nodiscard]] std::string sha256_hex(std::string_view bytes);
// The digest's bytes, for the encoders of base/encoding.h.
[[nodiscard]] inline std::string_view as_bytes(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// The same in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  Sha256& update(std::string_view bytes);
  [[nodiscard]] Sha256Digest finish();  // once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// FNV-1a, equal to Go's hash/fnv New32a and New64a. `seed` continues an earlier hash. Not for hash tables that a tenant
// can fill, nor for anything that must be hard to forge.
inline constexpr std::uint32_t kFnv32Seed = 2166136261U;
inline constexpr std::uint64_t kFnv64Seed = 14695981039346656037ULL;

[[nodiscard]] constexpr std::uint32_t fnv1a_32(std::string_view bytes, std::uint32_t seed = kFnv32Seed) {
  for (const char c : bytes) seed = (seed ^ static_cast<std::uint8_t>(c)) * 16777619U;
  return seed;
}
[[nodiscard]] constexpr std::uint64_t fnv1a_64(std::string_view bytes, std::uint64_t seed = kFnv64Seed) {
  for (const char c : bytes) seed = (seed ^ static_cast<std::uint8_t>(c)) * 1099511628211ULL;
  return seed;
}

// Equal to Go's New32 and New64 (FNV-1: multiply first).
[[nodiscard]] constexpr std::uint32_t fnv1_32(std::string_view bytes, std::uint32_t seed = kFnv32Seed) {
  for (const char c : bytes) seed = (seed * 16777619U) ^ static_cast<std::uint8_t>(c);
  return seed;
}

}  // namespace basalt::base
