#pragma once

#include <string>
#include <vector>

#include "api/gen/names.h"
#include "rt/time.h"

namespace basalt::controllers::sharding {

// What the command line says about sharding. The flags' names and defaults are vc-controller-manager's.
struct ShardingOptions {
  // --scheduler-configs: "name:type:minUtil:maxUtil:preferWarmup:minNodes:maxNodes" each. Used while there is no
  // ConfigMap.
  std::vector<std::string> scheduler_configs{"volcano:volcano:0.0:0.6:false:2:100",
                                             "agent-scheduler:agent:0.7:1.0:true:2:100"};
  rt::Duration shard_sync_period = std::chrono::seconds(60);            // --shard-sync-period; 0 or less: 120 s
  bool enable_node_event_trigger = true;                                // --enable-node-event-trigger
  std::string config_map{api::config_maps::kSharding};                  // --sharding-configmap; "": flags only
  std::string config_map_namespace{api::components::kSystemNamespace};  // --sharding-configmap-namespace
  // How often one node's pods are compared with the API server's; 0: never.
  rt::Duration verify_period = std::chrono::seconds(30);
};

}  // namespace basalt::controllers::sharding
