#include "api/string_map.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <new>

#include "base/check.h"
#include "base/sort.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {

// In memory: this header, then for each entry the end of its key and the end of its value as offsets into the
// characters, then the characters: key, value, key, value. An entry begins where the one before it ends.
struct StringMap::Block {
  std::atomic<std::uint32_t> references;
  std::uint32_t count;

  [[nodiscard]] const std::uint32_t* ends() const { return reinterpret_cast<const std::uint32_t*>(this + 1); }
  [[nodiscard]] std::uint32_t* ends() { return reinterpret_cast<std::uint32_t*>(this + 1); }
  [[nodiscard]] const char* characters() const {
    return reinterpret_cast<const char*>(ends() + 2 * std::size_t{count});
  }
  [[nodiscard]] char* characters() { return reinterpret_cast<char*>(ends() + 2 * std::size_t{count}); }
  [[nodiscard]] std::uint32_t character_count() const { return ends()[2 * std::size_t{count} - 1]; }
};

namespace {

using Entries = std::vector<StringMap::value_type>;

// Of entries of the same key the last one stays.
void sort_by_key(Entries& entries) {
  const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
  const auto not_less = [](const auto& a, const auto& b) { return !(a.first < b.first); };
  if (std::adjacent_find(entries.begin(), entries.end(), not_less) == entries.end()) return;
  base::stable_sort(entries, less);
  auto last = entries.begin();
  for (const auto& each : entries) {
    if (each.first != last->first) ++last;
    *last = each;
  }
  entries.erase(std::next(last), entries.end());
}

}  // namespace

StringMap::Block* StringMap::build(const std::vector<value_type>& sorted) {
  if (sorted.empty()) return nullptr;
  std::size_t characters = 0;
  for (const auto& [key, value] : sorted) characters += key.size() + value.size();
  constexpr std::size_t kMax = std::numeric_limits<std::uint32_t>::max();
  BASALT_CHECK(characters <= kMax && sorted.size() <= kMax);
  const std::size_t size = sizeof(Block) + sorted.size() * 2 * sizeof(std::uint32_t) + characters;
  auto* const block = new (::operator new(size)) Block{1, static_cast<std::uint32_t>(sorted.size())};
  std::uint32_t* end = block->ends();
  std::uint32_t at = 0;
  char* const text = block->characters();
  for (const auto& [key, value] : sorted) {
    for (const std::string_view part : {key, value}) {
      if (!part.empty()) std::memcpy(text + at, part.data(), part.size());
      at += static_cast<std::uint32_t>(part.size());
      *end++ = at;
    }
  }
  return block;
}

void StringMap::retain() noexcept {
  if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
}

void StringMap::release() noexcept {
  if (block_ == nullptr || block_->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  block_->~Block();
  ::operator delete(block_);
}

StringMap::StringMap(std::initializer_list<value_type> entries) : StringMap(of(entries)) {}

StringMap StringMap::of(std::vector<value_type> entries) {
  sort_by_key(entries);
  StringMap map;
  map.block_ = build(entries);
  return map;
}

std::size_t StringMap::count() const { return block_->count; }

StringMap::value_type StringMap::entry(std::size_t index) const {
  BASALT_DCHECK(index < size());
  const std::uint32_t* const ends = block_->ends();
  const std::uint32_t start = index == 0 ? 0 : ends[2 * index - 1];
  const std::uint32_t middle = ends[2 * index];
  const char* const text = block_->characters();
  return {{text + start, middle - start}, {text + middle, ends[2 * index + 1] - middle}};
}

std::size_t StringMap::lower_bound(std::string_view key) const {
  std::size_t low = 0;
  std::size_t high = size();
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (entry(middle).first < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::optional<std::string_view> StringMap::find(std::string_view key) const {
  const std::size_t at = lower_bound(key);
  if (at == size()) return std::nullopt;
  const auto [found, value] = entry(at);
  if (found != key) return std::nullopt;
  return value;
}

void StringMap::set(std::string_view key, std::string_view value) {
  const std::size_t at = lower_bound(key);
  const bool exists = at < size() && entry(at).first == key;
  if (exists && entry(at).second == value) return;
  Entries entries(begin(), end());
  if (exists) {
    entries[at].second = value;
  } else {
    entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(at), {key, value});
  }
  StringMap changed;
  changed.block_ = build(entries);
  std::swap(block_, changed.block_);  // the old block goes last: key and value may be views into it
}

bool StringMap::erase(std::string_view key) {
  const std::size_t at = lower_bound(key);
  if (at == size() || entry(at).first != key) return false;
  Entries entries(begin(), end());
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(at));
  StringMap changed;
  changed.block_ = build(entries);
  std::swap(block_, changed.block_);
  return true;
}

void StringMap::merge(const StringMap& other) {
  if (other.is_subset_of(*this)) return;
  Entries entries(begin(), end());
  entries.insert(entries.end(), other.begin(), other.end());
  *this = of(std::move(entries));
}

bool StringMap::is_subset_of(const StringMap& other) const {
  if (block_ == other.block_) return true;
  if (size() > other.size()) return false;
  for (const auto [key, value] : *this) {
    if (other.find(key) != value) return false;
  }
  return true;
}

bool StringMap::operator==(const StringMap& other) const {
  if (block_ == other.block_) return true;
  if (size() != other.size()) return false;
  // Same number of entries: equal exactly if the ends and the characters are.
  return std::memcmp(block_->ends(), other.block_->ends(), count() * 2 * sizeof(std::uint32_t)) == 0 &&
         std::memcmp(block_->characters(), other.block_->characters(), block_->character_count()) == 0;
}

std::size_t StringMap::memory_bytes() const {
  if (block_ == nullptr) return 0;
  return sizeof(Block) + count() * 2 * sizeof(std::uint32_t) + block_->character_count();
}

std::string StringMap::to_string() const {
  std::string out;
  for (const auto [key, value] : *this) {
    if (!out.empty()) out.push_back(',');
    out.append(key).append("=").append(value);
  }
  return out;
}

void decode(json::Reader& reader, StringMap& map) {
  map.clear();
  if (reader.consume_null() || !reader.begin_object()) return;
  // The reader's views do not last, so the characters gather here and become views when no more are added.
  std::string characters;
  std::vector<std::size_t> ends;
  std::string_view key;
  while (reader.next_member(key)) {
    characters.append(key);
    ends.push_back(characters.size());
    if (!reader.consume_null()) characters.append(reader.read_string_view());
    ends.push_back(characters.size());
  }
  if (!reader.ok()) return;
  Entries entries;
  entries.reserve(ends.size() / 2);
  std::size_t start = 0;
  for (std::size_t i = 0; i + 1 < ends.size(); i += 2) {
    const std::string_view text = characters;
    entries.emplace_back(text.substr(start, ends[i] - start), text.substr(ends[i], ends[i + 1] - ends[i]));
    start = ends[i + 1];
  }
  map = StringMap::of(std::move(entries));
}

void encode(json::Writer& writer, const StringMap& map) {
  writer.begin_object();
  for (const auto [key, value] : map) {
    writer.key(key);
    writer.string(value);
  }
  writer.end_object();
}

}  // namespace basalt::api
