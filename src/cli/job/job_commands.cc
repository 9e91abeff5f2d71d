#include "cli/job/job_commands.h"

#include <array>
#include <ostream>

#include "api/gen/bus.h"
#include "api/gen/names.h"
#include "cli/cli.h"
#include "cli/client/output.h"
#include "cli/job/job_actions.h"

namespace basalt::cli {
namespace {

Error blank_name(std::string_view message) { return Error::make(Reason::BadRequest, std::string(message)); }

// The letters differ: `vcctl job` has -n for the namespace and -N for the name, the stand-alone names the reverse.
enum class Letters : std::uint8_t { Vcctl, StandAlone };

struct JobName {
  std::string ns;
  std::string name;
  [[nodiscard]] api::ObjectKey key(const Session& session) const { return {ns.empty() ? session.ns : ns, name}; }
};

void add_job_flags(GoFlags& flags, JobName& job, Letters letters) {
  flags.text("name", job.name, "name of the job", "NAME", letters == Letters::Vcctl ? 'N' : 'n');
  flags.text("namespace", job.ns, "namespace of the job; that of the context if absent", "NAMESPACE",
             letters == Letters::Vcctl ? 'n' : 'N');
  flags.positional("[NAME]");
}

void add_run_flags(GoFlags& flags, JobFromFlags& job, Letters letters) {
  flags.text("name", job.name, "name of the job", "NAME", letters == Letters::Vcctl ? 'N' : 'n');
  flags.text("namespace", job.ns, "namespace of the job; that of the context if absent", "NAMESPACE",
             letters == Letters::Vcctl ? 'n' : 'N');
  flags.text("image", job.image, "image of the container", "IMAGE", 'i');
  flags.number("min", job.min, "pods that must start together", 'm');
  flags.number("replicas", job.replicas, "pods of the job", 'r');
  flags.text("requests", job.requests, "resources that each pod requests", "LIST", 'R');
  flags.text("limits", job.limits, "resources that each pod is limited to", "LIST", 'L');
  flags.text("scheduler", job.scheduler, "scheduler of the pods", "NAME", 'S');
}

int job_run(CommandCall& call) {
  JobFromFlags job;
  GoFlags flags = call.flags("Creates a job from flags or from a YAML file.");
  add_run_flags(flags, job, Letters::Vcctl);
  flags.text("filename", job.file, "YAML file of the job; the other flags are then without effect", "FILE", 'f');
  flags.footer("'basalt run -f FILE' creates a job and follows it to its end.");
  return call.run(flags, [&](Session& session) -> Result<int> {
    job.ns_was_given = flags.was_given("namespace");
    return run_job_from_flags(session, job);
  });
}

int job_list(CommandCall& call) {
  JobFilter filter;
  GoFlags flags = call.flags("Lists jobs.");
  flags.text("namespace", filter.ns, "namespace of the jobs; that of the context if absent", "NAMESPACE", 'n');
  flags.truth("all-namespaces", filter.all_namespaces, "jobs of all namespaces");
  flags.text("queue", filter.queue, "only jobs of this queue", "QUEUE", 'q');
  flags.text("scheduler", filter.scheduler, "only jobs of this scheduler", "NAME", 'S');
  flags.text("selector", filter.selector, "only jobs with this text in their name", "TEXT");
  flags.text("phase", filter.phase, "only jobs in this phase", "PHASE");
  flags.text("for-jobflow", filter.flow, "only jobs of this JobFlow", "NAME");
  flags.text("labels", filter.labels, "only jobs that this label selector selects", "SELECTOR", 'l');
  add_output_flag(flags, filter.output);
  return call.run(flags, [&](Session& session) { return list_jobs(session, filter); });
}

int view(CommandCall& call, Letters letters) {
  JobName job;
  ViewOptions options;
  GoFlags flags = call.flags("Shows one job with its events.");
  add_job_flags(flags, job, letters);
  add_output_flag(flags, options.output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, job.name);
    if (job.name.empty())
      return blank_name("job name (specified by --name or -N) is mandatory to view a particular job");
    return view_job(session, job.key(session), options);
  });
}

int job_view(CommandCall& call) { return view(call, Letters::Vcctl); }

int suspend_or_resume(CommandCall& call, Letters letters, bool resumes) {
  JobName job;
  GoFlags flags = call.flags(resumes ? "Starts a suspended job again."
                                     : "Suspends a job: its pods are deleted, it can be resumed.");
  add_job_flags(flags, job, letters);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, job.name);
    if (job.name.empty())
      return blank_name(resumes ? "job name is mandatory to resume a particular job"
                                : "job name is mandatory to suspend a particular job");
    return command_job(session, job.key(session), resumes ? api::bus::action::kResumeJob : api::bus::action::kAbortJob);
  });
}

int job_suspend(CommandCall& call) { return suspend_or_resume(call, Letters::Vcctl, false); }
int job_resume(CommandCall& call) { return suspend_or_resume(call, Letters::Vcctl, true); }

int remove_job(CommandCall& call, Letters letters, std::string_view verb) {
  JobName job;
  GoFlags flags = call.flags("Deletes a job with its pods.");
  add_job_flags(flags, job, letters);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, job.name);
    if (job.name.empty()) return blank_name("job name is mandatory to " + std::string(verb) + " a particular job");
    return delete_job(session, job.key(session), verb);
  });
}

int job_delete(CommandCall& call) { return remove_job(call, Letters::Vcctl, "delete"); }

int vsub(CommandCall& call) {
  JobFromFlags job;
  std::string command;
  Host& host = call.host();
  if (const auto image = host.variable(api::env::kDefaultImage); image && !image->empty()) job.image = *image;
  if (const auto name = host.variable(api::env::kDefaultSchedulerName); name && !name->empty()) job.scheduler = *name;
  const std::string ns = host.variable(api::env::kDefaultJobNamespace).value_or("");
  GoFlags flags = call.flags("Creates a job from flags.");
  add_run_flags(flags, job, Letters::StandAlone);
  flags.text("command", command, "command of the container, split as a shell does", "COMMAND", 'c');
  return call.run(flags, [&](Session& session) -> Result<int> {
    if (!flags.was_given("namespace")) job.ns = ns.empty() ? session.ns : ns;
    job.ns_was_given = true;
    take_name_from_words(flags, job.name);
    BASALT_TRY(job.command, split_command(command));
    return run_job_from_flags(session, job);
  });
}

int vjobs(CommandCall& call) {
  JobName job;
  JobFilter filter;
  filter.header_without_rows = true;
  GoFlags flags = call.flags("Shows one job, or lists the jobs of a namespace.");
  add_job_flags(flags, job, Letters::StandAlone);
  flags.text("scheduler", filter.scheduler, "only jobs of this scheduler", "NAME", 'S');
  flags.truth("all-namespaces", filter.all_namespaces, "jobs of all namespaces");
  flags.text("selector", filter.selector, "only jobs with this text in their name", "TEXT");
  add_output_flag(flags, filter.output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, job.name);
    if (!job.name.empty())
      return view_job(session, job.key(session), {.output = filter.output, .with_conditions = false});
    filter.ns = job.ns;
    return list_jobs(session, filter);
  });
}

int vcancel(CommandCall& call) { return remove_job(call, Letters::StandAlone, "cancel"); }
int vsuspend(CommandCall& call) { return suspend_or_resume(call, Letters::StandAlone, false); }
int vresume(CommandCall& call) { return suspend_or_resume(call, Letters::StandAlone, true); }

constexpr std::array kJobCommands = {
    ClientCommand{"delete", "delete a job with its pods", &job_delete},
    ClientCommand{"list", "list jobs", &job_list},
    ClientCommand{"resume", "start a suspended job again", &job_resume},
    ClientCommand{"run", "create a job from flags or a file", &job_run},
    ClientCommand{"suspend", "suspend a job; it can be resumed", &job_suspend},
    ClientCommand{"view", "show one job with its events", &job_view},
};
constexpr CommandGroup kJobGroup{"job", "Jobs: create, list, view, suspend, resume, delete.", kJobCommands};

constexpr std::array kStandAlone = {
    ClientCommand{"vsub", "create a job from flags", &vsub},
    ClientCommand{"vjobs", "show one job or list jobs", &vjobs},
    ClientCommand{"vcancel", "delete a job", &vcancel},
    ClientCommand{"vsuspend", "suspend a job", &vsuspend},
    ClientCommand{"vresume", "resume a job", &vresume},
};

}  // namespace

const CommandGroup& job_group() { return kJobGroup; }
std::span<const ClientCommand> stand_alone_job_commands() { return kStandAlone; }

int run_job(Invocation& invocation) { return run_group(invocation, kJobGroup); }
int run_vsub(Invocation& invocation) { return run_single(invocation, kStandAlone[0]); }
int run_vjobs(Invocation& invocation) { return run_single(invocation, kStandAlone[1]); }
int run_vcancel(Invocation& invocation) { return run_single(invocation, kStandAlone[2]); }
int run_vsuspend(Invocation& invocation) { return run_single(invocation, kStandAlone[3]); }
int run_vresume(Invocation& invocation) { return run_single(invocation, kStandAlone[4]); }

}  // namespace basalt::cli
