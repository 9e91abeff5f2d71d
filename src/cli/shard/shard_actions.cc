#include "cli/shard/shard_actions.h"

#include <cmath>
#include <cstdio>
#include <ostream>
#include <utility>

#include "api/gen/core_objects.h"
#include "api/gen/names.h"
#include "api/gen/shard.h"
#include "base/strings.h"
#include "cli/cli.h"
#include "cli/client/objects.h"
#include "cli/client/output.h"
#include "cli/client/table.h"
#include "controllers/sharding/cluster_state.h"
#include "controllers/sharding/configuration.h"
#include "controllers/sharding/explain.h"
#include "controllers/sharding/shard_plan.h"
#include "controllers/sharding/status_report.h"

namespace basalt::cli {
namespace {

namespace sharding = controllers::sharding;
using api::shard::NodeShard;

const kube::Resource kConfigMaps{"", "v1", "configmaps"};
const kube::Resource kNodes{"", "v1", "nodes"};
const kube::Resource kPods{"", "v1", "pods"};

bool lists(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f%%", share * 100);
  return text;
}

// Nothing if there is no such object.
Result<std::optional<json::Value>> read_data(Session& session, const std::string& ns, std::string_view name) {
  auto bytes = get_bytes(session, kConfigMaps, {ns, std::string(name)});
  if (!bytes.ok()) {
    if (bytes.error().is(Reason::NotFound)) return std::optional<json::Value>();
    return std::move(bytes).error();
  }
  BASALT_TRY(json::Value map, json::Value::parse(**bytes));
  json::Value* data = map.find("data");
  return std::optional<json::Value>(data == nullptr ? json::Value(json::Object()) : std::move(*data));
}

Result<std::optional<sharding::ShardingStatus>> read_status(Session& session, const ShardingPlace& place) {
  BASALT_TRY(const auto data, read_data(session, place.ns, sharding::kStatusConfigMap));
  if (!data) return std::optional<sharding::ShardingStatus>();
  BASALT_TRY(sharding::ShardingStatus status, sharding::from_data(*data));
  return std::optional<sharding::ShardingStatus>(std::move(status));
}

struct InForce {
  sharding::Configuration configuration;
  std::string source;
};

// What the controller applies: as it says itself; else what it would read.
Result<InForce> read_configuration(Session& session, const ShardingPlace& place) {
  BASALT_TRY(const auto status, read_status(session, place));
  if (status && !status->document.empty()) {
    BASALT_TRY(sharding::Configuration read, sharding::read_document(status->document));
    return InForce{std::move(read), status->configuration};
  }
  if (status && status->configuration == "flags") {
    BASALT_TRY(sharding::Configuration read, sharding::read_scheduler_flags(status->flags));
    return InForce{std::move(read), "flags of the controller"};
  }
  if (!status) {
    BASALT_TRY(const auto data, read_data(session, place.ns, place.config_map));
    const std::string_view text = data ? data->string_at({api::config_maps::kShardingKey}) : std::string_view();
    if (!text.empty()) {
      BASALT_TRY(sharding::Configuration read, sharding::read_document(text));
      return InForce{std::move(read), "ConfigMap " + place.ns + "/" + place.config_map};
    }
  }
  return InForce{sharding::built_in_configuration(), "built-in defaults"};
}

void print_nodes(std::ostream& out, std::string_view heading, const std::vector<std::string>& names) {
  out << heading << " (" << names.size() << ")\n";
  for (const std::string& name : names) out << "  " << name << "\n";
}

// The node with the requests of its pods, as the controller sees them.
Result<sharding::NodeFacts> read_facts(Session& session, const sharding::Catalog& catalog, const std::string& node) {
  auto bytes = get_bytes(session, kNodes, {"", node});
  if (!bytes.ok()) return with_suggestion(session, kNodes, {"", node}, std::move(bytes).error());
  sharding::ClusterState state(catalog);
  BASALT_TRY(const sharding::NodeReading reading, sharding::read_node(**bytes, catalog));
  state.put_node(reading);
  BASALT_TRY(const auto pods, list_bytes(session, kPods, {.field_selector = "spec.nodeName=" + node}));
  for (const kube::Bytes& pod : pods) {
    BASALT_TRY(const sharding::PodReading read, sharding::read_pod(*pod, catalog));
    state.put_pod(read);
  }
  return *state.facts_of(node);
}

struct Holders {
  std::string owner;                                      // object that lists the node
  std::vector<std::string> in_use;                        // objects whose schedulers use it
  std::map<std::string, std::size_t, std::less<>> sizes;  // by object
};

Result<Holders> find_holders(Session& session, const std::string& node) {
  BASALT_TRY(const auto shards, list_objects<NodeShard>(session, {}));
  Holders holders;
  for (const auto& [shard, bytes] : shards) {
    holders.sizes[shard.metadata.name] = shard.spec.nodes_desired.size();
    if (lists(shard.spec.nodes_desired, node)) holders.owner = shard.metadata.name;
    if (lists(shard.status.nodes_in_use, node)) holders.in_use.push_back(shard.metadata.name);
  }
  return holders;
}

// One line about a scheduler: whether it has the node, and if not, why.
std::string outcome_of(const sharding::RuleSet& rules, std::size_t index, const sharding::Verdict& verdict,
                       sharding::ShardIndex owner, const Holders& holders) {
  char score[32];
  std::snprintf(score, sizeof score, "%.3g", verdict.score);
  if (owner == static_cast<sharding::ShardIndex>(index)) {
    if (verdict.is_accepted) return "has the node, score " + std::string(score);
    return rules.rules[index].limits.fill ? "has borrowed the node to meet its minimum"
                                          : "has the node still; it passes on at the next sync";
  }
  if (!verdict.is_accepted) return "refuses the node";
  if (owner != sharding::kNoShard && static_cast<std::size_t>(owner) < index)
    return "would take it (score " + std::string(score) + "), but an earlier scheduler has it";
  std::size_t size = 0;
  for (const auto& [object, count] : holders.sizes) {
    if (sharding::seat_of_object(rules, object).shard == static_cast<sharding::ShardIndex>(index)) size += count;
  }
  const sharding::Limits& limits = rules.rules[index].limits;
  if (limits.nodes_max > 0 || limits.percent_max > 0)
    return "would take it (score " + std::string(score) +
           "), but has better nodes up to its limit: " + std::to_string(size) + " now";
  return "takes it (score " + std::string(score) + ") at the next sync";
}

}  // namespace

Result<int> list_shards(Session& session, const ShardTable& table) {
  BASALT_TRY(const auto shards, list_objects<NodeShard>(session, {}));
  if (prints_objects(table.output)) {
    std::vector<kube::Bytes> bytes;
    for (const auto& shard : shards) bytes.push_back(shard.bytes);
    BASALT_TRY_DONE(print_objects(session.out, table.output, NodeShard::kKindInfo, bytes, true));
    return kExitOk;
  }
  if (shards.empty()) {
    session.out << "No resources found\n";
    return kExitOk;
  }
  Table rows({"NAME", "DESIRED", "IN USE", "TO ADD", "TO REMOVE", "AGE"});
  for (const auto& [shard, bytes] : shards) {
    rows.row({shard.metadata.name, std::to_string(shard.spec.nodes_desired.size()),
              std::to_string(shard.status.nodes_in_use.size()), std::to_string(shard.status.nodes_to_add.size()),
              std::to_string(shard.status.nodes_to_remove.size()),
              age_of(shard.metadata.creation_timestamp, session.runtime.wall_now())});
  }
  rows.print(session.out, session.host.terminal());
  return kExitOk;
}

Result<int> view_shard(Session& session, const ShardTable& table) {
  BASALT_TRY(const auto shard, get_object<NodeShard>(session, {"", table.name}));
  if (prints_objects(table.output)) {
    BASALT_TRY_DONE(print_objects(session.out, table.output, NodeShard::kKindInfo, {shard.bytes}, false));
    return kExitOk;
  }
  session.out << "Name:         " << shard.object.metadata.name << "\n"
              << "Last update:  " << shard.object.status.last_update_time.to_string() << "\n";
  print_nodes(session.out, "Desired", shard.object.spec.nodes_desired);
  print_nodes(session.out, "In use", shard.object.status.nodes_in_use);
  print_nodes(session.out, "To add: others still use them, or the scheduler has not looked",
              shard.object.status.nodes_to_add);
  print_nodes(session.out, "To remove: in use, but somebody else is to have them", shard.object.status.nodes_to_remove);
  return kExitOk;
}

Result<int> explain_shard_node(Session& session, const ShardingPlace& place, const std::string& node) {
  BASALT_TRY(const InForce in_force, read_configuration(session, place));
  const sharding::RuleSet& rules = *in_force.configuration.rules;
  BASALT_TRY(const sharding::NodeFacts facts, read_facts(session, rules.catalog, node));
  BASALT_TRY(const Holders holders, find_holders(session, node));
  const sharding::ShardIndex owner =
      holders.owner.empty() ? sharding::kNoShard : sharding::seat_of_object(rules, holders.owner).shard;
  std::ostream& out = session.out;
  out << "Node:           " << node << "\n"
      << "Owner:          " << (holders.owner.empty() ? "nobody" : holders.owner) << "\n"
      << "In use by:      " << (holders.in_use.empty() ? "nobody" : base::join(holders.in_use, ", ")) << "\n"
      << "Requested:      cpu " << percent(facts.cpu) << ", memory " << percent(facts.memory) << ", " << facts.pods
      << " pods\n"
      << "Configuration:  " << in_force.source << "\n";
  const auto verdicts = sharding::explain_node(rules, facts, owner);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    out << "\n" << verdicts[i].scheduler << " " << outcome_of(rules, i, verdicts[i], owner, holders) << "\n";
    for (const auto& [policy, text] : verdicts[i].policies) out << "  " << policy << ": " << text << "\n";
  }
  if (rules.uses_forecast) out << "\nThe forecast is known to the controller only.\n";
  return kExitOk;
}

Result<int> show_sharding_status(Session& session, const ShardingPlace& place) {
  BASALT_TRY(const auto status, read_status(session, place));
  std::ostream& out = session.out;
  if (!status) {
    out << "The sharding controller has not reported in namespace " << place.ns
        << ". It is off unless `basalt controllers --controllers=*` (or +sharding-controller) turns it on.\n";
    return kExitFailed;
  }
  out << "Configuration:  " << status->configuration
      << (status->configuration_version.empty() ? "" : " (version " + status->configuration_version + ")") << "\n";
  if (!status->configuration_problem.empty()) out << "  PROBLEM: " << status->configuration_problem << "\n";
  out << "Writes:         " << (status->breaker == "closed" ? "pass" : "pause (" + status->breaker + ")") << "\n";
  if (!status->write_problem.empty()) out << "  PROBLEM: " << status->write_problem << "\n";
  out << "Nodes:          " << status->nodes << ", " << status->unassigned << " of them nobody's\n\n";
  Table rows({"SCHEDULER", "NODES", "MIN", "MAX", "PARTS", "NOTE"});
  for (const sharding::ShardingStatus::Shard& shard : status->shards) {
    std::string note;
    if (shard.missing > 0) note = std::to_string(shard.missing) + " missing to the minimum";
    if (shard.cut > 0) note += (note.empty() ? "" : "; ") + std::to_string(shard.cut) + " do not fit into the object";
    rows.row({shard.name, std::to_string(shard.nodes), std::to_string(shard.nodes_min),
              shard.nodes_max == 0 ? "-" : std::to_string(shard.nodes_max), std::to_string(shard.parts), note});
  }
  rows.print(out, session.host.terminal());
  return status->configuration_problem.empty() && status->write_problem.empty() ? kExitOk : kExitFailed;
}

}  // namespace basalt::cli
