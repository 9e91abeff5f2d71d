#include "controllers/job/planner.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/strings.h"
#include "controllers/job/planner_impl.h"
#include "controllers/job/status_builder.h"

namespace basalt::controllers::job {

using api::batch::Job;
using api::batch::JobStatus;

JobPlan Planner::run() {
  if (!job_.metadata.deletion_timestamp.is_zero()) return std::move(plan_);
  completed_ = completed_records(job_);
  floor_ = base::parse_int64(job_.status.controlled_resources.get(records::kFloor)).value_or(0);
  if (job_.status.state.phase.empty()) {
    begin();
    return std::move(plan_);
  }
  learn_completed();
  choose();
  switch (step_.kind) {
    case Step::Kind::Sync:
      sync();
      break;
    case Step::Kind::Kill:
      kill();
      break;
    case Step::Kind::KillTarget:
      kill_target();
      break;
  }
  return std::move(plan_);
}

void Planner::begin() {
  JobStatus status = job_.status;
  status.min_available = job_.spec.min_available;
  enter_phase(status, job_, Phase::Pending, time_.wall, "", "");
  // Claims, plugin objects and pod group need no second look at the caches.
  static_cast<void>(initiate());
  plan_.job_patch.clear();
  if (!waiting_) wait_for_group();
  state_waiting(status);
  write(std::move(status));
}

void Planner::learn_completed() {
  if (is_terminal(phase_)) return;
  for (const ObservedPod& pod : observed_.pods) {
    if (pod.phase != PodPhase::Succeeded || !is_wanted(pod) || pod.is_marked || is_restarted(pod)) continue;
    CompletedIndexes& known = completed_[static_cast<std::size_t>(pod.task)];
    if (!known.contains(pod.index)) {
      has_learned_ = true;
      is_witness_ |= pod.is_terminating;
    }
    known.add(pod.index, pod.version);
  }
  for (const VanishedPod& gone : observed_.memory.vanished) {
    if (!gone.succeeded || gone.is_marked) continue;
    for (std::size_t t = 0; t < job_.spec.tasks.size(); ++t) {
      if (job_.spec.tasks[t].name != gone.task || gone.index >= job_.spec.tasks[t].replicas) continue;
      if (gone.version < floor_) continue;
      if (!completed_[t].contains(gone.index)) has_learned_ = is_witness_ = true;
      completed_[t].add(gone.index, gone.version);
    }
  }
}

bool Planner::is_wanted(const ObservedPod& pod) const {
  return pod.task >= 0 && pod.index >= 0 && pod.index < job_.spec.tasks[static_cast<std::size_t>(pod.task)].replicas;
}

std::string_view Planner::restart_record() const {
  return phase_ == Phase::Restarting ? job_.status.controlled_resources.get(records::kRestart) : std::string_view();
}

// Without a record the restart is Volcano's, which had asked for all deletions before it wrote the new version: what
// seems to live on is a cache that is behind, or a deletion that was lost.
bool Planner::restart_unfinished() const {
  if (phase_ != Phase::Restarting) return false;
  const std::string_view record = restart_record();
  return record.empty() || record.starts_with("unfinished ");
}

std::string_view Planner::restarted_group() const {
  const auto parts = base::split_once(restart_record(), ' ');
  return parts ? parts->second : std::string_view();
}

bool Planner::is_restarted(const ObservedPod& pod) const {
  return pod.version < floor_ || (pod.version < job_.status.version && restart_unfinished() && !pod.is_finished());
}

JobStatus Planner::counted() const { return count_pods(job_, observed_.pods, completed_, going_, is_terminal(phase_)); }

void Planner::go(const ObservedPod& pod) {
  if (pod.is_terminating) return;
  if (going_.insert(pod.name).second) plan_.deletes.push_back({pod.name, pod.uid});
}

void Planner::wait(std::string_view reason, std::string message, std::string_view event_reason) {
  if (!waiting_) waiting_ = Waiting{reason, base::ellipsize(message, 1000), event_reason};
}

void Planner::wake(std::optional<rt::Duration> after) {
  if (after) plan_.wake_after = plan_.wake_after ? std::min(*plan_.wake_after, *after) : *after;
}

void Planner::tell(kube::EventType type, std::string_view reason, std::string message) {
  plan_.events.push_back({type, std::string(reason), std::move(message)});
}

namespace waiting {
bool is_one(std::string_view reason) {
  for (const std::string_view known : {kQueueNotFound, kQueueNotOpen, kPodGroupPending, kDependencyNotReady,
                                       kClaimNotFound, kClaimError, kPodCreateFailed, kPluginError, kPodGroupError}) {
    if (reason == known) return true;
  }
  return false;
}
}  // namespace waiting

std::string generated_claim_name(const Job& job, std::size_t volume) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  const auto digest = base::sha256(job.metadata.uid + "/" + std::to_string(volume));
  std::string name = job.metadata.name + "-pvc-";
  for (std::size_t i = 0; i < 12; ++i) name.push_back(kLetters[digest[i] % kLetters.size()]);
  return name;
}

std::string plugins_hash_of(const Job& job, const PluginSet& plugins) {
  base::Sha256 hash;
  for (const auto& plugin : plugins.all()) {
    hash.update(plugin->name());
    for (const PluginObject& object : plugin->objects(job)) hash.update(object.name).update(object.object.to_text());
  }
  const auto digest = hash.finish();
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) {
    text.push_back(kHex[digest[i] >> 4]);
    text.push_back(kHex[digest[i] & 15]);
  }
  return text;
}

JobPlan plan_job(const ObservedJob& observed, const PlanInputs& inputs, const PlanTime& time,
                 const PlanOptions& options) {
  return Planner(observed, inputs, time, options).run();
}

}  // namespace basalt::controllers::job
