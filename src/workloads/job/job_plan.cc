#include "workloads/job/job_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/strings.h"
#include "workloads/job/index_set.h"
#include "workloads/replicaset/replica_set_plan.h"

namespace basalt::workloads {
namespace {

constexpr std::string_view kComplete = "Complete";
constexpr std::string_view kFailed = "Failed";
constexpr std::string_view kSuccessMet = "SuccessCriteriaMet";
constexpr std::string_view kFailureTarget = "FailureTarget";
constexpr std::string_view kSuspended = "Suspended";

bool is_true(const json::Value& status, std::string_view type) {
  const json::Value* condition = find_condition(status, type);
  return condition != nullptr && condition->string_at({"status"}) == "True";
}

std::set<std::string> names_at(const json::Value& status, std::string_view which) {
  std::set<std::string> names;
  for (const json::Value& uid : list_at(status, {"uncountedTerminatedPods", which})) {
    if (uid.is_string()) names.insert(uid.as_string());
  }
  return names;
}

// One pass in the making.
struct Planner {
  Planner(const Object& of, const std::vector<PodPtr>& all, rt::WallTime at);

  const Object& job;
  const std::vector<PodPtr>& pods;
  const rt::WallTime now;
  const api::Time time;
  const json::Value& spec;
  const bool is_indexed;
  const bool replaces_failed_only;
  const std::optional<std::int64_t> completions;
  const std::int64_t parallelism;
  const std::optional<std::int64_t> index_limit;  // backoffLimitPerIndex

  json::Value status;
  std::set<std::string> uncounted_succeeded;
  std::set<std::string> uncounted_failed;
  std::int64_t succeeded = 0;  // counted
  std::int64_t failed = 0;
  IndexSet done_indexes;
  IndexSet failed_indexes;
  std::vector<PodPtr> active;
  std::int64_t terminating = 0;
  std::string failure_message;  // of a policy that says FailJob
  JobPlan plan;

  [[nodiscard]] bool counts_as_failed(const Pod& pod) const;
  [[nodiscard]] std::int64_t all_succeeded() const;
  [[nodiscard]] std::int64_t all_failed() const;
  [[nodiscard]] std::optional<std::int64_t> index_of(const Pod& pod) const;
  [[nodiscard]] bool is_past_backoff() const;
  [[nodiscard]] bool is_done() const;
  void plan_finished();
  void count_settled();
  void name_finished();
  void name_failed(const Pod& pod);
  void judge();
  void fail(std::string_view reason, std::string message);
  void end_if_settled();
  void suspend();
  void manage();
  void manage_indexed(std::int64_t wanted);
  void create(std::int64_t count, std::set<std::int64_t> taken);
  [[nodiscard]] std::int64_t failures_of(std::int64_t index) const;
  void write_counts();
  void look_again_in(rt::Duration wait);
  [[nodiscard]] std::optional<rt::Duration> failure_pause() const;
};

std::optional<std::int64_t> number_at(const json::Value& value, std::string_view name) {
  const json::Value* found = value.find(name);
  return found != nullptr && found->is_int() ? std::optional(found->as_int()) : std::nullopt;
}

Planner::Planner(const Object& of, const std::vector<PodPtr>& all, rt::WallTime at)
    : job(of),
      pods(all),
      now(at),
      time(api::Time::from(at)),
      spec(object_at(of.json, {"spec"})),
      is_indexed(spec.string_at({"completionMode"}) == "Indexed"),
      replaces_failed_only(spec.string_at({"podReplacementPolicy"}) == "Failed"),
      completions(number_at(spec, "completions")),
      parallelism(int_at(spec, {"parallelism"}, 1)),
      index_limit(is_indexed ? number_at(spec, "backoffLimitPerIndex") : std::nullopt),
      status(object_at(of.json, {"status"})),
      uncounted_succeeded(names_at(status, "succeeded")),
      uncounted_failed(names_at(status, "failed")),
      succeeded(int_at(status, {"succeeded"})),
      failed(int_at(status, {"failed"})),
      done_indexes(IndexSet::parse(status.string_at({"completedIndexes"})).below(completions.value_or(0))),
      failed_indexes(IndexSet::parse(status.string_at({"failedIndexes"})).below(completions.value_or(0))) {
  for (const PodPtr& pod : pods) {
    if (pod->is_active()) active.push_back(pod);
    terminating += pod->is_being_deleted() && !pod->is_finished() ? 1 : 0;
  }
}

// What is being deleted never gets to its end; unless somebody waits for just that.
bool Planner::counts_as_failed(const Pod& pod) const {
  return pod.has_failed() ||
         (pod.is_being_deleted() && !pod.has_succeeded() && (!replaces_failed_only || pod.is_stopped));
}

std::int64_t Planner::all_succeeded() const {
  return is_indexed ? done_indexes.size() : succeeded + static_cast<std::int64_t>(uncounted_succeeded.size());
}

std::int64_t Planner::all_failed() const { return failed + static_cast<std::int64_t>(uncounted_failed.size()); }

std::optional<std::int64_t> Planner::index_of(const Pod& pod) const {
  const auto index = base::parse_int64(pod.completion_index);
  if (!index || *index < 0 || (completions && *index >= *completions)) return std::nullopt;
  return index;
}

void Planner::look_again_in(rt::Duration wait) {
  wait = std::max<rt::Duration>(wait, std::chrono::milliseconds(1));
  if (!plan.look_again || wait < *plan.look_again) plan.look_again = wait;
}

void Planner::plan_finished() {
  for (const PodPtr& pod : pods) {
    if (pod->is_tracked) plan.releases.push_back(pod);
  }
  const json::Value* ttl = spec.find("ttlSecondsAfterFinished");
  if (ttl == nullptr || !ttl->is_int() || job.metadata.is_being_deleted) return;
  api::Time finished;
  for (const std::string_view type : {kComplete, kFailed}) {
    if (const json::Value* condition = find_condition(status, type); condition != nullptr && is_true(status, type))
      finished = time_at(*condition, {"lastTransitionTime"});
  }
  if (finished.is_zero()) return;
  const auto due = rt::WallTime(finished.to_time_point()) + std::chrono::seconds(ttl->as_int());
  if (due <= now) {
    plan.expires = true;
  } else {
    look_again_in(std::min<rt::Duration>(due - now, std::chrono::hours(1)));
  }
}

// Pods that were named before and have lost their finalizer since are counted.
void Planner::count_settled() {
  std::set<std::string, std::less<>> tracked;
  for (const PodPtr& pod : pods) {
    if (pod->is_tracked) tracked.insert(pod->metadata.uid.str());
  }
  const auto settle = [&](std::set<std::string>& names, std::int64_t& count) {
    count +=
        static_cast<std::int64_t>(std::erase_if(names, [&](const std::string& uid) { return !tracked.contains(uid); }));
  };
  settle(uncounted_succeeded, succeeded);
  settle(uncounted_failed, failed);
}

void Planner::name_finished() {
  for (const PodPtr& pod : pods) {
    if (!pod->is_tracked) continue;
    const std::string uid = pod->metadata.uid.str();
    const bool is_named = uncounted_succeeded.contains(uid) || uncounted_failed.contains(uid);
    if (is_named) {
      plan.releases.push_back(pod);
      continue;
    }
    if (static_cast<std::int64_t>(uncounted_succeeded.size() + uncounted_failed.size()) >= kJobPodsAtOnceMax) break;
    if (pod->has_succeeded()) {
      if (is_indexed) {
        // The index is the record; a second pod of it adds nothing.
        if (const auto index = index_of(*pod)) done_indexes.add(*index);
      } else {
        uncounted_succeeded.insert(uid);
      }
      plan.releases.push_back(pod);
    } else if (counts_as_failed(*pod)) {
      name_failed(*pod);
      plan.releases.push_back(pod);
    }
  }
}

void Planner::name_failed(const Pod& pod) {
  // A pod whose node has let go of it tells no more: its conditions count as they are.
  const FailureVerdict verdict = pod.has_failed() || pod.is_stopped ? judge_failure(job, pod) : FailureVerdict{};
  if (verdict.action == FailureAction::Ignore) return;
  uncounted_failed.insert(pod.metadata.uid.str());
  if (verdict.action == FailureAction::FailJob && failure_message.empty()) failure_message = verdict.message;
  const auto index = index_of(pod);
  if (!index_limit || !index || done_indexes.contains(*index)) return;
  if (verdict.action == FailureAction::FailIndex || pod.index_failures >= *index_limit) failed_indexes.add(*index);
}

bool Planner::is_past_backoff() const {
  const std::int64_t limit = int_at(spec, {"backoffLimit"}, 6);
  if (all_failed() > limit) return true;
  if (spec.string_at({"template", "spec", "restartPolicy"}) != "OnFailure") return false;
  std::int64_t restarts = 0;
  for (const PodPtr& pod : active) restarts += pod->restarts;
  return limit == 0 ? restarts > 0 : restarts >= limit;
}

bool Planner::is_done() const {
  if (completions) return all_succeeded() >= *completions;
  return all_succeeded() > 0 && active.empty() && terminating == 0;
}

void Planner::fail(std::string_view reason, std::string message) {
  set_condition(status, {kFailureTarget, "True", reason, std::move(message)}, time);
}

// Whether it is to end, and how. Decided once: what is decided stays.
void Planner::judge() {
  if (is_true(status, kSuccessMet) || is_true(status, kFailureTarget)) return;
  const auto deadline = spec.find("activeDeadlineSeconds");
  const api::Time started = time_at(status, {"startTime"});
  const auto failed_max = number_at(spec, "maxFailedIndexes");
  if (!failure_message.empty()) {
    fail("PodFailurePolicy", failure_message);
  } else if (failed_max && failed_indexes.size() > *failed_max) {
    fail("MaxFailedIndexesExceeded", "More indexes have failed than spec.maxFailedIndexes allows.");
  } else if (failed_indexes.size() > 0 && done_indexes.size() + failed_indexes.size() >= completions.value_or(0)) {
    fail("FailedIndexes", "Some indexes have failed for good.");
  } else if (is_past_backoff()) {
    fail("BackoffLimitExceeded", "Pods have failed more often than spec.backoffLimit allows.");
  } else if (std::string matched = is_indexed ? judge_success(spec, done_indexes) : ""; !matched.empty()) {
    set_condition(status, {kSuccessMet, "True", "SuccessPolicy", std::move(matched)}, time);
  } else if (is_done()) {
    set_condition(status, {kSuccessMet, "True", "CompletionsReached", "As many pods have succeeded as are needed."},
                  time);
  } else if (deadline != nullptr && deadline->is_int() && !started.is_zero() && !flag_at(spec, {"suspend"})) {
    const auto due = rt::WallTime(started.to_time_point()) + std::chrono::seconds(deadline->as_int());
    if (due <= now) {
      fail("DeadlineExceeded", "The job has been active for longer than spec.activeDeadlineSeconds.");
    } else {
      look_again_in(due - now);
    }
  }
}

// The last word is said when every pod has ended and is counted.
void Planner::end_if_settled() {
  // Pods that are no longer needed have not failed.
  std::vector<PodPtr>& leaving = is_true(status, kSuccessMet) ? plan.deletes : plan.kills;
  leaving.insert(leaving.end(), active.begin(), active.end());
  const bool is_settled = active.empty() && terminating == 0 && uncounted_failed.empty() && uncounted_succeeded.empty();
  if (!is_settled || !plan.releases.empty()) return;
  if (is_true(status, kSuccessMet)) {
    const json::Value* met = find_condition(status, kSuccessMet);
    set_condition(status, {kComplete, "True", met->string_at({"reason"}), std::string(met->string_at({"message"}))},
                  time);
    status.as_object().set("completionTime", time.to_string());
    plan.events.push_back({kube::EventType::Normal, "Completed", "The job has completed."});
    return;
  }
  const json::Value* target = find_condition(status, kFailureTarget);
  const std::string reason(target->string_at({"reason"}));
  const std::string message(target->string_at({"message"}));
  set_condition(status, {kFailed, "True", reason, message}, time);
  plan.events.push_back({kube::EventType::Warning, reason, message});
}

void Planner::suspend() {
  plan.deletes = active;
  if (plan.deletes.size() > static_cast<std::size_t>(kJobPodsAtOnceMax)) plan.deletes.resize(kJobPodsAtOnceMax);
  status.as_object().erase("startTime");
  if (is_true(status, kSuspended)) return;
  set_condition(status, {kSuspended, "True", "JobSuspended", "The job is suspended."}, time);
  plan.events.push_back({kube::EventType::Normal, "Suspended", "The job is suspended."});
}

// After failures in a row, the next pod waits.
std::optional<rt::Duration> Planner::failure_pause() const {
  api::Time last_success;
  for (const PodPtr& pod : pods) {
    if (pod->has_succeeded()) last_success = std::max(last_success, pod->ended);
  }
  std::int64_t failures = 0;
  api::Time last_failure;
  for (const PodPtr& pod : pods) {
    if (!pod->has_failed() || pod->ended.is_zero() || pod->ended <= last_success) continue;
    ++failures;
    last_failure = std::max(last_failure, pod->ended);
  }
  if (failures == 0) return std::nullopt;
  std::chrono::seconds pause = kFailurePause;
  for (std::int64_t i = 1; i < failures && pause < kFailurePauseMax; ++i) pause *= 2;
  const auto due = rt::WallTime(last_failure.to_time_point()) + std::min(pause, kFailurePauseMax);
  if (due <= now) return std::nullopt;
  return std::chrono::duration_cast<rt::Duration>(due - now);
}

std::int64_t Planner::failures_of(std::int64_t index) const {
  std::int64_t failures = 0;
  for (const PodPtr& pod : pods) {
    if (index_of(*pod) == index && (pod->has_failed() || pod->is_being_deleted()))
      failures = std::max<std::int64_t>(failures, pod->index_failures + 1);
  }
  return failures;
}

void Planner::create(std::int64_t count, std::set<std::int64_t> taken) {
  if (count <= 0) return;
  if (const auto pause = failure_pause()) return look_again_in(*pause);
  count = std::min(count, kJobPodsAtOnceMax);
  if (!is_indexed) {
    plan.creates.resize(static_cast<std::size_t>(count));
    return;
  }
  for (std::int64_t index = done_indexes.next_free(0); index < completions.value_or(0) && count > 0;
       index = done_indexes.next_free(index + 1)) {
    if (failed_indexes.contains(index) || !taken.insert(index).second) continue;
    JobPlan::Create made{.index = index, .failures_before = {}};
    if (index_limit) made.failures_before = failures_of(index);
    plan.creates.push_back(made);
    --count;
  }
}

void Planner::manage_indexed(std::int64_t wanted) {
  std::set<std::int64_t> taken;
  std::vector<PodPtr> kept;
  for (const PodPtr& pod : active) {
    const auto index = index_of(*pod);
    if (!index || done_indexes.contains(*index) || failed_indexes.contains(*index) || !taken.insert(*index).second) {
      plan.deletes.push_back(pod);
    } else {
      kept.push_back(pod);
    }
  }
  // The name of a pod that is going is still taken in what it works on.
  for (const PodPtr& pod : pods) {
    if (pod->is_being_deleted() && !pod->is_finished()) {
      if (const auto index = index_of(*pod); index && replaces_failed_only) taken.insert(*index);
    }
  }
  const auto have = static_cast<std::int64_t>(kept.size()) + (replaces_failed_only ? terminating : 0);
  // The highest indexes go first.
  std::sort(kept.begin(), kept.end(), [&](const PodPtr& a, const PodPtr& b) { return *index_of(*a) > *index_of(*b); });
  for (std::int64_t i = 0; i < have - wanted && i < static_cast<std::int64_t>(kept.size()); ++i)
    plan.deletes.push_back(kept[static_cast<std::size_t>(i)]);
  create(wanted - have, std::move(taken));
}

void Planner::manage() {
  const json::Value* suspended = find_condition(status, kSuspended);
  if (suspended != nullptr && suspended->string_at({"status"}) == "True") {
    set_condition(status, {kSuspended, "False", "JobResumed", "The job goes on."}, time);
    plan.events.push_back({kube::EventType::Normal, "Resumed", "The job goes on."});
  }
  const std::int64_t have = static_cast<std::int64_t>(active.size()) + (replaces_failed_only ? terminating : 0);
  std::int64_t wanted = parallelism;
  if (completions) {
    wanted = std::min(parallelism, *completions - all_succeeded() - failed_indexes.size());
  } else if (all_succeeded() > 0) {
    wanted = std::min(parallelism, have);  // a work queue that has run dry: nobody new
  }
  wanted = std::max<std::int64_t>(wanted, 0);
  if (is_indexed) {
    manage_indexed(wanted);
  } else if (have > wanted) {
    std::vector<PodPtr> sorted = active;
    sort_for_deletion(sorted);
    const auto surplus = std::min(have - wanted, std::min<std::int64_t>(kJobPodsAtOnceMax, std::ssize(sorted)));
    sorted.resize(static_cast<std::size_t>(surplus));
    plan.deletes = std::move(sorted);
  } else {
    create(wanted - have, {});
  }
}

void Planner::write_counts() {
  json::Object& members = status.as_object();
  std::int64_t ready = 0;
  for (const PodPtr& pod : active) ready += pod->counts_as_ready() ? 1 : 0;
  const auto put = [&](std::string_view name, std::int64_t count) {
    if (count > 0) {
      members.set(name, count);
    } else {
      members.erase(name);
    }
  };
  put("active", std::ssize(active));
  put("succeeded", is_indexed ? done_indexes.size() : succeeded);
  put("failed", failed);
  members.set("ready", ready);
  members.set("terminating", terminating);
  json::Value uncounted{json::Object()};
  const auto list = [&](std::string_view name, const std::set<std::string>& uids) {
    if (uids.empty()) return;
    json::Array items;
    for (const std::string& uid : uids) items.emplace_back(uid);
    uncounted.as_object().set(name, std::move(items));
  };
  list("succeeded", uncounted_succeeded);
  list("failed", uncounted_failed);
  members.set("uncountedTerminatedPods", std::move(uncounted));
  if (is_indexed && done_indexes.size() > 0) members.set("completedIndexes", done_indexes.to_text());
  if (index_limit) members.set("failedIndexes", failed_indexes.to_text());
}

}  // namespace

bool is_finished_job(const json::Value& status) { return is_true(status, kComplete) || is_true(status, kFailed); }

JobPlan plan_job(const Object& job, const std::vector<PodPtr>& pods, rt::WallTime now) {
  Planner planner(job, pods, now);
  if (is_finished_job(planner.status)) {
    planner.plan.status = planner.status;
    planner.plan_finished();
    return std::move(planner.plan);
  }
  if (job.metadata.is_being_deleted) {
    planner.plan.status = planner.status;
    for (const PodPtr& pod : pods) {
      if (pod->is_tracked) planner.plan.releases.push_back(pod);
    }
    return std::move(planner.plan);
  }
  const bool is_suspended = flag_at(planner.spec, {"suspend"});
  if (!is_suspended && planner.status.string_at({"startTime"}).empty())
    planner.status.ensure_path({"startTime"}) = planner.time.to_string();
  planner.count_settled();
  planner.name_finished();
  planner.judge();
  if (is_true(planner.status, kSuccessMet) || is_true(planner.status, kFailureTarget)) {
    planner.end_if_settled();
  } else if (is_suspended) {
    planner.suspend();
  } else {
    planner.manage();
  }
  planner.write_counts();
  planner.plan.status = std::move(planner.status);
  return std::move(planner.plan);
}

}  // namespace basalt::workloads
