#pragma once

#include <string>
#include <utility>

#include "kube/event_recorder.h"
#include "kube/fault_client.h"
#include "scheduler/scheduler.h"
#include "scheduler/testing/objects.h"
#include "sim/cluster.h"

namespace basalt::scheduler::testing {

namespace resources = sim::resources;

// A cluster, its scheduler, and what a test asks of them.
struct World {
  explicit World(rt::Runtime& runtime, SchedulerOptions options = {}) : World(runtime, nullptr, std::move(options)) {}
  World(rt::Runtime& runtime, kube::Client* through, SchedulerOptions options)
      : cluster(runtime),
        faults(runtime, cluster.client()),
        events(runtime, cluster.client(), Logger(), {.component = "scheduler"}),
        scheduler(runtime, through != nullptr ? *through : faults, Logger(), events, std::move(options)) {
    events.start();
    scheduler.start();
  }
  ~World() {
    scheduler.stop();
    events.stop();
    cluster.stop();
  }
  std::string node_of(const std::string& pod) {
    const auto object = cluster.get(resources::kPods, "default", pod);
    return object ? std::string(object->string_at({"spec", "nodeName"})) : "gone";
  }
  std::string phase_of(const std::string& group) {
    const auto object = cluster.get(resources::kPodGroups, "default", group);
    return object ? std::string(object->string_at({"status", "phase"})) : "gone";
  }
  int bound(const std::string& group) {
    int count = 0;
    for (const auto& pod : cluster.list(resources::kPods, "default", "gang=" + group))
      count += pod.string_at({"spec", "nodeName"}).empty() ? 0 : 1;
    return count;
  }
  std::string message_of(const std::string& group) {
    const auto object = cluster.get(resources::kPodGroups, "default", group);
    const json::Value* conditions = object ? object->find_path({"status", "conditions"}) : nullptr;
    if (conditions == nullptr || conditions->as_array().empty()) return "";
    const auto& condition = conditions->as_array().back();
    return std::string(condition.string_at({"type"})) + " " + std::string(condition.string_at({"reason"})) + ": " +
           std::string(condition.string_at({"message"}));
  }

  sim::Cluster cluster;
  kube::FaultClient faults;
  kube::EventRecorder events;
  Scheduler scheduler;
};

}  // namespace basalt::scheduler::testing
