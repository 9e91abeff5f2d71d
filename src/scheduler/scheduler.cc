#include "scheduler/scheduler.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "kube/leader_election.h"
#include "kube/typed.h"

namespace basalt::scheduler {

namespace {

template <class T>
kube::InformerOptions<T> everything_of() {
  kube::InformerOptions<T> options;
  options.reflector.resource = kube::resource_of<T>();
  return options;
}

}  // namespace

Scheduler::Scheduler(rt::Runtime& runtime, kube::Client& client, Logger log, kube::EventRecorder& events,
                     SchedulerOptions options)
    : runtime_(runtime),
      client_(client),
      log_(std::move(log)),
      events_(events),
      options_(std::move(options)),
      stop_(runtime),
      pods_(runtime, client, log_, everything_of<SchedulablePod>()),
      nodes_(runtime, client, log_, everything_of<api::core::NodeProjection>()),
      groups_(runtime, client, log_, everything_of<api::scheduling::PodGroup>()),
      queues_(runtime, client, log_, everything_of<api::scheduling::Queue>()),
      priority_classes_(runtime, client, log_, everything_of<api::core::PriorityClass>()),
      changed_(runtime),
      snapshot_({.scheduler_names = options_.names, .shard_is_hard = options_.planner.shard_mode == ShardMode::Hard}),
      planner_(snapshot_, options_.planner),
      foreign_(options_.names) {
  if (options_.planner.shard_mode != ShardMode::None) {
    shards_ = std::make_unique<kube::Informer<api::shard::NodeShard>>(runtime, client, log_,
                                                                      everything_of<api::shard::NodeShard>());
  }
  if (kube::Metrics* metrics = options_.metrics) {
    const auto counter = [&](std::string_view name, std::string_view help) { return metrics->counter(name, help); };
    binds_counter_ = counter("basalt_scheduler_binds_total", "Pods bound.");
    bind_failures_counter_ = counter("basalt_scheduler_bind_failures_total", "Bind calls that failed.");
    evictions_counter_ = counter("basalt_scheduler_evictions_total", "Pods evicted to make room.");
    waiting_groups_ = metrics->gauge("basalt_scheduler_waiting_groups", "Gangs that wait for admission or room.");
    cycle_seconds_ =
        metrics->histogram("basalt_scheduler_cycle_seconds", "Length of a scheduling cycle with its calls.",
                           kube::Metrics::seconds_bounds());
  }
  watch_changes();
}

Scheduler::~Scheduler() = default;

// Handlers only put the latest state into the inbox; the scheduler's thread does the rest.
void Scheduler::watch_changes() {
  const auto put = [this](auto change_inbox) {
    const rt::MutexLock lock(mutex_);
    change_inbox(inbox_);
    inbox_.has_any = true;
    changed_.notify_one();
  };
  pods_.add_handler([put](const kube::Change<SchedulablePod>& change) {
    const auto& metadata = change.object().metadata;
    put([&](Inbox& inbox) { inbox.pods[{metadata.namespace_.str(), metadata.name.str()}] = change.after; });
  });
  nodes_.add_handler([put](const kube::Change<api::core::NodeProjection>& change) {
    put([&](Inbox& inbox) { inbox.nodes[change.object().metadata.name.str()] = change.after; });
  });
  groups_.add_handler([put](const kube::Change<api::scheduling::PodGroup>& change) {
    const auto& metadata = change.object().metadata;
    put([&](Inbox& inbox) { inbox.groups[{metadata.namespace_, metadata.name}] = change.after; });
  });
  queues_.add_handler([put](const kube::Change<api::scheduling::Queue>& change) {
    put([&](Inbox& inbox) { inbox.queues[change.object().metadata.name] = change.after; });
  });
  priority_classes_.add_handler([put](const kube::Change<api::core::PriorityClass>& change) {
    put([&](Inbox& inbox) { inbox.priority_classes[change.object().metadata.name] = change.after; });
  });
  if (shards_) {
    shards_->add_handler([put](const kube::Change<api::shard::NodeShard>& change) {
      put([&](Inbox& inbox) { inbox.shards[change.object().metadata.name] = change.after; });
    });
  }
}

void Scheduler::start() {
  if (std::exchange(is_started_, true)) return;
  pods_.start();
  nodes_.start();
  groups_.start();
  queues_.start();
  priority_classes_.start();
  if (shards_) shards_->start();
  thread_ = rt::Thread(runtime_, "scheduler", [this] { run(); });
}

void Scheduler::stop() {
  if (!std::exchange(is_started_, false)) return;
  stop_.request_stop();
  {
    const rt::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  pods_.stop();
  nodes_.stop();
  groups_.stop();
  queues_.stop();
  priority_classes_.stop();
  if (shards_) shards_->stop();
}

bool Scheduler::wait_synced() {
  const rt::StopToken stop = stop_.token();
  return pods_.wait_synced(stop) && nodes_.wait_synced(stop) && groups_.wait_synced(stop) &&
         queues_.wait_synced(stop) && priority_classes_.wait_synced(stop) && (!shards_ || shards_->wait_synced(stop));
}

Scheduler::Inbox Scheduler::take_inbox(rt::Instant deadline) {
  bool was_quiet = false;
  {
    const rt::MutexLock lock(mutex_);
    while (!inbox_.has_any && !stopping_ && runtime_.now() < deadline) {
      was_quiet = true;
      if (!changed_.wait_until(mutex_, deadline)) break;
    }
  }
  if (was_quiet && stop_.token().wait_for(runtime_, options_.debounce)) return {};
  const rt::MutexLock lock(mutex_);
  return std::exchange(inbox_, Inbox());
}

void Scheduler::apply(Inbox inbox) {
  const rt::Instant now = runtime_.now();
  for (auto& [name, priority_class] : inbox.priority_classes)
    snapshot_.set_priority_class(name, std::move(priority_class));
  for (auto& [name, queue] : inbox.queues) snapshot_.set_queue(name, std::move(queue));
  shard_is_stale_ = shard_is_stale_ || !inbox.shards.empty() || !inbox.nodes.empty();
  for (auto& [name, node] : inbox.nodes) snapshot_.set_node(name, std::move(node));
  if (!inbox.shards.empty()) apply_shards(std::move(inbox.shards));
  for (const auto& [key, pod] : inbox.pods) foreign_.note(key, pod.get());
  std::unordered_set<api::ObjectKey> groups = foreign_.take_changed();
  for (auto& [key, group] : inbox.groups) {
    if (!foreign_.empty()) groups.insert(key);
    snapshot_.set_group(key, std::move(group), now);
  }
  for (auto& [key, pod] : inbox.pods) snapshot_.set_pod(key, std::move(pod), now);
  hide_foreign_groups(groups);
}

// Groups of other schedulers are none for us; they come back when their pods are gone.
void Scheduler::hide_foreign_groups(const std::unordered_set<api::ObjectKey>& groups) {
  for (const api::ObjectKey& key : groups) {
    const GroupId id = snapshot_.find_group(key);
    const bool has_own_pods = id != kNone && !snapshot_.groups()[id].pods.empty();
    const bool is_known = id != kNone && snapshot_.groups()[id].object;
    const bool is_foreign = foreign_.is_foreign(key, has_own_pods);
    if (is_foreign && is_known) snapshot_.set_group(key, nullptr, runtime_.now());
    if (!is_foreign && !is_known) {
      if (auto group = groups_.get(key)) snapshot_.set_group(key, std::move(group), runtime_.now());
    }
  }
}

// Ours are the nodes of our shard that no other scheduler still works on: who gives a node up says so first in its
// status. A shard that vanishes leaves us what we have.
void Scheduler::apply_shards(std::map<std::string, std::shared_ptr<const api::shard::NodeShard>> changed) {
  for (auto& [name, shard] : changed) {
    if (shard) {
      all_shards_[name] = std::move(shard);
    } else {
      all_shards_.erase(name);
    }
  }
  const auto own = all_shards_.find(options_.shard_name);
  if (own == all_shards_.end()) return;
  std::set<std::string_view> taken;
  for (const auto& [name, shard] : all_shards_) {
    if (name != options_.shard_name) taken.insert(shard->status.nodes_in_use.begin(), shard->status.nodes_in_use.end());
  }
  usable_nodes_.clear();
  for (const std::string& node : own->second->spec.nodes_desired) {
    if (!taken.contains(node)) usable_nodes_.push_back(node);
  }
  std::sort(usable_nodes_.begin(), usable_nodes_.end());
  snapshot_.set_shard(true, usable_nodes_);
}

api::Time Scheduler::wall_time() const {
  return api::Time::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(runtime_.wall_now()));
}

void Scheduler::run() {
  if (shards_ && options_.planner.shard_mode == ShardMode::Hard) snapshot_.set_shard(true, {});
  if (!wait_synced()) return;
  const rt::StopToken stop = stop_.token();
  rt::Instant deadline = runtime_.now();
  while (!stop.stop_requested()) {
    apply(take_inbox(deadline));
    if (stop.stop_requested()) return;
    wake_at_ = runtime_.now() + options_.period;
    const rt::Instant begin = runtime_.now();
    const Plan plan = planner_.run(begin, wall_time(), kube::make_identity(runtime_, "").substr(1));
    const rt::Instant planned = runtime_.now();
    carry_out(plan);
    ++cycles_;
    const rt::Instant ended = runtime_.now();
    planning_ns_ += (planned - begin).count();
    calling_ns_ += (ended - planned).count();
    cycle_seconds_.observe(std::chrono::duration<double>(ended - begin).count());
    waiting_groups_.set(static_cast<double>(snapshot_.waiting_groups()));
    deadline = plan.has_more ? runtime_.now() : std::min(wake_at_, plan.wake_at);
  }
}

Scheduler::Counts Scheduler::counts() const {
  return {cycles_,
          binds_,
          bind_failures_,
          evictions_,
          status_writes_,
          pod_condition_writes_,
          rt::Duration(planning_ns_.load()),
          rt::Duration(calling_ns_.load())};
}

std::optional<PendingReason> Scheduler::reason_of(const api::ObjectKey& group) const {
  const rt::MutexLock lock(mutex_);
  const auto found = reasons_.find(group);
  if (found == reasons_.end()) return std::nullopt;
  return found->second;
}

}  // namespace basalt::scheduler
