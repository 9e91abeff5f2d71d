#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kube/fault_client.h"
#include "rt/sim_runtime.h"
#include "rt/sim_test_support.h"
#include "sim/cluster.h"
#include "workloads/manager.h"
#include "workloads/testing/test_kubelet.h"

namespace basalt::workloads::testing {

// One life of the process that runs the controllers of workloads, over a client that can be made to fail or die.
class WorkloadProcess {
 public:
  WorkloadProcess(rt::Runtime& runtime, kube::Client& cluster, const Logger& log)
      : faults_(runtime, cluster), manager_(runtime, faults_, log, metrics_) {}
  void start() { manager_.start(); }
  void stop() { manager_.stop(); }
  [[nodiscard]] kube::FaultClient& faults() { return faults_; }
  // Creates, updates, patches and deletes of this resource (its plural) that were sent.
  [[nodiscard]] std::uint64_t writes(std::string_view plural) const {
    std::uint64_t sum = 0;
    for (const auto& [point, count] : faults_.calls_by_point()) {
      if (point.verb == "Get" || point.verb == "List" || point.verb == "Watch") continue;
      if (point.resource.substr(0, point.resource.find_first_of("./")) == plural) sum += count;
    }
    return sum;
  }

 private:
  kube::FaultClient faults_;
  kube::Metrics metrics_;
  WorkloadManager manager_;
};

// A cluster with nodes on which everything runs well, unless a fate says otherwise, and the words that stories are
// written in.
class WorkloadFixture {
 public:
  explicit WorkloadFixture(rt::SimRuntime& runtime, TestKubelet::FateOf fate = {})
      : sink(std::make_shared<CollectingLogSink>()),
        log(sink, LogLevel::Info),
        cluster(runtime, {.log = log, .with_default_queue = false, .hooks = {}, .crds = {"queues"}, .server = {}}),
        kubelet(
            runtime, cluster.client(), log, fate ? std::move(fate) : [](const Pod&) { return Fate{}; }),
        runtime_(runtime) {
    kubelet.start();
  }
  ~WorkloadFixture() {
    stop();
    kubelet.stop();
    EXPECT_EQ(sink->first_error(), "");
    cluster.stop();
  }
  void start() {
    process = std::make_unique<WorkloadProcess>(runtime_, cluster.client(), log);
    process->start();
  }
  void stop() {
    if (process) process->stop();
    process.reset();
  }
  void rest(rt::Duration duration) { runtime_.sleep_for(duration); }

  [[nodiscard]] std::vector<json::Value> pods(std::string_view labels = {}) {
    return cluster.list(resources::kPods, "default", labels);
  }
  // Pods that have neither ended nor are being deleted.
  [[nodiscard]] std::vector<json::Value> active(std::string_view labels = {}) {
    auto all = pods(labels);
    std::erase_if(all, [](const json::Value& pod) {
      const auto phase = pod.string_at({"status", "phase"});
      return phase == "Succeeded" || phase == "Failed" || !pod.string_at({"metadata", "deletionTimestamp"}).empty();
    });
    return all;
  }
  [[nodiscard]] std::size_t count_ready(std::string_view labels = {}) {
    const auto all = active(labels);
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const json::Value& pod) {
      const json::Value* condition = find_condition(object_at(pod, {"status"}), "Ready");
      return condition != nullptr && condition->string_at({"status"}) == "True";
    }));
  }
  [[nodiscard]] std::int64_t number(const kube::Resource& resource, std::string_view name, Path path) {
    const auto object = cluster.get(resource, "default", name);
    return object ? int_at(*object, path) : -1;
  }
  [[nodiscard]] std::string text(const kube::Resource& resource, std::string_view name, Path path) {
    const auto object = cluster.get(resource, "default", name);
    return object ? std::string(object->string_at(path)) : "(none)";
  }
  // "True NewReplicaSetAvailable", "" if there is none.
  [[nodiscard]] std::string condition(const kube::Resource& resource, std::string_view name, std::string_view type) {
    const auto object = cluster.get(resource, "default", name);
    const json::Value* found = object ? find_condition(object_at(*object, {"status"}), type) : nullptr;
    if (found == nullptr) return "";
    return std::string(found->string_at({"status"})) + " " + std::string(found->string_at({"reason"}));
  }
  bool wait(const std::function<bool()>& predicate, rt::Duration limit = std::chrono::seconds(30)) {
    return cluster.wait_until(predicate, limit);
  }
  [[nodiscard]] std::vector<std::string> event_reasons(std::string_view name) {
    std::vector<std::string> reasons;
    for (const json::Value& event : cluster.list({"", "v1", "events"}, "default")) {
      if (event.string_at({"involvedObject", "name"}) == name) reasons.emplace_back(event.string_at({"reason"}));
    }
    return reasons;
  }

  std::shared_ptr<CollectingLogSink> sink;
  Logger log;
  sim::Cluster cluster;
  TestKubelet kubelet;
  std::unique_ptr<WorkloadProcess> process;

 private:
  rt::SimRuntime& runtime_;
};

// spec.template with one container of an image.
[[nodiscard]] inline std::string pod_template(std::string_view app, std::string_view image,
                                              std::string_view restart = "Always") {
  return "{metadata: {labels: {app: " + std::string(app) + "}}, spec: {restartPolicy: " + std::string(restart) +
         ", containers: [{name: c, image: " + std::string(image) + "}]}}";
}

// Tells a story while the controllers run, under a few seeds.
inline void with_fixture(const std::function<void(WorkloadFixture&)>& body, const TestKubelet::FateOf& fate = {}) {
  rt::run_seeds(1, 4, [&](rt::SimRuntime& runtime) {
    WorkloadFixture fixture(runtime, fate);
    fixture.start();
    body(fixture);
  });
}

}  // namespace basalt::workloads::testing
