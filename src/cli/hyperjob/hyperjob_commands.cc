#include "cli/hyperjob/hyperjob_commands.h"

#include <array>

#include "cli/client/output.h"
#include "cli/hyperjob/hyperjob_actions.h"

namespace basalt::cli {
namespace {

int hyper_job_list(CommandCall& call) {
  HyperJobList list;
  GoFlags flags = call.flags("Lists hyper jobs with the number of their jobs by state.");
  add_namespace_flag(flags, list.ns, "hyper jobs");
  flags.truth("all-namespaces", list.all_namespaces, "of all namespaces", 'A');
  flags.text("selector", list.selector, "labels that they must have", "SELECTOR", 'l');
  add_output_flag(flags, list.output);
  return call.run(flags, [&](Session& session) { return list_hyper_jobs(session, list); });
}

int with_name(CommandCall& call, std::string summary, bool has_output,
              Result<int> (*body)(Session& session, const HyperJobName& which)) {
  HyperJobName which;
  GoFlags flags = call.flags(std::move(summary));
  add_namespace_flag(flags, which.ns, "hyper job");
  add_name_flag(flags, which.name, "hyper job");
  if (has_output) add_output_flag(flags, which.output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, which.name);
    if (which.name.empty()) return Error::make(Reason::BadRequest, "the name of the hyper job is missing");
    return body(session, which);
  });
}

int hyper_job_view(CommandCall& call) {
  return with_name(call, "Shows a hyper job: its jobs, their clusters and pods, and what happened.", true,
                   &view_hyper_job);
}

int hyper_job_explain(CommandCall& call) {
  return with_name(call, "Says what the jobs of a hyper job wait for, and what helps.", false, &explain_hyper_job);
}

int hyper_job_delete(CommandCall& call) {
  return with_name(call, "Deletes a hyper job; its jobs go with it, in all clusters.", false, &delete_hyper_job);
}

constexpr std::array kHyperJobCommands = {
    ClientCommand{"delete", "delete a hyper job and its jobs", &hyper_job_delete},
    ClientCommand{"explain", "say what its jobs wait for", &hyper_job_explain},
    ClientCommand{"list", "list hyper jobs", &hyper_job_list},
    ClientCommand{"view", "show one hyper job, its jobs and their clusters", &hyper_job_view},
};
constexpr CommandGroup kHyperJobGroup{"hyperjob", "Jobs over many clusters: list, view, explain, delete.",
                                      kHyperJobCommands};

}  // namespace

const CommandGroup& hyper_job_group() { return kHyperJobGroup; }
int run_hyper_job(Invocation& invocation) { return run_group(invocation, kHyperJobGroup); }

}  // namespace basalt::cli
