#include "cli/data/data_actions.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "base/sort.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/events.h"
#include "cli/client/output.h"
#include "cli/client/table.h"
#include "cli/data/data_model.h"
#include "cli/inspect/inspect_commands.h"

namespace basalt::cli {
namespace {

std::string listed(const std::vector<std::string>& names) { return names.empty() ? "<none>" : base::join(names, ","); }

std::string counted(const std::map<std::string, std::size_t>& counts) {
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  base::stable_sort(sorted, [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, count] : sorted) text += (text.empty() ? "" : ",") + name + ":" + std::to_string(count);
  return text.empty() ? "<none>" : text;
}

std::string runs_in(const DataModel& model, const Claim& claim) {
  const ResourceBinding* binding = binding_of(model, claim);
  if (binding == nullptr) return "<no binding>";
  if (is_gated(*binding)) return "<held back>";
  return listed(clusters_of(*binding));
}

std::string attributes_text(const api::StringMap& attributes) {
  std::string text;
  for (const auto& [key, value] : attributes)
    text += (text.empty() ? "" : ",") + std::string(key) + "=" + std::string(value);
  return text.empty() ? "<none>" : text;
}

Result<DataModel> model_around(Session& session, const ClaimName& which, Claim& claim) {
  const std::string ns = which.ns.empty() ? session.ns : which.ns;
  BASALT_TRY(auto found, get_object<Claim>(session, {ns, which.name}));
  claim = std::move(found.object);
  return read_data_model(session, {.ns = ns, .selector = ""});
}

void print_conditions(std::ostream& out, const std::vector<api::meta::Condition>& conditions) {
  for (const auto& condition : conditions) {
    out << "  " << condition.type << "=" << condition.status << " " << condition.reason;
    if (!condition.message.empty()) out << ": " << condition.message;
    out << "\n";
  }
}

json::Value to_value(const DataUse& use) {
  const auto numbers = [](const std::map<std::string, std::size_t>& counts) {
    json::Object object;
    for (const auto& [name, count] : counts) object.set(name, static_cast<std::int64_t>(count));
    return object;
  };
  return json::Object{{"system", use.system},
                      {"type", use.type},
                      {"name", use.name},
                      {"dataSource", use.source},
                      {"claims", static_cast<std::int64_t>(use.claims)},
                      {"workloads", static_cast<std::int64_t>(use.workloads)},
                      {"waiting", static_cast<std::int64_t>(use.waiting)},
                      {"namespaces", numbers(use.namespaces)},
                      {"dataIn", json::Array(use.near.begin(), use.near.end())},
                      {"usedFrom", numbers(use.used_from)},
                      {"freshness", use.freshness}};
}

}  // namespace

Result<int> list_claims(Session& session, const ClaimList& list) {
  const std::string ns = list.all_namespaces ? "" : list.ns.empty() ? session.ns : list.ns;
  if (prints_objects(list.output)) {
    BASALT_TRY(const auto found, list_objects<Claim>(session, {.ns = ns, .label_selector = list.selector}));
    std::vector<kube::Bytes> bytes;
    for (const auto& one : found) bytes.push_back(one.bytes);
    BASALT_TRY_DONE(print_objects(session.out, list.output, Claim::kKindInfo, bytes, true));
    return kExitOk;
  }
  BASALT_TRY(const DataModel model, read_data_model(session, {.ns = ns, .selector = list.selector}));
  if (model.claims.empty()) {
    session.out << "No resources found\n";
    return kExitOk;
  }
  const bool is_wide = list.output == "wide";
  std::vector<std::string> headings{"NAME", "SYSTEM", "DATA", "STATE", "DATA IN", "WORKLOAD", "RUNS IN", "AGE"};
  if (is_wide) headings.insert(headings.end(), {"TYPE", "ATTRIBUTES", "DATA SOURCE"});
  if (list.all_namespaces) headings.insert(headings.begin(), "NAMESPACE");
  Table table(std::move(headings));
  for (const auto& [claim, bytes] : model.claims) {
    const DataSource* source = source_of(model, claim);
    std::vector<std::string> cells{claim.metadata.name,
                                   claim.spec.system,
                                   claim.spec.data_source_name,
                                   state_of(claim),
                                   source == nullptr ? "<unknown>" : listed(source->spec.locality.cluster_names),
                                   short_workload_of(claim),
                                   runs_in(model, claim),
                                   age_of(claim.metadata.creation_timestamp, session.runtime.wall_now())};
    if (is_wide)
      cells.insert(cells.end(), {claim.spec.data_source_type, attributes_text(claim.spec.attributes),
                                 source == nullptr ? "<none>" : source->metadata.name});
    if (list.all_namespaces) cells.insert(cells.begin(), claim.metadata.namespace_);
    table.row(std::move(cells));
  }
  table.print(session.out, session.host.terminal());
  return kExitOk;
}

Result<int> view_claim(Session& session, const ClaimName& which) {
  if (prints_objects(which.output)) {
    const std::string ns = which.ns.empty() ? session.ns : which.ns;
    BASALT_TRY(const auto found, get_object<Claim>(session, {ns, which.name}));
    BASALT_TRY_DONE(print_objects(session.out, which.output, Claim::kKindInfo, {found.bytes}, false));
    return kExitOk;
  }
  Claim claim;
  BASALT_TRY(const DataModel model, model_around(session, which, claim));
  std::ostream& out = session.out;
  out << "Name:        " << claim.metadata.name << "\nNamespace:   " << claim.metadata.namespace_
      << "\nData:        " << claim.spec.system << " " << claim.spec.data_source_type << " "
      << claim.spec.data_source_name << "\n";
  if (!claim.spec.attributes.empty()) out << "Attributes:  " << attributes_text(claim.spec.attributes) << "\n";
  out << "State:       " << state_of(claim) << "\n";
  const DataSource* source = source_of(model, claim);
  if (source != nullptr) {
    out << "Data source: " << source->metadata.name << ", claimed " << source->status.bound_claims << " times"
        << "\nData in:     " << listed(source->spec.locality.cluster_names) << "\n";
  }
  out << "Workload:    " << short_workload_of(claim) << "\nRuns in:     " << runs_in(model, claim)
      << "\nAge:         " << age_of(claim.metadata.creation_timestamp, session.runtime.wall_now()) << "\n";
  std::vector<std::string> others;
  for (const auto& [other, bytes] : model.claims) {
    if (other.metadata.name != claim.metadata.name && workload_of(other) == workload_of(claim))
      others.push_back(other.metadata.name);
  }
  if (!others.empty()) out << "With:        " << listed(others) << " (claims of the same workload)\n";
  if (!claim.status.conditions.empty()) out << "Conditions:\n";
  print_conditions(out, claim.status.conditions);
  if (source != nullptr && !source->status.conditions.empty()) {
    out << "Conditions of the data source:\n";
    print_conditions(out, source->status.conditions);
  }
  print_events_of(session, "DataSourceClaim", claim.metadata.namespace_, claim.metadata.name, claim.metadata.uid);
  return kExitOk;
}

Result<int> explain_claim(Session& session, const ClaimName& which) {
  Claim claim;
  BASALT_TRY(const DataModel model, model_around(session, which, claim));
  const std::vector<ClaimReason> reasons = reasons_of(model, claim);
  if (which.output == "json" || which.output == "yaml") {
    json::Array list;
    for (const ClaimReason& reason : reasons)
      list.push_back(json::Object{{"what", reason.what}, {"whatHelps", reason.help}});
    print_value(session.out, which.output,
                json::Object{{"claim", claim.metadata.name},
                             {"namespace", claim.metadata.namespace_},
                             {"state", state_of(claim)},
                             {"reasons", std::move(list)}});
    return kExitOk;
  }
  session.out << "Claim " << claim.metadata.namespace_ << "/" << claim.metadata.name << " on " << claim.spec.system
              << " " << claim.spec.data_source_name << " is " << state_of(claim) << ".\n";
  for (const ClaimReason& reason : reasons) {
    session.out << "- " << reason.what << ".\n";
    if (!reason.help.empty()) session.out << "  What helps: " << reason.help << ".\n";
  }
  return kExitOk;
}

Result<int> top_data(Session& session, const DataTop& top) {
  BASALT_TRY(const DataModel model, read_data_model(session, {}));
  std::vector<DataUse> uses = uses_of(model);
  const std::size_t all = uses.size();
  if (top.rows_max > 0 && uses.size() > static_cast<std::size_t>(top.rows_max))
    uses.resize(static_cast<std::size_t>(top.rows_max));
  if (top.output == "json" || top.output == "yaml") {
    json::Array list;
    for (const DataUse& use : uses) list.push_back(to_value(use));
    print_value(session.out, top.output,
                json::Object{{"data", std::move(list)}, {"total", static_cast<std::int64_t>(all)}});
    return kExitOk;
  }
  if (top.output == "name") {
    for (const DataUse& use : uses) {
      if (!use.source.empty()) session.out << "datasource.datadependency.volcano.sh/" << use.source << "\n";
    }
    return kExitOk;
  }
  if (uses.empty()) {
    session.out << "No data is claimed\n";
    return kExitOk;
  }
  const bool is_wide = top.output == "wide";
  std::vector<std::string> headings{"SYSTEM", "DATA", "WORKLOADS", "WAITING", "CLAIMS", "BY", "DATA IN", "USED FROM"};
  if (is_wide) headings.insert(headings.end(), {"TYPE", "FRESH", "DATA SOURCE"});
  Table table(std::move(headings));
  for (const DataUse& use : uses) {
    std::vector<std::string> cells{use.system,
                                   use.name,
                                   std::to_string(use.workloads),
                                   std::to_string(use.waiting),
                                   std::to_string(use.claims),
                                   counted(use.namespaces),
                                   listed(use.near),
                                   counted(use.used_from)};
    if (is_wide)
      cells.insert(cells.end(), {use.type, use.freshness.empty() ? "<unknown>" : use.freshness,
                                 use.source.empty() ? "<none>" : use.source});
    table.row(std::move(cells));
  }
  table.print(session.out, session.host.terminal());
  if (uses.size() < all) session.out << "and " << all - uses.size() << " more: --rows 0 shows all\n";
  return kExitOk;
}

}  // namespace basalt::cli
