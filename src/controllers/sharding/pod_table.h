#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "controllers/sharding/facts.h"
#include "controllers/sharding/ordered_keys.h"

namespace basalt::controllers::sharding {

// What a pod requests, or a node has: cpu in thousandths, memory in bytes, others (by Catalog::resources) in units.
struct Amounts {
  std::int64_t cpu = 0;
  std::int64_t memory = 0;
  std::array<std::int64_t, kExtraMax> extra{};
  bool operator==(const Amounts&) const = default;
};

// A UID in 16 bytes: the number itself if it is a UUID, as Kubernetes makes them, else a hash.
struct PodUid {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const PodUid&) const = default;
};
[[nodiscard]] PodUid pod_uid(std::string_view text);

// Which pod requests what, on which node: 24 bytes a slot, 30 to 60 bytes a pod. Pods of equal requests share them,
// and in a real cluster a few thousand kinds of pods make up millions. Open addressing; one owner.
class PodTable {
 public:
  struct Entry {
    PodUid uid;
    NodeId node = kNoNode;
    std::uint32_t shape : 31 = kEmpty;
    std::uint32_t is_listed : 1 = 0;  // see unlist_all()
  };

  PodTable();
  // The entry of this pod, null if there is none. Valid until the next insert.
  [[nodiscard]] Entry* find(const PodUid& uid);
  // It is not there yet.
  Entry& insert(const PodUid& uid, NodeId node, const Amounts& amounts);
  void set_amounts(Entry& entry, const Amounts& amounts);
  void erase(Entry& entry);
  [[nodiscard]] const Amounts& amounts(const Entry& entry) const { return shapes_[entry.shape].amounts; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // For lists: forget what was listed, then everything is listed that is found again, then the others go.
  void unlist_all();
  void visit_unlisted(const std::function<void(Entry&)>& visit);
  // A stretch of the table, for an audit that does not hold up everybody: entries of slots [begin, end).
  void visit_slots(std::size_t begin, std::size_t end, const std::function<void(const Entry&)>& visit) const;
  [[nodiscard]] std::size_t slots() const { return slots_.size(); }
  [[nodiscard]] std::size_t slot_of(const Entry& entry) const {
    return static_cast<std::size_t>(&entry - slots_.data());
  }
  // Grows when the slots were moved.
  [[nodiscard]] std::uint64_t layout() const { return layout_; }
  [[nodiscard]] std::size_t memory_bytes() const;

 private:
  static constexpr std::uint32_t kEmpty = 0x7FFFFFFF;
  static constexpr std::uint32_t kErased = 0x7FFFFFFE;
  static constexpr std::uint32_t kShapeMask = 0x7FFFFFFF;
  struct Shape {
    Amounts amounts;
    std::uint32_t users = 0;
  };
  struct AmountsHash {
    std::size_t operator()(const Amounts& amounts) const;
  };

  [[nodiscard]] static std::size_t hash_of(const PodUid& uid);
  [[nodiscard]] static bool is_used(const Entry& entry) { return entry.shape < kErased; }
  std::uint32_t take_shape(const Amounts& amounts);
  void release_shape(std::uint32_t shape);
  void resize(std::size_t slots);

  std::vector<Entry> slots_;  // a power of two of them
  std::size_t size_ = 0;
  std::size_t used_ = 0;  // with those erased
  std::uint64_t layout_ = 0;
  std::vector<Shape> shapes_;
  std::vector<std::uint32_t> free_shapes_;
  std::unordered_map<Amounts, std::uint32_t, AmountsHash> shape_index_;
};

}  // namespace basalt::controllers::sharding
