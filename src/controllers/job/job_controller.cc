#include "controllers/job/job_controller.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "api/gen/names.h"
#include "api/owner.h"
#include "base/hash.h"
#include "base/strings.h"
#include "controllers/job/executor.h"
#include "controllers/job/observed.h"
#include "controllers/job/planner.h"
#include "kube/expectations.h"
#include "kube/typed.h"
#include "rt/backoff.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::job {
namespace {

using api::ObjectKey;
using api::batch::Job;
using api::bus::Command;
using api::core::PersistentVolumeClaim;
using api::core::PodProjection;
using api::scheduling::PodGroup;
using api::scheduling::Queue;

constexpr std::string_view kJobApi = "batch.volcano.sh/v1alpha1";

ObjectKey key_of(const Job& job) { return {job.metadata.namespace_, job.metadata.name}; }

// The job that controls the pod, by name: also of an earlier job of that name, whose end its successor waits for.
std::optional<ObjectKey> owner_of(const PodProjection& pod) {
  for (const auto& owner : pod.metadata.owner_references) {
    if (owner.controller.value_or(false) && owner.kind == "Job" && owner.api_version == kJobApi)
      return ObjectKey{pod.metadata.namespace_.str(), owner.name.str()};
  }
  return std::nullopt;
}
std::string_view owner_uid_of(const PodProjection& pod) {
  for (const auto& owner : pod.metadata.owner_references) {
    if (owner.controller.value_or(false)) return owner.uid;
  }
  return {};
}

bool is_for_job(const Command& command) {
  return command.target && command.target->kind == "Job" && command.target->api_version == kJobApi;
}

// How far a pod has come.
enum class Stage : std::uint8_t { Waiting, Running, Finished };
Stage stage_of(std::string_view phase) {
  if (phase == "Succeeded" || phase == "Failed") return Stage::Finished;
  return phase == "Running" ? Stage::Running : Stage::Waiting;
}

class JobController : public Controller {
 public:
  JobController(ControllerContext& context, JobControllerOptions options)
      : context_(context),
        options_(std::move(options)),
        log_(context.log.with({{"controller", "job"}})),
        jobs_(context.informers.jobs()),
        pods_(context.informers.pods()),
        groups_(context.informers.pod_groups()),
        queues_(context.informers.queues()),
        commands_(context.informers.commands()),
        claims_(context.informers.persistent_volume_claims()),
        priorities_(context.informers.priority_classes()),
        queue_(context.runtime, {.name = "job", .backoff = {.cap = kRetryMax}},
               [](const ObjectKey& key) { return base::fnv1a_64(key.ns); }),
        expectations_(context.runtime, {.name = "job", .metrics = &context.metrics},
                      [this](const ObjectKey& key) { queue_.add(key); }),
        keys_(context.runtime, options_.make_keys, [this](const ObjectKey& key) { queue_.add(key); }),
        executor_(context, expectations_, keys_, {.pods_in_flight = options_.pods_in_flight}) {
    // The handlers come before the expectations', so that what a change tells is known when a pass is let through.
    watch();
    for (kube::InformerCore* informer :
         {&jobs_.core(), &pods_.core(), &groups_.core(), &commands_.core(), &claims_.core()})
      expectations_.connect(*informer);
  }

  [[nodiscard]] std::string_view name() const override { return "job-controller"; }

  void start() override {
    workers_ = std::make_unique<rt::Workers<ObjectKey>>(
        context_.runtime, queue_, rt::WorkersOptions{.name = "job", .count = options_.workers},
        [this](const ObjectKey& key, const rt::StopToken& stop) { return reconcile(key, stop); },
        [this](const ObjectKey& key, const rt::Outcome& outcome, rt::Duration) { report(key, outcome); });
  }

  void stop() override {
    if (workers_) workers_->stop();
    workers_.reset();
    if (!std::exchange(keys_stopped_, true)) keys_.stop();
  }

 private:
  void watch() {
    jobs_.add_handler([this](const kube::Change<Job>& change) { on_job(change); });
    pods_.add_handler([this](const kube::Change<PodProjection>& change) { on_pod(change); });
    groups_.add_handler([this](const kube::Change<PodGroup>& change) { on_group(change); });
    commands_.add_handler([this](const kube::Change<Command>& change) {
      if (change.is_deleted() || !is_for_job(change.object())) return;
      queue_.add({change.object().metadata.namespace_, change.object().target->name}, rt::Priority::High);
    });
    queues_.add_handler([this](const kube::Change<Queue>& change) { on_queue(change); });
    priorities_.add_handler([this](const kube::Change<api::core::PriorityClass>& change) {
      // Decides whose resources a pod group asks for; its value never changes.
      if (!change.is_updated()) look_at_all_again();
    });
    claims_.add_handler([this](const kube::Change<PersistentVolumeClaim>& change) {
      if (change.is_deleted()) return;
      std::set<ObjectKey> waiting;
      {
        const rt::MutexLock lock(mutex_);
        const auto found =
            waiting_for_claim_.find({change.object().metadata.namespace_, change.object().metadata.name});
        if (found == waiting_for_claim_.end()) return;
        waiting = std::move(found->second);
        waiting_for_claim_.erase(found);
      }
      for (const ObjectKey& key : waiting) queue_.add(key);
    });
  }

  void on_job(const kube::Change<Job>& change) {
    const ObjectKey key = key_of(change.object());
    if (change.is_deleted()) {
      remove_job_metrics(context_.metrics, change.object());
      keys_.forget(change.object().metadata.uid);
      forget(key, change.object());
    } else if (change.is_updated() && change.before->spec == change.after->spec &&
               change.before->status == change.after->status &&
               change.before->metadata.deletion_timestamp == change.after->metadata.deletion_timestamp &&
               change.before->metadata.annotations == change.after->metadata.annotations) {
      return;
    }
    mark(key, rt::Duration::zero());
  }

  // The job is to be looked at. A pass that waits for our own writes would find nothing to do; the cache that shows the
  // last of them marks the job itself.
  void mark(const ObjectKey& key, rt::Duration delay) {
    if (expectations_.is_current(key)) queue_.add_after(key, delay);
  }

  // Conditions, addresses and nodes of pods come and go without a meaning for the job.
  static bool is_news(const PodProjection& before, const PodProjection& after) {
    return before.metadata.uid != after.metadata.uid || before.status.phase != after.status.phase ||
           !(before.status.container_statuses == after.status.container_statuses) ||
           !(before.status.init_container_statuses == after.status.init_container_statuses) ||
           !(before.metadata.deletion_timestamp == after.metadata.deletion_timestamp) ||
           !(before.metadata.annotations == after.metadata.annotations) ||
           !(before.metadata.labels == after.metadata.labels);
  }

  void on_pod(const kube::Change<PodProjection>& change) {
    const PodProjection& pod = change.object();
    const auto key = owner_of(pod);
    if (!key) return;
    const auto job = jobs_.get(*key);
    note_pod(change, job.get());
    if (change.is_updated() && !is_news(*change.before, pod)) return;
    const bool is_urgent = change.is_deleted() || pod.status.phase == "Failed";
    mark(*key, is_urgent ? rt::Duration::zero() : gather(change, job.get()));
  }

  // How long to wait for more of its kind: pods of a gang start and end together, and a moment later one pass sees them
  // all. What can change nothing but counters waits longer, unless it is the first after a while.
  rt::Duration gather(const kube::Change<PodProjection>& change, const Job* job) {
    const PodProjection& pod = change.object();
    const bool is_start_or_end = pod.status.phase == "Running" || pod.status.phase == "Succeeded";
    const bool is_step = change.is_updated() && is_start_or_end && pod.metadata.deletion_timestamp.is_zero() &&
                         change.before->status.phase != pod.status.phase;
    if (!is_step || job == nullptr || looks_closely(job->spec)) return kGather;
    const bool is_running = job->status.state.phase == api::batch::job_phase::kRunning;
    const std::int64_t replicas = total_replicas(job->spec);
    const rt::Instant now = context_.runtime.now();
    const rt::MutexLock lock(mutex_);
    Entry& entry = entries_[job->metadata.uid];
    const auto known = static_cast<std::int64_t>(entry.known.size());
    // Those that are not there count as done, as they may be recorded so: a look too many does no harm.
    if (entry.finished >= known) return kGather;
    if (!is_running && entry.started + std::max<std::int64_t>(replicas - known, 0) >= job->spec.min_available)
      return kGather;
    const bool is_start = pod.status.phase == "Running";
    auto& last = is_start ? entry.start_seen : entry.end_seen;
    const rt::Instant written = is_start ? counters_due(entry.memory) : record_due(entry.memory);
    if (last && now < *last + kGatherCounters) return std::max(*last + kGatherCounters, written) - now;
    last = now;
    return std::max(kGather, written - now);
  }

  // When a look at counters, or at a pod that has succeeded, may lead to a write: sooner, the planner would only put it
  // off. A moment before it, because what is seen then gathers once more.
  [[nodiscard]] rt::Instant counters_due(const JobMemory& memory) const {
    const PlanOptions& plan = options_.plan;
    return memory.written ? *memory.written + plan.counters_interval - plan.counters_delay : rt::Instant{};
  }
  [[nodiscard]] rt::Instant record_due(const JobMemory& memory) const {
    const PlanOptions& plan = options_.plan;
    return memory.recorded ? *memory.recorded + plan.record_interval - plan.record_delay : rt::Instant{};
  }

  // Single pods decide: what depends on a task, and what is done at the end of one.
  static bool looks_closely(const api::batch::JobSpec& spec) {
    namespace event = api::bus::event;
    const auto decides = [](const std::vector<api::batch::LifecyclePolicy>& policies) {
      return std::ranges::any_of(policies, [](const api::batch::LifecyclePolicy& policy) {
        const auto is_one = [](std::string_view name) {
          return name == event::kTaskCompleted || name == event::kAny || name == event::kPodRunning;
        };
        return is_one(policy.event) || std::ranges::any_of(policy.events, is_one);
      });
    };
    return spec.min_success || decides(spec.policies) ||
           std::ranges::any_of(spec.tasks, [&](const api::batch::TaskSpec& task) {
             return task.depends_on.has_value() || decides(task.policies);
           });
  }

  // Keeps book of which pods the handlers were told of. The cache changes a moment before its handlers are called; a
  // pass that reads it in this moment must not take a pod for one that never was.
  void note_pod(const kube::Change<PodProjection>& change, const Job* job) {
    const PodProjection& pod = change.object();
    const std::uint64_t id = base::fnv1a_64(pod.metadata.uid);
    const std::string owner(owner_uid_of(pod));
    auto seen = observe_vanished(pod);
    const rt::MutexLock lock(mutex_);
    Entry& entry = entries_[owner];
    if (seen && !change.is_deleted()) {
      entry.note(id, stage_of(pod.status.phase));
      return;
    }
    entry.drop(id);
    if (entry.marked.erase(id) > 0 && seen) seen->is_marked = true;
    if (job != nullptr && job->metadata.uid == owner) {
      if (seen && entry.memory.vanished.size() < kVanishedMax) entry.memory.vanished.push_back(std::move(*seen));
    } else if (entry.known.empty()) {
      entries_.erase(owner);
    }
  }

  // A watch that was broken may show the end of a pod without having shown our mark on it.
  void note_marks(const Job& job, const JobPlan& plan) {
    if (plan.marks.empty() && plan.marks_last.empty()) return;
    const rt::MutexLock lock(mutex_);
    Entry& entry = entries_[job.metadata.uid];
    for (const auto* marks : {&plan.marks, &plan.marks_last}) {
      for (const PodRef& pod : *marks) entry.marked.insert(base::fnv1a_64(pod.uid));
    }
  }

  void on_group(const kube::Change<PodGroup>& change) {
    const auto* owner = api::controller_of(change.object().metadata);
    if (owner == nullptr || owner->kind != "Job") return;
    if (change.is_updated() && change.before->spec == change.after->spec &&
        change.before->status == change.after->status &&
        change.before->metadata.deletion_timestamp == change.after->metadata.deletion_timestamp)
      return;
    const ObjectKey key{change.object().metadata.namespace_, owner->name};
    // The end of a job takes its group along.
    if (change.is_deleted()) {
      const auto job = jobs_.get(key);
      if (job && job->metadata.uid == owner->uid && is_terminal(phase_of(job->status.state.phase))) return;
    }
    mark(key, rt::Duration::zero());
  }

  void on_queue(const kube::Change<Queue>& change) {
    if (change.is_updated() && change.before->status.state == change.after->status.state &&
        change.before->spec.extend_clusters == change.after->spec.extend_clusters)
      return;
    for (const auto& job : jobs_.by_index(indexes::kByQueue, change.object().metadata.name)) {
      if (wants_pods(phase_of(job->status.state.phase))) queue_.add(key_of(*job));
    }
  }

  // One look at a job: observe, plan, carry out.
  rt::Outcome reconcile(const ObjectKey& key, const rt::StopToken& stop) {
    if (queue_.take_overflowed()) look_at_all_again();
    const auto job = jobs_.get(key);
    if (!job) return refuse_commands(key, stop);
    // Our own writes come first; the cache that shows the last of them wakes the job.
    if (const auto left = expectations_.time_left(key)) return rt::Outcome::retry_after(*left);
    ObservedJob observed;
    // The handler that is about to run marks the job again.
    if (!observe(job, key, observed)) return rt::Outcome::done();
    PlanInputs inputs;
    inputs.priority_of = [this](std::string_view name) -> std::int32_t {
      const auto found = name.empty() ? nullptr : priorities_.get({"", std::string(name)});
      return found ? found->value : 0;
    };
    auto plugins = PluginSet::make(job->spec);
    if (plugins.ok()) {
      inputs.plugins = &*plugins;
    } else {
      inputs.plugin_error = plugins.error().message;
    }
    const PlanTime time{context_.runtime.now(), context_.runtime.wall_now()};
    JobPlan plan = plan_job(observed, inputs, time, options_.plan);
    auto wake = plan.wake_after;
    note_marks(*job, plan);
    CarriedOut result = executor_.carry_out(observed, std::move(plan), inputs.plugins, stop);
    remember(observed, result.status_is_written, std::move(result.memory));
    if (result.error) {
      // A key pair that is being made wakes the job by itself.
      if (result.error->is(Reason::Cancelled) && !stop.stop_requested()) return rt::Outcome::done();
      return rt::Outcome::failed(slowed(key, std::move(*result.error)));
    }
    // Should a cache never show what was written, somebody has to look again.
    if (const auto left = expectations_.time_left(key)) wake = wake ? std::min(*wake, *left) : *left;
    return wake ? rt::Outcome::retry_after(std::max(*wake, kWakeMin)) : rt::Outcome::done();
  }

  // An API server in trouble is asked again within seconds; what only somebody else can cure (a quota, a name that is
  // taken) less and less often.
  Error slowed(const ObjectKey& key, Error error) {
    if (error.is_transient() || error.is(Reason::Conflict)) return error;
    const rt::Duration wait = rt::backoff_delay({.cap = kRefusedRetryMax}, queue_.retries(key));
    error.retry_after = std::max(error.retry_after.value_or(std::chrono::milliseconds(0)),
                                 std::chrono::duration_cast<std::chrono::milliseconds>(wait));
    return error;
  }

  // Commands for a job that does not exist. The cache may be behind, so the server is asked.
  rt::Outcome refuse_commands(const ObjectKey& key, const rt::StopToken& stop) {
    const auto commands = commands_.by_index(indexes::kByTargetName, key.ns + "/Job/" + key.name);
    const bool any = std::any_of(commands.begin(), commands.end(), [](const auto& one) { return is_for_job(*one); });
    if (!any) return rt::Outcome::done();
    const auto found = kube::get_object<Job>(context_.client, key, stop);
    if (found.ok()) return rt::Outcome::retry_after(kCacheDelay);
    if (!found.error().is(Reason::NotFound)) return rt::Outcome::failed(found.error());
    for (const auto& command : commands) {
      if (!is_for_job(*command)) continue;
      const auto deleted = kube::delete_object(context_.client, kube::resource_of<Command>(),
                                               {key.ns, command->metadata.name}, {.uid = command->metadata.uid}, stop);
      if (!deleted.ok() && !deleted.error().is(Reason::NotFound)) return rt::Outcome::failed(deleted.error());
      if (!deleted.ok()) continue;
      context_.events.event({.api_version = "bus.volcano.sh/v1alpha1",
                             .kind = "Command",
                             .ns = key.ns,
                             .name = command->metadata.name,
                             .uid = command->metadata.uid,
                             .resource_version = command->metadata.resource_version,
                             .field_path = ""},
                            kube::EventType::Warning, api::event_reasons::kCommandIssued,
                            "Refused: there is no job " + base::quote(key.name) + " in namespace " + key.ns);
    }
    return rt::Outcome::done();
  }

  // The queue was full and had to refuse keys.
  void look_at_all_again() {
    jobs_.for_each([this](const Job& job) { queue_.add(key_of(job)); });
  }

  // False if the cache of pods is ahead of its handlers.
  bool observe(const std::shared_ptr<const Job>& job, const ObjectKey& key, ObservedJob& observed) {
    observed.job = job;
    std::vector<std::uint64_t> cached;
    for (const auto& pod : pods_.by_index(indexes::kByController, job->metadata.uid)) {
      if (auto seen = observe_pod(*pod, *job)) {
        cached.push_back(base::fnv1a_64(seen->uid));
        observed.pods.push_back(std::move(*seen));
      }
    }
    std::sort(cached.begin(), cached.end());
    {
      const rt::MutexLock lock(mutex_);
      Entry& entry = entries_[job->metadata.uid];
      for (const auto& [id, stage] : entry.known) {
        if (!std::binary_search(cached.begin(), cached.end(), id)) return false;
      }
      entry.memory.uid = job->metadata.uid;
      observed.memory = entry.memory;
    }
    sort_pods(observed.pods);
    for (const auto& group : groups_.by_index(indexes::kByController, job->metadata.uid)) {
      // "J-U" is ours; "J" was made by Volcano before 1.3.
      if (group->metadata.name == pod_group_name(*job) || (!observed.pod_group && group->metadata.name == key.name))
        observed.pod_group = group;
    }
    observed.queue = queues_.get({"", job->spec.queue});
    for (const auto& command : commands_.by_index(indexes::kByTargetName, key.ns + "/Job/" + key.name)) {
      if (is_for_job(*command)) observed.commands.push_back(command);
    }
    std::sort(observed.commands.begin(), observed.commands.end(), [](const auto& a, const auto& b) {
      return std::tie(a->metadata.creation_timestamp, a->metadata.name) <
             std::tie(b->metadata.creation_timestamp, b->metadata.name);
    });
    for (const auto& volume : job->spec.volumes) {
      if (!volume.volume_claim_name.empty()) observe_claim(volume.volume_claim_name, key, observed);
    }
    return true;
  }

  void observe_claim(const std::string& claim, const ObjectKey& key, ObservedJob& observed) {
    const ObjectKey claim_key{key.ns, claim};
    auto found = claims_.get(claim_key);
    if (!found) {
      // Registered first, looked up again then: a claim that comes in between is not missed.
      {
        const rt::MutexLock lock(mutex_);
        waiting_for_claim_[claim_key].insert(key);
      }
      found = claims_.get(claim_key);
    }
    ObservedClaim& seen = observed.claims[claim];
    seen.exists = found != nullptr;
    if (const auto* owner = found ? api::controller_of(found->metadata) : nullptr) seen.owner_uid = owner->uid;
  }

  // What the plan concluded, and what the watch told while it was carried out.
  void remember(const ObservedJob& observed, bool is_written, JobMemory&& planned) {
    const std::string& uid = observed.job->metadata.uid;
    {
      const rt::MutexLock lock(mutex_);
      const auto found = entries_.find(uid);
      if (found == entries_.end()) return;  // the job is gone
      JobMemory& memory = found->second.memory;
      const auto told = std::min(memory.vanished.size(), observed.memory.vanished.size());
      JobMemory next = is_written ? std::move(planned) : observed.memory;
      next.vanished.insert(next.vanished.end(), memory.vanished.begin() + static_cast<std::ptrdiff_t>(told),
                           memory.vanished.end());
      memory = std::move(next);
    }
    // Deleted while this pass was under way: nobody else would take the entry away.
    const auto job = jobs_.get(key_of(*observed.job));
    if (job && job->metadata.uid == uid) return;
    const rt::MutexLock lock(mutex_);
    const auto found = entries_.find(uid);
    if (found != entries_.end() && found->second.known.empty()) entries_.erase(found);
  }

  void forget(const ObjectKey& key, const Job& job) {
    expectations_.forget(key);
    const rt::MutexLock lock(mutex_);
    const auto found = entries_.find(job.metadata.uid);
    if (found != entries_.end()) {
      found->second.memory = {};
      // Else the last of its pods takes it along.
      if (found->second.known.empty()) entries_.erase(found);
    }
    for (const auto& volume : job.spec.volumes) {
      const auto waiting = waiting_for_claim_.find({key.ns, volume.volume_claim_name});
      if (waiting == waiting_for_claim_.end()) continue;
      waiting->second.erase(key);
      if (waiting->second.empty()) waiting_for_claim_.erase(waiting);
    }
  }

  void report(const ObjectKey& key, const rt::Outcome& outcome) const {
    if (!outcome.error) return;
    // Conflicts and what a server asks us to repeat are everyday matters.
    const bool is_usual = outcome.error->is(Reason::Conflict) || outcome.error->is(Reason::Cancelled);
    log_.log(is_usual ? LogLevel::Debug : LogLevel::Warn, "job could not be brought in line; trying again",
             {{"job", key.to_string()}, {"error", *outcome.error}});
  }

  static constexpr std::size_t kVanishedMax = 100'000;  // a job; beyond it the recorded counters tell
  static constexpr rt::Duration kGather = std::chrono::milliseconds(30);
  static constexpr rt::Duration kGatherCounters = std::chrono::milliseconds(300);
  static constexpr rt::Duration kWakeMin = std::chrono::milliseconds(1);
  static constexpr rt::Duration kRetryMax = std::chrono::seconds(4);  // all is well ten seconds after a fault
  static constexpr rt::Duration kRefusedRetryMax = std::chrono::seconds(60);
  static constexpr rt::Duration kCacheDelay = std::chrono::milliseconds(100);  // what a watch is behind at most, mostly

  // Fixed after construction.
  ControllerContext& context_;
  const JobControllerOptions options_;
  const Logger log_;
  kube::Informer<Job>& jobs_;
  kube::Informer<PodProjection>& pods_;
  kube::Informer<PodGroup>& groups_;
  kube::Informer<Queue>& queues_;
  kube::Informer<Command>& commands_;
  kube::Informer<PersistentVolumeClaim>& claims_;
  kube::Informer<api::core::PriorityClass>& priorities_;

  // Self-locking.
  rt::WorkQueue<ObjectKey> queue_;
  kube::Expectations expectations_;
  KeyPairs keys_;
  PlanExecutor executor_;

  struct Entry {
    JobMemory memory;
    std::unordered_map<std::uint64_t, Stage> known;  // by hash of the UID, the pods that the handlers were told of
    std::int64_t started = 0;                        // of these
    std::int64_t finished = 0;
    std::unordered_set<std::uint64_t> marked;  // those that were marked for deletion, until they are gone
    // Last time that a pod which started or ended changed nothing but counters, and was looked at soon all the same.
    std::optional<rt::Instant> start_seen;
    std::optional<rt::Instant> end_seen;

    void note(std::uint64_t id, Stage stage) {
      drop(id);
      known.emplace(id, stage);
      started += stage == Stage::Waiting ? 0 : 1;
      finished += stage == Stage::Finished ? 1 : 0;
    }
    void drop(std::uint64_t id) {
      const auto found = known.find(id);
      if (found == known.end()) return;
      started -= found->second == Stage::Waiting ? 0 : 1;
      finished -= found->second == Stage::Finished ? 1 : 0;
      known.erase(found);
    }
  };
  rt::Mutex mutex_;
  std::unordered_map<std::string, Entry> entries_ BASALT_GUARDED_BY(mutex_);  // by UID of the job
  std::map<ObjectKey, std::set<ObjectKey>> waiting_for_claim_ BASALT_GUARDED_BY(mutex_);

  // Used only by the owner.
  std::unique_ptr<rt::Workers<ObjectKey>> workers_;
  bool keys_stopped_ = false;
};

}  // namespace

std::unique_ptr<Controller> make_job_controller(ControllerContext& context, JobControllerOptions options) {
  return std::make_unique<JobController>(context, std::move(options));
}

}  // namespace basalt::controllers::job
