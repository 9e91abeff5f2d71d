#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "api/fwd.h"

namespace basalt::api {

// A string for caches, in eight bytes. The words that every cluster repeats (phases, kinds, condition types, the
// default scheduler's name; the list is made from schema/) cost no more; any other text owns one heap block of its
// length. Made by decoding, then read; it is replaced, never edited. Copies are independent: no sharing, no locks.
class Word {
 public:
  Word() = default;
  Word(std::string_view text) { assign(text); }
  Word(const char* text) : Word(std::string_view(text)) {}
  Word(const Word& other) { assign_from(other); }
  Word(Word&& other) noexcept : bits_(std::exchange(other.bits_, 0)) {}
  Word& operator=(const Word& other) {
    Word copy(other);
    std::swap(bits_, copy.bits_);
    return *this;
  }
  Word& operator=(Word&& other) noexcept {
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~Word() { release(); }

  [[nodiscard]] bool empty() const { return bits_ == 0; }
  // Valid until the word is assigned to or destroyed.
  [[nodiscard]] std::string_view view() const;
  operator std::string_view() const { return view(); }
  [[nodiscard]] std::string str() const { return std::string(view()); }

  // Heap bytes owned; 0 for a well-known word.
  [[nodiscard]] std::size_t memory_bytes() const;

  friend bool operator==(const Word& a, const Word& b) { return a.bits_ == b.bits_ || a.view() == b.view(); }
  friend bool operator==(const Word& a, std::string_view b) { return a.view() == b; }
  friend bool operator==(const Word& a, const char* b) { return a.view() == b; }

 private:
  struct Block;
  void assign(std::string_view text);  // this owns nothing yet
  void assign_from(const Word& other);
  void release() noexcept;
  [[nodiscard]] bool is_owned() const { return (bits_ & 1) != 0; }
  [[nodiscard]] Block* block() const;

  // 0: empty. Lowest bit clear: the address of an entry of well_known_words(). Lowest bit set: a block of our own.
  std::uintptr_t bits_ = 0;
};

static_assert(sizeof(Word) == 8);

void decode(json::Reader& reader, Word& word);
void encode(json::Writer& writer, const Word& word);

// Sorted, each once. Defined in gen/words.cc.
[[nodiscard]] std::span<const std::string_view> well_known_words();

}  // namespace basalt::api
