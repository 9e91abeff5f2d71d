#include "cli/shard/shard_commands.h"

#include <array>

#include "cli/client/output.h"
#include "cli/shard/shard_actions.h"

namespace basalt::cli {
namespace {

void add_place(GoFlags& flags, ShardingPlace& place) {
  flags.text("sharding-configmap", place.config_map, "the controller's configuration", "NAME");
  flags.text("sharding-configmap-namespace", place.ns, "where that is", "NAMESPACE");
}

int shard_list(CommandCall& call) {
  ShardTable table;
  GoFlags flags = call.flags("Lists the shards with the numbers of their nodes.");
  add_output_flag(flags, table.output);
  return call.run(flags, [&](Session& session) { return list_shards(session, table); });
}

int shard_view(CommandCall& call) {
  ShardTable table;
  GoFlags flags = call.flags("Shows one shard: its nodes, and which of them are on their way.");
  add_name_flag(flags, table.name, "name of the shard");
  add_output_flag(flags, table.output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, table.name);
    if (table.name.empty()) return Error::make(Reason::BadRequest, "name a shard: shard view NAME");
    return view_shard(session, table);
  });
}

int shard_explain(CommandCall& call) {
  std::string node;
  ShardingPlace place;
  GoFlags flags = call.flags("Says who has a node, and what each scheduler's policies say about it.");
  add_name_flag(flags, node, "name of the node");
  add_place(flags, place);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, node);
    if (node.empty()) return Error::make(Reason::BadRequest, "name a node: shard explain NODE");
    return explain_shard_node(session, place, node);
  });
}

int shard_status(CommandCall& call) {
  ShardingPlace place;
  GoFlags flags = call.flags("Shows what the sharding controller works with and what hinders it.");
  add_place(flags, place);
  return call.run(flags, [&](Session& session) { return show_sharding_status(session, place); });
}

constexpr std::array kShardCommands = {
    ClientCommand{"explain", "say who has a node, and why", &shard_explain},
    ClientCommand{"list", "list the shards", &shard_list},
    ClientCommand{"status", "show what the sharding controller works with", &shard_status},
    ClientCommand{"view", "show one shard with its nodes", &shard_view},
};
constexpr CommandGroup kShardGroup{"shard", "Shards of nodes: list, view, explain, status.", kShardCommands};

}  // namespace

const CommandGroup& shard_group() { return kShardGroup; }
int run_shard(Invocation& invocation) { return run_group(invocation, kShardGroup); }

}  // namespace basalt::cli
