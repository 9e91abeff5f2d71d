#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controllers/gc/gc_controller.h"
#include "controllers/queue/testing/controller_process.h"
#include "sim/cluster.h"
#include "sim/stage.h"

namespace basalt::controllers::gc::testing {

using controllers::testing::ControllerProcess;
namespace resources = sim::resources;

// A cluster with one manager that runs the collector.
class GcFixture {
 public:
  explicit GcFixture(rt::Runtime& runtime)
      : sink(std::make_shared<CollectingLogSink>()),
        log(sink, LogLevel::Info),
        owned_(sim::open_cluster(runtime, {.log = log})),
        cluster(*owned_),
        runtime_(runtime) {}
  ~GcFixture() {
    stop();
    EXPECT_EQ(sink->first_error(), "");
  }
  void start() {
    process = std::make_unique<ControllerProcess>(
        runtime_, cluster.client(), log,
        std::vector<ControllerProcess::Make>{[](ControllerContext& context) { return make_gc_controller(context); }});
    process->start();
  }
  void stop() {
    if (process) process->stop();
    process.reset();
  }
  void job(std::string_view name, int ttl) {
    cluster.apply("{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: " + std::string(name) +
                  "}, spec: {minAvailable: 1, " +
                  (ttl >= 0 ? "ttlSecondsAfterFinished: " + std::to_string(ttl) + ", " : std::string()) +
                  "tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]}}");
  }
  void finish(std::string_view name, std::string_view phase = "Completed") {
    phase_at(name, phase, api::Time::from(runtime_.wall_now()).to_string());
  }
  void phase_at(std::string_view name, std::string_view phase, std::string_view time) {
    std::string state = R"({"phase":")" + std::string(phase) + "\"";
    if (!time.empty()) state += R"(,"lastTransitionTime":")" + std::string(time) + "\"";
    cluster.patch(resources::kJobs, "default", name, R"({"status":{"state":)" + state + "}}}", "status");
  }
  void ttl(std::string_view name, std::string_view value) {
    cluster.patch(resources::kJobs, "default", name,
                  R"({"spec":{"ttlSecondsAfterFinished":)" + std::string(value) + "}}");
  }
  bool exists(std::string_view name) { return cluster.get(resources::kJobs, "default", name).has_value(); }
  bool goes(std::string_view name, rt::Duration limit) {
    return cluster.wait_until([&] { return !exists(name); }, limit);
  }
  void rest(rt::Duration duration) { sim::let_pass(runtime_, duration); }

  std::shared_ptr<CollectingLogSink> sink;
  Logger log;

 private:
  std::unique_ptr<sim::Driver> owned_;

 public:
  sim::Driver& cluster;
  std::unique_ptr<ControllerProcess> process;

 private:
  rt::Runtime& runtime_;
};

}  // namespace basalt::controllers::gc::testing
