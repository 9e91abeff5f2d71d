#include "api/resource_list.h"

#include <algorithm>
#include <iterator>

#include "base/sort.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {

namespace {

using Entries = std::vector<ResourceList::Entry>;

bool name_is_less(const ResourceList::Entry& entry, std::string_view name) { return entry.first < name; }

// Of entries of the same name the last one stays.
void sort_by_name(Entries& entries) {
  const auto less = [](const auto& a, const auto& b) { return a.first < b.first; };
  const auto not_less = [](const auto& a, const auto& b) { return !(a.first < b.first); };
  if (std::adjacent_find(entries.begin(), entries.end(), not_less) == entries.end()) return;
  base::stable_sort(entries, less);
  auto last = entries.begin();
  for (auto each = std::next(last); each != entries.end(); ++each) {
    if (each->first != last->first) ++last;
    if (last != each) *last = std::move(*each);
  }
  entries.erase(std::next(last), entries.end());
}

}  // namespace

ResourceList::ResourceList(std::initializer_list<Entry> entries) : entries_(entries) { sort_by_name(entries_); }

const Quantity* ResourceList::find(std::string_view name) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name, name_is_less);
  return at != entries_.end() && at->first == name ? &at->second : nullptr;
}

Quantity ResourceList::get(std::string_view name) const {
  const Quantity* quantity = find(name);
  return quantity != nullptr ? *quantity : Quantity();
}

Quantity& ResourceList::operator[](std::string_view name) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name, name_is_less);
  if (at != entries_.end() && at->first == name) return at->second;
  return entries_.emplace(at, std::string(name), Quantity())->second;
}

bool ResourceList::erase(std::string_view name) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name, name_is_less);
  if (at == entries_.end() || at->first != name) return false;
  entries_.erase(at);
  return true;
}

// `combine(mine, other)` for every name of the other; absent names start from zero. Linear.
template <class Combine>
void ResourceList::merge(const ResourceList& other, Combine combine) {
  Entries missing;
  auto mine = entries_.begin();
  for (const Entry& theirs : other.entries_) {
    while (mine != entries_.end() && mine->first < theirs.first) ++mine;
    if (mine != entries_.end() && mine->first == theirs.first) {
      combine(mine->second, theirs.second);
    } else {
      combine(missing.emplace_back(theirs.first, Quantity()).second, theirs.second);
    }
  }
  if (missing.empty()) return;
  Entries merged;
  merged.reserve(entries_.size() + missing.size());
  std::merge(std::make_move_iterator(entries_.begin()), std::make_move_iterator(entries_.end()),
             std::make_move_iterator(missing.begin()), std::make_move_iterator(missing.end()),
             std::back_inserter(merged), [](const Entry& a, const Entry& b) { return a.first < b.first; });
  entries_ = std::move(merged);
}

ResourceList& ResourceList::operator+=(const ResourceList& other) {
  merge(other, [](Quantity& mine, const Quantity& theirs) { mine += theirs; });
  return *this;
}

ResourceList& ResourceList::operator-=(const ResourceList& other) {
  merge(other, [](Quantity& mine, const Quantity& theirs) { mine -= theirs; });
  return *this;
}

ResourceList& ResourceList::operator*=(std::int64_t factor) {
  for (Entry& entry : entries_) entry.second *= factor;
  return *this;
}

void ResourceList::raise_to(const ResourceList& other) {
  merge(other, [](Quantity& mine, const Quantity& theirs) {
    if (mine < theirs || (mine.is_zero() && theirs.is_zero())) mine = theirs;
  });
}

void ResourceList::lower_to(const ResourceList& other) {
  auto theirs = other.entries_.begin();
  for (Entry& mine : entries_) {
    while (theirs != other.entries_.end() && theirs->first < mine.first) ++theirs;
    if (theirs == other.entries_.end()) return;
    if (theirs->first == mine.first && theirs->second < mine.second) mine.second = theirs->second;
  }
}

void ResourceList::drop_zeros() {
  std::erase_if(entries_, [](const Entry& entry) { return entry.second.is_zero(); });
}

std::string_view ResourceList::first_misfit(const ResourceList& capacity) const {
  auto theirs = capacity.entries_.begin();
  for (const Entry& mine : entries_) {
    if (mine.second.sign() <= 0) continue;
    while (theirs != capacity.entries_.end() && theirs->first < mine.first) ++theirs;
    const bool offered = theirs != capacity.entries_.end() && theirs->first == mine.first;
    if (!offered || theirs->second < mine.second) return mine.first;
  }
  return {};
}

bool ResourceList::has_negative() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.second.sign() < 0; });
}

bool ResourceList::is_zero() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& entry) { return entry.second.is_zero(); });
}

std::string ResourceList::to_string() const {
  std::string out;
  for (const Entry& entry : entries_) {
    if (!out.empty()) out.push_back(',');
    out.append(entry.first).append("=").append(entry.second.to_string());
  }
  return out;
}

void decode(json::Reader& reader, ResourceList& list) {
  list.entries_.clear();
  if (reader.consume_null() || !reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    Quantity& quantity = list.entries_.emplace_back(std::string(key), Quantity()).second;
    decode(reader, quantity);
  }
  sort_by_name(list.entries_);
}

void encode(json::Writer& writer, const ResourceList& list) {
  writer.begin_object();
  for (const auto& [name, quantity] : list) {
    writer.key(name);
    encode(writer, quantity);
  }
  writer.end_object();
}

}  // namespace basalt::api
