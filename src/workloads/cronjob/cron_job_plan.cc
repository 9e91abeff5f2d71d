#include "workloads/cronjob/cron_job_plan.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/strings.h"
#include "kube/cron_schedule.h"
#include "workloads/job/job_plan.h"

namespace basalt::workloads {
namespace {

bool is_finished(const Object& job) { return is_finished_job(object_at(job.json, {"status"})); }

bool has_succeeded(const Object& job) {
  const json::Value* condition = find_condition(object_at(job.json, {"status"}), "Complete");
  return condition != nullptr && condition->string_at({"status"}) == "True";
}

// One pass in the making.
struct Planner {
  const Object& cron_job;
  const std::vector<ObjectPtr>& jobs;
  const rt::WallTime now;
  const json::Value& spec;
  CronJobPlan plan;

  void warn(std::string_view reason, std::string message) {
    plan.events.push_back({kube::EventType::Warning, std::string(reason), std::move(message)});
  }
  void tell(std::string_view reason, std::string message) {
    plan.events.push_back({kube::EventType::Normal, std::string(reason), std::move(message)});
  }
  void prune(bool of_success, std::string_view limit);
  void observe();
  void schedule();
  void start(api::Time time);
  [[nodiscard]] bool may_start();
};

void Planner::prune(bool of_success, std::string_view limit) {
  const json::Value* kept = spec.find(limit);
  if (kept == nullptr || !kept->is_int()) return;
  std::vector<ObjectPtr> ended;
  for (const ObjectPtr& job : jobs) {
    if (is_finished(*job) && !job->metadata.is_being_deleted && has_succeeded(*job) == of_success) ended.push_back(job);
  }
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, kept->as_int()));
  if (ended.size() <= count) return;
  const auto age = [](const ObjectPtr& job) {
    return std::tuple(time_at(job->json, {"status", "startTime"}), std::string_view(job->metadata.name));
  };
  std::sort(ended.begin(), ended.end(), [&](const ObjectPtr& a, const ObjectPtr& b) { return age(a) < age(b); });
  plan.beyond_history.insert(plan.beyond_history.end(), ended.begin(),
                             ended.end() - static_cast<std::ptrdiff_t>(count));
}

// status.active is what runs; what has left it since is told.
void Planner::observe() {
  json::Value& status = plan.status;
  status = object_at(cron_job.json, {"status"});
  for (const json::Value& entry : list_at(status, {"active"})) {
    const std::string_view uid = entry.string_at({"uid"});
    const std::string name(entry.string_at({"name"}));
    const auto job = std::find_if(jobs.begin(), jobs.end(), [&](const ObjectPtr& j) { return j->metadata.uid == uid; });
    if (job == jobs.end()) {
      tell("MissingJob", "Active job went missing: " + name);
    } else if (is_finished(**job)) {
      tell("SawCompletedJob",
           "Saw completed job: " + name + ", condition: " + (has_succeeded(**job) ? "Complete" : "Failed"));
    }
  }
  json::Array active;
  api::Time success = time_at(status, {"lastSuccessfulTime"});
  api::Time last = time_at(status, {"lastScheduleTime"});
  for (const ObjectPtr& job : jobs) {
    // Made before a crash, and not noted.
    if (const auto made = api::Time::parse(annotation_of(job->json, kScheduledAnnotation)); made.ok())
      last = std::max(last, *made);
    if (has_succeeded(*job)) success = std::max(success, time_at(job->json, {"status", "completionTime"}));
    if (!is_finished(*job) && !job->metadata.is_being_deleted) active.push_back(active_entry(*job));
  }
  if (active.empty()) {
    status.as_object().erase("active");
  } else {
    status.as_object().set("active", std::move(active));
  }
  if (!last.is_zero()) status.as_object().set("lastScheduleTime", last.to_string());
  if (!success.is_zero()) status.as_object().set("lastSuccessfulTime", success.to_string());
}

bool Planner::may_start() {
  const std::string_view policy = spec.string_at({"concurrencyPolicy"});
  for (const ObjectPtr& job : jobs) {
    if (is_finished(*job)) continue;
    if (policy == "Forbid") {
      tell("JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid");
      return false;
    }
    if (policy == "Replace" && !job->metadata.is_being_deleted) plan.replaced.push_back(job);
  }
  return true;
}

void Planner::start(api::Time time) {
  const std::string name = job_name_at(cron_job, time);
  for (const ObjectPtr& job : jobs) {
    if (job->metadata.name != name) continue;
    plan.status.as_object().set("lastScheduleTime", time.to_string());
    return;
  }
  if (may_start()) plan.start = time;
}

void Planner::schedule() {
  const std::string name(spec.string_at({"timeZone"}));
  const auto zone = kube::TimeZone::find(name);
  if (!zone.ok()) return warn("UnknownTimeZone", "invalid timeZone " + base::quote(name) + ": " + zone.error().message);
  if (flag_at(spec, {"suspend"})) return;
  const auto schedule = kube::CronSchedule::parse(spec.string_at({"schedule"}));
  if (!schedule.ok()) {
    return warn("UnparseableSchedule",
                "unparseable schedule " + base::quote(spec.string_at({"schedule"})) + ": " + schedule.error().message);
  }
  const api::Time today = api::Time::from(std::chrono::floor<std::chrono::seconds>(now));
  const api::Time last = time_at(plan.status, {"lastScheduleTime"});
  const api::Time base = last.is_zero() ? cron_job.metadata.creation : last;
  const json::Value* deadline = spec.find("startingDeadlineSeconds");
  const bool has_deadline = deadline != nullptr && deadline->is_int();
  api::Time since = base;
  if (has_deadline) since = std::max(since, today - std::chrono::seconds(deadline->as_int() + 1));
  // Times of @every count from the last; what the deadline leaves out is not counted as missed.
  auto due = schedule->due(base, today, *zone);
  if (due && due->latest <= since) {
    warn("MissSchedule", "Missed scheduled time to start a job: " + due->latest.to_string());
  } else if (due) {
    const auto missed = schedule->due(since, today, *zone);
    if (missed && missed->count >= kube::CronSchedule::kMissedMax) {
      warn("TooManyMissedTimes", "too many missed start times: more than 100 since " + since.to_string() +
                                     ". Set or decrease .spec.startingDeadlineSeconds or check clock skew");
    }
    start(due->latest);
  }
  const auto next = schedule->next(due ? due->latest : base, *zone);
  if (!next) return;
  const rt::Duration wait = rt::WallTime(next->to_time_point()) - now;
  plan.look_again = std::clamp<rt::Duration>(wait, std::chrono::milliseconds(10), kCronWaitMax);
}

}  // namespace

CronJobPlan plan_cron_job(const Object& cron_job, const std::vector<ObjectPtr>& jobs, rt::WallTime now) {
  Planner planner{
      .cron_job = cron_job, .jobs = jobs, .now = now, .spec = object_at(cron_job.json, {"spec"}), .plan = {}};
  planner.observe();
  if (cron_job.metadata.is_being_deleted) return std::move(planner.plan);
  planner.prune(true, "successfulJobsHistoryLimit");
  planner.prune(false, "failedJobsHistoryLimit");
  planner.schedule();
  return std::move(planner.plan);
}

std::string job_name_at(const Object& cron_job, api::Time scheduled) {
  return cron_job.metadata.name + "-" + std::to_string(scheduled.unix_seconds() / 60);
}

json::Value job_of_template(const Object& cron_job, api::Time scheduled) {
  const json::Value& pattern = object_at(cron_job.json, {"spec", "jobTemplate"});
  json::Object metadata{{"name", job_name_at(cron_job, scheduled)},
                        {"namespace", cron_job.metadata.namespace_},
                        {"ownerReferences", json::Array{controller_reference(kCronJobKind, cron_job)}}};
  for (const std::string_view part : {"labels", "annotations", "finalizers"}) {
    if (const json::Value* value = pattern.find_path({"metadata", part})) metadata.set(part, *value);
  }
  json::Value job = json::Object{{"apiVersion", kJobKind.api_version},
                                 {"kind", kJobKind.kind},
                                 {"metadata", std::move(metadata)},
                                 {"spec", object_at(pattern, {"spec"})}};
  const auto zone = kube::TimeZone::find(std::string(cron_job.json.string_at({"spec", "timeZone"})));
  job.ensure_path({"metadata", "annotations", kScheduledAnnotation}) =
      zone.ok() ? zone->format(scheduled) : scheduled.to_string();
  return job;
}

json::Value active_entry(const Object& job) {
  return json::Object{{"apiVersion", kJobKind.api_version},
                      {"kind", kJobKind.kind},
                      {"namespace", job.metadata.namespace_},
                      {"name", job.metadata.name},
                      {"uid", job.metadata.uid}};
}

json::Value status_with(json::Value status, api::Time scheduled, const Object& job) {
  status.as_object().set("lastScheduleTime", scheduled.to_string());
  if (is_finished(job)) return status;
  json::Value& active = status.ensure_path({"active"});
  if (!active.is_array()) active = json::Array();
  active.as_array().push_back(active_entry(job));
  return status;
}

}  // namespace basalt::workloads
