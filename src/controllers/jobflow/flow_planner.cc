#include "controllers/jobflow/flow_planner.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/strings.h"
#include "controllers/jobflow/flow_status.h"

namespace basalt::controllers::jobflow {
namespace {

using api::batch::Job;
using api::flow::Flow;
using api::flow::JobFlow;
using api::flow::JobFlowStatus;

// A job of the flow as it counts: one that exists, or one that is gone and whose end is known.
struct CountedJob {
  std::string phase;
  std::string why;
  bool exists = true;
};
using CountedJobs = std::map<std::string, CountedJob, std::less<>>;

class Planner {
 public:
  explicit Planner(const ObservedFlow& observed) : observed_(observed), flow_(*observed.flow) {}
  FlowPlan plan();

 private:
  void take_existing();
  void take_gone();
  [[nodiscard]] std::optional<CountedJob> ended(const Flow& step) const;
  [[nodiscard]] FlowFacts facts() const;
  void fill_lists();
  void choose_removals();
  void choose_creations();
  [[nodiscard]] bool is_done(std::string_view step) const;
  [[nodiscard]] bool may_start(const Flow& step) const;
  // Whether nothing but the flow's order keeps the job of this step from being made. Says so if something does.
  [[nodiscard]] bool can_be_made(const Flow& step);

  const ObservedFlow& observed_;
  const JobFlow& flow_;
  CountedJobs counted_;
  FlowPlan plan_;
};

FlowPlan Planner::plan() {
  const FlowPhase before = parse_flow_phase(flow_.status.state.phase).value_or(FlowPhase::None);
  plan_.status = flow_.status;
  plan_.phase = before;
  // Its jobs go, and the status goes on telling what they were.
  if (before == FlowPhase::Succeed && flow_.spec.job_retain_policy == api::flow::retain_policy::kDelete) {
    choose_removals();
    return std::move(plan_);
  }
  take_existing();
  take_gone();
  fill_lists();
  plan_.phase = next_phase(before, facts());
  plan_.status.state.phase = to_string(plan_.phase);
  plan_.has_news = !(plan_.status == flow_.status);
  if (plan_.phase == FlowPhase::Pending || plan_.phase == FlowPhase::Running) choose_creations();
  return std::move(plan_);
}

void Planner::take_existing() {
  plan_.status.conditions.clear();
  for (const JobPtr& job : observed_.jobs) {
    record_job(plan_.status, *job, observed_.now);
    plan_.status.conditions.emplace(job->metadata.name, condition_of(*job));
    const auto& state = job->status.state;
    counted_[job->metadata.name] = {state.phase, state.message.empty() ? state.reason : state.message, true};
  }
}

void Planner::take_gone() {
  for (const auto& [name, job] : observed_.gone) {
    if (!counted_.contains(name)) record_job(plan_.status, *job, observed_.now);
  }
  for (const Flow& step : flow_.spec.flows) {
    if (auto job = ended(step)) counted_.try_emplace(job_name_of(flow_.metadata.name, step.name), *std::move(job));
  }
}

// What is known of the end of a step's job that does not exist any more. Nothing if the job is to be made (again).
std::optional<CountedJob> Planner::ended(const Flow& step) const {
  const std::string name = job_name_of(flow_.metadata.name, step.name);
  const auto* record = find_record(plan_.status, name);
  if (record == nullptr) return std::nullopt;
  CountedJob job{record->state, "", false};
  switch (meaning_of(record->state).fate) {
    case JobFate::Done:
      return job;
    case JobFate::Lost: {
      // Whoever deletes a lost job wants it once more. A job that deletes itself does not mean that: it would be made
      // again for ever.
      const auto known = observed_.templates.find(step.name);
      const bool is_retried = known != observed_.templates.end() && known->second.exists && !known->second.expires;
      return is_retried ? std::nullopt : std::optional(std::move(job));
    }
    case JobFate::Waiting:
    case JobFate::Started:
      break;
  }
  return std::nullopt;
}

FlowFacts Planner::facts() const {
  FlowFacts facts;
  facts.any_lost = !plan_.lost.empty();
  facts.any_started = std::ranges::any_of(counted_, [](const auto& entry) {
    const JobFate fate = meaning_of(entry.second.phase).fate;
    return fate == JobFate::Started || fate == JobFate::Done;
  });
  facts.all_done = !flow_.spec.flows.empty() &&
                   std::ranges::all_of(flow_.spec.flows, [this](const Flow& step) { return is_done(step.name); });
  return facts;
}

void Planner::fill_lists() {
  JobFlowStatus& status = plan_.status;
  std::map<JobList, std::vector<std::string>> lists;
  for (const auto& [name, job] : counted_) {
    const JobPhaseMeaning meaning = meaning_of(job.phase);
    lists[meaning.list].push_back(name);
    if (meaning.fate == JobFate::Lost) plan_.lost.push_back({name, job.phase, job.why, job.exists});
  }
  status.pending_jobs = std::move(lists[JobList::Pending]);
  status.running_jobs = std::move(lists[JobList::Running]);
  status.failed_jobs = std::move(lists[JobList::Failed]);
  status.completed_jobs = std::move(lists[JobList::Completed]);
  status.terminated_jobs = std::move(lists[JobList::Terminated]);
  status.unknown_jobs = std::move(lists[JobList::Unknown]);
}

void Planner::choose_removals() {
  for (const JobPtr& job : observed_.jobs) {
    if (job->metadata.deletion_timestamp) continue;
    if (plan_.remove.size() == kJobsAtOnceMax) {
      plan_.has_more = true;
      return;
    }
    plan_.remove.push_back(job);
  }
}

void Planner::choose_creations() {
  plan_.problems = graph_problems(flow_.spec);
  std::set<std::string_view> looked_at;
  for (const Flow& step : flow_.spec.flows) {
    if (counted_.contains(job_name_of(flow_.metadata.name, step.name)) || !may_start(step)) continue;
    if (!looked_at.insert(step.name).second || !can_be_made(step)) continue;
    if (plan_.create.size() == kJobsAtOnceMax) {
      plan_.has_more = true;
      return;
    }
    plan_.create.push_back(step.name);
  }
}

bool Planner::is_done(std::string_view step) const {
  const auto found = counted_.find(job_name_of(flow_.metadata.name, step));
  return found != counted_.end() && meaning_of(found->second.phase).fate == JobFate::Done;
}

bool Planner::may_start(const Flow& step) const {
  return !step.depends_on ||
         std::ranges::all_of(step.depends_on->targets, [this](const std::string& target) { return is_done(target); });
}

bool Planner::can_be_made(const Flow& step) {
  const std::string name = job_name_of(flow_.metadata.name, step.name);
  if (observed_.foreign.contains(name)) {
    plan_.waits_for_foreign = true;
    plan_.problems.push_back("step " + step.name + " cannot start: job " + name +
                             " exists and does not belong to this flow; delete it or rename the flow");
    return false;
  }
  const auto known = observed_.templates.find(step.name);
  if (known != observed_.templates.end() && known->second.exists) return true;
  plan_.problems.push_back("step " + step.name + " waits for JobTemplate " + step.name + ", which does not exist in " +
                           flow_.metadata.namespace_ + "; create it and the flow goes on");
  return false;
}

}  // namespace

std::string job_name_of(std::string_view flow, std::string_view step) {
  std::string name(flow);
  name.append("-").append(step);
  return name;
}

FlowPlan plan_flow(const ObservedFlow& observed) { return Planner(observed).plan(); }

std::vector<std::string> graph_problems(const api::flow::JobFlowSpec& spec) {
  std::vector<std::string> problems;
  std::unordered_map<std::string_view, std::size_t> index_of;
  for (std::size_t i = 0; i < spec.flows.size(); ++i) index_of.try_emplace(spec.flows[i].name, i);
  std::vector<std::vector<std::size_t>> followers(spec.flows.size());
  std::vector<std::size_t> waits_for(spec.flows.size(), 0);
  for (std::size_t i = 0; i < spec.flows.size(); ++i) {
    if (!spec.flows[i].depends_on) continue;
    for (const std::string& target : spec.flows[i].depends_on->targets) {
      const auto found = index_of.find(target);
      if (found == index_of.end()) {
        problems.push_back("step " + spec.flows[i].name + " can never start: its target " + base::quote(target) +
                           " is not a step of this flow");
        continue;
      }
      followers[found->second].push_back(i);
      ++waits_for[i];
    }
  }
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < waits_for.size(); ++i) {
    if (waits_for[i] == 0) ready.push_back(i);
  }
  for (std::size_t next = 0; next < ready.size(); ++next) {
    for (const std::size_t follower : followers[ready[next]]) {
      if (--waits_for[follower] == 0) ready.push_back(follower);
    }
  }
  if (ready.size() == spec.flows.size()) return problems;
  const auto stuck = std::ranges::find_if(waits_for, [](std::size_t count) { return count > 0; });
  problems.push_back("step " + spec.flows[static_cast<std::size_t>(stuck - waits_for.begin())].name +
                     " can never start: it waits for itself through its targets");
  return problems;
}

}  // namespace basalt::controllers::jobflow
