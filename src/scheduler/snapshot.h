#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "api/gen/core_node.h"
#include "api/gen/core_workloads.h"
#include "api/gen/scheduling_podgroup.h"
#include "api/gen/scheduling_queue.h"
#include "api/labels.h"
#include "api/object_key.h"
#include "rt/time.h"
#include "scheduler/pod.h"
#include "scheduler/reason.h"
#include "scheduler/resources.h"
#include "scheduler/shape.h"

namespace basalt::scheduler {

// Places in the snapshot's tables. They stay while the object does and are used again afterwards.
using PodId = std::uint32_t;
using NodeId = std::uint32_t;
using GroupId = std::uint32_t;
using QueueId = std::uint32_t;
using ShapeId = std::uint32_t;
inline constexpr std::uint32_t kNone = UINT32_MAX;

enum class PodState : std::uint8_t { Waiting, Placed, Terminating, Succeeded, Failed };

struct Pod {
  std::shared_ptr<const SchedulablePod> object;
  ShapeId shape = kNone;
  GroupId group = kNone;
  NodeId node = kNone;  // holds room there
  PodState state = PodState::Waiting;
  bool is_assumed = false;               // placed by us; the cache does not show it yet
  bool is_evicting = false;              // we asked for its deletion
  PendingKind told = PendingKind::None;  // what its condition was last set to by us
  std::uint32_t node_slot = 0;
  std::uint32_t group_slot = 0;
  rt::Instant seen_at;
};

struct Node {
  std::shared_ptr<const api::core::NodeProjection> object;  // null: only pods speak of it
  std::string name;
  Amounts allocatable;
  Amounts free;
  std::vector<PodId> pods;
  std::vector<HostPort> ports;
  Amounts blocked;  // what block_node() took
  bool is_in_shard = true;
  std::uint32_t spec_version = 0;
};

enum class GroupPhase : std::uint8_t { None, Pending, Inqueue, Running, Unknown, Completed };
[[nodiscard]] std::string_view to_string(GroupPhase phase);
[[nodiscard]] GroupPhase group_phase_of(std::string_view text);

struct SubGroupRule {
  api::Selector selector;
  std::vector<std::string> keys;
  std::int32_t size = 1;
  std::int32_t groups_min = 0;
};

struct GroupCounts {
  std::int32_t waiting = 0;
  std::int32_t gated = 0;  // of the waiting
  std::int32_t placed = 0;
  std::int32_t terminating = 0;
  std::int32_t running = 0;  // of the placed
  std::int32_t succeeded = 0;
  std::int32_t failed = 0;
  [[nodiscard]] std::int32_t ready_to_place() const { return waiting - gated; }
  [[nodiscard]] std::int32_t occupied() const { return placed + succeeded; }
};

// What a pod group's status says, as far as we write it.
struct GroupStatus {
  GroupPhase phase = GroupPhase::None;
  std::int32_t running = 0;
  std::int32_t succeeded = 0;
  std::int32_t failed = 0;
  std::vector<api::scheduling::PodGroupCondition> conditions;
  std::string pending;  // the annotation kPendingAnnotation
  bool operator==(const GroupStatus&) const = default;
};

// A gang: a pod group with its pods, or a pod outside groups (`is_single`), which is a gang of one.
struct Group {
  api::ObjectKey key;
  std::shared_ptr<const api::scheduling::PodGroup> object;  // null: a single, or pods came before their group
  bool is_single = false;
  bool is_live = false;  // the slot is in use
  QueueId queue = kNone;
  std::int32_t priority = 0;
  bool never_preempts = false;
  std::int32_t min_member = 1;
  std::vector<std::pair<std::string, std::int32_t>> task_min;
  std::vector<SubGroupRule> sub_groups;
  Amounts min_resources;
  bool has_min_resources = false;
  std::int64_t created = 0;
  std::vector<PodId> pods;
  GroupCounts counts;
  Amounts allocated;
  Amounts evictable;          // of it, what is held by pods that may be preempted
  std::uint64_t version = 0;  // counts its own changes

  // The status as last seen or last written by us, whichever is newer.
  GroupStatus status;
  std::uint64_t status_revision = 0;
  std::int32_t wait_priority = 0;  // under which it stands in its queue's waiting set
  std::int64_t wait_created = 0;
  bool is_waiting = false;

  // What the planner remembers.
  bool is_admitted = false;          // by its queue; the status may not say so yet
  bool was_tried = false;            // since it was admitted
  std::uint64_t failed_version = 0;  // own version at the last failure ...
  std::uint64_t failed_freed = 0;    // ... and the cluster's
  std::uint64_t failed_placed = 0;
  std::uint64_t evict_freed = 0;  // the same for looking for victims
  std::uint64_t evict_version = 0;
  rt::Instant evict_again{};            // a long search for victims that was in vain is not repeated before this
  bool is_nominated = false;            // room is being made for it
  rt::Instant starve_again{};           // keeping nodes does not help it until then
  rt::Instant untangle_at{};            // when to look again for half-placed gangs that could give way
  std::uint64_t explained_version = 0;  // own version and the cluster's when the reason was last put into words
  std::uint64_t explained_freed = 0;
  std::uint64_t explained_placed = 0;
  PendingReason reason;
  std::int32_t needed = 0;  // numbers of the last failure, see GangOutcome
  std::int32_t fitted = 0;
  PodId blocker = kNone;
  QueueId full_queue = kNone;
  std::string short_task;
  rt::Instant waiting_since{};
  rt::Instant admitted_at{};
  rt::Instant condition_written_at{};
  rt::Instant status_due = rt::kNever;
  rt::Instant retry_at{};  // after a refusal by the API server
};

struct Queue {
  std::string name;
  std::shared_ptr<const api::scheduling::Queue> object;  // null: named by others only
  QueueId parent = kNone;
  std::vector<QueueId> children;
  std::int32_t weight = 1;
  std::int32_t priority = 0;
  bool is_open = true;
  bool is_reclaimable = true;
  bool is_fifo = false;
  Amounts capability;  // kUnlimited where nothing is said
  Amounts deserved;    // -1 where nothing is said
  Amounts guarantee;
  Amounts allocated;  // with the queues below
  // What pods of its own groups that may be preempted hold, by the groups' priority. Without the queues below.
  std::map<std::int32_t, Amounts> evictable;
  struct Waiting {
    std::int32_t priority;
    std::int64_t created;
    GroupId group;
    const api::ObjectKey* key;
    bool operator<(const Waiting& other) const;
  };
  std::set<Waiting> waiting;
};

// The cluster as the scheduler sees it: plain tables with whole numbers, changed object by object as the caches change
// and as pods are placed, never rebuilt. One thread.
class Snapshot {
 public:
  struct Options {
    std::vector<std::string> scheduler_names = {"volcano"};
    bool shard_is_hard = false;  // nodes outside the NodeShard are not used at all
  };
  explicit Snapshot(Options options) : options_(std::move(options)) {}

  // Objects as they are now; a null pointer means gone. An object of the same name with another UID replaces.
  void set_pod(const api::ObjectKey& key, std::shared_ptr<const SchedulablePod> pod, rt::Instant now);
  void set_node(const std::string& name, std::shared_ptr<const api::core::NodeProjection> node);
  void set_group(const api::ObjectKey& key, std::shared_ptr<const api::scheduling::PodGroup> group, rt::Instant now);
  void set_queue(const std::string& name, std::shared_ptr<const api::scheduling::Queue> queue);
  void set_priority_class(const std::string& name, std::shared_ptr<const api::core::PriorityClass> priority_class);
  // Which nodes are ours; without a shard, all of them.
  void set_shard(bool is_known, const std::vector<std::string>& nodes);

  // Takes room on a node for a waiting pod, and gives it back.
  void assume(PodId pod, NodeId node);
  void forget(PodId pod);
  // The same, but nothing is said to have become free: for attempts that are undone.
  void lift(PodId pod, NodeId& node);
  void put_back(PodId pod, NodeId node);
  void note_freed() { ++freed_version_; }
  // Takes all that is free on a node out of sight, and gives it back.
  void block_node(NodeId node);
  void unblock_node(NodeId node);
  void set_told(PodId pod, PendingKind kind) { pods_[pod].told = kind; }
  // Its deletion has been asked for: from now on its room counts as about to be free.
  void set_evicting(PodId pod);
  void clear_evicting(PodId pod);
  // We have written this status; the server gave the version.
  void wrote_status(GroupId group, const GroupStatus& status, std::uint64_t revision);
  void mark_dirty(GroupId group) { dirty_groups_.insert(group); }
  void refresh_waiting(GroupId group);

  [[nodiscard]] const std::vector<Pod>& pods() const { return pods_; }
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] std::deque<Group>& groups() { return groups_; }
  [[nodiscard]] const std::deque<Group>& groups() const { return groups_; }
  [[nodiscard]] const std::vector<Queue>& queues() const { return queues_; }
  [[nodiscard]] const PodShape& shape(ShapeId id) const { return shapes_[id].shape; }
  // Another shape may later stand at the same place; this then differs.
  [[nodiscard]] std::uint64_t shape_generation(ShapeId id) const { return shapes_[id].generation; }
  [[nodiscard]] ResourceTable& resources() { return resources_; }
  [[nodiscard]] const ResourceTable& resources() const { return resources_; }
  [[nodiscard]] const Amounts& total() const { return total_; }            // allocatable of usable nodes
  [[nodiscard]] const Amounts& total_used() const { return total_used_; }  // by placed pods
  [[nodiscard]] std::size_t usable_nodes() const { return usable_nodes_; }
  [[nodiscard]] std::size_t waiting_groups() const;
  [[nodiscard]] const std::unordered_set<PodId>& terminating() const { return terminating_; }
  [[nodiscard]] const std::unordered_set<PodId>& far_pods() const { return far_pods_; }
  [[nodiscard]] std::set<GroupId>& dirty_groups() { return dirty_groups_; }
  [[nodiscard]] PodId find_pod(const api::ObjectKey& key) const;
  [[nodiscard]] GroupId find_group(const api::ObjectKey& key) const;
  [[nodiscard]] NodeId find_node(std::string_view name) const;
  [[nodiscard]] QueueId find_queue(std::string_view name) const;
  [[nodiscard]] SchedulablePod const& object(PodId pod) const { return *pods_[pod].object; }
  [[nodiscard]] bool is_ours(const SchedulablePod& pod) const;

  // Nodes that changed, in order; the entry `i` has the number log_begin() + i.
  [[nodiscard]] const std::deque<NodeId>& node_log() const { return node_log_; }
  [[nodiscard]] std::uint64_t log_begin() const { return log_begin_; }
  [[nodiscard]] std::uint64_t log_end() const { return log_begin_ + node_log_.size(); }
  // Counts whatever may let a gang fit that did not: room, nodes, queues. And what may, for pods that look at pods.
  [[nodiscard]] std::uint64_t freed_version() const { return freed_version_; }
  [[nodiscard]] std::uint64_t placed_version() const { return placed_version_; }

 private:
  struct ShapeEntry {
    PodShape shape;
    std::string text;
    std::size_t users = 0;
    std::uint64_t generation = 0;
  };

  ShapeId take_shape(std::string_view text);
  void release_shape(ShapeId id);
  NodeId node_named(std::string_view name);
  QueueId queue_named(std::string_view name);
  GroupId group_named(const api::ObjectKey& key);
  GroupId group_of(const SchedulablePod& pod, const api::ObjectKey& key);
  void drop_group_if_unused(GroupId id);
  void add_pod(PodId id, const api::ObjectKey& key, rt::Instant now);
  void remove_pod(PodId id);
  void update_pod(PodId id, std::shared_ptr<const SchedulablePod> object);
  void join_group(PodId id, GroupId group);
  void leave_group(PodId id);
  void count(Group& group, const Pod& pod, std::int32_t by);
  void set_state(PodId id, PodState state);
  void take_room(PodId id, NodeId node);
  void give_room(PodId id);
  void charge(const Pod& pod, std::int64_t factor);
  void charge_evictable(const Group& group, std::int64_t factor);
  void log_node(NodeId id);
  [[nodiscard]] bool is_usable(const Node& node) const;
  void count_node(const Node& node, std::int64_t factor);
  void read_group_spec(Group& group);
  void read_priority(Group& group);
  void move_to_queue(GroupId id, QueueId queue);
  void rebuild_tree();
  [[nodiscard]] static PodState state_of(const SchedulablePod& pod);

  Options options_;
  ResourceTable resources_;
  std::vector<Pod> pods_;
  std::vector<PodId> free_pods_;
  std::vector<Node> nodes_;
  std::deque<Group> groups_;  // stable addresses: waiting sets point to keys
  std::vector<GroupId> free_groups_;
  std::vector<Queue> queues_;
  std::vector<ShapeEntry> shapes_;
  std::vector<ShapeId> free_shapes_;
  std::unordered_map<api::ObjectKey, PodId> pod_ids_;
  std::unordered_map<std::string, NodeId> node_ids_;
  std::unordered_map<api::ObjectKey, GroupId> group_ids_;
  std::unordered_map<std::string, QueueId> queue_ids_;
  std::unordered_map<std::string, ShapeId> shape_ids_;
  std::unordered_map<std::string, std::shared_ptr<const api::core::PriorityClass>> priority_classes_;
  bool has_shard_ = false;
  std::unordered_set<std::string> shard_nodes_;
  std::unordered_set<PodId> terminating_;
  std::unordered_set<PodId> far_pods_;  // placed, and others must keep away from them
  std::set<GroupId> dirty_groups_;      // their status may have to change
  Amounts total_;
  Amounts total_used_;
  std::size_t usable_nodes_ = 0;
  std::deque<NodeId> node_log_;
  std::uint64_t log_begin_ = 0;
  std::uint64_t freed_version_ = 1;
  std::uint64_t placed_version_ = 1;
  std::uint64_t shape_generation_ = 0;
};

}  // namespace basalt::scheduler
