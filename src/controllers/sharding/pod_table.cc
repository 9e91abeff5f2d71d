#include "controllers/sharding/pod_table.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/strings.h"
#include "rt/random.h"

namespace basalt::controllers::sharding {
namespace {

constexpr std::size_t kSlotsMin = 1024;

int hex_digit(char c) {
  if (base::is_digit(c)) return c - '0';
  const char lower = base::to_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

PodUid pod_uid(std::string_view text) {
  PodUid uid;
  int digits = 0;
  for (const char c : text) {
    if (c == '-') continue;
    const int digit = hex_digit(c);
    if (digit < 0 || digits == 32) {
      digits = -1;
      break;
    }
    uid.high = (uid.high << 4) | (uid.low >> 60);
    uid.low = (uid.low << 4) | static_cast<std::uint64_t>(digit);
    ++digits;
  }
  if (digits == 32) return uid;
  const std::uint64_t hash = base::fnv1a_64(text);
  return {rt::mix64(hash), rt::mix64(base::fnv1a_64(text, hash ^ rt::kGoldenGamma))};
}

std::size_t PodTable::AmountsHash::operator()(const Amounts& amounts) const {
  std::uint64_t hash = rt::mix64(static_cast<std::uint64_t>(amounts.cpu) + rt::kGoldenGamma);
  hash = rt::mix64(hash ^ static_cast<std::uint64_t>(amounts.memory));
  for (const std::int64_t extra : amounts.extra) {
    if (extra != 0) hash = rt::mix64((hash + rt::kGoldenGamma) ^ static_cast<std::uint64_t>(extra));
  }
  return hash;
}

PodTable::PodTable() : slots_(kSlotsMin) {}

std::size_t PodTable::hash_of(const PodUid& uid) { return rt::mix64(uid.high ^ rt::mix64(uid.low)); }

PodTable::Entry* PodTable::find(const PodUid& uid) {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t slot = hash_of(uid) & mask;; slot = (slot + 1) & mask) {
    Entry& entry = slots_[slot];
    if (entry.shape == kEmpty) return nullptr;
    if (entry.shape != kErased && entry.uid == uid) return &entry;
  }
}

PodTable::Entry& PodTable::insert(const PodUid& uid, NodeId node, const Amounts& amounts) {
  if ((used_ + 1) * 5 > slots_.size() * 4) resize(size_ * 2 > slots_.size() ? slots_.size() * 2 : slots_.size());
  const std::uint32_t shape = take_shape(amounts);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash_of(uid) & mask;
  while (is_used(slots_[slot])) slot = (slot + 1) & mask;
  Entry& entry = slots_[slot];
  if (entry.shape == kEmpty) ++used_;
  ++size_;
  entry.uid = uid;
  entry.node = node;
  entry.shape = shape & kShapeMask;
  entry.is_listed = 1;
  return entry;
}

void PodTable::set_amounts(Entry& entry, const Amounts& amounts) {
  const std::uint32_t shape = take_shape(amounts);
  release_shape(entry.shape);
  entry.shape = shape & kShapeMask;
}

void PodTable::erase(Entry& entry) {
  release_shape(entry.shape);
  entry.shape = kErased;
  entry.node = kNoNode;
  --size_;
}

std::uint32_t PodTable::take_shape(const Amounts& amounts) {
  const auto [place, is_new] = shape_index_.try_emplace(amounts, 0);
  if (is_new) {
    if (free_shapes_.empty()) {
      BASALT_CHECK_MSG(shapes_.size() < kErased, "more kinds of pods than there can be pods");
      place->second = static_cast<std::uint32_t>(shapes_.size());
      shapes_.push_back({amounts, 0});
    } else {
      place->second = free_shapes_.back();
      free_shapes_.pop_back();
      shapes_[place->second] = {amounts, 0};
    }
  }
  ++shapes_[place->second].users;
  return place->second;
}

void PodTable::release_shape(std::uint32_t shape) {
  if (--shapes_[shape].users > 0) return;
  shape_index_.erase(shapes_[shape].amounts);
  free_shapes_.push_back(shape);
}

void PodTable::resize(std::size_t slots) {
  std::vector<Entry> old(slots);
  old.swap(slots_);
  ++layout_;
  used_ = size_;
  const std::size_t mask = slots_.size() - 1;
  for (const Entry& entry : old) {
    if (!is_used(entry)) continue;
    std::size_t slot = hash_of(entry.uid) & mask;
    while (is_used(slots_[slot])) slot = (slot + 1) & mask;
    slots_[slot] = entry;
  }
}

void PodTable::unlist_all() {
  for (Entry& entry : slots_) entry.is_listed = 0;
}

void PodTable::visit_unlisted(const std::function<void(Entry&)>& visit) {
  for (Entry& entry : slots_) {
    if (is_used(entry) && entry.is_listed == 0) visit(entry);
  }
}

void PodTable::visit_slots(std::size_t begin, std::size_t end, const std::function<void(const Entry&)>& visit) const {
  for (std::size_t slot = begin; slot < end && slot < slots_.size(); ++slot) {
    if (is_used(slots_[slot])) visit(slots_[slot]);
  }
}

std::size_t PodTable::memory_bytes() const {
  // A node of the index: its pair, the link, the cached hash, and the allocator's head.
  constexpr std::size_t kIndexNode = sizeof(Amounts) + 32;
  return slots_.capacity() * sizeof(Entry) + shapes_.capacity() * sizeof(Shape) + shape_index_.size() * kIndexNode +
         shape_index_.bucket_count() * sizeof(void*);
}

}  // namespace basalt::controllers::sharding
