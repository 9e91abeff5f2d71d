#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

// The inner loops that reader, writer and yaml/ share. Internal to those folders.
namespace basalt::json {

// True for a byte that a JSON string cannot hold without a closer look: quote, backslash, control character, and every
// byte of a sequence that is not ASCII.
inline bool is_special(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte >= 0x80 || c == '"' || c == '\\';
}

// The first special byte of [at, end), or end. Eight bytes at a time, for machines without SSE2.
inline const char* find_special_portable(const char* at, const char* end) {
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  constexpr std::uint64_t kHighs = 0x8080808080808080u;
  while (end - at >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);
    const std::uint64_t quote = word ^ (kOnes * '"');
    const std::uint64_t backslash = word ^ (kOnes * '\\');
    // Never misses a special byte. A borrow can report a byte that is none, so the word is then searched byte by byte.
    const std::uint64_t suspects = (word | (word - kOnes * 0x20) | (quote - kOnes) | (backslash - kOnes)) & kHighs;
    if (suspects != 0) {
      for (int i = 0; i < 8; ++i) {
        if (is_special(at[i])) return at + i;
      }
    }
    at += 8;
  }
  while (at != end && !is_special(*at)) ++at;
  return at;
}

inline const char* find_special(const char* at, const char* end) {
#ifdef __SSE2__
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i space = _mm_set1_epi8(0x20);
  while (end - at >= 16) {
    const __m128i chunk = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    // The comparison is signed: bytes from 0x80 on are negative, hence below the space, as wanted.
    const __m128i special = _mm_or_si128(_mm_cmplt_epi8(chunk, space),
                                         _mm_or_si128(_mm_cmpeq_epi8(chunk, quote), _mm_cmpeq_epi8(chunk, backslash)));
    const int mask = _mm_movemask_epi8(special);
    if (mask != 0) return at + __builtin_ctz(static_cast<unsigned>(mask));
    at += 16;
  }
  while (at != end && !is_special(*at)) ++at;
  return at;
#else
  return find_special_portable(at, end);
#endif
}

// The length of the UTF-8 sequence at `at` (at < end), whose first byte is 0x80 or more; 0 if it is not valid: a stray
// continuation byte, an overlong form, a surrogate, beyond U+10FFFF, or cut off.
inline std::size_t utf8_length(const char* at, const char* end) {
  const auto byte = [at](int i) { return static_cast<unsigned char>(at[i]); };
  const auto continues = [&byte](int i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned char lead = byte(0);
  const std::ptrdiff_t left = end - at;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return left >= 2 && continues(1) ? 2 : 0;
  if (lead < 0xF0) {
    if (left < 3 || !continues(1) || !continues(2)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) >= 0xA0) return 0;
    return 3;
  }
  if (lead > 0xF4 || left < 4 || !continues(1) || !continues(2) || !continues(3)) return 0;
  if (lead == 0xF0 && byte(1) < 0x90) return 0;
  if (lead == 0xF4 && byte(1) >= 0x90) return 0;
  return 4;
}

// The code point of a sequence that utf8_length found valid.
inline char32_t utf8_decode(const char* at, std::size_t length) {
  const auto bits = [at](int i, unsigned mask) {
    return static_cast<char32_t>(static_cast<unsigned char>(at[i]) & mask);
  };
  if (length == 2) return bits(0, 0x1F) << 6 | bits(1, 0x3F);
  if (length == 3) return bits(0, 0x0F) << 12 | bits(1, 0x3F) << 6 | bits(2, 0x3F);
  if (length == 4) return bits(0, 0x07) << 18 | bits(1, 0x3F) << 12 | bits(2, 0x3F) << 6 | bits(3, 0x3F);
  return bits(0, 0x7F);
}

inline void append_utf8(std::string& out, char32_t code) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    out.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

// The first byte of `text` that does not belong to valid UTF-8, or npos.
inline std::size_t find_invalid_utf8(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (static_cast<unsigned char>(*at) < 0x80) {
      ++at;
      continue;
    }
    const std::size_t length = utf8_length(at, end);
    if (length == 0) return static_cast<std::size_t>(at - text.data());
    at += length;
  }
  return std::string_view::npos;
}

}  // namespace basalt::json
