#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controllers/podgroup/group_builder.h"
#include "controllers/podgroup/pod_group_controller.h"
#include "controllers/queue/testing/controller_process.h"
#include "sim/cluster.h"
#include "sim/stage.h"

namespace basalt::controllers::podgroup::testing {

using controllers::testing::ControllerProcess;
namespace resources = sim::resources;

// A cluster with one manager that runs the controller; the test plays the workloads' own controllers.
class PodGroupFixture {
 public:
  explicit PodGroupFixture(rt::Runtime& runtime, PodGroupControllerOptions options = {},
                           std::vector<std::shared_ptr<apiserver::AdmissionHook>> hooks = {})
      : sink(std::make_shared<CollectingLogSink>()),
        log(sink, LogLevel::Info),
        owned_(sim::open_cluster(runtime, {.log = log, .hooks = std::move(hooks)})),
        cluster(*owned_),
        runtime_(runtime),
        options_(std::move(options)) {}
  ~PodGroupFixture() {
    stop();
    EXPECT_EQ(sink->first_error(), "");
  }
  void start() {
    process = std::make_unique<ControllerProcess>(
        runtime_, cluster.client(), log, std::vector<ControllerProcess::Make>{[this](ControllerContext& context) {
          return make_pod_group_controller(context, options_);
        }});
    process->start();
  }
  void stop() {
    if (process) process->stop();
    process.reset();
  }
  void rest(rt::Duration duration = std::chrono::seconds(2)) { sim::let_pass(runtime_, duration); }

  struct PodOptions {
    std::string owner;  // flow text of one owner reference, "" for none
    std::string annotations;
    std::string labels;
    std::string cpu = "1";
    std::string scheduler = "volcano";
    std::string ns = "default";
  };
  std::string pod(std::string_view name) { return pod(name, {}); }
  std::string pod(std::string_view name, const PodOptions& options) {
    const json::Value stored = cluster.apply(
        "{apiVersion: v1, kind: Pod, metadata: {name: " + std::string(name) + ", namespace: " + options.ns +
        ", annotations: {" + options.annotations + "}, labels: {" + options.labels + "}, ownerReferences: [" +
        options.owner + "]}, spec: {schedulerName: " + options.scheduler +
        ", containers: [{name: c, image: i, resources: {requests: {cpu: '" + options.cpu + "'}}}]}}");
    return std::string(stored.string_at({"metadata", "uid"}));
  }
  // Returns the owner reference for its pods.
  std::string workload(std::string_view kind, std::string_view name, int replicas, std::string_view annotations = {},
                       std::string_view ns = "default") {
    const json::Value stored =
        cluster.apply("{apiVersion: apps/v1, kind: " + std::string(kind) + ", metadata: {name: " + std::string(name) +
                      ", namespace: " + std::string(ns) + ", annotations: {" + std::string(annotations) +
                      "}}, spec: {replicas: " + std::to_string(replicas) +
                      ", serviceName: s, selector: {matchLabels: {app: x}}, template: {metadata: {labels: "
                      "{app: x}}, spec: {containers: [{name: c, image: i}]}}}}");
    return "{apiVersion: apps/v1, kind: " + std::string(kind) + ", name: " + std::string(name) +
           ", uid: " + std::string(stored.string_at({"metadata", "uid"})) +
           ", controller: true, blockOwnerDeletion: true}";
  }
  void scale(const kube::Resource& resource, std::string_view name, int replicas) {
    cluster.patch(resource, "default", name, R"({"spec":{"replicas":)" + std::to_string(replicas) + "}}");
  }

  std::string group_of(std::string_view pod, std::string_view ns = "default") {
    const auto object = cluster.get(resources::kPods, ns, pod);
    return object ? std::string(object->string_at({"metadata", "annotations", "scheduling.k8s.io/group-name"})) : "";
  }
  std::optional<json::Value> group(std::string_view name, std::string_view ns = "default") {
    return name.empty() ? std::nullopt : cluster.get(resources::kPodGroups, ns, name);
  }
  // The group of a pod, once it has one that exists.
  json::Value wait_group(std::string_view pod, std::string_view ns = "default",
                         rt::Duration limit = std::chrono::seconds(10)) {
    const bool found = cluster.wait_until([&] { return group(group_of(pod, ns), ns).has_value(); }, limit);
    if (!found) ADD_FAILURE() << "pod " << pod << " has no group, but names " << group_of(pod, ns);
    return found ? *group(group_of(pod, ns), ns) : json::Value();
  }

  // Every live pod of ours is in the group of its owner, which exists once; others are untouched; no group is without
  // an owner that exists.
  void check() {
    std::map<std::string, int> owners;
    for (const json::Value& item : cluster.list(resources::kPods)) {
      const std::string name(item.string_at({"metadata", "name"}));
      SCOPED_TRACE(name);
      const std::string_view named = item.string_at({"metadata", "annotations", "scheduling.k8s.io/group-name"});
      if (item.string_at({"spec", "schedulerName"}) != "volcano") {
        EXPECT_EQ(named, "");
        continue;
      }
      std::string uid(item.string_at({"metadata", "uid"}));
      const json::Value* references = item.find_path({"metadata", "ownerReferences"});
      if (references != nullptr && !references->as_array().empty())
        uid = std::string(references->as_array()[0].string_at({"uid"}));
      EXPECT_EQ(named, group_name(uid));
      EXPECT_TRUE(group(named).has_value());
      owners[group_name(uid)]++;
    }
    for (const json::Value& item : cluster.list(resources::kPodGroups))
      EXPECT_EQ(owners.count(std::string(item.string_at({"metadata", "name"}))), 1u) << item.to_text();
    EXPECT_EQ(sink->first_error(), "");
  }

  std::shared_ptr<CollectingLogSink> sink;
  Logger log;

 private:
  std::unique_ptr<sim::Driver> owned_;

 public:
  sim::Driver& cluster;
  std::unique_ptr<ControllerProcess> process;

 private:
  rt::Runtime& runtime_;
  const PodGroupControllerOptions options_;
};

inline std::int64_t int_at(const json::Value& value, std::initializer_list<std::string_view> path) {
  const json::Value* found = value.find_path(path);
  return found != nullptr && found->is_int() ? found->as_int() : -1;
}

}  // namespace basalt::controllers::podgroup::testing
