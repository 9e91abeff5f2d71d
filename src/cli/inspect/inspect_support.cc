#include <ostream>

#include "cli/inspect/inspect_commands.h"
#include "yaml/writer.h"

namespace basalt::cli {

Result<api::ObjectKey> job_key(const GoFlags& flags, const std::string& name, const std::string& ns,
                               const Session& session) {
  std::string chosen = name;
  take_name_from_words(flags, chosen);
  if (chosen.empty())
    return Error::invalid_input(std::string(kNoName) + ": " + flags.program() + " NAME ('basalt job list' lists them)");
  for (const std::string_view prefix : {"job/", "jobs/", "vcjob/", "vj/", "job.batch.volcano.sh/"}) {
    if (chosen.starts_with(prefix)) {
      chosen.erase(0, prefix.size());
      break;
    }
  }
  return api::ObjectKey{ns.empty() ? session.ns : ns, chosen};
}

void print_value(std::ostream& out, std::string_view output, const json::Value& value) {
  if (output == "json") {
    out << value.to_pretty_text() << "\n";
  } else {
    out << yaml::write(value);
  }
}

void add_value_output_flag(GoFlags& flags, std::string& output) {
  flags.choice("output", output, {"json", "yaml"}, "for programs", 'o');
}

Result<std::optional<Listed<api::scheduling::PodGroup>>> find_pod_group(Session& session, const api::batch::Job& job) {
  using api::scheduling::PodGroup;
  using Found = std::optional<Listed<PodGroup>>;
  // Upstream's name first; older releases called it as the job.
  for (const std::string& name : {job.metadata.name + "-" + job.metadata.uid, job.metadata.name}) {
    auto bytes = get_bytes(session, kube::resource_of<PodGroup>(), {job.metadata.namespace_, name});
    if (!bytes.ok()) {
      if (bytes.error().is(Reason::NotFound)) continue;
      return std::move(bytes).error();
    }
    BASALT_TRY(PodGroup group, json::from_text<PodGroup>(**bytes));
    return Found(Listed<PodGroup>{std::move(group), *bytes});
  }
  return Found();
}

}  // namespace basalt::cli
