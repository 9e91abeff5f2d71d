#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/gen/shard.h"
#include "controllers/queue/testing/controller_process.h"
#include "controllers/sharding/options.h"
#include "controllers/sharding/sharding_controller.h"
#include "controllers/sharding/testing/tampering_client.h"
#include "kube/informer.h"
#include "kube/typed.h"
#include "rt/sim_test_support.h"
#include "sim/cluster.h"

namespace basalt::controllers::sharding::testing {

using controllers::testing::ControllerProcess;
using Names = std::set<std::string>;
namespace resources = sim::resources;

// The document of the user guide: agents on busy nodes first, then batch on the others.
inline constexpr std::string_view kUsualDocument = R"(schedulerConfigs:
- name: agent-scheduler
  type: agent
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1.0}}
- name: volcano
  type: volcano
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.0, maxCPUUtil: 0.6}}
shardSyncPeriod: "60s"
)";

// Sees every version of every NodeShard and notes each moment at which two of them list the same node.
class ExclusivityWatch {
 public:
  using NodeShard = api::shard::NodeShard;
  ExclusivityWatch(rt::Runtime& runtime, kube::Client& client, const Logger& log)
      : shards_(runtime, client, log, {.reflector = {.resource = kube::resource_of<NodeShard>()}, .indexes = {}}) {
    shards_.add_handler([this](const kube::Change<NodeShard>& change) {
      ++versions_;
      if (change.after) {
        lists_[change.after->metadata.name] = {change.after->spec.nodes_desired.begin(),
                                               change.after->spec.nodes_desired.end()};
      } else {
        lists_.erase(change.before->metadata.name);
      }
      std::map<std::string, std::string> owner;
      for (const auto& [shard, nodes] : lists_) {
        for (const std::string& node : nodes) {
          const auto [place, is_new] = owner.emplace(node, shard);
          if (!is_new) violations_.push_back(node + " is in " + place->second + " and " + shard);
        }
      }
    });
  }
  void start() { shards_.start(); }
  void stop() { shards_.stop(); }
  [[nodiscard]] const std::vector<std::string>& violations() const { return violations_; }
  [[nodiscard]] std::size_t versions() const { return versions_; }

 private:
  kube::Informer<NodeShard> shards_;
  std::map<std::string, Names> lists_;
  std::vector<std::string> violations_;
  std::size_t versions_ = 0;
};

// A cluster with one process that runs the sharding controller, and the words of its scenarios.
class ShardingFixture {
 public:
  explicit ShardingFixture(rt::SimRuntime& runtime, ShardingOptions given = {})
      : sink(std::make_shared<CollectingLogSink>()),
        log(sink, LogLevel::Info),
        cluster(runtime, {.log = log, .with_default_queue = false}),
        options(std::move(given)),
        tamper(cluster.client()),
        exclusivity(runtime, cluster.client(), log),
        runtime_(runtime) {
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}");
    exclusivity.start();
  }
  ~ShardingFixture() {
    stop();
    exclusivity.stop();
    if (!allows_overlap) {
      EXPECT_EQ(exclusivity.violations(), std::vector<std::string>());
    }
    EXPECT_EQ(sink->first_error(), "");
    cluster.stop();
  }

  void start() {
    process = std::make_unique<ControllerProcess>(
        runtime_, tamper, log, std::vector<ControllerProcess::Make>{[this](ControllerContext& context) {
          return make_sharding_controller(context, options);
        }});
    process->start();
  }
  void stop() {
    if (process) process->stop();
    process.reset();
  }
  void restart() {
    stop();
    start();
  }
  void rest(rt::Duration duration) { runtime_.sleep_for(duration); }
  // The debounce, the smallest interval and a little for calls.
  void settle() { rest(std::chrono::milliseconds(2500)); }

  void node(std::string_view name, std::string_view labels = {}, std::string_view cpu = "8",
            std::string_view more_status = {}) {
    cluster.apply("{apiVersion: v1, kind: Node, metadata: {name: \"" + std::string(name) + "\", labels: {" +
                  std::string(labels) + "}}, status: {capacity: {cpu: \"" + std::string(cpu) +
                  "\", memory: 32Gi, pods: \"110\"}" + std::string(more_status) + "}}");
  }
  void nodes(std::string_view prefix, int count) {
    for (int i = 0; i < count; ++i) node(std::string(prefix) + std::to_string(i));
  }
  // A pod of one container that is bound and runs.
  void pod(std::string_view name, std::string_view node, std::string_view cpu, std::string_view memory = "0",
           std::string_view more_metadata = {}) {
    cluster.apply("{apiVersion: v1, kind: Pod, metadata: {name: \"" + std::string(name) + "\"" +
                  std::string(more_metadata) + "}, spec: {nodeName: \"" + std::string(node) +
                  "\", containers: [{name: c, image: i, resources: {requests: {cpu: \"" + std::string(cpu) +
                  "\", memory: \"" + std::string(memory) + "\"}}}]}}");
  }
  void drop_pod(std::string_view name) { cluster.remove(resources::kPods, "default", name, 0); }
  void drop_node(std::string_view name) { cluster.remove(resources::kNodes, "", name); }
  void configure(std::string_view document) {
    json::Value map = json::Object{
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata", json::Object{{"name", "volcano-sharding-configmap"}, {"namespace", "volcano-system"}}},
        {"data", json::Object{{"sharding.yaml", document}}}};
    cluster.apply(map.to_text());
  }
  void remove_configuration() {
    cluster.remove(resources::kConfigMaps, "volcano-system", "volcano-sharding-configmap");
  }

  [[nodiscard]] bool exists(std::string_view shard) {
    return cluster.get(resources::kNodeShards, "", shard).has_value();
  }
  [[nodiscard]] Names names_at(std::string_view shard, std::initializer_list<std::string_view> path) {
    Names names;
    const auto object = cluster.get(resources::kNodeShards, "", shard);
    if (!object) return {"<no such shard>"};
    if (const json::Value* list = object->find_path(path); list != nullptr && list->is_array()) {
      for (const json::Value& name : list->as_array()) names.insert(name.as_string());
    }
    return names;
  }
  [[nodiscard]] Names desired(std::string_view shard) { return names_at(shard, {"spec", "nodesDesired"}); }
  [[nodiscard]] std::string version(std::string_view shard) {
    const auto object = cluster.get(resources::kNodeShards, "", shard);
    return object ? std::string(object->string_at({"metadata", "resourceVersion"})) : "";
  }
  [[nodiscard]] Names shards() {
    Names names;
    for (const json::Value& shard : cluster.list(resources::kNodeShards))
      names.insert(std::string(shard.string_at({"metadata", "name"})));
    return names;
  }
  void use(std::string_view shard, std::string_view json_list) {
    cluster.patch(resources::kNodeShards, "", shard, R"({"status":{"nodesInUse":)" + std::string(json_list) + "}}",
                  "status");
  }
  // How many events of this reason there are.
  [[nodiscard]] int events(std::string_view reason) {
    int count = 0;
    for (const json::Value& event : cluster.list(resources::kEvents)) count += event.string_at({"reason"}) == reason;
    return count;
  }
  [[nodiscard]] std::string status(std::string_view key) {
    const auto map = cluster.get(resources::kConfigMaps, "volcano-system", "volcano-sharding-status");
    return map ? std::string(map->string_at({"data", key})) : "<none>";
  }
  [[nodiscard]] double metric(std::string_view line_start) {
    const std::string text = process->metrics().to_text();
    const std::size_t place = text.find("\n" + std::string(line_start));
    if (place == std::string::npos) return -1;
    const std::size_t value = text.find(' ', place + 1 + line_start.size());
    return std::strtod(text.c_str() + value, nullptr);
  }
  [[nodiscard]] std::uint64_t writes() const { return process->writes("nodeshards"); }

  std::shared_ptr<CollectingLogSink> sink;
  Logger log;
  sim::Cluster cluster;
  ShardingOptions options;
  TamperingClient tamper;  // what the process speaks to the cluster through
  ExclusivityWatch exclusivity;
  std::unique_ptr<ControllerProcess> process;
  bool allows_overlap = false;  // a test that makes somebody else write overlaps

 private:
  rt::SimRuntime& runtime_;
};

inline void with_sharding(std::uint64_t seeds, const std::function<void(ShardingFixture&)>& body,
                          const ShardingOptions& options = {}) {
  rt::run_seeds(1, seeds, [&](rt::SimRuntime& runtime) {
    ShardingFixture fixture(runtime, options);
    body(fixture);
  });
}

}  // namespace basalt::controllers::sharding::testing
