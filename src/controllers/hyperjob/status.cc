#include "controllers/hyperjob/status.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "api/conditions.h"
#include "api/gen/names.h"
#include "controllers/hyperjob/children.h"
#include "json/writer.h"

namespace basalt::controllers::hyperjob {
namespace {

using api::batch::JobState;
using api::batch::JobStatus;
using api::training::HyperJob;
using api::training::HyperJobStatus;
using api::training::ReplicatedJobStatus;
namespace phases = api::batch::job_phase;

void add(std::int32_t& sum, std::int64_t more) {
  sum = static_cast<std::int32_t>(std::clamp<std::int64_t>(sum + more, 0, std::numeric_limits<std::int32_t>::max()));
}

// What carries statuses between clusters may know the pods by task only.
void add_counters(ReplicatedJobStatus& group, const JobStatus& child) {
  const bool has_counters = child.pending != 0 || child.succeeded != 0 || child.failed != 0 || child.terminating != 0 ||
                            child.unknown_count != 0;
  if (!has_counters && !child.task_status_count.empty()) {
    for (const auto& [task, state] : child.task_status_count) {
      const auto count = [&pods = state.phase](const char* phase) {
        const auto found = pods.find(phase);
        return found == pods.end() ? 0 : found->second;
      };
      add(group.pending, count("Pending"));
      add(group.running, count("Running"));
      add(group.succeeded, count("Succeeded"));
      add(group.failed, count("Failed"));
      add(group.unknown_count, count("Unknown"));
    }
    return;
  }
  add(group.pending, child.pending);
  add(group.running, child.running);
  add(group.succeeded, child.succeeded);
  add(group.failed, child.failed);
  add(group.terminating, child.terminating);
  add(group.unknown_count, child.unknown_count);
}

const JobState* recorded_success(const HyperJob& hyper_job, const Observed& observed, const std::string& child) {
  for (const auto& group : hyper_job.status.replicated_jobs_status) {
    const auto found = group.job_states.find(child);
    if (found != group.job_states.end() && found->second.phase == phases::kCompleted) return &found->second;
  }
  const auto seen = observed.completed.find(child);
  return seen == observed.completed.end() ? nullptr : &seen->second;
}

struct Ends {
  std::int64_t completed = 0, failed = 0, aborted = 0, terminated = 0;
  void count(std::string_view phase) {
    completed += phase == phases::kCompleted ? 1 : 0;
    failed += phase == phases::kFailed ? 1 : 0;
    aborted += phase == phases::kAborted ? 1 : 0;
    terminated += phase == phases::kTerminated ? 1 : 0;
  }
  [[nodiscard]] std::int64_t finished() const { return completed + failed + aborted + terminated; }
};

std::optional<api::meta::Condition> terminal_condition(const Ends& ends, std::int64_t wanted) {
  // Differs: upstream calls a hyper job without any job Completed at once.
  if (wanted == 0 || ends.finished() != wanted) return std::nullopt;
  api::meta::Condition condition;
  condition.status = "True";
  if (ends.completed == wanted) {
    condition.type = api::condition_types::kCompleted;
    condition.reason = api::condition_reasons::kAllChildJobsCompleted;
    condition.message = "All " + std::to_string(wanted) + " child vcJobs completed";
  } else {
    condition.type = api::condition_types::kFailed;
    condition.reason = api::condition_reasons::kSomeChildJobsUnsuccessful;
    condition.message = "HyperJob failed: " + std::to_string(ends.completed) + " completed, " +
                        std::to_string(ends.failed) + " failed, " + std::to_string(ends.aborted) + " aborted, " +
                        std::to_string(ends.terminated) + " terminated";
  }
  return condition;
}

// Takes one child into its group.
void take_child(ReplicatedJobStatus& group, const HyperJob& hyper_job, const Observed& observed,
                const std::set<std::string_view>& created, const std::string& name) {
  const auto found = observed.jobs.find(name);
  const api::batch::Job* job = found != observed.jobs.end() && found->second->metadata.deletion_timestamp.is_zero()
                                   ? found->second.get()
                                   : nullptr;
  if (job != nullptr) add_counters(group, job->status);
  if (const JobState* success = recorded_success(hyper_job, observed, name)) {
    group.job_states.emplace(name, *success);
  } else if (job != nullptr) {
    group.job_states.emplace(name, job->status.state);
  } else if (created.contains(name)) {
    group.job_states.emplace(name, JobState());
  }
}

bool same_groups(const std::vector<ReplicatedJobStatus>& a, const std::vector<ReplicatedJobStatus>& b) {
  if (a.size() != b.size()) return false;
  std::map<std::string_view, const ReplicatedJobStatus*> by_name;
  for (const auto& group : a) by_name.emplace(group.name, &group);
  return std::all_of(b.begin(), b.end(), [&](const ReplicatedJobStatus& group) {
    const auto found = by_name.find(group.name);
    return found != by_name.end() && *found->second == group;
  });
}

template <class T>
void write_list(json::Writer& writer, std::string_view key, const std::vector<T>& values) {
  writer.key(key);
  writer.begin_array();
  for (const T& value : values) encode(writer, value);
  writer.end_array();
}

}  // namespace

HyperJobStatus aggregate_status(const HyperJob& hyper_job, const Observed& observed, const PassResult& pass,
                                api::Time now) {
  HyperJobStatus status;
  status.conditions = hyper_job.status.conditions;
  status.split_count = split_count(hyper_job.spec);
  status.observed_generation = hyper_job.metadata.generation;
  const std::set<std::string_view> created(pass.created.begin(), pass.created.end());
  Ends ends;
  std::int64_t left = kChildrenMax;  // a typing error in replicas must not cost
  for (const auto& entry : hyper_job.spec.replicated_jobs) {
    ReplicatedJobStatus& group = status.replicated_jobs_status.emplace_back();
    group.name = entry.name;
    const std::int64_t replicas = std::clamp<std::int64_t>(entry.replicas_or_default(), 0, left);
    left -= replicas;
    for (std::int64_t i = 0; i < replicas; ++i)
      take_child(group, hyper_job, observed, created, child_name(hyper_job.metadata.name, entry.name, i));
    for (const auto& [name, state] : group.job_states) ends.count(state.phase);
  }
  std::optional<api::meta::Condition> stalled;
  if (auto terminal = terminal_condition(ends, *status.split_count)) {
    api::set_condition(status.conditions, std::move(*terminal), now);
  } else {
    stalled = stalled_condition(pass.problems);
  }
  if (stalled) {
    stalled->observed_generation = hyper_job.metadata.generation;
    api::set_condition(status.conditions, std::move(*stalled), now);
  } else {
    api::remove_condition(status.conditions, kStalled);
  }
  return status;
}

std::optional<std::string> status_patch(const HyperJobStatus& before, const HyperJobStatus& after) {
  std::string text;
  json::Writer writer(text);
  writer.begin_object();
  bool differs = false;
  if (before.conditions != after.conditions) {
    differs = true;
    write_list(writer, "conditions", after.conditions);
  }
  if (!same_groups(before.replicated_jobs_status, after.replicated_jobs_status)) {
    differs = true;
    write_list(writer, "replicatedJobsStatus", after.replicated_jobs_status);
  }
  if (before.split_count != after.split_count && after.split_count) {
    differs = true;
    writer.key("splitCount");
    writer.integer(*after.split_count);
  }
  if (before.observed_generation != after.observed_generation) {
    differs = true;
    writer.key("observedGeneration");
    writer.integer(after.observed_generation);
  }
  writer.end_object();
  if (!differs) return std::nullopt;
  return text;
}

}  // namespace basalt::controllers::hyperjob
