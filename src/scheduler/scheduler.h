#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "api/gen/shard.h"
#include "api/object_key.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "scheduler/foreign_groups.h"
#include "scheduler/plan.h"
#include "scheduler/pod.h"
#include "scheduler/reason.h"
#include "scheduler/snapshot.h"

namespace basalt::scheduler {

struct SchedulerOptions {
  std::vector<std::string> names = {"volcano"};  // spec.schedulerName of the pods that are ours
  PlannerOptions planner;                        // strategy, shard mode, delays and limits
  std::string shard_name = "volcano";            // the NodeShard to follow, unless the mode is None
  // After the first change of a quiet time, others are awaited for this long: a gang's pods come together.
  rt::Duration debounce = std::chrono::milliseconds(2);
  // A cycle runs at least so often.
  rt::Duration period = std::chrono::seconds(30);
  rt::Duration retry_min = std::chrono::milliseconds(100);  // of a call that failed
  rt::Duration retry_max = std::chrono::seconds(10);
  int in_flight_max = 64;
  bool create_queues = true;         // "root" and "default", if they are missing
  kube::Metrics* metrics = nullptr;  // none: nothing is counted
};

// The gang scheduler: caches -> snapshot -> plan -> calls. One thread of its own besides those of the caches; it owns
// the snapshot. A pod that was placed counts as placed until the cache shows it, or until the API server said for good
// that it cannot be bound: a failed call is repeated, never forgotten, so a gang is not left half bound.
class Scheduler {
 public:
  struct Counts {
    std::uint64_t cycles = 0;
    std::uint64_t binds = 0;          // that succeeded
    std::uint64_t bind_failures = 0;  // calls
    std::uint64_t evictions = 0;
    std::uint64_t status_writes = 0;
    std::uint64_t pod_condition_writes = 0;
    rt::Duration planning{};
    rt::Duration calling{};
  };

  Scheduler(rt::Runtime& runtime, kube::Client& client, Logger log, kube::EventRecorder& events,
            SchedulerOptions options);
  ~Scheduler();  // stop() has been called if start() was
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  void start();
  void stop();  // returns when no thread of it runs; idempotent

  [[nodiscard]] Counts counts() const;
  // Why a pod group waits; nothing if it does not, or not long enough to be said.
  [[nodiscard]] std::optional<PendingReason> reason_of(const api::ObjectKey& group) const;

 private:
  // The latest state of what changed; null means gone. At most one entry an object.
  struct Inbox {
    std::unordered_map<api::ObjectKey, std::shared_ptr<const SchedulablePod>> pods;
    std::unordered_map<std::string, std::shared_ptr<const api::core::NodeProjection>> nodes;
    std::unordered_map<api::ObjectKey, std::shared_ptr<const api::scheduling::PodGroup>> groups;
    std::unordered_map<std::string, std::shared_ptr<const api::scheduling::Queue>> queues;
    std::unordered_map<std::string, std::shared_ptr<const api::core::PriorityClass>> priority_classes;
    std::map<std::string, std::shared_ptr<const api::shard::NodeShard>> shards;
    bool has_any = false;
  };
  struct PendingBind {
    api::ObjectKey pod;
    std::string uid;
    std::string node;
    int failures = 0;
    rt::Instant due{};
  };
  struct Batch;

  void run();
  void watch_changes();
  [[nodiscard]] bool wait_synced();
  [[nodiscard]] Inbox take_inbox(rt::Instant deadline);
  void apply(Inbox inbox);
  void hide_foreign_groups(const std::unordered_set<api::ObjectKey>& groups);
  void apply_shards(std::map<std::string, std::shared_ptr<const api::shard::NodeShard>> changed);
  [[nodiscard]] api::Time wall_time() const;

  void carry_out(const Plan& plan);
  void add_binds(const Plan& plan, Batch& batch);
  [[nodiscard]] std::vector<bool> mark_evictions(const Plan& plan);
  void take_back_eviction(PodId pod);
  void add_evictions(const Plan& plan, Batch& batch);
  void add_statuses(const Plan& plan, Batch& batch);
  void add_pod_conditions(const Plan& plan, Batch& batch);
  void add_queues(const Plan& plan, Batch& batch);
  void add_missing_queues(Batch& batch);
  void add_shard_status(Batch& batch);
  void bind_done(PendingBind bind, const Result<kube::Response>& result);
  void reread(const api::ObjectKey& key);
  void refuse(const PendingBind& bind, const Error& error);
  void retry_later(rt::Instant at) { wake_at_ = std::min(wake_at_, at); }
  [[nodiscard]] rt::Duration backoff(int failures);

  // Fixed after construction.
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::EventRecorder& events_;
  const SchedulerOptions options_;

  // Self-locking.
  rt::StopSource stop_;
  kube::Informer<SchedulablePod> pods_;
  kube::Informer<api::core::NodeProjection> nodes_;
  kube::Informer<api::scheduling::PodGroup> groups_;
  kube::Informer<api::scheduling::Queue> queues_;
  kube::Informer<api::core::PriorityClass> priority_classes_;
  std::unique_ptr<kube::Informer<api::shard::NodeShard>> shards_;
  std::atomic<std::uint64_t> cycles_{0}, binds_{0}, bind_failures_{0}, evictions_{0}, status_writes_{0},
      pod_condition_writes_{0};
  std::atomic<std::int64_t> planning_ns_{0}, calling_ns_{0};

  kube::Counter binds_counter_, bind_failures_counter_, evictions_counter_;
  kube::Gauge waiting_groups_;
  kube::Histogram cycle_seconds_;

  mutable rt::Mutex mutex_;
  rt::Condition changed_;
  Inbox inbox_ BASALT_GUARDED_BY(mutex_);
  bool stopping_ BASALT_GUARDED_BY(mutex_) = false;
  std::map<api::ObjectKey, PendingReason> reasons_ BASALT_GUARDED_BY(mutex_);

  // Used only by the scheduler's thread.
  Snapshot snapshot_;
  Planner planner_;
  std::vector<PendingBind> failed_binds_;
  ForeignGroups foreign_;
  std::map<std::string, std::shared_ptr<const api::shard::NodeShard>> all_shards_;
  std::vector<std::string> usable_nodes_;  // of our shard, sorted
  bool shard_is_stale_ = false;            // our statement about the shard may have to change
  rt::Instant wake_at_ = rt::kNever;
  rt::Instant queues_due_{};
  int write_failures_ = 0;

  rt::Thread thread_;
  bool is_started_ = false;
};

}  // namespace basalt::scheduler
