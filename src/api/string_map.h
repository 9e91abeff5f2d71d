#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/fwd.h"

namespace basalt::api {

// Labels, annotations, node selectors: string -> string, sorted by key, in one heap block that copies share.
//
// Made for caches: eight bytes when empty, else one block of 8 bytes + 8 per entry + the characters. A copy counts a
// reference; a change builds a new block, so copies never see it and views taken from them stay valid. Hence `set` in a
// loop is quadratic: build many entries at once with `of`. Distinct objects may be used from distinct threads even if
// they share a block; one object is not synchronised.
//
// Limit: keys and values together below 4 GiB (checked); request bodies are far smaller.
class StringMap {
 public:
  using value_type = std::pair<std::string_view, std::string_view>;

  // Yields pairs of views by value: `for (auto [key, value] : labels)`.
  class Iterator {
   public:
    using value_type = StringMap::value_type;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    value_type operator*() const { return map_->entry(index_); }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator old = *this;
      ++index_;
      return old;
    }
    bool operator==(const Iterator&) const = default;

   private:
    friend class StringMap;
    Iterator(const StringMap* map, std::size_t index) : map_(map), index_(index) {}
    const StringMap* map_ = nullptr;
    std::size_t index_ = 0;
  };

  StringMap() = default;
  StringMap(std::initializer_list<value_type> entries);  // a later entry of the same key wins
  static StringMap of(std::vector<value_type> entries);  // in any order; a later entry of the same key wins
  StringMap(const StringMap& other) noexcept : block_(other.block_) { retain(); }
  StringMap(StringMap&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  StringMap& operator=(const StringMap& other) noexcept {
    StringMap copy(other);
    std::swap(block_, copy.block_);
    return *this;
  }
  StringMap& operator=(StringMap&& other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~StringMap() { release(); }

  [[nodiscard]] bool empty() const { return block_ == nullptr; }
  [[nodiscard]] std::size_t size() const { return block_ == nullptr ? 0 : count(); }
  [[nodiscard]] Iterator begin() const { return {this, 0}; }
  [[nodiscard]] Iterator end() const { return {this, size()}; }

  // Views are valid as long as this map, or a copy of it, is neither changed nor destroyed.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view key) const;
  [[nodiscard]] std::string_view get(std::string_view key) const { return find(key).value_or(std::string_view()); }
  [[nodiscard]] bool contains(std::string_view key) const { return find(key).has_value(); }
  // The entry at a position below size(), in key order.
  [[nodiscard]] value_type entry(std::size_t index) const;

  void set(std::string_view key, std::string_view value);
  bool erase(std::string_view key);    // false if it was absent
  void merge(const StringMap& other);  // the other's entries win
  void clear() { *this = StringMap(); }
  // Whether every entry of this map is in the other (a selector's matchLabels against labels).
  [[nodiscard]] bool is_subset_of(const StringMap& other) const;

  bool operator==(const StringMap& other) const;

  // Heap bytes of the block, whether shared or not.
  [[nodiscard]] std::size_t memory_bytes() const;
  [[nodiscard]] std::string to_string() const;  // "a=b,c=d", for messages

 private:
  struct Block;
  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] std::size_t lower_bound(std::string_view key) const;
  static Block* build(const std::vector<value_type>& sorted);
  void retain() noexcept;
  void release() noexcept;

  Block* block_ = nullptr;
};

static_assert(sizeof(StringMap) == sizeof(void*));

void decode(json::Reader& reader, StringMap& map);
void encode(json::Writer& writer, const StringMap& map);

}  // namespace basalt::api
