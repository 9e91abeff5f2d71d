#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "scheduler/finder.h"
#include "scheduler/queues.h"
#include "scheduler/reason.h"
#include "scheduler/snapshot.h"

namespace basalt::scheduler {

struct Placement {
  PodId pod = kNone;
  NodeId node = kNone;
};

struct GangOutcome {
  PendingKind kind = PendingKind::None;  // None: placed, or nothing had to be
  std::int32_t needed = 0;               // pods that must be placed together
  std::int32_t fitted = 0;               // of them, in the best attempt
  PodId blocker = kNone;                 // the first that found no node
  std::string task;                      // of NotEnoughPodsOfTask
  QueueId queue = kNone;                 // of QueueCapability
  std::vector<Placement> placed;
};

// Places gangs on the snapshot, all or nothing.
class GangPlacer {
 public:
  struct Options {
    Strategy strategy = Strategy::Pack;
    rt::Duration ungrouped_wait{};  // how long a pod without a group is left to whoever makes groups
  };
  GangPlacer(Snapshot& snapshot, NodeFinder& finder, Options options)
      : snapshot_(snapshot), finder_(finder), options_(options) {}

  // For one cycle.
  void begin(const QueueShares& shares, rt::Instant now) {
    shares_ = &shares;
    now_ = now;
  }
  // The smallest set of pods that lets the gang run. On failure the snapshot is as before.
  [[nodiscard]] GangOutcome place_minimum(GroupId group);
  // As many of the other pods as fit, one by one, for a gang that has its minimum.
  [[nodiscard]] GangOutcome place_rest(GroupId group);
  // Whether a gang has what it needs without placing anything.
  [[nodiscard]] bool has_minimum(GroupId group);
  void undo(const std::vector<Placement>& placed);
  // For attempts in a world that is not real: what they find out is not remembered.
  void set_hypothetical(bool on) { is_hypothetical_ = on; }

 private:
  struct Unit {  // placed together
    std::vector<PodId> pods;
    std::string_view task;
    std::uint32_t rule = kNone;  // sub-group rule that it completes a sub-group of
    bool is_picky = false;
    std::int64_t size = 0;
  };
  struct Needs {
    std::int32_t total = 0;
    std::vector<std::pair<std::string_view, std::int32_t>> tasks;
    std::vector<std::int32_t> sub_groups;  // by rule: complete ones still needed
    [[nodiscard]] bool met() const;
    [[nodiscard]] bool is_helped_by(const Unit& unit) const;
    void note(const Unit& unit);
  };

  [[nodiscard]] std::vector<PodId> waiting_pods(const Group& group) const;
  PendingKind count_needs(const Group& group, const std::vector<PodId>& waiting, Needs& needs, GangOutcome& outcome);
  PendingKind count_sub_groups(const Group& group, const std::vector<PodId>& waiting, Needs& needs,
                               std::vector<Unit>& units);
  std::vector<Unit> make_units(const Group& group, std::vector<PodId> waiting, Needs& needs, PendingKind& problem);
  bool place_unit(const Group& group, const Unit& unit, Strategy strategy, GangOutcome& outcome);
  bool try_units(const Group& group, const std::vector<Unit>& units, Needs needs, Strategy strategy,
                 GangOutcome& outcome);
  bool is_known_to_fail(const Group& group, const std::vector<PodId>& waiting, const Needs& needs) const;

  Snapshot& snapshot_;
  NodeFinder& finder_;
  const Options options_;
  const QueueShares* shares_ = nullptr;
  rt::Instant now_{};
  Amounts withheld_;
  bool is_hypothetical_ = false;

  // For a shape: so many pods of it did not fit when the cluster was at this version.
  struct Failure {
    std::uint64_t generation = 0;
    std::uint64_t freed = 0;
    std::int32_t pods = 0;
    std::int32_t fitted = 0;
    PodId blocker = kNone;
  };
  std::unordered_map<ShapeId, Failure> failures_;
};

}  // namespace basalt::scheduler
