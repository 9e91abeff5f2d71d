#include "api/word.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {

// The length, then the characters.
struct Word::Block {
  std::uint32_t size;
  [[nodiscard]] char* text() { return reinterpret_cast<char*>(this + 1); }
};

Word::Block* Word::block() const { return reinterpret_cast<Block*>(bits_ & ~std::uintptr_t{1}); }

void Word::assign(std::string_view text) {
  if (text.empty()) return;
  const auto words = well_known_words();
  const auto found = std::ranges::lower_bound(words, text);
  if (found != words.end() && *found == text) {
    bits_ = reinterpret_cast<std::uintptr_t>(&*found);
    return;
  }
  BASALT_CHECK(text.size() <= UINT32_MAX);
  void* memory = ::operator new(sizeof(Block) + text.size());
  Block* block = new (memory) Block{static_cast<std::uint32_t>(text.size())};
  std::memcpy(block->text(), text.data(), text.size());
  bits_ = reinterpret_cast<std::uintptr_t>(block) | 1;
}

void Word::assign_from(const Word& other) {
  if (other.is_owned()) {
    assign(other.view());
  } else {
    bits_ = other.bits_;
  }
}

void Word::release() noexcept {
  if (is_owned()) ::operator delete(block());
}

std::string_view Word::view() const {
  if (bits_ == 0) return {};
  if (is_owned()) return {block()->text(), block()->size};
  return *reinterpret_cast<const std::string_view*>(bits_);
}

std::size_t Word::memory_bytes() const { return is_owned() ? sizeof(Block) + block()->size : 0; }

void decode(json::Reader& reader, Word& word) {
  if (reader.consume_null()) {
    word = Word();
    return;
  }
  word = Word(reader.read_string_view());
}

void encode(json::Writer& writer, const Word& word) { writer.string(word.view()); }

}  // namespace basalt::api
