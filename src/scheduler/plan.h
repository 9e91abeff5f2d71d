#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/time.h"
#include "rt/time.h"
#include "scheduler/finder.h"
#include "scheduler/gang.h"
#include "scheduler/queues.h"
#include "scheduler/snapshot.h"

namespace basalt::scheduler {

struct PlannerOptions {
  Strategy strategy = Strategy::Pack;
  ShardMode shard_mode = ShardMode::None;
  bool preempt = true;
  bool reclaim = true;
  // How long a pod without a group is left to whoever makes groups for such pods.
  rt::Duration ungrouped_wait = std::chrono::milliseconds(500);
  // Why a gang waits is said at once; but that its pods are not all there yet only after this: they are being made.
  rt::Duration condition_delay = std::chrono::seconds(1);
  // Numbers in a condition are brought up to date at most so often.
  rt::Duration condition_refresh = std::chrono::seconds(30);
  // ... and with many that wait not before each could have had this much time: 100,000 are gone through in 200 s.
  rt::Duration condition_refresh_each = std::chrono::milliseconds(2);
  // Counts of a group are written once they have been out of date for this long, so that ten pods cost one write.
  rt::Duration counts_delay = std::chrono::seconds(1);
  // A gang of which a part is placed, and which found no room for the rest for this long, gives way to one that fits.
  rt::Duration untangle_delay = std::chrono::seconds(10);
  // A gang that found no room for this long gets nodes kept free until it fits, one gang at a time: else a stream of
  // small ones would keep a large one waiting for ever.
  rt::Duration starving_after = std::chrono::minutes(2);
  // An admitted group holds its minResources against other admissions for this long at most.
  rt::Duration reservation_max = std::chrono::seconds(60);
  double overcommit = 0.2;               // of the cluster, that groups without room may be admitted into
  std::size_t placements_max = 2000;     // a cycle; more follow in the next, which begins at once
  std::size_t pod_conditions_max = 500;  // a cycle
  int eviction_attempts_max = 8;         // a cycle
  // Gangs and spare pods considered as victims of one gang; those of most value that are beyond it stay.
  std::size_t eviction_units_max = 100'000;
  // Pods placed in trials of one search for victims. Beyond it, what might have stayed goes, too.
  std::int64_t eviction_trials_max = 200'000;
};

struct BindDecision {
  PodId pod = kNone;
  GroupId group = kNone;
  std::string uid;
};
struct EvictDecision {
  PodId pod = kNone;
  std::string uid;
  std::string_view reason;  // of the event: Preempted, Reclaimed, Released
  std::string message;
};
struct StatusDecision {
  GroupId group = kNone;
  std::string uid;
  GroupStatus status;
  bool has_pending = false;       // the annotation is to be written, or taken away if it is empty
  bool is_new_condition = false;  // worth an event
};
struct PodConditionDecision {
  PodId pod = kNone;
  std::string uid;
  PendingKind kind = PendingKind::None;
  std::string message;
  bool is_alone = false;  // not of a gang
};
struct QueueDecision {
  QueueId queue = kNone;
  api::ResourceList allocated;
};

struct Plan {
  std::vector<BindDecision> binds;  // gang by gang; the snapshot already assumes them
  std::vector<EvictDecision> evictions;
  std::vector<StatusDecision> statuses;
  std::vector<PodConditionDecision> pod_conditions;
  std::vector<QueueDecision> queues;
  rt::Instant wake_at = rt::kNever;  // when there will be something to do even if nothing changes
  bool has_more = false;             // a limit of the cycle was reached
};

// Decides: which groups are admitted, which pods go where, who is evicted for whom, and what the objects are to say.
// Looks at the snapshot alone, no clock and no client. One thread.
class Planner {
 public:
  Planner(Snapshot& snapshot, PlannerOptions options);

  // One cycle. `wall` and `session`, its name, are written into conditions.
  [[nodiscard]] Plan run(rt::Instant now, api::Time wall, std::string session);

  // The sentence for people, with numbers, about a group that waits. Costs a look at every node.
  [[nodiscard]] PendingReason explain(GroupId group);

 private:
  // Untangle: from gangs of which a part is placed and the rest finds no room.
  enum class RoomKind : std::uint8_t { Preempt, Reclaim, Untangle };
  struct VictimUnit;
  struct VictimSearch;
  struct Evictable;

  // 1. admit
  void admit();
  void count_reservations();
  void reserve(const Group& group);
  [[nodiscard]] PendingKind admission_problem(Group& group);
  [[nodiscard]] bool has_capability(const Group& group, QueueId queue, const Amounts& wanted);
  [[nodiscard]] bool fits_by_eviction(const Group& group, const Amounts& wanted);
  [[nodiscard]] Evictable evictable_for(const Group& group, const Amounts& wanted);
  [[nodiscard]] const std::vector<Amounts>& beyond_due();
  [[nodiscard]] bool is_queue_open(QueueId queue) const;
  // 2. place
  void place();
  void place_held();
  void place_in_order(const std::set<GroupId>& tried, std::optional<std::int32_t> above_priority);
  PendingKind try_group(GroupId id);
  void place_rest();
  [[nodiscard]] bool may_try(const Group& group);
  [[nodiscard]] bool is_unchanged_failure(const Group& group) const;
  void remember_failure(Group& group, const GangOutcome& outcome);
  void commit(GroupId id, const GangOutcome& outcome);
  [[nodiscard]] QueueId pick_queue(QueueId from, const std::vector<std::size_t>& remaining,
                                   const std::vector<std::size_t>& own) const;
  // Nodes for one that starves (starving.cc).
  void look_for_starving();
  [[nodiscard]] bool is_starving(const Group& group) const;
  [[nodiscard]] std::vector<NodeId> choose_nodes(const Group& group) const;
  [[nodiscard]] std::int64_t pods_on_empty_node(const Group& group, const std::vector<ShapeId>& shapes,
                                                NodeId id) const;
  void keep_nodes();
  void free_nodes();
  // 3. make room
  void make_room();
  bool make_room_for(GroupId id, std::initializer_list<RoomKind> kinds);
  bool make_room_by_priority(GroupId id);
  bool make_room_by_untangling(GroupId id);
  [[nodiscard]] bool is_entangled(GroupId id);
  [[nodiscard]] bool is_victim(const Group& group, GroupId other, RoomKind kind) const;
  [[nodiscard]] bool may_be_taken(const VictimUnit& unit) const;
  void evict(const Group& group, PodId pod, RoomKind kind);
  void add_units(GroupId other, RoomKind kind, std::vector<VictimUnit>& units) const;
  [[nodiscard]] std::vector<VictimUnit> find_victims(const Group& group, std::initializer_list<RoomKind> kinds) const;
  void lift_until_it_fits(VictimSearch& search);
  void keep_what_can_stay(VictimSearch& search, std::size_t begin, std::size_t end);
  [[nodiscard]] bool would_fit(VictimSearch& search);
  // 4. say
  void say();
  void say_group(GroupId id);
  [[nodiscard]] rt::Instant speaks_at(const Group& group) const;
  [[nodiscard]] rt::Instant refresh_at(rt::Instant written) const;
  [[nodiscard]] bool awaits_first_pods(const Group& group) const;
  [[nodiscard]] GroupPhase phase_of(Group& group);
  void say_conditions(GroupId id, GroupStatus& wanted, bool& is_new);
  void say_scheduled(Group& group, GroupStatus& wanted);
  void say_pod_conditions(GroupId id);
  void say_queues();
  void set_reason(Group& group, PendingKind kind);
  void clear_reason(Group& group);
  void call_again(GroupId id, rt::Instant at);
  void wake_by(rt::Instant at) { plan_.wake_at = std::min(plan_.wake_at, at); }

  // Sentences (sentences.cc).
  [[nodiscard]] std::string reason_text(const Group& group, PendingReason& reason);
  [[nodiscard]] std::string room_text(const Group& group, PodId pod, PendingReason& reason);
  [[nodiscard]] ResourceShortage shortage(ResourceIndex resource, std::int64_t requested, std::int64_t free) const;
  [[nodiscard]] std::string limit_text(const Amounts& wanted, const Amounts& limit, const Amounts& used,
                                       PendingReason& reason) const;
  [[nodiscard]] Amounts wanted_by(const Group& group, PodId& pod) const;
  void add_position(GroupId id, PendingReason& reason);
  [[nodiscard]] std::string holder_of(const Group& group, ResourceIndex resource, QueueId within);

  Snapshot& snapshot_;
  const PlannerOptions options_;
  NodeFinder finder_;
  GangPlacer placer_;
  std::set<std::pair<rt::Instant, GroupId>> due_;  // groups to look at again at a time
  std::set<GroupId> reserving_;                    // admitted, not tried yet
  std::set<GroupId> nominated_;                    // room is being made for them
  std::vector<rt::Instant> queue_written_;
  struct Kept {
    GroupId group = kNone;
    rt::Instant chosen_at{};
    std::vector<NodeId> nodes;
  } kept_;                     // for the gang that starves
  rt::Instant starving_at_{};  // when to look for one again

  // Of the cycle that runs.
  rt::Instant now_{};
  api::Time wall_;
  std::string session_;
  std::size_t waiting_groups_ = 0;
  Plan plan_;
  std::unique_ptr<QueueShares> shares_;
  std::vector<GroupId> failed_;
  std::vector<GroupId> entangled_;
  // Places in queues and largest holders, found when they are first asked for.
  std::unordered_map<QueueId, std::unordered_map<GroupId, std::pair<std::size_t, GroupId>>> positions_;
  std::map<std::pair<QueueId, ResourceIndex>, GroupId> holders_;
  std::vector<GroupId> rest_;
  std::vector<Placement> held_;
  Amounts reserved_;
  Amounts reserved_waiting_;
  std::vector<Amounts> reserved_in_;                                 // by queue, with the queues below
  std::map<std::pair<QueueId, std::int32_t>, Amounts> reserved_by_;  // by queue and priority, with room being made
  std::vector<Amounts> beyond_due_;                                  // empty until it is first asked for
};

}  // namespace basalt::scheduler
