#include "controllers/cronjob/cron_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "api/gen/names.h"
#include "api/owner.h"
#include "base/strings.h"
#include "kube/cron_schedule.h"

namespace basalt::controllers::cronjob {
namespace {

using api::batch::CronJob;
using api::batch::CronJobSpec;
using api::batch::Job;
namespace reasons = api::event_reasons;
namespace phases = api::batch::job_phase;

// Not in Volcano, which says nothing then; core CronJobs say it with this word.
constexpr std::string_view kMissedSchedule = "MissSchedule";

// A schedule with the zone it is meant in.
struct ZonedSchedule {
  kube::CronSchedule schedule;
  kube::TimeZone zone;
};

// An error's message is what to tell; `reason` is the event's.
Result<ZonedSchedule> read_schedule(const CronJobSpec& spec, const kube::TimeZone& default_zone,
                                    std::string_view& reason) {
  std::string_view text = spec.schedule;
  std::optional<std::string> name = spec.time_zone;
  // A zone in the schedule itself: admission refuses it, and it may be older than that.
  for (const std::string_view prefix : {"TZ=", "CRON_TZ="}) {
    if (!text.starts_with(prefix)) continue;
    const auto parts = base::split_once(text.substr(prefix.size()), ' ');
    if (!parts) break;
    name = std::string(parts->first);
    text = parts->second;
    break;
  }
  reason = reasons::kInvalidTimeZone;
  ZonedSchedule read{.schedule = {}, .zone = default_zone};
  if (name) {
    auto zone = kube::TimeZone::find(*name);
    if (!zone.ok()) return zone.error().with_context("invalid timeZone " + base::quote(*name));
    read.zone = *std::move(zone);
  }
  reason = reasons::kUnparseableSchedule;
  auto schedule = kube::CronSchedule::parse(text);
  if (!schedule.ok()) {
    Error error = schedule.error();
    error.message = "unparseable schedule for cronjob: " + spec.schedule + " (" + error.message + ")";
    return error;
  }
  read.schedule = *std::move(schedule);
  return read;
}

rt::Duration wait_until(api::Time next, rt::WallTime now) {
  const rt::Duration wait = rt::WallTime(next.to_time_point()) + kCronMargin - now;
  return std::clamp<rt::Duration>(wait, std::chrono::milliseconds(10), kCronWaitMax);
}

// One pass in the making.
struct Planner {
  const ObservedCronJob& observed;
  const CronJob& cron_job;
  CronPlan plan;
  std::string strangers;  // jobs that somebody else made in our name

  void say(kube::EventType type, std::string_view reason, std::string message, std::string once_for = {}) {
    plan.events.push_back({type, reason, std::move(message), std::move(once_for)});
  }
  void warn(std::string_view reason, std::string message, std::string once_for = {}) {
    say(kube::EventType::Warning, reason, std::move(message), std::move(once_for));
  }
  [[nodiscard]] const Job* find(std::string_view uid) const;
  [[nodiscard]] bool controls(const Job& job) const;
  [[nodiscard]] bool lists(std::string_view uid) const;
  void follow_active();
  void take_up(const Job& job, bool exists);
  void prune(bool of_success, std::optional<std::int32_t> limit);
  void schedule();
  void start(api::Time time, bool is_behind);
};

const Job* Planner::find(std::string_view uid) const {
  for (const auto* list : {&observed.jobs, &observed.gone}) {
    const auto found = std::ranges::find_if(*list, [&](const JobPtr& job) { return job->metadata.uid == uid; });
    if (found != list->end()) return found->get();
  }
  return nullptr;
}

bool Planner::controls(const Job& job) const { return api::is_controlled_by(job.metadata, cron_job.metadata.uid); }

bool Planner::lists(std::string_view uid) const {
  return std::ranges::any_of(plan.status.active, [&](const auto& entry) { return entry.uid == uid; });
}

// Of what the status says is running: what has ended or vanished leaves it.
void Planner::follow_active() {
  plan.status = cron_job.status;
  plan.status.active.clear();
  for (const auto& entry : cron_job.status.active) {
    const Job* job = find(entry.uid);
    if (job == nullptr) {
      warn(reasons::kStaleReference,
           "Active job " + base::quote(entry.name) + " no longer exists (UID: " + entry.uid + ")");
    } else if (is_finished(*job)) {
      say(kube::EventType::Normal, reasons::kSawCompletedJob,
          "Saw completed job: " + entry.name + " in active, remove");
    } else {
      plan.status.active.push_back(entry);
    }
  }
}

// What a job says of the past, whether the status does or not: a crash may have come between.
void Planner::take_up(const Job& job, bool exists) {
  if (!controls(job)) return;
  const api::Time made_for = time_made_for(job, cron_job.metadata.name);
  if (made_for <= api::Time::from(observed.now))
    plan.status.last_schedule_time = std::max(plan.status.last_schedule_time, made_for);
  const auto& state = job.status.state;
  if (state.phase == phases::kCompleted)
    plan.status.last_successful_time = std::max(plan.status.last_successful_time, state.last_transition_time);
  if (!exists || is_finished(job) || job.metadata.deletion_timestamp || lists(job.metadata.uid)) return;
  if (made_for) {
    plan.status.active.push_back(reference_to(job));
  } else {
    strangers += (strangers.empty() ? "" : ", ") + job.metadata.name;
  }
}

void Planner::prune(bool of_success, std::optional<std::int32_t> limit) {
  if (!limit) return;
  std::vector<JobPtr> ended;
  for (const JobPtr& job : observed.jobs) {
    const bool counts = controls(*job) && is_finished(*job) && !job->metadata.deletion_timestamp;
    if (counts && (job->status.state.phase == phases::kCompleted) == of_success) ended.push_back(job);
  }
  const auto kept = static_cast<std::size_t>(std::max(0, *limit));
  if (ended.size() <= kept) return;
  std::ranges::sort(ended, {}, [](const JobPtr& job) {
    const auto& meta = job->metadata;
    return std::tuple(meta.creation_timestamp.is_zero(), meta.creation_timestamp, std::string_view(meta.name));
  });
  plan.beyond_history.insert(plan.beyond_history.end(), ended.begin(), ended.end() - static_cast<std::ptrdiff_t>(kept));
}

void Planner::start(api::Time time, bool is_behind) {
  const std::string name = job_name_at(cron_job.metadata.name, time);
  const bool is_there = std::ranges::any_of(
      observed.jobs, [&](const JobPtr& job) { return controls(*job) && job->metadata.name == name; });
  if (is_there) {
    plan.status.last_schedule_time = time;
    return;
  }
  namespace policies = api::batch::concurrency_policy;
  if (!plan.status.active.empty() && cron_job.spec.concurrency_policy == policies::kForbid) {
    std::string message = "Skipping job creation because another job is already running";
    // Such a job does not go on by itself.
    for (const auto& entry : plan.status.active) {
      const Job* job = find(entry.uid);
      if (job != nullptr && job->status.state.phase == phases::kAborted)
        message += ": " + entry.name + " was aborted; resume it or delete it";
    }
    return warn(reasons::kForbidConcurrent, std::move(message), time.to_string());
  }
  if (is_behind) {
    warn(reasons::kTooManyMissedTimes,
         "too many missed start times: more than " + std::to_string(kube::CronSchedule::kMissedMax - 1) +
             "; only the latest is made up for. Set or decrease .spec.startingDeadlineSeconds or check the clocks",
         time.to_string());
  }
  if (cron_job.spec.concurrency_policy == policies::kReplace) plan.replaced = plan.status.active;
  plan.start = time;
}

void Planner::schedule() {
  const CronJobSpec& spec = cron_job.spec;
  if (spec.suspend_or_default()) return;
  if (spec.schedule.find("TZ") != std::string::npos) {
    warn(reasons::kUnsupportedSchedule,
         "the schedule names a time zone, which is not supported officially: use spec.timeZone", spec.schedule);
  }
  std::string_view reason;
  const auto read = read_schedule(spec, observed.zone, reason);
  // Only an edit can help, which is noticed, or a newer database of time zones.
  plan.look_again = kCronWaitMax;
  if (!read.ok()) return warn(reason, read.error().message, read.error().message);
  const api::Time today = api::Time::from(observed.now);
  const api::Time last = plan.status.last_schedule_time;
  const api::Time base = std::max(last ? last : cron_job.metadata.creation_timestamp, observed.edited);
  if (!read->schedule.next(base, read->zone)) {
    return warn(reasons::kInvalidSchedule,
                "Error getting schedule time: " + base::quote(spec.schedule) + " has no time within five years",
                spec.schedule);
  }
  const auto due = read->schedule.due(base, today, read->zone);
  if (due) {
    const auto deadline = spec.starting_deadline_seconds;
    const api::Time since = deadline ? std::max(base, today - std::chrono::seconds(*deadline)) : base;
    if (due->latest <= since) {
      warn(kMissedSchedule,
           "Missed scheduled time to start a job: " + due->latest.to_string() +
               " was longer ago than spec.startingDeadlineSeconds, " + std::to_string(*deadline),
           due->latest.to_string());
    } else {
      const auto missed = read->schedule.due(since, today, read->zone);
      start(due->latest, missed && missed->count >= kube::CronSchedule::kMissedMax);
    }
  }
  const auto next = read->schedule.next(due ? due->latest : base, read->zone);
  if (next) plan.look_again = wait_until(*next, observed.now);
}

}  // namespace

CronPlan plan_cron_job(const ObservedCronJob& observed) {
  Planner planner{.observed = observed, .cron_job = *observed.cron_job, .plan = {}, .strangers = {}};
  planner.follow_active();
  for (const JobPtr& job : observed.jobs) planner.take_up(*job, true);
  for (const JobPtr& job : observed.gone) planner.take_up(*job, false);
  if (!planner.strangers.empty()) {
    planner.warn(reasons::kOrphanedJob,
                 "not made by this cron job, though they name it as their controller: " + planner.strangers +
                     "; they are left alone and not counted",
                 planner.strangers);
  }
  planner.prune(true, observed.cron_job->spec.successful_jobs_history_limit);
  planner.prune(false, observed.cron_job->spec.failed_jobs_history_limit);
  planner.schedule();
  return std::move(planner.plan);
}

api::Time time_made_for(const Job& job, std::string_view cron_job) {
  const auto time = api::Time::parse(job.metadata.annotations.get(api::keys::kCronJobScheduledTimestamp));
  return time.ok() && job.metadata.name == job_name_at(cron_job, *time) ? *time : api::Time();
}

bool is_finished(const Job& job) {
  const std::string& phase = job.status.state.phase;
  return phase == phases::kCompleted || phase == phases::kFailed || phase == phases::kTerminated;
}

const api::meta::OwnerReference* cron_job_of(const Job& job) {
  const auto* owner = api::controller_of(job.metadata);
  const bool is_cron_job =
      owner != nullptr && owner->kind == CronJob::kind_info().kind && owner->api_version == kBatchApiVersion;
  return is_cron_job ? owner : nullptr;
}

std::string job_name_at(std::string_view cron_job, api::Time scheduled) {
  return std::string(cron_job) + "-" + std::to_string(scheduled.unix_seconds() / 60);
}

api::core::ObjectReference reference_to(const Job& job) {
  api::core::ObjectReference reference;
  reference.kind = Job::kind_info().kind;
  reference.api_version = kBatchApiVersion;
  reference.namespace_ = job.metadata.namespace_;
  reference.name = job.metadata.name;
  reference.uid = job.metadata.uid;
  reference.resource_version = job.metadata.resource_version;
  return reference;
}

}  // namespace basalt::controllers::cronjob
