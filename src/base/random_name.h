#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace basalt::base {

// The letters of names that machines make up: no vowels, so no words; no 0, 1, 3, which look like letters. The same as
// Kubernetes' (apimachinery pkg/util/rand), so that generated names look alike.
inline constexpr std::string_view kNameAlphabet = "bcdfghjklmnpqrstvwxz2456789";
inline constexpr std::size_t kNameSuffixLength = 5;
// Kubernetes cuts the prefix of a generated name so that the whole is a DNS label of 63 bytes.
inline constexpr std::size_t kGeneratedNameMax = 63;

// `pick(n)` returns a number below n; take it from the injected random source.
template <class Pick>
[[nodiscard]] std::string random_suffix(Pick&& pick, std::size_t length = kNameSuffixLength) {
  std::string suffix;
  for (std::size_t i = 0; i < length; ++i) suffix.push_back(kNameAlphabet[pick(kNameAlphabet.size())]);
  return suffix;
}

// What metadata.generateName becomes.
template <class Pick>
[[nodiscard]] std::string generate_name(std::string_view prefix, Pick&& pick) {
  return std::string(prefix.substr(0, kGeneratedNameMax - kNameSuffixLength)) + random_suffix(pick);
}

// A random UUID (version 4, variant 1). `draw()` returns 64 random bits.
template <class Draw>
[[nodiscard]] std::string random_uuid(Draw&& draw) {
  const std::uint64_t high = (draw() & ~0xF000ULL) | 0x4000ULL;
  const std::uint64_t low = (draw() & ~(3ULL << 62)) | (2ULL << 62);
  std::array<char, 37> text{};
  std::snprintf(text.data(), text.size(), "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(high >> 32),
                static_cast<unsigned>((high >> 16) & 0xFFFF), static_cast<unsigned>(high & 0xFFFF),
                static_cast<unsigned>(low >> 48), static_cast<unsigned long long>(low & 0xFFFFFFFFFFFFULL));
  return std::string(text.data(), 36);
}

// Each byte becomes a letter of the alphabet: how Kubernetes makes a hash (as decimal text) fit for a label. Equal to
// rand.SafeEncodeString.
[[nodiscard]] inline std::string safe_encode(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) out.push_back(kNameAlphabet[static_cast<unsigned char>(c) % kNameAlphabet.size()]);
  return out;
}

}  // namespace basalt::base
