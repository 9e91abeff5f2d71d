#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "controllers/jobflow/jobflow_controller.h"
#include "controllers/queue/testing/controller_process.h"
#include "sim/cluster.h"
#include "sim/stage.h"

namespace basalt::controllers::jobflow::testing {

using controllers::testing::ControllerProcess;
namespace resources = sim::resources;
inline const kube::Resource kJobFlows{"flow.volcano.sh", "v1alpha1", "jobflows"};
inline const kube::Resource kJobTemplates{"flow.volcano.sh", "v1alpha1", "jobtemplates"};

// A cluster with one manager that runs both controllers, and the words that their scenarios are written in. Nobody runs
// jobs: a scenario says what becomes of them.
class JobFlowFixture {
 public:
  explicit JobFlowFixture(rt::Runtime& runtime)
      : sink(std::make_shared<CollectingLogSink>()),
        log(sink, LogLevel::Info),
        owned_(sim::open_cluster(runtime, {.log = log, .crds = {"jobs", "queues", "jobflows", "jobtemplates"}})),
        cluster(*owned_),
        runtime_(runtime) {}
  ~JobFlowFixture() {
    stop();
    EXPECT_EQ(sink->first_error(), "");
  }
  void start() {
    process = std::make_unique<ControllerProcess>(
        runtime_, cluster.client(), log,
        std::vector<ControllerProcess::Make>{
            [](ControllerContext& context) { return make_job_flow_controller(context); },
            [](ControllerContext& context) { return make_job_template_controller(context); }});
    process->start();
  }
  void stop() {
    if (process) process->stop();
    process.reset();
  }

  // `more` is further members of the specification: "maxRetry: 5, ".
  void job_template(std::string_view name, std::string_view more = {}, std::string_view image = "i") {
    cluster.apply("{apiVersion: flow.volcano.sh/v1alpha1, kind: JobTemplate, metadata: {name: " + std::string(name) +
                  "}, spec: {minAvailable: 1, " + std::string(more) +
                  "tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: c, image: " +
                  std::string(image) + "}]}}}]}}");
  }
  void job_templates(const std::vector<std::string>& names) {
    for (const std::string& name : names) job_template(name);
  }
  // Steps as "b: a, c": b depends on a and c.
  void flow(std::string_view name, const std::vector<std::string>& steps, std::string_view policy = {}) {
    std::string list;
    for (const std::string& step : steps) {
      const auto parts = base::split_once(step, ':');
      list += (list.empty() ? "{name: " : ", {name: ") + (parts ? std::string(parts->first) : step);
      if (parts) list += ", dependsOn: {targets: [" + std::string(parts->second) + "]}";
      list += "}";
    }
    std::string spec = "{flows: [" + list + "]";
    if (!policy.empty()) spec += ", jobRetainPolicy: " + std::string(policy);
    cluster.apply("{apiVersion: flow.volcano.sh/v1alpha1, kind: JobFlow, metadata: {name: " + std::string(name) +
                  "}, spec: " + spec + "}}");
  }
  // What the job controller would say of the job.
  void becomes(std::string_view job, std::string_view phase) {
    cluster.patch(resources::kJobs, "default", job,
                  R"({"status":{"state":{"phase":")" + std::string(phase) + R"(","message":"the test says so"}}})",
                  "status");
  }
  void remove_job(std::string_view name) { cluster.remove(resources::kJobs, "default", name); }

  bool exists(std::string_view job) { return cluster.get(resources::kJobs, "default", job).has_value(); }
  bool comes(std::string_view job, rt::Duration limit = std::chrono::seconds(10)) {
    return cluster.wait_until([&] { return exists(job); }, limit);
  }
  bool goes(std::string_view job, rt::Duration limit = std::chrono::seconds(10)) {
    return cluster.wait_until([&] { return !exists(job); }, limit);
  }
  // Makes the job end well, once it is there.
  void complete(std::string_view job) {
    ASSERT_TRUE(comes(job)) << job;
    becomes(job, "Completed");
  }
  [[nodiscard]] std::string text(std::string_view flow, std::initializer_list<std::string_view> path) {
    const auto object = cluster.get(kJobFlows, "default", flow);
    return object ? std::string(object->string_at(path)) : "(none)";
  }
  [[nodiscard]] std::string phase(std::string_view flow) { return text(flow, {"status", "state", "phase"}); }
  bool reaches(std::string_view flow, std::string_view wanted, rt::Duration limit = std::chrono::seconds(10)) {
    return cluster.wait_until([&] { return phase(flow) == wanted; }, limit);
  }
  // "f-a,f-b" of a list of the status.
  [[nodiscard]] std::string names(std::string_view flow, std::string_view list) {
    const auto object = cluster.get(kJobFlows, "default", flow);
    return object ? joined(object->find_path({"status", list})) : "(none)";
  }
  [[nodiscard]] std::string users_of(std::string_view job_template) {
    const auto object = cluster.get(kJobTemplates, "default", job_template);
    return object ? joined(object->find_path({"status", "jobDependsOnList"})) : "(none)";
  }
  bool lists(std::string_view flow, std::string_view list, std::string_view wanted) {
    return cluster.wait_until([&] { return names(flow, list) == wanted; }, std::chrono::seconds(10));
  }
  // The jobs that exist.
  [[nodiscard]] std::string jobs() {
    std::vector<std::string> found;
    for (const json::Value& job : cluster.list(resources::kJobs, "default"))
      found.emplace_back(job.string_at({"metadata", "name"}));
    std::ranges::sort(found);
    return base::join(found, ",");
  }
  // Of the events about this flow.
  bool has_event(std::string_view flow, std::string_view reason, std::string_view part) {
    return cluster.wait_until(
        [&] {
          for (const json::Value& event : cluster.list(resources::kEvents, "default")) {
            if (event.string_at({"involvedObject", "name"}) == flow && event.string_at({"reason"}) == reason &&
                event.string_at({"message"}).find(part) != std::string_view::npos)
              return true;
          }
          return false;
        },
        std::chrono::seconds(10));
  }
  [[nodiscard]] double counted(std::string_view phase) {
    return process->metrics()
        .counter("volcano_jobflow_" + std::string(phase) + "_phase_count", "", {{"jobflow_namespace", "default"}})
        .value();
  }
  // A controller counts when the answer to its write has come, which may be after others have seen the write.
  bool counts(std::string_view phase, double times) {
    return cluster.wait_until([&] { return counted(phase) == times; }, std::chrono::seconds(10));
  }
  void rest(rt::Duration duration = std::chrono::seconds(2)) { sim::let_pass(runtime_, duration); }

  std::shared_ptr<CollectingLogSink> sink;
  Logger log;

 private:
  static std::string joined(const json::Value* list) {
    if (list == nullptr || !list->is_array()) return "";
    std::string text;
    for (const json::Value& item : list->as_array()) text += (text.empty() ? "" : ",") + std::string(item.as_string());
    return text;
  }
  std::unique_ptr<sim::Driver> owned_;

 public:
  sim::Driver& cluster;
  std::unique_ptr<ControllerProcess> process;

 private:
  rt::Runtime& runtime_;
};

inline void with_fixture(const std::function<void(JobFlowFixture&)>& body) {
  sim::play(1, 3, [&](rt::Runtime& runtime) {
    JobFlowFixture fixture(runtime);
    body(fixture);
  });
}

}  // namespace basalt::controllers::jobflow::testing
