#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace basalt::controllers::sharding {

// A node's place in a cluster's tables. Dense: ids of nodes that are gone are given out again.
using NodeId = std::uint32_t;
inline constexpr NodeId kNoNode = 0xFFFFFFFF;

// Where a node stands in the order of one level; the smaller, the better.
struct OrderKey {
  std::uint64_t score = 0;  // see order_of_score()
  std::uint64_t tie = 0;    // top bit: no incumbent; below it the rank of the name
  NodeId node = kNoNode;

  bool operator==(const OrderKey&) const = default;
};

// Larger scores give smaller numbers. Not for NaN.
[[nodiscard]] std::uint64_t order_of_score(double score);
// FNV-1a over the name, then SplitMix64's finaliser. Fixed for ever: restarts and versions must agree.
[[nodiscard]] std::uint64_t rank_of(std::string_view node_name);

// The names of nodes, for the last tie-break: two names of equal rank.
class NodeNames {
 public:
  virtual ~NodeNames() = default;
  [[nodiscard]] virtual std::string_view name_of(NodeId node) const = 0;
};

// A sorted set of keys: blocks of at most kBlockMax keys under one directory. Insertion and removal are two binary
// searches and a short memmove, so 1,000,000 keys cost well below a microsecond each and 24 bytes (plus slack).
// One owner.
class OrderedKeys {
 public:
  explicit OrderedKeys(const NodeNames& names) : names_(&names) {}

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] bool less(const OrderKey& a, const OrderKey& b) const;
  void insert(const OrderKey& key);             // it is not in the set
  void erase(const OrderKey& key);              // it is in the set
  [[nodiscard]] const OrderKey& best() const;   // not empty
  [[nodiscard]] const OrderKey& worst() const;  // not empty
  // Replaces everything; `sorted` is in order.
  void assign(const OrderKey* sorted, std::size_t count);
  void clear();
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Block& block : blocks_) {
      for (const OrderKey& key : block) visit(key);
    }
  }
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::size_t kBlockMax = 128;  // a memmove of 1.5 KB on average; a directory of 16,000 for a million
  using Block = std::vector<OrderKey>;

  [[nodiscard]] std::size_t block_of(const OrderKey& key) const;

  const NodeNames* names_;
  std::vector<Block> blocks_;     // none is empty
  std::vector<OrderKey> firsts_;  // of each block
  std::size_t size_ = 0;
};

}  // namespace basalt::controllers::sharding
