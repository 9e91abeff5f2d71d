#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controllers/hyperjob/test_support.h"
#include "controllers/job/job_controller.h"
#include "federation/federation.h"
#include "sim/actors.h"

// For tests only: a host and its members, each an API of its own, with everything that runs on them.
namespace basalt::federation {

namespace resources = sim::resources;

// A member cluster: job controller, played scheduler and kubelet.
class MemberWorld {
 public:
  MemberWorld(rt::Runtime& runtime, const Logger& log, const sim::PlayedKubelet::FateOf& fate)
      : cluster(runtime, {.crds = {"jobs", "podgroups", "queues", "commands"}}),
        link(runtime, cluster.client()),
        events_(runtime, cluster.client(), log, {.component = "vc-controller-manager"}),
        informers_(runtime, cluster.client(), log, &metrics_),
        context_{runtime, cluster.client(), log, events_, metrics_, informers_},
        controller_(controllers::job::make_job_controller(context_, {})),
        scheduler_(runtime, cluster.client()),
        kubelet_(runtime, cluster.client(), fate) {
    cluster.apply(
        "apiVersion: v1\nkind: Node\nmetadata: {name: node-0}\nstatus: {allocatable: {cpu: '8', memory: 16Gi, pods: "
        "'100'}}\n");
    cluster.patch(resources::kNodes, "", "node-0",
                  R"({"status":{"allocatable":{"cpu":"8","memory":"16Gi","pods":"100"}}})", "status");
    events_.start();
    informers_.start();
    BASALT_CHECK(informers_.wait_synced({}));
    controller_->start();
    scheduler_.start();
    kubelet_.start();
  }
  ~MemberWorld() {
    kubelet_.stop();
    scheduler_.stop();
    controller_->stop();
    informers_.stop();
    events_.stop(std::chrono::seconds(0));
    controller_.reset();
    cluster.stop();
  }
  sim::Cluster cluster;
  kube::FaultClient link;  // the federation's way to it

 private:
  kube::Metrics metrics_;
  kube::EventRecorder events_;
  controllers::SharedInformers informers_;
  controllers::ControllerContext context_;
  std::unique_ptr<controllers::Controller> controller_;
  sim::PlayedScheduler scheduler_;
  sim::PlayedKubelet kubelet_;
};

class World {
 public:
  explicit World(rt::Runtime& runtime, int count = 3, FederationOptions options = {})
      : runtime_(runtime), options_(options), bench(runtime, false) {
    for (const char* name : {"c1", "c2"}) bench.cluster.remove(resources::kClusters, "", name);
    for (int i = 1; i <= count; ++i) {
      members.emplace("c" + std::to_string(i),
                      std::make_unique<MemberWorld>(runtime, Logger(),
                                                    [this](const api::core::PodProjection& pod) { return fate(pod); }));
    }
    bench.restart();
    start_federation();
    BASALT_CHECK(bench.cluster.wait_until([&] { return ready_clusters() == count; }));
  }
  ~World() {
    stop_federation();
    bench.process.reset();
    members.clear();
  }
  void start_federation() {
    std::map<std::string, kube::Client*> clients;
    for (const auto& [name, member] : members) clients.emplace(name, wrapped(name, member->link));
    federation_ =
        std::make_unique<Federation>(runtime_, *wrapped("", bench.cluster.client()), clients, Logger(), options_);
    federation_->start();
  }
  void stop_federation() {
    if (!federation_) return;
    federation_->stop();
    federation_.reset();
  }
  [[nodiscard]] int ready_clusters() {
    int count = 0;
    for (const json::Value& cluster : bench.cluster.list(resources::kClusters)) {
      const json::Value* conditions = cluster.find_path({"status", "conditions"});
      if (conditions == nullptr) continue;
      for (const json::Value& condition : conditions->as_array())
        count += condition.string_at({"type"}) == "Ready" && condition.string_at({"status"}) == "True" ? 1 : 0;
    }
    return count;
  }
  // The clusters that have a job of this name.
  [[nodiscard]] std::vector<std::string> where(std::string_view job) {
    std::vector<std::string> found;
    for (const auto& [name, member] : members) {
      if (member->cluster.get(resources::kJobs, "default", job)) found.push_back(name);
    }
    return found;
  }
  bool wait_where(std::string_view job, const std::vector<std::string>& clusters) {
    return bench.cluster.wait_until([&] { return where(job) == clusters; });
  }
  [[nodiscard]] std::optional<json::Value> binding(std::string_view job) {
    return bench.cluster.get(resources::kBindings, "default", std::string(job) + "-job");
  }
  [[nodiscard]] rt::Runtime& runtime() { return runtime_; }

  // Set before pods run.
  sim::PodFate fate_of_all;
  std::string failing;  // pods of jobs with this in their name fail
  // What the federation gets instead of its client to a member, or to the host (""). Set before start_federation().
  std::function<kube::Client*(const std::string& member, kube::Client&)> wrap;

 private:
  sim::PodFate fate(const api::core::PodProjection& pod) const {
    sim::PodFate result = fate_of_all;
    if (!failing.empty() && pod.metadata.name.str().find(failing) != std::string::npos) result.exit_code = 7;
    return result;
  }
  kube::Client* wrapped(const std::string& name, kube::Client& client) const {
    return wrap ? wrap(name, client) : &client;
  }
  rt::Runtime& runtime_;
  const FederationOptions options_;

 public:
  controllers::hyperjob::Bench bench;
  std::map<std::string, std::unique_ptr<MemberWorld>> members;

 private:
  std::unique_ptr<Federation> federation_;
};

inline void with_world(int members, const std::function<void(World&)>& body, std::uint64_t seeds = 2,
                       FederationOptions options = {}) {
  rt::run_seeds(1, seeds, [&](rt::SimRuntime& runtime) {
    World world(runtime, members, options);
    body(world);
  });
}

}  // namespace basalt::federation
