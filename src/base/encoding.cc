#include "base/encoding.h"

#include <array>
#include <cstdint>

namespace basalt::base {

namespace {

// All four encodings are the same regrouping of bits, `Bits` of them to a character.
struct Alphabet {
  std::string_view letters;
  std::array<std::int8_t, 256> values{};

  constexpr explicit Alphabet(std::string_view text, bool either_case = false) : letters(text) {
    values.fill(-1);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto letter = static_cast<unsigned char>(text[i]);
      values[letter] = static_cast<std::int8_t>(i);
      if (either_case && letter >= 'a' && letter <= 'z') values[letter - 32U] = static_cast<std::int8_t>(i);
    }
  }
};

constexpr Alphabet kBase64("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
constexpr Alphabet kBase64Url("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");
constexpr Alphabet kBase32("abcdefghijklmnopqrstuvwxyz234567");
constexpr Alphabet kHex("0123456789abcdef", true);

template <unsigned Bits>
std::string encode(std::string_view bytes, const Alphabet& alphabet) {
  constexpr std::uint32_t kMask = (1U << Bits) - 1;
  std::string out;
  out.reserve(bytes.size() * 8 / Bits + 4);
  std::uint32_t window = 0;
  unsigned pending = 0;
  for (const char c : bytes) {
    window = (window << 8) | static_cast<unsigned char>(c);
    pending += 8;
    while (pending >= Bits) {
      pending -= Bits;
      out.push_back(alphabet.letters[(window >> pending) & kMask]);
    }
  }
  if (pending > 0) out.push_back(alphabet.letters[(window << (Bits - pending)) & kMask]);
  return out;
}

template <unsigned Bits>
std::optional<std::string> decode(std::string_view text, const Alphabet& alphabet) {
  std::string out;
  out.reserve(text.size() * Bits / 8);
  std::uint32_t window = 0;
  unsigned pending = 0;
  for (const char c : text) {
    const std::int8_t value = alphabet.values[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    window = (window << Bits) | static_cast<std::uint32_t>(value);
    pending += Bits;
    if (pending >= 8) {
      pending -= 8;
      out.push_back(static_cast<char>((window >> pending) & 0xFF));
    }
  }
  // What is left must be less than a character's worth of zero bits: anything else has a second spelling.
  if (pending >= Bits || (window & ((1U << pending) - 1)) != 0) return std::nullopt;
  return out;
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out = encode<6>(bytes, kBase64);
  while (out.size() % 4 != 0) out.push_back('=');
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  return decode<6>(text, kBase64);
}

std::string base64url_encode(std::string_view bytes) { return encode<6>(bytes, kBase64Url); }
std::optional<std::string> base64url_decode(std::string_view text) { return decode<6>(text, kBase64Url); }

std::string hex_encode(std::string_view bytes) { return encode<4>(bytes, kHex); }
std::optional<std::string> hex_decode(std::string_view text) { return decode<4>(text, kHex); }

std::string base32_encode(std::string_view bytes) { return encode<5>(bytes, kBase32); }
std::optional<std::string> base32_decode(std::string_view text) { return decode<5>(text, kBase32); }

}  // namespace basalt::base
