#include "cli/inspect/explanation.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "base/sort.h"
#include "base/strings.h"
#include "cli/run/job_progress.h"
#include "controllers/podgroup/pod_usage.h"
#include "scheduler/explain.h"

namespace basalt::cli {
namespace {

namespace scheduling = api::scheduling;
namespace group_phase = scheduling::pod_group_phase;

constexpr std::size_t kAheadShown = 5;
constexpr std::size_t kPodProblemsShown = 5;
constexpr std::int64_t kGraceSeconds = 5;  // for a controller or scheduler to look at something new

bool is_usable(const api::core::Node& node) {
  return !node.spec.unschedulable && api::is_condition_true(node.status.conditions, "Ready");
}

// What the scheduler wrote on a group that still waits.
std::optional<scheduler::PendingReason> reason_on(const scheduling::PodGroup& group) {
  const std::string& phase = group.status.phase;
  if (phase == group_phase::kRunning || phase == group_phase::kCompleted) return std::nullopt;
  const auto text = group.metadata.annotations.find(scheduler::kPendingAnnotation);
  return text ? scheduler::decode_reason(*text) : std::nullopt;
}

class Explainer {
 public:
  explicit Explainer(const ExplainInput& input) : in_(input) {}

  Explanation run() {
    describe_subject();
    count_pods();
    if (!out_.is_over) find_reason();
    if (out_.is_waiting) {
      find_dependencies();
      find_gates();
      find_position();
    }
    find_pod_problems();
    find_remedies();
    return std::move(out_);
  }

 private:
  api::Time now() const { return api::Time::from(std::chrono::system_clock::time_point(in_.now.time_since_epoch())); }

  void describe_subject() {
    if (in_.job) {
      const auto& job = *in_.job;
      out_.subject = "job " + job.metadata.namespace_ + "/" + job.metadata.name;
      out_.phase = job.status.state.phase;
      out_.since = job.status.state.last_transition_time ? job.status.state.last_transition_time
                                                         : job.metadata.creation_timestamp;
      out_.is_over = is_final(out_.phase);
      out_.min_member = job.spec.min_available;
    } else if (in_.group) {
      out_.subject = "pod group " + in_.group->metadata.namespace_ + "/" + in_.group->metadata.name;
      out_.phase = in_.group->status.phase;
      out_.since = in_.group->metadata.creation_timestamp;
      out_.is_over = out_.phase == group_phase::kCompleted;
    }
    if (in_.group) out_.min_member = in_.group->spec.min_member;
    out_.queue = in_.queue_name;
    if (in_.job && out_.is_over) say(in_.job->status.state.reason, in_.job->status.state.message, out_.since);
  }

  void count_pods() {
    for (const auto& pod : in_.pods) {
      if (pod.metadata.deletion_timestamp) continue;
      ++out_.pods_existing;
      if (!pod.spec.node_name.empty()) ++out_.pods_placed;
    }
  }

  void say(std::string_view reason, std::string_view message, api::Time since) {
    out_.reason = std::string(reason);
    out_.message = std::string(message);
    out_.reason_since = since;
  }

  void wait_for(std::string_view reason, std::string message, api::Time since) {
    out_.is_waiting = true;
    say(reason, message, since);
  }

  // The gates in the order in which a job meets them; the first that is shut is the reason.
  void find_reason() {
    if (!in_.server_problem.empty()) {
      wait_for("ServerNotReady", in_.server_problem, {});
      return;
    }
    if (in_.job && out_.phase.empty()) {
      wait_for("NoController", "no controller has looked at the job yet", in_.job->metadata.creation_timestamp);
      return;
    }
    const bool is_pending = out_.phase == "Pending" || out_.phase == group_phase::kInqueue || out_.phase.empty();
    const bool is_told = group_says_why();
    if (is_pending && !in_.missing_priorities.empty()) {
      wait_for("PriorityClassMissing",
               "there is no PriorityClass " + base::quote(in_.missing_priorities.front()) +
                   ": the API server refuses the job's pods until there is",
               out_.since);
      return;
    }
    // A gang that waits for its pods waits for what keeps the job from making them.
    const bool job_says_why = in_.job && !in_.job->status.state.reason.empty() && is_pending;
    if (job_says_why && (!is_told || waits_for_pods())) {
      wait_for(in_.job->status.state.reason, in_.job->status.state.message, in_.job->status.state.last_transition_time);
      return;
    }
    if (is_told) return;
    if (is_pending && in_.knows_queues && in_.queues.empty() && !in_.queue_name.empty()) {
      wait_for("QueueMissing", "the queue \"" + in_.queue_name + "\" does not exist", out_.since);
      return;
    }
    if (is_pending && !in_.queues.empty() && in_.queues.front().status.state != "Open" &&
        !in_.queues.front().status.state.empty()) {
      wait_for("QueueClosed", "the queue \"" + in_.queue_name + "\" is " + in_.queues.front().status.state, out_.since);
      return;
    }
    if (is_pending && !in_.group) {
      wait_for("PodGroupMissing", "its pod group has not been created", out_.since);
      return;
    }
    if (in_.group && in_.group->status.phase.empty()) {
      wait_for("NoScheduler", "no scheduler has looked at its pod group yet", in_.group->metadata.creation_timestamp);
      return;
    }
    if (is_pending) {
      const bool starting = out_.pods_placed > 0;
      wait_for(starting ? "Starting" : "Scheduling",
               starting ? std::to_string(out_.pods_placed) + " pods are placed and starting"
                        : "the scheduler has not said why yet",
               out_.since);
    }
  }

  bool waits_for_pods() const {
    using scheduler::PendingKind;
    return told_ && (told_->kind == PendingKind::NotEnoughPods || told_->kind == PendingKind::NotEnoughPodsOfTask ||
                     told_->kind == PendingKind::NotEnoughSubGroups);
  }

  bool group_says_why() {
    if (!in_.group) return false;
    if (scheduler_says_why()) return true;
    const auto* condition =
        api::find_condition(in_.group->status.conditions, scheduling::pod_group_condition_type::kUnschedulable);
    if (condition == nullptr || condition->status != "True") return false;
    // A condition that was left behind on a gang that runs explains nothing.
    const std::string& phase = in_.group->status.phase;
    if (phase == group_phase::kRunning || phase == group_phase::kCompleted) return false;
    wait_for(condition->reason, condition->message, condition->last_transition_time);
    return true;
  }

  // The reason with its numbers, which our scheduler leaves on the pod group.
  bool scheduler_says_why() {
    told_ = reason_on(*in_.group);
    if (!told_) return false;
    const auto* condition =
        api::find_condition(in_.group->status.conditions, scheduling::pod_group_condition_type::kUnschedulable);
    const bool has_condition = condition != nullptr && condition->status == "True";
    std::string text = told_->text;
    if (text.empty() && has_condition) text = condition->message;
    wait_for(scheduler::to_string(told_->kind), std::move(text),
             has_condition ? condition->last_transition_time : api::Time());
    for (const auto& one : told_->shortages) out_.shortages.push_back({one.name, one.requested, one.free, one.lacking});
    out_.holder = told_->holder;
    out_.fitted = told_->fitted;
    return true;
  }

  void find_dependencies() {
    if (!in_.job) return;
    const JobProgress progress = progress_of(*in_.job);
    for (std::size_t i = 0; i < in_.job->spec.tasks.size(); ++i) {
      const auto& task = in_.job->spec.tasks[i];
      if (!task.depends_on || task.depends_on->name.empty() || !progress.tasks[i].pods.empty()) continue;
      out_.dependencies.push_back("task " + progress.tasks[i].name + " waits for " +
                                  (task.depends_on->iteration == "any" ? "any of " : "") +
                                  base::join(task.depends_on->name, ", "));
    }
  }

  // What has still to be placed: the pods that wait, as far as the gang needs them; before there are any, its minimum.
  api::ResourceList requested() const {
    api::ResourceList sum;
    std::int64_t needed = std::max<std::int64_t>(1, out_.min_member - out_.pods_placed);
    bool any = false;
    for (const auto& pod : in_.pods) {
      if (!pod.spec.node_name.empty() || pod.metadata.deletion_timestamp || needed-- <= 0) continue;
      sum += controllers::podgroup::pod_requests(pod.spec);
      any = true;
    }
    if (any) return countable(sum);
    if (in_.group && in_.group->spec.min_resources) return countable(*in_.group->spec.min_resources);
    return {};
  }

  void find_gates() {
    const api::ResourceList wanted = requested();
    for (const auto& queue : in_.queues) {
      Gate gate{"queue \"" + queue.metadata.name + "\"", {}};
      for (const auto& [name, amount] : wanted) {
        const api::Quantity* limit = queue.spec.capability.find(name);
        if (limit == nullptr) continue;
        gate.lines.push_back({name, amount, queue.status.allocated.get(name), *limit});
      }
      if (!gate.lines.empty()) out_.gates.push_back(std::move(gate));
    }
    if (in_.nodes.empty() || !out_.shortages.empty()) return;
    api::ResourceList total;
    for (const auto& node : in_.nodes) {
      if (is_usable(node)) total += node.status.allocatable;
    }
    Gate gate{"cluster", {}};
    for (const auto& [name, amount] : wanted) {
      if (name == "pods") continue;
      gate.lines.push_back({name, amount, in_.in_use.get(name), total.get(name)});
    }
    if (!gate.lines.empty()) out_.gates.push_back(std::move(gate));
  }

  std::int64_t priority_of(const scheduling::PodGroup& group) const {
    const auto found = in_.priorities.find(group.spec.priority_class_name);
    return found == in_.priorities.end() ? 0 : found->second;
  }

  static bool stands_in_queue(const scheduling::PodGroup& group) {
    const std::string& phase = group.status.phase;
    return phase.empty() || phase == group_phase::kPending || phase == group_phase::kInqueue;
  }

  void find_position() {
    if (!in_.group || !stands_in_queue(*in_.group)) return;
    // The scheduler has seen all groups; where not all were read here, its word counts.
    if (told_ && told_->position > 0 && in_.groups_are_cut) {
      out_.position = told_->position;
      out_.waiting_in_queue = std::max(told_->waiting, told_->position);
      // Far behind, it is brought up to date only when it has changed much.
      out_.position_is_rough = told_->position > scheduler::kExactPositionMax;
      if (!told_->ahead.empty()) out_.ahead.push_back({told_->ahead, std::nullopt, {}});
      return;
    }
    const auto rank = [this](const scheduling::PodGroup& group) {
      return std::tuple(-priority_of(group), group.metadata.creation_timestamp, group.metadata.namespace_,
                        group.metadata.name);
    };
    const auto mine = rank(*in_.group);
    std::vector<const scheduling::PodGroup*> ahead;
    out_.waiting_in_queue = 1;
    for (const auto& other : in_.other_groups) {
      if (other.metadata.uid == in_.group->metadata.uid || other.spec.queue != in_.group->spec.queue ||
          !stands_in_queue(other))
        continue;
      ++out_.waiting_in_queue;
      if (rank(other) < mine) ahead.push_back(&other);
    }
    out_.position = ahead.size() + 1;
    out_.position_is_a_minimum = in_.groups_are_cut;
    base::stable_sort(ahead, [&rank](const auto* a, const auto* b) { return rank(*a) < rank(*b); });
    for (std::size_t i = 0; i < ahead.size() && i < kAheadShown; ++i) {
      std::string name = ahead[i]->metadata.name;
      for (const auto& owner : ahead[i]->metadata.owner_references) {
        if (owner.kind == "Job") name = owner.name;
      }
      out_.ahead.push_back(
          {ahead[i]->metadata.namespace_ + "/" + name, priority_of(*ahead[i]), ahead[i]->metadata.creation_timestamp});
    }
  }

  // A container that keeps ending, or a pod that nobody places, is what the user wants to hear of even if the job
  // itself counts as Running.
  void find_pod_problems() {
    std::vector<PodFailure> failures;
    for (const auto& pod : in_.pods) {
      auto failure = failure_of(pod);
      if (!failure) failure = unplaced(pod);
      if (failure) failures.push_back(std::move(*failure));
    }
    sort_failures(failures);
    for (PodFailure& failure : failures) {
      if (out_.pod_problems.size() < kPodProblemsShown) {
        out_.pod_problems.push_back({std::move(failure), {}});
      } else {
        ++out_.pod_problems_more;
      }
    }
  }

  std::optional<PodFailure> unplaced(const api::core::Pod& pod) const {
    if (!pod.spec.node_name.empty()) return std::nullopt;
    const auto* scheduled = api::find_condition(pod.status.conditions, api::condition_types::kPodScheduled);
    // What the pod group says already need not be repeated for each pod.
    if (scheduled == nullptr || scheduled->status != "False" || scheduled->message == out_.message) return std::nullopt;
    PodFailure failure;
    failure.pod = pod.metadata.name;
    failure.task = pod.metadata.annotations.get(api::keys::kTaskSpec);
    failure.reason = scheduled->reason.empty() ? "Pending" : scheduled->reason;
    failure.details = scheduled->message;
    return failure;
  }

  bool is_older_than_grace(api::Time time) const { return time && (now() - time).count() > kGraceSeconds; }

  void find_remedies() {
    auto& remedies = out_.remedies;
    if (out_.is_waiting) find_remedies_of_waiting();
    if (!out_.pod_problems.empty()) {
      const std::string ns = in_.job ? in_.job->metadata.namespace_ : in_.pods.front().metadata.namespace_;
      const std::string name = in_.job ? in_.job->metadata.name : "";
      const bool have_written = std::any_of(out_.pod_problems.begin(), out_.pod_problems.end(),
                                            [](const PodProblem& one) { return !one.failure.container.empty(); });
      if (!name.empty() && have_written)
        remedies.push_back("read what the pods wrote: basalt logs " + name + " -n " + ns);
    }
    if (out_.phase == "Aborted" && in_.job)
      remedies.push_back("start it again: basalt job resume " + in_.job->metadata.name + " -n " +
                         in_.job->metadata.namespace_);
  }

  void find_remedies_of_waiting() {
    auto& remedies = out_.remedies;
    if (out_.reason == "NoController") {
      remedies.push_back(is_older_than_grace(out_.reason_since)
                             ? "no controllers seem to run: 'basalt doctor' looks, 'basalt controllers' starts them"
                             : "wait a moment");
      return;
    }
    if (out_.reason == "NoScheduler") {
      const std::string name =
          in_.job && !in_.job->spec.scheduler_name.empty() ? in_.job->spec.scheduler_name : "volcano";
      remedies.push_back(is_older_than_grace(out_.reason_since)
                             ? "no scheduler named \"" + name + "\" seems to run: 'basalt doctor' looks"
                             : "wait a moment");
      return;
    }
    if (out_.reason == "QueueMissing") {
      remedies.push_back("create the queue: basalt queue create -n " + out_.queue + "; or name another in spec.queue");
      return;
    }
    if (out_.reason == "QueueClosed") {
      remedies.push_back("open the queue: basalt queue operate -a open -n " + out_.queue);
      return;
    }
    if (out_.reason == "PriorityClassMissing") {
      std::vector<std::string_view> known;
      for (const auto& [name, value] : in_.priorities) known.push_back(name);
      const std::string& missing = in_.missing_priorities.front();
      remedies.push_back("create it: kubectl create priorityclass " + missing +
                         " --value=N; or submit the job again with a priorityClassName that exists" +
                         (known.empty() ? "" : ": " + base::join(known, ", ")) + base::did_you_mean(missing, known));
      return;
    }
    if (told_ && waits_for_pods() && in_.job && out_.reason == in_.job->status.state.reason) {
      remedies.push_back("remove what the API server names; the pods are tried again by themselves");
      return;
    }
    if (told_) {
      const std::string unblock = told_->unblock.empty() ? scheduler::unblock_text(*told_) : told_->unblock;
      if (!unblock.empty()) remedies.push_back(unblock);
    } else {
      for (const Gate& gate : out_.gates) add_remedy_of(gate);
    }
    if (out_.position > 1) remedies.push_back("let those ahead run first, or give this one a higher priorityClassName");
  }

  void add_remedy_of(const Gate& gate) {
    for (const GateLine& line : gate.lines) {
      if (line.lacking().is_zero()) continue;
      const bool can_never_fit = line.requested > line.limit;
      std::string text;
      if (gate.name == "cluster") {
        text = can_never_fit ? "it can never fit on these nodes: ask for at most " + line.limit.to_string() + " " +
                                   line.resource + " in all (smaller requests, or a smaller minAvailable), or add nodes"
                             : "wait until " + line.lacking().to_string() + " " + line.resource +
                                   " is given back, ask for less, or add nodes";
      } else {
        text = (can_never_fit ? "it can never fit in the "
                              : "wait until others give it back, or raise the limit of the ") +
               gate.name + ": spec.capability." + line.resource + " is " + line.limit.to_string() + ", at least " +
               (line.in_use + line.requested).canonical() + " is needed now";
      }
      out_.remedies.push_back(std::move(text));
    }
  }

  const ExplainInput& in_;
  Explanation out_;
  std::optional<scheduler::PendingReason> told_;  // by the scheduler
};

json::Value json_of(const Gate& gate) {
  json::Array lines;
  for (const GateLine& line : gate.lines) {
    lines.push_back(json::Object{{"resource", line.resource},
                                 {"requested", line.requested.to_string()},
                                 {"inUse", line.in_use.to_string()},
                                 {"limit", line.limit.to_string()},
                                 {"free", line.free().to_string()},
                                 {"lacking", line.lacking().to_string()}});
  }
  return json::Object{{"name", gate.name}, {"isShut", gate.is_shut()}, {"resources", std::move(lines)}};
}

json::Array texts(const std::vector<std::string>& list) {
  json::Array array;
  for (const std::string& text : list) array.push_back(text);
  return array;
}

}  // namespace

api::Quantity GateLine::free() const { return limit - in_use; }

api::Quantity GateLine::lacking() const {
  const api::Quantity missing = in_use + requested - limit;
  return missing.sign() > 0 ? missing : api::Quantity();
}

bool Gate::is_shut() const {
  return std::any_of(lines.begin(), lines.end(), [](const GateLine& line) { return !line.lacking().is_zero(); });
}

api::ResourceList countable(const api::ResourceList& resources) {
  api::ResourceList result;
  for (const auto& [name, amount] : resources) {
    if (name.starts_with("requests.") || name.starts_with("limits.") || name.starts_with("count/") || amount.is_zero())
      continue;
    result.set(name, amount);
  }
  return result;
}

bool is_explained_by_scheduler(const scheduling::PodGroup& group) {
  const auto reason = reason_on(group);
  return reason && reason->position > 0;
}

Explanation explain(const ExplainInput& input) { return Explainer(input).run(); }

json::Value to_json(const Explanation& e) {
  json::Array gates;
  for (const Gate& gate : e.gates) gates.push_back(json_of(gate));
  json::Array shortages;
  for (const Shortage& one : e.shortages) {
    shortages.push_back(json::Object{
        {"resource", one.resource}, {"requested", one.requested}, {"free", one.free}, {"lacking", one.lacking}});
  }
  json::Array ahead;
  for (const Waiting& one : e.ahead) {
    json::Object object{{"name", one.name}};
    if (one.priority) object.set("priority", *one.priority);
    if (one.since) object.set("since", one.since.to_string());
    ahead.push_back(std::move(object));
  }
  json::Array pods;
  for (const PodProblem& pod : e.pod_problems)
    pods.push_back(json::Object{{"name", pod.failure.pod},
                                {"task", pod.failure.task},
                                {"status", pod.failure.reason},
                                {"details", pod.failure.details},
                                {"lastLines", texts(pod.last_lines)}});
  return json::Object{
      {"subject", e.subject},
      {"phase", e.phase},
      {"since", e.since.to_string()},
      {"isWaiting", e.is_waiting},
      {"reason", e.reason},
      {"message", e.message},
      {"reasonSince", e.reason_since.to_string()},
      {"gang", json::Object{{"minMember", e.min_member}, {"pods", e.pods_existing}, {"placed", e.pods_placed}}},
      {"short", std::move(shortages)},
      {"holder", e.holder},
      {"gates", std::move(gates)},
      {"queue", json::Object{{"name", e.queue},
                             {"position", static_cast<std::int64_t>(e.position)},
                             {"waiting", static_cast<std::int64_t>(e.waiting_in_queue)},
                             {"isMinimum", e.position_is_a_minimum},
                             {"isRough", e.position_is_rough},
                             {"ahead", std::move(ahead)}}},
      {"pods", std::move(pods)},
      {"dependencies", texts(e.dependencies)},
      {"remedies", texts(e.remedies)}};
}

}  // namespace basalt::cli
