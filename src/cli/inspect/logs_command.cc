#include <algorithm>
#include <ostream>
#include <utility>

#include "api/gen/names.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/pod_logs.h"
#include "cli/inspect/inspect_commands.h"
#include "cli/run/job_progress.h"

namespace basalt::cli {
namespace {

constexpr rt::Duration kPollLogsEvery = std::chrono::milliseconds(500);

struct LogsFlags {
  std::string name;
  std::string ns;
  std::string task;
  std::string pod;
  std::string container;
  bool follow = false;
  bool previous = false;
  bool timestamps = false;
  std::int64_t tail = -1;
  api::Duration since{};
  std::int64_t pods_max = 64;
};

PodSetLogs::Options options_of(const LogsFlags& flags, const std::string& job) {
  PodSetLogs::Options options;
  options.label_selector = std::string(api::keys::kJobName) + "=" + job;
  if (!flags.task.empty()) options.label_selector += "," + std::string(api::keys::kTaskSpec) + "=" + flags.task;
  // "worker-0" is enough where the pod is called "job-worker-0".
  if (!flags.pod.empty()) options.pod = flags.pod.starts_with(job + "-") ? flags.pod : job + "-" + flags.pod;
  options.container = flags.container;
  options.strip = job + "-";
  options.pods_max = static_cast<std::size_t>(flags.pods_max);
  if (flags.tail >= 0) options.log.tail_lines = flags.tail;
  if (flags.since.value.count() > 0)
    options.log.since_seconds =
        std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::seconds>(flags.since.value).count());
  options.log.previous = flags.previous;
  options.log.shows_times = flags.timestamps;
  return options;
}

Result<int> show_logs(Session& session, const LogsFlags& flags, const api::ObjectKey& key) {
  BASALT_TRY(const auto job, get_object<api::batch::Job>(session, key));
  PodSetLogs logs(session, key.ns, options_of(flags, key.name));
  bool has_said_left_out = false;
  std::size_t lines_shown = 0;
  for (;;) {
    BASALT_TRY(const std::vector<LogLine> lines, logs.poll(!flags.follow, session.stop));
    const Terminal terminal = session.host.terminal();
    for (const LogLine& line : lines) session.out << format_log_line(terminal, line, logs.prefix_width()) << "\n";
    session.out << std::flush;
    lines_shown += lines.size();
    if (logs.pods_left_out() > 0 && !has_said_left_out) {
      has_said_left_out = true;
      session.err << "logs of " << logs.pods_left_out()
                  << " further pods are not shown; --max-pods raises the number\n";
    }
    if (!flags.follow) break;
    if (logs.all_ended()) {
      // The job may make more pods: it is over when it says so.
      auto bytes = get_object<api::batch::Job>(session, key);
      if (!bytes.ok() || is_final(bytes->object.status.state.phase)) break;
    }
    if (session.stop.wait_for(session.runtime, kPollLogsEvery)) return Error::make(Reason::Cancelled, "interrupted");
  }
  if (lines_shown > 0 || flags.follow) return kExitOk;
  if (logs.pods_seen() == 0 && !flags.pod.empty()) {
    return Error::make(Reason::NotFound, "job " + key.to_string() + " has no pod " + base::quote(flags.pod) +
                                             " now; 'basalt tree " + key.name + " -n " + key.ns + "' lists its pods");
  }
  if (logs.pods_seen() == 0) {
    session.err << "job " << key.to_string() << " has no pods" << (flags.task.empty() ? "" : " of task " + flags.task)
                << " now, its phase is "
                << (job.object.status.state.phase.empty() ? "not set yet" : job.object.status.state.phase)
                << "; 'basalt explain " << key.name << " -n " << key.ns << "' says why.\n";
  } else {
    session.err << "the pods of job " << key.to_string() << " have written nothing.\n";
  }
  return kExitOk;
}

int logs_of_job(CommandCall& call) {
  LogsFlags values;
  GoFlags flags = call.flags("Prints the logs of all pods of a job, each line with its pod's name.");
  add_name_flag(flags, values.name, "job");
  add_namespace_flag(flags, values.ns, "job");
  flags.text("task", values.task, "only pods of this task", "TASK", 't');
  flags.text("pod", values.pod, "only this pod: worker-0, or its whole name", "POD");
  flags.text("container", values.container, "only this container", "CONTAINER", 'c');
  flags.truth("follow", values.follow, "go on until the job ends", 'f');
  flags.truth("previous", values.previous, "of the containers before their last restart", 'p');
  flags.truth("timestamps", values.timestamps, "with the time of each line");
  flags.number("tail", values.tail, "only the last lines of each container; -1: all");
  flags.duration("since", values.since, "only lines younger than this");
  flags.number("max-pods", values.pods_max, "pods whose logs are shown");
  return call.run(flags, [&](Session& session) -> Result<int> {
    BASALT_TRY(const api::ObjectKey key, job_key(flags, values.name, values.ns, session));
    if (values.pods_max < 1) return Error::invalid_input("--max-pods must be at least 1");
    if (values.follow && values.previous) return Error::invalid_input("--follow and --previous exclude each other");
    return show_logs(session, values, key);
  });
}

constexpr ClientCommand kLogs{"logs", "logs of all pods of a job", &logs_of_job};

}  // namespace

const ClientCommand& logs_command() { return kLogs; }
int run_logs(Invocation& invocation) { return run_single(invocation, kLogs); }

}  // namespace basalt::cli
