#include "cli/data/data_commands.h"

#include <array>

#include "cli/client/output.h"
#include "cli/data/data_actions.h"
#include "cli/inspect/inspect_commands.h"

namespace basalt::cli {
namespace {

int data_list(CommandCall& call) {
  ClaimList list;
  GoFlags flags = call.flags("Lists claims on data: where the data is, and where the workload that follows it runs.");
  add_namespace_flag(flags, list.ns, "claims");
  flags.truth("all-namespaces", list.all_namespaces, "of all namespaces", 'A');
  flags.text("selector", list.selector, "labels that they must have", "SELECTOR", 'l');
  add_output_flag(flags, list.output);
  return call.run(flags, [&](Session& session) { return list_claims(session, list); });
}

int with_name(CommandCall& call, std::string summary, void (*add_output)(GoFlags&, std::string&),
              Result<int> (*body)(Session& session, const ClaimName& which)) {
  ClaimName which;
  GoFlags flags = call.flags(std::move(summary));
  add_namespace_flag(flags, which.ns, "claim");
  add_name_flag(flags, which.name, "claim");
  add_output(flags, which.output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, which.name);
    if (which.name.empty()) return Error::make(Reason::BadRequest, "the name of the claim is missing");
    return body(session, which);
  });
}

int data_view(CommandCall& call) {
  return with_name(call, "Shows a claim: its data, its workload, its conditions and what happened.", &add_output_flag,
                   &view_claim);
}

int data_explain(CommandCall& call) {
  return with_name(call, "Says why the workload of a claim waits or is where it is, and what helps.",
                   &add_value_output_flag, &explain_claim);
}

int data_top(CommandCall& call) {
  DataTop top;
  GoFlags flags = call.flags("Shows which data is used most: by whom, and from which clusters.");
  flags.number("rows", top.rows_max, "so many at most; 0 for all");
  add_output_flag(flags, top.output);
  return call.run(flags, [&](Session& session) { return top_data(session, top); });
}

constexpr std::array kDataCommands = {
    ClientCommand{"explain", "say why a workload waits for its data", &data_explain},
    ClientCommand{"list", "list claims on data", &data_list},
    ClientCommand{"top", "show which data is used most, by whom and from where", &data_top},
    ClientCommand{"view", "show one claim", &data_view},
};
constexpr CommandGroup kDataGroup{"data", "Data that workloads follow: list, view, explain, top.", kDataCommands};

}  // namespace

const CommandGroup& data_group() { return kDataGroup; }
int run_data(Invocation& invocation) { return run_group(invocation, kDataGroup); }

}  // namespace basalt::cli
