#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <source_location>
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
#include "sim/cluster.h"
#include "sim/stage.h"
#include "yaml/reader.h"

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
)";

// What the controller speaks to the cluster through, if not as an administrator. Set before the first test runs.
inline kube::Client*& client_of_the_controller() {
  static kube::Client* client = nullptr;
  return client;
}

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
  std::atomic<std::size_t> versions_ = 0;
};

// A cluster with one process that runs the sharding controller, and the words of its scenarios. In a simulation what is
// to happen has happened after a known time. On a real server nobody knows how long a call takes, and time costs time:
// what is to become so is waited for, and what is to stay so is looked at after a moment.
class ShardingFixture {
 public:
  explicit ShardingFixture(rt::Runtime& runtime, ShardingOptions given = {})
      : sink(std::make_shared<CollectingLogSink>()),
        log(sink, LogLevel::Info),
        owned_(sim::open_cluster(runtime, {.log = log, .with_default_queue = false})),
        cluster(*owned_),
        options(std::move(given)),
        tamper(client_of_the_controller() != nullptr ? *client_of_the_controller() : cluster.client()),
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
  }
  ShardingFixture(const ShardingFixture&) = delete;
  ShardingFixture& operator=(const ShardingFixture&) = delete;

  void start() { start(runtime_); }
  void start(rt::Runtime& runtime) {
    process = std::make_unique<ControllerProcess>(
        runtime, tamper, log, std::vector<ControllerProcess::Make>{[this](ControllerContext& context) {
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

  [[nodiscard]] bool is_simulated() const { return runtime_.is_simulated(); }
  void rest(rt::Duration duration) { sim::let_pass(runtime_, duration); }
  // Whole periods of the flag, wherever this is.
  void rest_periods(int count) { runtime_.sleep_for(options.shard_sync_period * count); }
  // Nothing that began then has met a periodic sync, as far as a clock can tell.
  [[nodiscard]] bool is_before_the_period(rt::Instant start) const {
    return runtime_.now() - start < options.shard_sync_period * 9 / 10;
  }
  [[nodiscard]] rt::Instant now() const { return runtime_.now(); }
  // The debounce, the smallest interval and a little for calls.
  void settle() { rest(std::chrono::milliseconds(2500)); }
  // Less than the period of the flag's default, so that nothing is taken for prompt that came with the period.
  static constexpr rt::Duration kPatience = std::chrono::seconds(45);
  // After a wait that a simulation knows to be enough.
  void soon(const std::function<bool()>& holds, std::source_location where = std::source_location::current()) {
    const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "here");
    if (!is_simulated()) (void)cluster.wait_until(holds, kPatience);
    EXPECT_TRUE(holds());
  }
  // Every one of these lists is as given, when all has settled or after this time.
  using Lists = std::map<std::string, Names>;
  void becomes(const Lists& lists, std::source_location where = std::source_location::current()) {
    becomes_within(std::chrono::milliseconds(2500), lists, where);
  }
  void becomes_within(rt::Duration limit, const Lists& lists,
                      std::source_location where = std::source_location::current()) {
    const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "here");
    Lists found;
    const auto look = [&] {
      for (const auto& [shard, nodes] : lists) found[shard] = desired(shard);
      return found == lists;
    };
    if (is_simulated()) {
      rest(limit);
      (void)look();
    } else {
      (void)cluster.wait_until(look, kPatience);
    }
    EXPECT_EQ(found, lists);
  }
  void becomes_of_size(std::string_view shard, std::size_t size,
                       std::source_location where = std::source_location::current()) {
    const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "here");
    if (is_simulated()) settle();
    if (!is_simulated())
      (void)cluster.wait_until([&] { return exists(shard) && desired(shard).size() == size; }, kPatience);
    EXPECT_TRUE(exists(shard)) << shard;
    EXPECT_EQ(desired(shard).size(), size) << shard;
  }
  // There are these NodeShards and no others.
  void shards_become(const Names& names, std::source_location where = std::source_location::current()) {
    const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "here");
    if (is_simulated()) settle();
    if (!is_simulated()) (void)cluster.wait_until([&] { return shards() == names; }, kPatience);
    EXPECT_EQ(shards(), names);
  }
  // The status says what is to be added, which is the last that the controller writes of a change.
  void status_is_written(std::string_view shard, std::source_location where = std::source_location::current()) {
    soon(
        [&] {
          const Names wanted = desired(shard);
          const Names used = names_at(shard, {"status", "nodesInUse"});
          Names missing;
          for (const std::string& name : wanted) {
            if (!used.contains(name)) missing.insert(name);
          }
          return exists(shard) && names_at(shard, {"status", "nodesToAdd"}) == missing;
        },
        where);
  }
  void is_ready(std::source_location where = std::source_location::current()) {
    soon([&] { return metric("volcano_sharding_ready") == 1; }, where);
  }

  // What is made and removed meanwhile is sent together where every call has to travel.
  void at_once(const std::function<void()>& steps) {
    if (is_simulated() || is_gathering_) return steps();
    is_gathering_ = true;
    steps();
    is_gathering_ = false;
    for (const auto& result : cluster.client().call_all(gathered_, {.in_flight_max = 16}, {}))
      EXPECT_TRUE(result.ok()) << result.error().message;
    gathered_.clear();
  }

  void node(std::string_view name, std::string_view labels = {}, std::string_view cpu = "8",
            std::string_view more_status = {}) {
    make(resources::kNodes, "",
         "{apiVersion: v1, kind: Node, metadata: {name: \"" + std::string(name) + "\", labels: {" +
             std::string(labels) + "}}, status: {capacity: {cpu: \"" + std::string(cpu) +
             "\", memory: 32Gi, pods: \"110\"}" + std::string(more_status) + "}}");
  }
  void nodes(std::string_view prefix, int count) {
    at_once([&] {
      for (int i = 0; i < count; ++i) node(std::string(prefix) + std::to_string(i));
    });
  }
  // A pod of one container that is bound and runs.
  void pod(std::string_view name, std::string_view node, std::string_view cpu, std::string_view memory = "0",
           std::string_view more_metadata = {}) {
    make(
        resources::kPods, "default",
        "{apiVersion: v1, kind: Pod, metadata: {name: \"" + std::string(name) + "\", namespace: default" +
            std::string(more_metadata) + "}, spec: {nodeName: \"" + std::string(node) +
            "\", automountServiceAccountToken: false, containers: [{name: c, image: i, resources: {requests: {cpu: \"" +
            std::string(cpu) + "\", memory: \"" + std::string(memory) + "\"}}}]}}");
  }
  void drop_pod(std::string_view name) { drop(resources::kPods, "default", name); }
  void drop_node(std::string_view name) { drop(resources::kNodes, "", name); }
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

 private:
  const std::unique_ptr<sim::Driver> owned_;

 public:
  sim::Driver& cluster;
  ShardingOptions options;
  TamperingClient tamper;  // what the process speaks to the cluster through
  ExclusivityWatch exclusivity;
  std::unique_ptr<ControllerProcess> process;
  bool allows_overlap = false;  // a test that makes somebody else write overlaps

 private:
  void make(const kube::Resource& resource, std::string_view ns, const std::string& yaml) {
    if (!is_gathering_) {
      cluster.apply(yaml);
      return;
    }
    const auto object = yaml::read(yaml);
    ASSERT_TRUE(object.ok()) << yaml;
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resource;
    request.ns = ns;
    request.body = object->to_text();
    gathered_.push_back(std::move(request));
  }
  void drop(const kube::Resource& resource, std::string_view ns, std::string_view name) {
    if (!is_gathering_) {
      cluster.remove(resource, ns, name, 0);
      return;
    }
    kube::Request request;
    request.verb = kube::Verb::Delete;
    request.resource = resource;
    request.ns = ns;
    request.name = name;
    request.grace_period_seconds = 0;
    gathered_.push_back(std::move(request));
  }

  rt::Runtime& runtime_;
  bool is_gathering_ = false;
  std::vector<kube::Request> gathered_;
};

// A period that a test can wait for, wherever it runs.
inline ShardingOptions with_period(rt::Duration on_a_real_server = std::chrono::milliseconds(500)) {
  ShardingOptions options;
  if (sim::chosen_place() != nullptr) options.shard_sync_period = on_a_real_server;
  return options;
}

inline void with_sharding(std::uint64_t seeds, const std::function<void(ShardingFixture&)>& body,
                          const ShardingOptions& options = {}) {
  sim::play(1, seeds, [&](rt::Runtime& runtime) {
    ShardingFixture fixture(runtime, options);
    body(fixture);
  });
}

}  // namespace basalt::controllers::sharding::testing
