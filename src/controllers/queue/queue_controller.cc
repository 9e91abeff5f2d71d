#include "controllers/queue/queue_controller.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "api/gen/names.h"
#include "base/sort.h"
#include "controllers/queue/pod_group_counts.h"
#include "controllers/queue/queue_plan.h"
#include "controllers/queue/queue_writes.h"
#include "kube/expectations.h"
#include "kube/typed.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::queue {
namespace {

using api::ObjectKey;
using api::bus::Command;
using api::scheduling::PodGroup;
using api::scheduling::Queue;
using rt::Outcome;
using CommandPtr = std::shared_ptr<const Command>;
using QueuePtr = std::shared_ptr<const Queue>;

// Changes of counts alone are gathered for this long: at most 20 looks at a queue a second, however many groups change.
constexpr rt::Duration kCountsDelay = std::chrono::milliseconds(50);
// How far up a cycle of parents is looked for; admission allows 5 levels by default.
constexpr int kAncestorsMax = 64;

constexpr std::string_view kGaugePrefix = "volcano_queue_pod_group_";
constexpr std::string_view kGaugeHelp = "Pod groups of the queue in this phase";

std::string gauge_name(CountedPhase phase) {
  std::string name(kGaugePrefix);
  for (const char c : to_string(phase)) name.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c));
  return name + "_count";
}

ObjectKey queue_key(std::string_view name) { return {"", std::string(name)}; }

bool is_for_queue(const Command& command) {
  return command.target && command.target->kind == Queue::kind_info().kind &&
         command.target->api_version == "scheduling.volcano.sh/v1beta1";
}

kube::ObjectReference reference_of(const Queue& queue) {
  return {.api_version = "scheduling.volcano.sh/v1beta1",
          .kind = "Queue",
          .name = queue.metadata.name,
          .uid = queue.metadata.uid,
          .resource_version = queue.metadata.resource_version};
}

std::string explain(Refusal refusal, const Queue* queue, const Command& command) {
  const std::string name = command.target->name;
  switch (refusal) {
    case Refusal::RootStaysOpen:
      return "queue root cannot be closed, because every other queue would close with it";
    case Refusal::BeingDeleted:
      return "queue " + name + " is being deleted";
    case Refusal::UnknownAction:
      return "action \"" + command.action + "\" is not known for queues; use OpenQueue or CloseQueue";
    case Refusal::ParentIsShut:
      return "its parent queue " + queue->spec.parent + " is closed; open the parent first";
    case Refusal::ParentIsMissing:
      return "its parent queue " + queue->spec.parent + " does not exist; create it or change spec.parent";
    case Refusal::None:
      break;
  }
  return {};
}

class QueueController final : public Controller {
 public:
  QueueController(ControllerContext& context, QueueControllerOptions options);
  [[nodiscard]] std::string_view name() const override { return api::controllers::kQueue; }
  void start() override;
  void stop() override;

 private:
  // Handlers: they only count and mark.
  void on_queue(const kube::Change<Queue>& change);
  void on_pod_group(const kube::Change<PodGroup>& change);
  void on_command(const kube::Change<Command>& change);
  void mark(std::string_view queue) { work_.add(std::string(queue)); }

  // Workers.
  Outcome reconcile(const std::string& name, const rt::StopToken& stop);
  Outcome reconcile_missing(const std::string& name, const rt::StopToken& stop);
  Outcome reconcile_command(const Command& command, bool is_last, const rt::StopToken& stop);
  Done carry_out(const Queue& fresh, const QueuePlan& plan, const rt::StopToken& stop);
  Result<kube::Response> write_state(const Queue& fresh, QueueState state, const std::string& version,
                                     const rt::StopToken& stop);
  Outcome refuse(const Command& command, const Queue* queue, const std::string& why, const rt::StopToken& stop);
  Outcome consume(const Command& command, const rt::StopToken& stop);
  [[nodiscard]] ObservedQueue observe(const Queue& queue) const;
  [[nodiscard]] bool is_in_cycle(const Queue& queue) const;
  [[nodiscard]] std::vector<CommandPtr> commands_of(const std::string& queue) const;
  [[nodiscard]] rt::Duration time_to_wait(const Command& command) const;
  [[nodiscard]] bool is_well_known(std::string_view name) const {
    return options_.create_missing_queues && (name == api::queues::kRoot || name == options_.default_queue);
  }
  void show_counts(const std::string& name, bool exists);
  void note(std::string_view queue, const kube::Resource& resource, const kube::Response& written) {
    expectations_.note_write(queue_key(queue), resource, kube::resource_version_of(written));
  }
  void look_at_all_again();
  void log_outcome(const std::string& name, const Outcome& outcome);

  // Fixed after construction.
  const QueueControllerOptions options_;
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::EventRecorder& events_;
  kube::Metrics& metrics_;
  kube::Informer<Queue>& queues_;
  kube::Informer<PodGroup>& pod_groups_;
  kube::Informer<Command>* const commands_;  // null if commands are not ours
  rt::WallTime started_{};

  // Self-locking.
  PodGroupCounts counts_;
  rt::WorkQueue<std::string> work_;
  kube::Expectations expectations_;
  std::atomic<bool> server_applies_ = true;

  mutable rt::Mutex mutex_;
  std::map<std::string, std::set<ObjectKey>> pending_commands_ BASALT_GUARDED_BY(mutex_);  // by queue
  std::map<std::string, GroupCounts> shown_ BASALT_GUARDED_BY(mutex_);                     // what the gauges say

  std::optional<rt::Workers<std::string>> workers_;  // used only by the owner
};

QueueController::QueueController(ControllerContext& context, QueueControllerOptions options)
    : options_(std::move(options)),
      runtime_(context.runtime),
      client_(context.client),
      log_(context.log.with({{"controller", api::controllers::kQueue}})),
      events_(context.events),
      metrics_(context.metrics),
      queues_(context.informers.queues()),
      pod_groups_(context.informers.pod_groups()),
      commands_(options_.sync_commands ? &context.informers.commands() : nullptr),
      work_(runtime_, {.name = "queue", .backoff = {.cap = options_.backoff_max}}),
      expectations_(runtime_,
                    {.expiry = std::chrono::seconds(30), .name = std::string(name()), .metrics = &context.metrics},
                    [this](const ObjectKey& key) { mark(key.name); }) {
  expectations_.connect(queues_.core());
  if (commands_ != nullptr) expectations_.connect(commands_->core());
  queues_.add_handler([this](const auto& change) { on_queue(change); });
  pod_groups_.add_handler([this](const auto& change) { on_pod_group(change); });
  if (commands_ != nullptr) commands_->add_handler([this](const auto& change) { on_command(change); });
}

void QueueController::start() {
  started_ = runtime_.wall_now();
  if (options_.create_missing_queues) {
    mark(api::queues::kRoot);
    mark(options_.default_queue);
  }
  workers_.emplace(
      runtime_, work_, rt::WorkersOptions{.name = "queue", .count = options_.workers},
      [this](const std::string& name, const rt::StopToken& stop) { return reconcile(name, stop); },
      [this](const std::string& name, const Outcome& outcome, rt::Duration) { log_outcome(name, outcome); });
}

void QueueController::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
}

void QueueController::on_queue(const kube::Change<Queue>& change) {
  const Queue& queue = change.object();
  bool state_changed = true;
  if (change.is_updated()) {
    const Queue& before = *change.before;
    state_changed = before.status.state != queue.status.state;
    // The scheduler writes status.allocated all the time; that is none of our business.
    const bool concerns_us = state_changed || before.spec.parent != queue.spec.parent ||
                             before.metadata.deletion_timestamp != queue.metadata.deletion_timestamp ||
                             before.metadata.annotations.get(api::keys::kClosedByParent) !=
                                 queue.metadata.annotations.get(api::keys::kClosedByParent);
    if (!concerns_us) return;
  }
  mark(queue.metadata.name);
  if (!state_changed) return;
  for (const QueuePtr& child : queues_.by_index(indexes::kByParent, queue.metadata.name)) mark(child->metadata.name);
}

void QueueController::on_pod_group(const kube::Change<PodGroup>& change) {
  if (change.is_updated() && change.before->spec.queue == change.after->spec.queue &&
      change.before->status.phase == change.after->status.phase) {
    return;
  }
  if (change.after) {
    counts_.add(change.after->spec.queue, change.after->status.phase);
    work_.add_after(change.after->spec.queue, kCountsDelay);
  }
  if (!change.before) return;
  const std::string& queue = change.before->spec.queue;
  counts_.remove(queue, change.before->status.phase);
  // A queue that waits for its last group closes at once.
  if (counts_.of(queue).total == 0) {
    work_.add(queue);
  } else {
    work_.add_after(queue, kCountsDelay);
  }
}

void QueueController::on_command(const kube::Change<Command>& change) {
  const Command& command = change.object();
  if (change.before && is_for_queue(*change.before)) {
    const std::string& target = change.before->target->name;
    {
      const rt::MutexLock lock(mutex_);
      const auto found = pending_commands_.find(target);
      if (found != pending_commands_.end()) {
        found->second.erase({command.metadata.namespace_, command.metadata.name});
        if (found->second.empty()) pending_commands_.erase(found);
      }
    }
    mark(target);  // the next command, if there is one
  }
  if (!change.after || !is_for_queue(command)) return;
  {
    const rt::MutexLock lock(mutex_);
    pending_commands_[command.target->name].insert({command.metadata.namespace_, command.metadata.name});
  }
  mark(command.target->name);
}

Outcome QueueController::reconcile(const std::string& name, const rt::StopToken& stop) {
  if (work_.take_overflowed()) look_at_all_again();
  const QueuePtr queue = queues_.get(queue_key(name));
  show_counts(name, queue != nullptr);  // needs nothing but the caches as they are
  const auto awaited = expectations_.time_left(queue_key(name));
  if (awaited) return Outcome::retry_after(*awaited);
  if (!queue) return reconcile_missing(name, stop);

  rt::Duration wait = rt::Duration::max();
  if (const auto commands = commands_of(name); !commands.empty()) {
    const Outcome outcome = reconcile_command(*commands.front(), commands.size() == 1, stop);
    if (outcome.kind != Outcome::Kind::RetryAfter) return outcome;
    wait = outcome.delay;  // the command waits for the parent; the rest of the work does not
  }
  if (!plan_queue(observe(*queue), std::nullopt).is_empty()) {
    // Changes are rare, so each is decided on a fresh read, and written only if nothing came in between.
    auto fresh = kube::get_object<Queue>(client_, queue_key(name), stop);
    if (!fresh.ok()) return fresh.error().is(Reason::NotFound) ? Outcome::done() : Outcome::failed(fresh.error());
    const Done done = carry_out(*fresh, plan_queue(observe(*fresh), std::nullopt), stop);
    if (!done.ok()) return Outcome::failed(done.error());
  }
  return wait == rt::Duration::max() ? Outcome::done() : Outcome::retry_after(wait);
}

Outcome QueueController::reconcile_missing(const std::string& name, const rt::StopToken& stop) {
  // The queue may be newer than the cache, so a command is not refused before the queue was looked for afresh.
  const std::vector<CommandPtr> commands = commands_of(name);
  for (const CommandPtr& command : commands) {
    const Outcome outcome = reconcile_command(*command, commands.size() == 1, stop);
    if (outcome.kind != Outcome::Kind::Done) return outcome;
  }
  if (!is_well_known(name)) {
    if (commands.empty()) expectations_.forget(queue_key(name));
    return Outcome::done();
  }
  auto created = client_.call({.verb = kube::Verb::Create,
                               .resource = kube::resource_of<Queue>(),
                               .body = well_known_queue_body(name),
                               .field_manager = std::string(api::components::kControllerManager)},
                              stop);
  if (created.ok()) {
    log_.info("queue created, because it was missing", {{"queue", name}});
    note(name, kube::resource_of<Queue>(), *created);
    return Outcome::done();
  }
  if (created.error().is(Reason::AlreadyExists)) return Outcome::done();
  return Outcome::failed(created.error().with_context("create queue " + name));
}

// Done if the command is over, RetryAfter if it waits.
Outcome QueueController::reconcile_command(const Command& command, bool is_last, const rt::StopToken& stop) {
  const std::string& name = command.target->name;
  const ObjectKey key{command.metadata.namespace_, command.metadata.name};
  // The order matters: first the queue, then the command, then the write that demands the queue's version. Whoever
  // carried the command out in between has changed the queue, or the command is gone; so it takes effect once, even if
  // two managers run at once, and is not lost by a crash at any point.
  auto fresh = kube::get_object<Queue>(client_, queue_key(name), stop);
  if (!fresh.ok()) {
    if (!fresh.error().is(Reason::NotFound)) return Outcome::failed(fresh.error());
    return refuse(command, nullptr, "queue " + name + " does not exist", stop);
  }
  auto still_there = kube::get_object<Command>(client_, key, stop);
  if (!still_there.ok() && !still_there.error().is(Reason::NotFound)) return Outcome::failed(still_there.error());
  if (!still_there.ok() || still_there->metadata.uid != command.metadata.uid) {
    expectations_.note_delete(queue_key(name), kube::resource_of<Command>(), command.metadata.uid);
    return Outcome::done();
  }
  if (!command.target->uid.empty() && command.target->uid != fresh->metadata.uid) {
    return refuse(
        command, &*fresh,
        "it is for an earlier queue of this name (UID " + command.target->uid + ", now " + fresh->metadata.uid + ")",
        stop);
  }
  const QueuePlan plan = plan_queue(observe(*fresh), command.action);
  if (plan.refusal != Refusal::None) {
    const rt::Duration wait = time_to_wait(command);
    if (may_pass(plan.refusal) && is_last && wait > rt::Duration::zero()) return Outcome::retry_after(wait);
    return refuse(command, &*fresh, explain(plan.refusal, &*fresh, command), stop);
  }
  if (const Done done = carry_out(*fresh, plan, stop); !done.ok()) return Outcome::failed(done.error());
  return consume(command, stop);
}

Result<kube::Response> QueueController::write_state(const Queue& fresh, QueueState state, const std::string& version,
                                                    const rt::StopToken& stop) {
  if (server_applies_) {
    auto written = client_.call(state_patch(fresh, state, version, StateWrite::Apply), stop);
    if (written.ok() || !written.error().is(Reason::UnsupportedMediaType)) return written;
    server_applies_ = false;
    log_.info("the server has no server-side apply; queue states are written with merge patches");
  }
  return client_.call(state_patch(fresh, state, version, StateWrite::Merge), stop);
}

Done QueueController::carry_out(const Queue& fresh, const QueuePlan& plan, const rt::StopToken& stop) {
  const std::string& name = fresh.metadata.name;
  const kube::Resource resource = kube::resource_of<Queue>();
  std::string version = fresh.metadata.resource_version;
  if (plan.set_parent || plan.mark_before) {
    BASALT_TRY(const kube::Response written,
               client_.call(metadata_patch(fresh, {.set_parent = plan.set_parent, .mark = plan.mark_before}), stop));
    note(name, resource, written);
    version = kube::resource_version_of(written);
  }
  if (plan.state) {
    auto written = write_state(fresh, *plan.state, version, stop);
    if (!written.ok()) {
      // A conflict is only a write that came in between; it is decided anew at once.
      if (!written.error().is(Reason::Conflict) && !written.error().is(Reason::Cancelled)) {
        const bool closes = plan.announce_close;
        const std::string old(fresh.status.state);
        events_.event(reference_of(fresh), kube::EventType::Warning,
                      closes ? api::event_reasons::kCloseQueue
                             : (*plan.state == QueueState::Open ? api::event_reasons::kOpenQueue
                                                                : api::event_reasons::kSyncQueue),
                      closes ? "Close queue failed for " + written.error().message
                             : "Update queue status from " + old + " to " + std::string(to_string(*plan.state)) +
                                   " failed for " + written.error().message);
      }
      return written.error().with_context("write the state of queue " + name);
    }
    note(name, resource, *written);
    log_.info("queue state changed", {{"queue", name}, {"from", fresh.status.state}, {"to", to_string(*plan.state)}});
    if (plan.announce_close)
      events_.event(reference_of(fresh), kube::EventType::Normal, api::event_reasons::kCloseQueue,
                    "Close queue succeed");
  }
  if (plan.clear_mark_after) {
    BASALT_TRY(const kube::Response written, client_.call(metadata_patch(fresh, {.mark = false}), stop));
    note(name, resource, written);
  }
  return Ok{};
}

Outcome QueueController::refuse(const Command& command, const Queue* queue, const std::string& why,
                                const rt::StopToken& stop) {
  const Outcome outcome = consume(command, stop);
  if (outcome.kind != Outcome::Kind::Done) return outcome;
  kube::ObjectReference about{.api_version = command.target->api_version,
                              .kind = command.target->kind,
                              .name = command.target->name,
                              .uid = command.target->uid};
  if (queue != nullptr) about = reference_of(*queue);
  const bool is_known = queue_action_of(command.action) != QueueAction::Sync;
  const std::string text = (is_known ? command.action : std::string("Command")) + " queue failed for command " +
                           command.metadata.namespace_ + "/" + command.metadata.name + ": " + why;
  events_.event(about, kube::EventType::Warning,
                is_known ? std::string_view(command.action) : api::event_reasons::kCommandIssued, text);
  log_.info("command refused", {{"queue", command.target->name}, {"command", command.metadata.name}, {"why", why}});
  return outcome;
}

Outcome QueueController::consume(const Command& command, const rt::StopToken& stop) {
  const auto deleted =
      kube::delete_object(client_, kube::resource_of<Command>(), {command.metadata.namespace_, command.metadata.name},
                          {.uid = command.metadata.uid}, stop);
  // A conflict: another command bears the name by now, so this one is gone.
  if (!deleted.ok() && !deleted.error().is(Reason::Conflict)) return Outcome::failed(deleted.error());
  expectations_.note_delete(queue_key(command.target->name), kube::resource_of<Command>(), command.metadata.uid);
  return Outcome::done();
}

ObservedQueue QueueController::observe(const Queue& queue) const {
  ObservedQueue observed{.name = queue.metadata.name,
                         .parent = queue.spec.parent,
                         .closed_by_parent = std::string(queue.metadata.annotations.get(api::keys::kClosedByParent)),
                         .state = queue_state_of(queue.status.state),
                         .is_being_deleted = !queue.metadata.deletion_timestamp.is_zero(),
                         .pod_groups = counts_.of(queue.metadata.name).total};
  const std::string_view parent_name = queue.spec.parent.empty() ? api::queues::kRoot : queue.spec.parent;
  if (const QueuePtr parent = queues_.get(queue_key(parent_name)))
    observed.parent_state = queue_state_of(parent->status.state);
  observed.is_in_cycle = is_in_cycle(queue);
  return observed;
}

bool QueueController::is_in_cycle(const Queue& queue) const {
  std::string at = queue.spec.parent;
  for (int i = 0; i < kAncestorsMax; ++i) {
    if (at.empty() || at == api::queues::kRoot) return false;
    if (at == queue.metadata.name) return true;
    const QueuePtr next = queues_.get(queue_key(at));
    if (!next) return false;
    at = next->spec.parent;
  }
  return true;
}

std::vector<CommandPtr> QueueController::commands_of(const std::string& queue) const {
  if (commands_ == nullptr) return {};
  std::vector<ObjectKey> keys;
  {
    const rt::MutexLock lock(mutex_);
    const auto found = pending_commands_.find(queue);
    if (found != pending_commands_.end()) keys.assign(found->second.begin(), found->second.end());
  }
  std::vector<CommandPtr> commands;
  for (const ObjectKey& key : keys) {
    CommandPtr command = commands_->get(key);
    if (command && is_for_queue(*command) && command->target->name == queue) commands.push_back(std::move(command));
  }
  // As they were given. Within one second the versions tell, because nobody changes a command.
  base::stable_sort(commands, [](const CommandPtr& a, const CommandPtr& b) {
    return std::pair(a->metadata.creation_timestamp, kube::parse_revision(a->metadata.resource_version)) <
           std::pair(b->metadata.creation_timestamp, kube::parse_revision(b->metadata.resource_version));
  });
  return commands;
}

rt::Duration QueueController::time_to_wait(const Command& command) const {
  const rt::Duration limit = command_wait_max(options_.retries_max);
  if (limit == rt::Duration::max()) return std::chrono::hours(1);
  // A command that was given while no manager ran has its full time from the start.
  const rt::WallTime given(command.metadata.creation_timestamp.to_time_point());
  const rt::Duration left = limit - (runtime_.wall_now() - std::max(given, started_));
  return std::max(left, rt::Duration::zero());
}

void QueueController::show_counts(const std::string& name, bool exists) {
  const GroupCounts counts = exists ? counts_.of(name) : GroupCounts{};
  {
    const rt::MutexLock lock(mutex_);
    const auto found = shown_.find(name);
    if (!exists && found == shown_.end()) return;
    if (exists && found != shown_.end() && found->second == counts) return;
    if (exists) {
      shown_[name] = counts;
    } else {
      shown_.erase(found);
    }
  }
  for (std::size_t i = 0; i < kCountedPhases; ++i) {
    const std::string gauge = gauge_name(static_cast<CountedPhase>(i));
    const kube::MetricLabels labels = {{"queue_name", name}};
    if (exists) {
      metrics_.gauge(gauge, kGaugeHelp, labels).set(static_cast<double>(counts.by_phase.at(i)));
    } else {
      metrics_.remove_gauge(gauge, labels);
    }
  }
}

void QueueController::look_at_all_again() {
  queues_.for_each([this](const Queue& queue) { mark(queue.metadata.name); });
}

void QueueController::log_outcome(const std::string& name, const Outcome& outcome) {
  if (!outcome.error || outcome.error->is(Reason::Cancelled)) return;
  const bool is_news = work_.retries(name) == 0 && !outcome.error->is(Reason::Conflict);
  log_.log(is_news ? LogLevel::Warn : LogLevel::Debug, "queue is tried again",
           {{"queue", name}, {"error", *outcome.error}});
}

}  // namespace

std::unique_ptr<Controller> make_queue_controller(ControllerContext& context, QueueControllerOptions options) {
  return std::make_unique<QueueController>(context, std::move(options));
}

rt::Duration command_wait_max(int retries_max) {
  // Beyond 40 doublings it is more than 100 years.
  if (retries_max < 0 || retries_max > 40) return rt::Duration::max();
  return std::chrono::milliseconds(5) * ((std::int64_t{1} << retries_max) - 1);
}

}  // namespace basalt::controllers::queue
