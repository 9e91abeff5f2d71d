#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

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
      snapshot_({.scheduler_names = options_.names,
                 .shard_is_hard = options_.planner.shard_mode == ShardMode::Hard}),
      planner_(snapshot_, options_.planner) {
  if (options_.planner.shard_mode != ShardMode::None) {
    auto shard = everything_of<api::shard::NodeShard>();
    shard.reflector.field_selector = "metadata.name=" + options_.shard_name;
    shards_ = std::make_unique<kube::Informer<api::shard::NodeShard>>(runtime, client, log_, std::move(shard));
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
      put([&](Inbox& inbox) { inbox.shard = change.after; });
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
  shard_is_stale_ = shard_is_stale_ || inbox.shard || !inbox.nodes.empty();
  for (auto& [name, node] : inbox.nodes) snapshot_.set_node(name, std::move(node));
  if (inbox.shard) {
    shard_ = *inbox.shard;
    // Without its shard a scheduler that must stay inside has no node; one that only prefers it has all.
    snapshot_.set_shard(shard_ || options_.planner.shard_mode == ShardMode::Hard,
                        shard_ ? shard_->spec.nodes_desired : std::vector<std::string>());
  }
  for (auto& [key, group] : inbox.groups) snapshot_.set_group(key, std::move(group), now);
  for (auto& [key, pod] : inbox.pods) snapshot_.set_pod(key, std::move(pod), now);
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
    const Plan plan = planner_.run(begin, api::Time::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(
                                              runtime_.wall_now())));
    const rt::Instant planned = runtime_.now();
    carry_out(plan);
    ++cycles_;
    planning_ns_ += (planned - begin).count();
    calling_ns_ += (runtime_.now() - planned).count();
    deadline = plan.has_more ? runtime_.now() : std::min(wake_at_, plan.wake_at);
  }
}

Scheduler::Counts Scheduler::counts() const {
  return {cycles_,        binds_,
          bind_failures_, evictions_,
          status_writes_, pod_condition_writes_,
          rt::Duration(planning_ns_.load()), rt::Duration(calling_ns_.load())};
}

std::optional<PendingReason> Scheduler::reason_of(const api::ObjectKey& group) const {
  const rt::MutexLock lock(mutex_);
  const auto found = reasons_.find(group);
  if (found == reasons_.end()) return std::nullopt;
  return found->second;
}

}  // namespace basalt::scheduler
