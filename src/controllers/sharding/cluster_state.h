#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "controllers/sharding/decode.h"
#include "controllers/sharding/facts.h"
#include "controllers/sharding/pod_table.h"
#include "rt/mutex.h"

namespace basalt::controllers::sharding {

// A node as the assignment sees it next: new facts, or its end.
struct NodeUpdate {
  NodeId node = kNoNode;
  bool is_present = false;
  std::uint64_t rank = 0;
  NodeFacts facts;
};

// Every node with the requests of its pods, kept exact by adding and taking away what each pod event changes. Feeds
// write it, one thread takes the changes out. A node that changed is remembered once, however often it changed; an
// event that changes no policy's view of a node (no bucket, no label) is over here. Self-locking; locks are short.
//
// Pods may name nodes that are not there (yet): these have an entry, too, but no facts.
class ClusterState final : public NodeNames {
 public:
  explicit ClusterState(Catalog catalog);

  [[nodiscard]] const Catalog& catalog() const { return catalog_; }
  // A change of more than this since reset_baselines() is urgent.
  void set_threshold(double threshold);

  // What the watches say. A list is begun, its items put, then ended: what was not put is gone then.
  void begin_pod_list();
  void end_pod_list();
  void put_pod(const PodReading& pod);
  void remove_pod(const PodUid& uid);
  void begin_node_list();
  void end_node_list();
  void put_node(const NodeReading& node);
  void remove_node(std::string_view name);

  // Up to `count` nodes that changed, oldest first. True if more wait.
  bool take_changes(std::size_t count, std::vector<NodeUpdate>& out);
  [[nodiscard]] bool has_changes() const { return has_changes_.load(std::memory_order_acquire); }
  // All nodes that are there, and no changes wait any more.
  void take_all(std::vector<NodeUpdate>& out);
  // Whether something happened that is not left to the periodic publication: a node came or went, its label or
  // capacity changed, or its utilisation moved beyond the threshold. Asking clears it.
  [[nodiscard]] bool take_urgent() { return urgent_.exchange(false, std::memory_order_acq_rel); }
  void reset_baselines();

  [[nodiscard]] std::string_view name_of(NodeId node) const override;
  // In the order of the ids.
  void names_of(const std::vector<NodeId>& ids, std::vector<std::string>& names) const;
  [[nodiscard]] NodeId find(std::string_view name) const;  // kNoNode if it is not there
  [[nodiscard]] std::optional<NodeFacts> facts_of(std::string_view name) const;
  [[nodiscard]] std::optional<Amounts> requests_of(std::string_view name) const;
  // A node that is there, chosen by a number; "" if there is none.
  [[nodiscard]] std::string some_node(std::uint64_t number) const;
  [[nodiscard]] std::size_t nodes() const;
  [[nodiscard]] std::size_t pods() const;
  struct Counts {
    std::uint64_t pod_events = 0;
    std::uint64_t node_events = 0;
  };
  [[nodiscard]] Counts counts() const;

  // A piece of an audit: sums are built again from the pods, a stretch of the table at a time, while events go on. At
  // the end of a turn every node whose sums disagree is corrected; returns how many were, nothing before the end.
  std::optional<std::size_t> audit_step(std::size_t slots);
  [[nodiscard]] std::size_t memory_bytes() const;
  // Called (without a lock) when changes begin to wait. Set before the feeds start.
  void on_change(std::function<void()> wake) { wake_ = std::move(wake); }

  // For tests of the audit: makes a node's sum wrong.
  void corrupt_for_test(std::string_view name, std::int64_t cpu);

 private:
  struct Node {
    std::string name;
    std::uint64_t rank = 0;
    std::int64_t cpu_used = 0;
    std::int64_t memory_used = 0;
    std::int64_t cpu_has = 0;
    std::int64_t memory_has = 0;
    float cpu_base = 0;  // utilisation at the last publication
    float memory_base = 0;
    std::uint32_t pods = 0;
    std::uint32_t label_bits = 0;
    std::uint8_t cpu_bucket = 0;
    std::uint8_t memory_bucket = 0;
    bool is_present = false;
    bool is_dirty = false;    // in dirty_
    bool is_touched = false;  // in touched_
    bool is_listed = false;
    bool is_free = true;
  };
  struct ByName {
    using is_transparent = void;
    const std::vector<Node>* nodes;
    std::size_t operator()(NodeId id) const { return (*nodes)[id].rank; }
    std::size_t operator()(std::string_view name) const { return rank_of(name); }
    bool operator()(NodeId a, NodeId b) const { return a == b; }
    bool operator()(NodeId a, std::string_view b) const { return (*nodes)[a].name == b; }
    bool operator()(std::string_view a, NodeId b) const { return (*nodes)[b].name == a; }
  };

  NodeId node_id(std::string_view name) BASALT_REQUIRES(mutex_);
  [[nodiscard]] NodeId lookup(std::string_view name) const BASALT_REQUIRES(mutex_);
  void change_usage(NodeId id, const Amounts& amounts, int sign, std::size_t slot) BASALT_REQUIRES(mutex_);
  void look_at(NodeId id) BASALT_REQUIRES(mutex_);
  void mark_dirty(NodeId id) BASALT_REQUIRES(mutex_);
  void touch(NodeId id) BASALT_REQUIRES(mutex_);
  void release_if_unused(NodeId id) BASALT_REQUIRES(mutex_);
  void drop_node(NodeId id) BASALT_REQUIRES(mutex_);
  void drop_pod(PodTable::Entry& entry) BASALT_REQUIRES(mutex_);
  [[nodiscard]] NodeUpdate update_of(NodeId id) const BASALT_REQUIRES(mutex_);
  void release_taken() BASALT_REQUIRES(mutex_);
  void wake_if_needed(bool had_changes);

  const Catalog catalog_;
  std::function<void()> wake_;
  std::atomic<bool> urgent_{false};
  std::atomic<bool> has_changes_{false};
  std::atomic<std::uint64_t> pod_events_{0}, node_events_{0};

  mutable rt::Mutex mutex_;
  double threshold_ BASALT_GUARDED_BY(mutex_) = 0.5;
  PodTable pods_ BASALT_GUARDED_BY(mutex_);
  std::vector<Node> nodes_ BASALT_GUARDED_BY(mutex_);
  std::unordered_set<NodeId, ByName, ByName> index_ BASALT_GUARDED_BY(mutex_);
  std::vector<std::vector<std::int64_t>> extra_used_ BASALT_GUARDED_BY(mutex_);  // by resource, then node
  std::vector<std::vector<std::int64_t>> extra_has_ BASALT_GUARDED_BY(mutex_);   // negative: the node has none
  std::vector<std::vector<double>> metrics_ BASALT_GUARDED_BY(mutex_);           // by metric, then node
  std::vector<NodeId> free_ BASALT_GUARDED_BY(mutex_);
  std::vector<NodeId> dirty_ BASALT_GUARDED_BY(mutex_);
  std::size_t dirty_taken_ BASALT_GUARDED_BY(mutex_) = 0;
  std::vector<NodeId> touched_ BASALT_GUARDED_BY(mutex_);
  std::vector<NodeId> to_release_ BASALT_GUARDED_BY(mutex_);  // reported as gone; free once that has been worked on
  std::size_t present_ BASALT_GUARDED_BY(mutex_) = 0;
  struct Audit {
    bool is_running = false;
    std::uint64_t layout = 0;
    std::size_t next_slot = 0;
    std::vector<std::int64_t> cpu;
    std::vector<std::int64_t> memory;
  } audit_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::controllers::sharding
