#include <algorithm>
#include <memory>
#include <ostream>
#include <utility>

#include "api/gen/batch_job.h"
#include "api/gen/names.h"
#include "cli/run/display.h"
#include "cli/run/job_failures.h"
#include "cli/run/job_follower.h"
#include "cli/run/run_commands.h"

namespace basalt::cli {
namespace {

constexpr rt::Duration kTick = std::chrono::milliseconds(100);
constexpr rt::Duration kWatchSlice = std::chrono::milliseconds(20);  // of a tick, for each job
constexpr rt::Duration kLogsEvery = std::chrono::milliseconds(500);
constexpr rt::Duration kFailuresEvery = std::chrono::seconds(1);
// With more pods than this the end of one's log is far above by the time the job ends.
constexpr std::int64_t kFewPods = 4;

class Following {
 public:
  Following(Session& session, const std::vector<FollowedJob>& jobs, const FollowOptions& options)
      : session_(session), options_(options), display_(session.host, session.out) {
    for (const FollowedJob& job : jobs) {
      followers_.push_back(std::make_unique<JobFollower>(session, api::ObjectKey{job.ns, job.name}, job.uid));
      failures_.push_back(std::make_unique<JobFailures>(session, api::ObjectKey{job.ns, job.name}));
      if (!options.logs) continue;
      PodSetLogs::Options logs;
      logs.label_selector = std::string(api::keys::kJobName) + "=" + job.name;
      logs.pods_max = options.log_pods_max;
      if (jobs.size() == 1) logs.strip = job.name + "-";
      logs_.push_back(std::make_unique<PodSetLogs>(session, job.ns, std::move(logs)));
    }
  }

  Result<int> run() {
    rt::Instant deadline = options_.deadline;
    if (deadline == rt::kNever && options_.timeout.value.count() > 0)
      deadline = rt::saturating_add(session_.runtime.now(), options_.timeout.value);
    rt::Instant next_logs = session_.runtime.now();
    next_failures_ = rt::saturating_add(session_.runtime.now(), kFailuresEvery);
    std::size_t changes_shown = 0;
    while (!all_ended()) {
      Done looked = look();
      if (!looked.ok()) {
        if (!session_.stop.stop_requested()) return std::move(looked).error();
        BASALT_TRY(const std::optional<int> exit, deal_with_interrupt());
        if (exit) return *exit;
        continue;
      }
      if (all_ended()) break;  // what the pods wrote comes before the last word
      display_.update(progress());
      if (session_.runtime.now() >= deadline) return give_up();
      // Pods of a job that changed may be about to go, and their logs with them.
      const std::size_t changes = changes_seen();
      if (session_.runtime.now() < next_logs && changes == changes_shown) continue;
      changes_shown = changes;
      next_logs = rt::saturating_add(session_.runtime.now(), kLogsEvery);
      show_logs(false);
      show_troubles();
    }
    show_logs(true);
    display_.finish(progress());
    show_failures();
    for (const auto& follower : followers_) {
      if (follower->exit_code() != 0) return follower->exit_code();
    }
    return kExitJobCompleted;
  }

 private:
  bool all_ended() const {
    return std::all_of(followers_.begin(), followers_.end(), [](const auto& job) { return job->has_ended(); });
  }

  std::size_t changes_seen() const {
    std::size_t sum = 0;
    for (const auto& follower : followers_) sum += follower->changes();
    return sum;
  }

  // One tick: a single job waits in its watch, so that what happens is seen at once.
  Done look() {
    const rt::Instant tick = rt::saturating_add(session_.runtime.now(), kTick);
    for (const auto& follower : followers_) {
      const rt::Instant slice = rt::saturating_add(session_.runtime.now(), kWatchSlice);
      BASALT_TRY_DONE(follower->poll(followers_.size() == 1 ? tick : slice, session_.stop));
    }
    if (followers_.size() > 1 && session_.stop.wait_until(session_.runtime, tick))
      return Error::make(Reason::Cancelled, "interrupted");
    return Ok{};
  }

  std::vector<JobProgress> progress() const {
    std::vector<JobProgress> all;
    for (const auto& follower : followers_) all.push_back(follower->progress());
    return all;
  }

  void show_logs(bool is_over) {
    std::size_t width = 0;
    for (const auto& logs : logs_) width = std::max(width, logs->prefix_width());
    for (const auto& logs : logs_) {
      // Logs that cannot be read now are read at the next tick; at the end the outcome counts for more.
      const auto lines = logs->poll(is_over, session_.stop);
      if (!lines.ok()) continue;
      display_.log_lines(*lines, std::max(width, logs->prefix_width()));
      if (logs->pods_left_out() > 0 && !has_said_left_out_) {
        has_said_left_out_ = true;
        display_.note("logs of " + std::to_string(logs->pods_left_out()) +
                      " further pods are not shown; --max-log-pods raises the number");
      }
    }
  }

  // Pods that keep failing in a job that counts as Running or Pending.
  void show_troubles() {
    if (session_.runtime.now() < next_failures_) return;
    next_failures_ = rt::saturating_add(session_.runtime.now(), kFailuresEvery);
    for (std::size_t i = 0; i < followers_.size(); ++i) {
      if (followers_[i]->has_ended()) continue;
      for (const std::string& sentence : failures_[i]->look(followers_[i]->uid(), session_.stop))
        display_.note(sentence);
    }
  }

  // Why the jobs that did not complete did not.
  void show_failures() {
    for (std::size_t i = 0; i < followers_.size(); ++i) {
      if (followers_[i]->exit_code() == kExitJobCompleted) continue;
      std::int64_t pods = 0;
      for (const TaskProgress& task : followers_[i]->progress().tasks) pods += task.replicas;
      const bool with_logs = !options_.logs || pods > kFewPods;
      for (const std::string& line : failures_[i]->report(followers_[i]->uid(), with_logs, session_.stop))
        display_.note(line);
    }
  }

  std::string how_to_follow(const JobFollower& job) const {
    return "basalt watch " + job.key().name + " -n " + job.key().ns;
  }

  void say_left() {
    if (session_.is_local) return;  // nothing is left
    for (const auto& follower : followers_) {
      if (!follower->has_ended())
        display_.note("job " + follower->key().to_string() + " goes on; follow it with: " + how_to_follow(*follower));
    }
  }

  int give_up() {
    show_logs(false);
    display_.clear();
    display_.note("the time of " + options_.timeout.to_string() + " is over");
    say_left();
    return kExitTimeout;
  }

  // Ctrl-C. The exit code if the command is over by that.
  Result<std::optional<int>> deal_with_interrupt() {
    display_.clear();
    const Terminal terminal = session_.host.terminal();
    if (!terminal.out_is_terminal || !terminal.in_is_terminal) {
      say_left();
      return std::optional(kExitInterrupted);
    }
    const bool may_delete = options_.may_delete && !session_.is_local;
    session_.out << (session_.is_local ? "The cluster ends with this command. Stop (s) or go on watching (w)? [s] "
                     : may_delete      ? "Leave the job running (l), delete it (d) or go on watching (w)? [l] "
                                       : "Stop watching (s) or go on (w)? [s] ")
                 << std::flush;
    const std::string answer = session_.host.read_answer().value_or("l");
    session_.host.interrupts().rearm();
    session_.stop = session_.host.interrupts().token();
    if (answer.starts_with('w') || answer.starts_with('W')) return std::optional<int>();
    if (may_delete && (answer.starts_with('d') || answer.starts_with('D'))) {
      for (const auto& follower : followers_) {
        BASALT_TRY_DONE(kube::delete_object(session_.client, kube::resource_of<api::batch::Job>(), follower->key(),
                                            {.uid = follower->uid(), .propagation = kube::Propagation::Background},
                                            session_.stop));
        display_.note("job " + follower->key().to_string() + " deleted");
      }
      return std::optional(kExitInterrupted);
    }
    say_left();
    return std::optional(kExitInterrupted);
  }

  Session& session_;
  const FollowOptions& options_;
  Display display_;
  std::vector<std::unique_ptr<JobFollower>> followers_;
  std::vector<std::unique_ptr<PodSetLogs>> logs_;
  std::vector<std::unique_ptr<JobFailures>> failures_;  // one for each follower
  rt::Instant next_failures_{};
  bool has_said_left_out_ = false;
};

}  // namespace

Result<int> follow_jobs(Session& session, const std::vector<FollowedJob>& jobs, const FollowOptions& options) {
  return Following(session, jobs, options).run();
}

}  // namespace basalt::cli
