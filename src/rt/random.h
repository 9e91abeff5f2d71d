#pragma once

#include <array>
#include <cstdint>

namespace basalt::rt {

// The finaliser of SplitMix64: a bijection that spreads every input bit over the whole word.
[[nodiscard]] constexpr std::uint64_t mix64(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Odd, close to 2^64 divided by the golden ratio: multiples of it fall evenly over the word.
inline constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15ULL;

// xoshiro256**: small, fast, reproducible on every machine. Not for keys or tokens: outputs give the state away.
// One owner; not thread-safe.
class Random {
 public:
  // Different `stream`s of the same seed are unrelated sequences.
  explicit constexpr Random(std::uint64_t seed, std::uint64_t stream = 0) {
    std::uint64_t x = mix64(seed + kGoldenGamma) ^ mix64(stream * kGoldenGamma + 1);
    for (auto& word : state_) word = mix64(x += kGoldenGamma);
  }

  constexpr std::uint64_t next() {
    const std::uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate_left(state_[3], 45);
    return result;
  }

  // In [0, bound); bound > 0. The bias of the multiplication is below bound / 2^32, which choices among threads bear.
  constexpr std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }

 private:
  static constexpr std::uint64_t rotate_left(std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace basalt::rt
