#include "controllers/sharding/ordered_keys.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/hash.h"
#include "rt/random.h"

namespace basalt::controllers::sharding {

std::uint64_t order_of_score(double score) {
  if (score == 0) score = 0;  // -0.0 and 0.0 are one score
  const auto bits = std::bit_cast<std::uint64_t>(score);
  constexpr std::uint64_t kSign = 1ULL << 63;
  const std::uint64_t ascending = (bits & kSign) != 0 ? ~bits : bits | kSign;
  return ~ascending;
}

std::uint64_t rank_of(std::string_view node_name) { return rt::mix64(base::fnv1a_64(node_name)); }

bool OrderedKeys::less(const OrderKey& a, const OrderKey& b) const {
  if (a.score != b.score) return a.score < b.score;
  if (a.tie != b.tie) return a.tie < b.tie;
  if (a.node == b.node) return false;
  const std::string_view name_a = names_->name_of(a.node);
  const std::string_view name_b = names_->name_of(b.node);
  return name_a != name_b ? name_a < name_b : a.node < b.node;
}

std::size_t OrderedKeys::block_of(const OrderKey& key) const {
  const auto after = std::upper_bound(firsts_.begin(), firsts_.end(), key,
                                      [this](const OrderKey& a, const OrderKey& b) { return less(a, b); });
  return after == firsts_.begin() ? 0 : static_cast<std::size_t>(after - firsts_.begin()) - 1;
}

void OrderedKeys::insert(const OrderKey& key) {
  ++size_;
  if (blocks_.empty()) {
    blocks_.emplace_back().push_back(key);
    firsts_.push_back(key);
    return;
  }
  const std::size_t index = block_of(key);
  Block& block = blocks_[index];
  const auto place = std::lower_bound(block.begin(), block.end(), key,
                                      [this](const OrderKey& a, const OrderKey& b) { return less(a, b); });
  BASALT_DCHECK(place == block.end() || !(*place == key));
  block.insert(place, key);
  firsts_[index] = block.front();
  if (block.size() <= kBlockMax) return;
  Block upper(block.begin() + kBlockMax / 2, block.end());
  block.resize(kBlockMax / 2);
  firsts_.insert(firsts_.begin() + static_cast<std::ptrdiff_t>(index) + 1, upper.front());
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(upper));
}

void OrderedKeys::erase(const OrderKey& key) {
  BASALT_CHECK_MSG(!blocks_.empty(), "a key is removed from an empty order");
  const std::size_t index = block_of(key);
  Block& block = blocks_[index];
  const auto place = std::lower_bound(block.begin(), block.end(), key,
                                      [this](const OrderKey& a, const OrderKey& b) { return less(a, b); });
  BASALT_CHECK_MSG(place != block.end() && *place == key, "a key is removed that is not in the order");
  block.erase(place);
  --size_;
  if (!block.empty()) {
    firsts_[index] = block.front();
    return;
  }
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index));
  firsts_.erase(firsts_.begin() + static_cast<std::ptrdiff_t>(index));
}

const OrderKey& OrderedKeys::best() const {
  BASALT_CHECK(size_ > 0);
  return firsts_.front();
}

const OrderKey& OrderedKeys::worst() const {
  BASALT_CHECK(size_ > 0);
  return blocks_.back().back();
}

void OrderedKeys::assign(const OrderKey* sorted, std::size_t count) {
  clear();
  // Blocks begin three quarters full: room for insertions without a split at once.
  constexpr std::size_t kFill = kBlockMax * 3 / 4;
  blocks_.reserve(count / kFill + 1);
  firsts_.reserve(count / kFill + 1);
  for (std::size_t begin = 0; begin < count; begin += kFill) {
    const std::size_t end = std::min(count, begin + kFill);
    blocks_.emplace_back(sorted + begin, sorted + end);
    firsts_.push_back(sorted[begin]);
  }
  size_ = count;
}

void OrderedKeys::clear() {
  blocks_.clear();
  firsts_.clear();
  size_ = 0;
}

std::size_t OrderedKeys::memory_bytes() const {
  std::size_t bytes = blocks_.capacity() * sizeof(Block) + firsts_.capacity() * sizeof(OrderKey);
  for (const Block& block : blocks_) bytes += block.capacity() * sizeof(OrderKey);
  return bytes;
}

}  // namespace basalt::controllers::sharding
