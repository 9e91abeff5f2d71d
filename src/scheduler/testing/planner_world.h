#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "api/gen/core_node.h"
#include "api/gen/core_workloads.h"
#include "api/gen/scheduling_podgroup.h"
#include "api/gen/scheduling_queue.h"
#include "base/check.h"
#include "json/value.h"
#include "scheduler/plan.h"
#include "scheduler/snapshot.h"
#include "scheduler/testing/objects.h"
#include "yaml/reader.h"

namespace basalt::scheduler::testing {

// The planner on a snapshot, without threads, clocks and servers: what it decides takes effect at once and without
// fail, except that victims leave only when the test says so.
class PlannerWorld {
 public:
  explicit PlannerWorld(PlannerOptions options = quick(), bool shard_is_hard = false)
      : snapshot({.scheduler_names = {"volcano"}, .shard_is_hard = shard_is_hard}), planner(snapshot, options) {
    apply(queue_yaml("root", "{weight: 1, reclaimable: false}") + queue_yaml("default"));
  }
  static PlannerOptions quick() {
    PlannerOptions options;
    options.ungrouped_wait = {};
    options.condition_delay = {};
    return options;
  }

  void apply(std::string_view yaml) {
    const auto documents = yaml::read_all(yaml);
    BASALT_CHECK(documents.ok());
    for (const auto& document : *documents) {
      if (!document.value.is_object()) continue;
      set(document.value);
    }
  }
  void remove_pod(const std::string& name) {
    snapshot.set_pod({"default", name}, nullptr, now);
    pods_.erase(name);
  }
  void remove_node(const std::string& name) { snapshot.set_node(name, nullptr); }
  void remove_group(const std::string& name) { snapshot.set_group({"default", name}, nullptr, now); }
  void set_phase(const std::string& pod, const std::string& phase) {
    json::Value& object = pods_.at(pod);
    json::Object status;
    status.set("phase", phase);
    object.as_object().set("status", json::Value(std::move(status)));
    set_pod(object);
  }

  // One cycle and its effects. Evicted pods stay in `victims` until leave().
  Plan cycle(rt::Duration later = std::chrono::milliseconds(10)) {
    now += later;
    ++wall_;
    const api::Time wall = api::Time::from(std::chrono::system_clock::time_point(std::chrono::seconds(wall_)));
    Plan plan = planner.run(now, wall, "session-" + std::to_string(wall_));
    for (const BindDecision& bind : plan.binds) {
      const Pod& pod = snapshot.pods()[bind.pod];
      json::Value object = pods_.at(pod.object->metadata.name.str());
      object.as_object().find("spec")->as_object().set("nodeName", snapshot.nodes()[pod.node].name);
      set_pod(object);
    }
    for (const EvictDecision& eviction : plan.evictions) {
      victims.emplace(snapshot.object(eviction.pod).metadata.name.str(), eviction.message);
    }
    for (const StatusDecision& status : plan.statuses)
      snapshot.wrote_status(status.group, status.status, snapshot.groups()[status.group].status_revision + 1);
    return plan;
  }
  // Cycles until nothing is decided any more.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      const Plan plan = cycle();
      if (plan.binds.empty() && plan.evictions.empty() && plan.statuses.empty() && !plan.has_more) return;
    }
    ADD_FAILURE() << "it does not come to rest";
  }
  // The victims leave; a controller may put new ones in their place, which the test does.
  void leave() {
    for (const auto& [name, message] : std::exchange(victims, {})) remove_pod(name);
  }

  Group& group(const std::string& name) {
    const GroupId id = snapshot.find_group({"default", name});
    BASALT_CHECK(id != kNone);
    return snapshot.groups()[id];
  }
  PendingReason reason(const std::string& name) { return planner.explain(snapshot.find_group({"default", name})); }
  PendingKind kind(const std::string& name) { return group(name).reason.kind; }
  GroupPhase phase(const std::string& name) { return group(name).status.phase; }
  int placed(const std::string& name) { return group(name).counts.placed; }
  std::string node_of(const std::string& pod) {
    const PodId id = snapshot.find_pod({"default", pod});
    if (id == kNone) return "gone";
    const NodeId node = snapshot.pods()[id].node;
    return node == kNone ? "" : snapshot.nodes()[node].name;
  }

  Snapshot snapshot;
  Planner planner;
  rt::Instant now = rt::Instant() + std::chrono::hours(1);
  std::map<std::string, std::string> victims;  // name -> message

 private:
  template <class T>
  std::shared_ptr<const T> read(const json::Value& value) {
    auto object = json::from_text<T>(value.to_text(), {.keep_unknown = false});
    BASALT_CHECK(object.ok());
    return std::make_shared<const T>(std::move(*object));
  }
  json::Value named(json::Value value) {
    json::Object& metadata = value.as_object().find("metadata")->as_object();
    metadata.set("resourceVersion", std::to_string(++revision_));
    const json::Value* known = metadata.find("uid");
    if (known == nullptr) metadata.set("uid", "uid-" + std::to_string(revision_));
    if (metadata.find("namespace") == nullptr) metadata.set("namespace", "default");
    return value;
  }
  void set_pod(json::Value value) {
    value = named(std::move(value));
    const std::string name(value.string_at({"metadata", "name"}));
    pods_[name] = value;
    snapshot.set_pod({"default", name}, read<SchedulablePod>(value), now);
  }
  void set(const json::Value& document) {
    const std::string kind(document.string_at({"kind"}));
    const std::string name(document.string_at({"metadata", "name"}));
    if (kind == "Pod") {
      set_pod(document);
      return;
    }
    const json::Value value = named(document);
    if (kind == "Node") {
      snapshot.set_node(name, read<api::core::NodeProjection>(value));
    } else if (kind == "PodGroup") {
      snapshot.set_group({"default", name}, read<api::scheduling::PodGroup>(value), now);
    } else if (kind == "Queue") {
      snapshot.set_queue(name, read<api::scheduling::Queue>(value));
    } else if (kind == "PriorityClass") {
      snapshot.set_priority_class(name, read<api::core::PriorityClass>(value));
    } else {
      ADD_FAILURE() << "unknown kind " << kind;
    }
  }

  std::map<std::string, json::Value> pods_;
  std::uint64_t revision_ = 0;
  std::int64_t wall_ = 1'800'000'000;
};

}  // namespace basalt::scheduler::testing
