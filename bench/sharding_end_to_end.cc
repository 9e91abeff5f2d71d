#include "bench/sharding_end_to_end.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "controllers/manager/controller_manager.h"
#include "json/value.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/cluster.h"
#include "sim/driver.h"
#include "test/kube/kube_fixture.h"

namespace basalt::controllers::sharding {
namespace {

using Clock = std::chrono::steady_clock;
double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

int missed_bars = 0;

constexpr double kDesignDocumentMs = 200;  // its goal for a sync of one hundred nodes
constexpr int kNodes = 100;
constexpr int kPodsEach = 10;
// Cores of each of a node's ten pods, of 64: 0 to 47 % or 78 %, so that every node has its place in the usual ranges.
constexpr int kCores[] = {0, 1, 2, 3, 5};

constexpr std::string_view kRanges = R"(schedulerConfigs:
- {name: volcano, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.6}}]}
- {name: agent-scheduler, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1}}]}
)";
constexpr std::string_view kSwapped = R"(schedulerConfigs:
- {name: volcano, policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1}}]}
- {name: agent-scheduler, policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.6}}]}
)";

json::Value node_object(const std::string& name) {
  return json::Object{
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata", json::Object{{"name", name}}},
      {"status", json::Object{{"capacity", json::Object{{"cpu", "64"}, {"memory", "256Gi"}, {"pods", "110"}}}}}};
}

std::string pod_text(const std::string& name, const std::string& node, const std::string& cpu) {
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
         R"(","namespace":"default"},"spec":{"nodeName":")" + node +
         R"(","automountServiceAccountToken":false,"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":")" +
         cpu + R"("}}}]}})";
}

void create_all(kube::Client& client, const kube::Resource& resource, const std::string& ns,
                const std::vector<std::string>& bodies) {
  std::vector<kube::Request> requests;
  for (const std::string& body : bodies) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resource;
    request.ns = ns;
    request.body = body;
    requests.push_back(std::move(request));
  }
  for (const auto& result : client.call_all(requests, {.in_flight_max = 32, .failures_max = 0}, {}))
    BASALT_CHECK_MSG(result.ok(), result.ok() ? "" : result.error().message);
}

void create_cluster(kube::Client& client, int nodes, int pods_each, const std::function<std::string(int)>& cpu_of) {
  std::vector<std::string> texts;
  for (int i = 0; i < nodes; ++i) texts.push_back(node_object("node-" + std::to_string(i)).to_text());
  create_all(client, sim::resources::kNodes, "", texts);
  texts.clear();
  for (int i = 0; i < nodes; ++i) {
    for (int k = 0; k < pods_each; ++k) {
      texts.push_back(
          pod_text("p-" + std::to_string(i) + "-" + std::to_string(k), "node-" + std::to_string(i), cpu_of(i)));
    }
    if (texts.size() < 10'000 && i + 1 < nodes) continue;
    create_all(client, sim::resources::kPods, "default", texts);
    texts.clear();
  }
}

void configure(sim::Driver& api, std::string_view document) {
  const json::Value map =
      json::Object{{"apiVersion", "v1"},
                   {"kind", "ConfigMap"},
                   {"metadata", json::Object{{"name", "volcano-sharding-configmap"}, {"namespace", "volcano-system"}}},
                   {"data", json::Object{{"sharding.yaml", document}}}};
  api.apply(map.to_text());
}

std::size_t stored(sim::Driver& api, std::string_view shard) {
  const auto object = api.get(sim::resources::kNodeShards, "", shard);
  const json::Value* list = object ? object->find_path({"spec", "nodesDesired"}) : nullptr;
  return list == nullptr ? 0 : list->as_array().size();
}

// Milliseconds until both lists have these sizes; 30 s if they never do.
double wait_for(sim::Driver& api, Clock::time_point begin, std::size_t batch, std::size_t agents) {
  const auto is_done = [&] { return stored(api, "volcano") == batch && stored(api, "agent-scheduler") == agents; };
  while (!is_done() && milliseconds_since(begin) < 30'000) api.runtime().sleep_for(std::chrono::milliseconds(1));
  return milliseconds_since(begin);
}

// Three starts and three changes that move every node; the middle ones count.
void measure_hundred(rt::Runtime& runtime, sim::Driver& api, kube::Client& own, const std::string& server) {
  constexpr std::size_t kBusy = kNodes / 5;
  std::vector<double> starts, swaps;
  for (int turn = 0; turn < 3; ++turn) {
    configure(api, kRanges);
    for (const char* shard : {"volcano", "agent-scheduler"}) api.remove(sim::resources::kNodeShards, "", shard);
    kube::Metrics metrics;
    ManagerOptions options;
    options.controllers = {"sharding-controller"};
    ControllerManager manager(runtime, own, Logger(), metrics, options);
    auto begin = Clock::now();
    BASALT_CHECK(manager.start({}).ok());
    starts.push_back(wait_for(api, begin, kNodes - kBusy, kBusy));
    runtime.sleep_for(std::chrono::milliseconds(1500));  // the smallest interval between two publications
    begin = Clock::now();
    configure(api, kSwapped);
    swaps.push_back(wait_for(api, begin, kBusy, kNodes - kBusy));
    manager.stop();
  }
  std::sort(starts.begin(), starts.end());
  std::sort(swaps.begin(), swaps.end());
  show("100 nodes with 1,000 pods, " + server + ": start of the controller, caches included, to stored NodeShards",
       starts[1], "ms", kDesignDocumentMs);
  show("100 nodes with 1,000 pods, " + server + ": changed ConfigMap to every node in its other NodeShard", swaps[1],
       "ms", kDesignDocumentMs);
}

}  // namespace

void show(const std::string& what, double value, const std::string& unit, double bar, bool at_most) {
  const bool is_met = at_most ? value <= bar : value >= bar;
  std::printf("%s: %.*f %s (bar: %s %.*f %s)%s\n", what.c_str(), value < 100 ? 2 : 0, value, unit.c_str(),
              at_most ? "at most" : "at least", bar < 10 && bar != static_cast<int>(bar) ? 1 : 0, bar, unit.c_str(),
              is_met ? "" : " MISSED");
  if (!is_met) ++missed_bars;
}

int missed() { return missed_bars; }

void measure_embedded() {
  const auto runtime = rt::make_real_runtime();
  sim::Cluster cluster(*runtime);
  cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}");
  create_cluster(cluster.client(), kNodes, kPodsEach, [](int i) { return std::to_string(kCores[i % 5]); });
  measure_hundred(*runtime, cluster, cluster.client(), "embedded API server");
  cluster.stop();
}

void measure_real_server() {
  if (const std::string why = test::RealKube::why_skip(); !why.empty()) {
    std::printf("100 nodes on a real kube-apiserver: not measured, %s\n", why.c_str());
    return;
  }
  auto [server, error] = test::RealKube::start();
  BASALT_CHECK_MSG(server != nullptr, error);
  const test::CommandResult crds =
      server->kubectl({"apply", "--server-side", "--filename=" BASALT_SOURCE_DIR "/deploy/crds"});
  BASALT_CHECK_MSG(crds.exit == 0, crds.err);
  const test::CommandResult ready =
      server->kubectl({"wait", "--for=condition=Established", "--timeout=30s", "crds", "--all"});
  BASALT_CHECK_MSG(ready.exit == 0, ready.err);
  const auto runtime = rt::make_real_runtime();
  const auto config =
      kube::load_client_config({.kubeconfig = server->kubeconfig().string()}, kube::ConfigEnvironment::of_process());
  BASALT_CHECK(config.ok());
  const auto admin = kube::make_rest_client(*runtime, Logger(), *config);
  const auto own = kube::make_rest_client(*runtime, Logger(), *config);
  BASALT_CHECK(admin.ok() && own.ok());
  sim::Driver api(*runtime, **admin);
  api.apply("{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}");
  create_cluster(**admin, kNodes, kPodsEach, [](int i) { return std::to_string(kCores[i % 5]); });
  measure_hundred(*runtime, api, **own, "real kube-apiserver");
}

void measure_cold_start() {
  constexpr int kMany = 10'000;
  const auto runtime = rt::make_real_runtime();
  sim::Cluster cluster(*runtime);
  cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}");
  // Thirty pods each, of 0 to 1.6 cores: up to 75 % of 64.
  create_cluster(cluster.client(), kMany, 30,
                 [](int i) { return i % 5 == 4 ? "1600m" : std::to_string(i % 5) + "00m"; });
  configure(cluster, kRanges);
  kube::Metrics metrics;
  ManagerOptions options;
  options.controllers = {"sharding-controller"};
  ControllerManager manager(*runtime, cluster.client(), Logger(), metrics, options);
  const auto begin = Clock::now();
  BASALT_CHECK(manager.start({}).ok());
  const auto is_ready = [&] { return metrics.to_text().find("\nvolcano_sharding_ready 1") != std::string::npos; };
  while (!is_ready() && milliseconds_since(begin) < 60'000) runtime->sleep_for(std::chrono::milliseconds(2));
  const double filled = milliseconds_since(begin);
  const double published = wait_for(cluster, begin, kMany * 4 / 5, kMany / 5);
  std::printf("10,000 nodes with 300,000 pods, embedded API server: caches filled after %.0f ms\n", filled);
  show("10,000 nodes with 300,000 pods, embedded API server: full caches to stored NodeShards", published - filled,
       "ms", 3000);
  manager.stop();
  cluster.stop();
}

}  // namespace basalt::controllers::sharding
