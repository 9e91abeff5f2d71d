#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>

#include "base/strings.h"
#include "cli/cli.h"
#include "cli/inspect/inspect_commands.h"
#include "cli/run/job_follower.h"
#include "cli/run/job_progress.h"
#include "cli/run/run_commands.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kJobsMax = 100;
constexpr rt::Duration kTick = std::chrono::milliseconds(200);
constexpr rt::Duration kSlice = std::chrono::milliseconds(20);

struct WaitFlags {
  std::vector<std::string> names;
  std::string ns;
  std::string for_what = "done";
  api::Duration timeout{};
};

// What a job has to be for the wait to be over.
struct Goal {
  bool is_deleted = false;
  std::string phase;  // "" = any final one
};

Result<Goal> parse_goal(std::string_view text) {
  if (text == "done" || text.empty()) return Goal{};
  if (text == "delete" || text == "deleted") return Goal{.is_deleted = true};
  const std::string_view phase = base::strip_prefix(text, "phase=").value_or(text);
  namespace job_phase = api::batch::job_phase;
  constexpr std::string_view kPhases[] = {job_phase::kPending,   job_phase::kAborting,    job_phase::kAborted,
                                          job_phase::kRunning,   job_phase::kRestarting,  job_phase::kCompleting,
                                          job_phase::kCompleted, job_phase::kTerminating, job_phase::kTerminated,
                                          job_phase::kFailed};
  for (const std::string_view known : kPhases) {
    if (base::to_lower_ascii(known) == base::to_lower_ascii(phase)) return Goal{.phase = std::string(known)};
  }
  return Error::invalid_input("--for takes done, deleted or the phase of a job, not \"" + std::string(text) + "\"" +
                              base::did_you_mean(phase, kPhases));
}

// The exit code once the job is where it should be, or where it can no longer come from; nothing while it may.
std::optional<int> outcome_of(const JobFollower& job, const Goal& goal) {
  if (goal.is_deleted) {
    if (job.is_deleted()) return kExitOk;
    return std::nullopt;
  }
  const std::string phase = job.progress().phase;
  if (!goal.phase.empty() && phase == goal.phase) return kExitOk;
  if (!job.has_ended()) return std::nullopt;
  if (goal.phase.empty()) return job.exit_code();
  return std::max(job.exit_code(), kExitFailed);
}

Result<int> wait_for_jobs(Session& session, const WaitFlags& flags, const Goal& goal) {
  std::vector<std::unique_ptr<JobFollower>> jobs;
  for (const std::string& name : flags.names) {
    const api::ObjectKey key{flags.ns.empty() ? session.ns : flags.ns, name};
    const auto job = get_object<api::batch::Job>(session, key);
    if (!job.ok()) {
      if (goal.is_deleted && job.error().is(Reason::NotFound)) continue;
      return job.error();
    }
    jobs.push_back(std::make_unique<JobFollower>(session, key, job->object.metadata.uid));
  }
  const rt::Instant deadline =
      flags.timeout.value.count() > 0 ? rt::saturating_add(session.runtime.now(), flags.timeout.value) : rt::kNever;
  int exit = kExitOk;
  while (!jobs.empty()) {
    const rt::Duration slice = jobs.size() == 1 ? kTick : kSlice;
    for (auto& job : jobs) {
      const rt::Instant until = std::min(deadline, rt::saturating_add(session.runtime.now(), slice));
      BASALT_TRY_DONE(job->poll(until, session.stop));
    }
    std::erase_if(jobs, [&](const auto& job) {
      const std::optional<int> outcome = outcome_of(*job, goal);
      if (!outcome) return false;
      session.out << plain_line(job->progress()) << "\n" << std::flush;
      if (exit == kExitOk) exit = *outcome;
      return true;
    });
    if (!jobs.empty() && session.runtime.now() >= deadline) {
      for (const auto& job : jobs)
        session.err << "the time is over: " << plain_line(job->progress()) << "; 'basalt explain " << job->key().name
                    << " -n " << job->key().ns << "' says why it waits\n";
      return kExitTimeout;
    }
  }
  return exit;
}

Done take_names(const GoFlags& flags, WaitFlags& values) {
  values.names.insert(values.names.end(), flags.words().begin(), flags.words().end());
  for (std::string& name : values.names) {
    for (const std::string_view prefix : {"job/", "jobs/", "vcjob/", "vj/"}) {
      if (name.starts_with(prefix)) name.erase(0, prefix.size());
    }
  }
  if (values.names.size() > kJobsMax) return Error::invalid_input("at most 100 jobs can be followed at once");
  if (values.timeout.value.count() < 0) return Error::invalid_input("--timeout takes no negative value");
  return Ok{};
}

int wait_from_flags(CommandCall& call) {
  WaitFlags values;
  GoFlags flags = call.flags("Waits until jobs end, are deleted or reach a phase.");
  flags.positional("NAME...");
  flags.repeated("name", values.names, "name of the job; may be repeated", "NAME", 'N');
  add_namespace_flag(flags, values.ns, "jobs");
  flags.text("for", values.for_what, "done, deleted, or a phase such as phase=Running", "WHAT");
  flags.duration("timeout", values.timeout, "wait for at most this long");
  flags.footer(
      "Exit codes: 0 it came to that (with --for=done: all Completed), 1 Failed, 3 Terminated, 4 Aborted, 5 deleted,\n"
      "124 timeout. Of several jobs the first that did not counts.\n");
  return call.run(flags, [&](Session& session) -> Result<int> {
    BASALT_TRY_DONE(take_names(flags, values));
    if (values.names.empty()) return Error::invalid_input(std::string(kNoName) + ": " + call.program() + " NAME");
    BASALT_TRY(const Goal goal, parse_goal(values.for_what));
    return wait_for_jobs(session, values, goal);
  });
}

int watch_from_flags(CommandCall& call) {
  WaitFlags values;
  bool no_logs = false;
  std::int64_t log_pods = 32;
  GoFlags flags = call.flags("Follows jobs to their end, with their logs; without names all that have not ended.");
  flags.positional("[NAME...]");
  flags.repeated("name", values.names, "name of the job; may be repeated", "NAME", 'N');
  add_namespace_flag(flags, values.ns, "jobs");
  flags.truth("no-logs", no_logs, "do not show the pods' logs");
  flags.number("max-log-pods", log_pods, "pods of a job whose logs are shown");
  flags.duration("timeout", values.timeout, "follow for at most this long; the jobs go on");
  flags.footer("Exit codes as those of 'basalt run'.\n");
  return call.run(flags, [&](Session& session) -> Result<int> {
    BASALT_TRY_DONE(take_names(flags, values));
    if (log_pods < 0) return Error::invalid_input("--max-log-pods takes no negative value");
    const std::string ns = values.ns.empty() ? session.ns : values.ns;
    std::vector<FollowedJob> jobs;
    for (const std::string& name : values.names) {
      BASALT_TRY(const auto job, get_object<api::batch::Job>(session, {ns, name}));
      jobs.push_back({ns, name, job.object.metadata.uid});
    }
    if (values.names.empty()) {
      BASALT_TRY(const auto all, list_objects<api::batch::Job>(session, {.ns = ns}));
      for (const auto& [job, bytes] : all) {
        if (!is_final(job.status.state.phase) && jobs.size() < kJobsMax)
          jobs.push_back({ns, job.metadata.name, job.metadata.uid});
      }
      if (jobs.empty()) {
        session.out << "no job of namespace " << ns << " is under way\n";
        return kExitOk;
      }
    }
    return follow_jobs(
        session, jobs,
        {.logs = !no_logs, .timeout = values.timeout, .log_pods_max = static_cast<std::size_t>(log_pods)});
  });
}

constexpr ClientCommand kWait{"wait", "wait until jobs end or reach a phase", &wait_from_flags};
constexpr ClientCommand kWatch{"watch", "follow jobs to their end, with logs", &watch_from_flags};

}  // namespace

const ClientCommand& wait_command() { return kWait; }
const ClientCommand& watch_command() { return kWatch; }
int run_wait(Invocation& invocation) { return run_single(invocation, kWait); }
int run_watch(Invocation& invocation) { return run_single(invocation, kWatch); }

}  // namespace basalt::cli
