#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "controllers/cronjob/cronjob_controller.h"
#include "controllers/queue/testing/controller_process.h"
#include "rt/sim_test_support.h"
#include "sim/cluster.h"

namespace basalt::controllers::cronjob::testing {

using controllers::testing::ControllerProcess;
namespace resources = sim::resources;

// The simulation begins with the year 2026, UTC.
inline constexpr std::int64_t kFirstMinute = 29'453'760;

// A cluster with one manager that runs the controller, and the words that its scenarios are written in. Nobody runs
// jobs: a scenario says what becomes of them.
class CronJobFixture {
 public:
  using Hooks = std::vector<std::shared_ptr<apiserver::AdmissionHook>>;
  explicit CronJobFixture(rt::Runtime& runtime, Hooks hooks = {})
      : sink(std::make_shared<CollectingLogSink>()),
        log(sink, LogLevel::Info),
        cluster(runtime, {.log = log, .hooks = std::move(hooks), .crds = {"jobs", "queues", "cronjobs"}}),
        runtime_(runtime),
        begun_(runtime.wall_now()) {}
  ~CronJobFixture() {
    stop();
    cluster.stop();
    EXPECT_EQ(sink->first_error(), "");
  }
  void start() {
    process = std::make_unique<ControllerProcess>(runtime_, cluster.client(), log,
                                                  std::vector<ControllerProcess::Make>{[](ControllerContext& context) {
                                                    return make_cron_job_controller(context);
                                                  }});
    process->start();
  }
  void stop() {
    if (process) process->stop();
    process.reset();
  }

  // `more` is further members of the specification: "suspend: true, ".
  void cron_job(std::string_view name, std::string_view schedule, std::string_view more = {}) {
    cluster.apply(
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: CronJob, metadata: {name: " + std::string(name) +
        "}, spec: {schedule: '" + std::string(schedule) + "', " + std::string(more) +
        "jobTemplate: {metadata: {labels: {color: blue}, annotations: {size: large}}, spec: {minAvailable: 1, "
        "tasks: [{name: t, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]}}}}");
  }
  void edit(std::string_view name, std::string_view spec) {
    cluster.patch(resources::kCronJobs, "default", name, R"({"spec":)" + std::string(spec) + "}");
  }
  // What the job controller would say of the job.
  void becomes(std::string_view job, std::string_view phase) {
    cluster.patch(resources::kJobs, "default", job,
                  R"({"status":{"state":{"phase":")" + std::string(phase) + R"(","lastTransitionTime":")" +
                      api::Time::from(runtime_.wall_now()).to_string() + R"("}}})",
                  "status");
  }
  void remove_job(std::string_view name) { cluster.remove(resources::kJobs, "default", name); }

  // Lets time pass until this long after the beginning, and a little more for what is then done.
  void until(rt::Duration after) {
    runtime_.sleep_for(std::max<rt::Duration>(begun_ + after - runtime_.wall_now(), rt::Duration::zero()));
    rest();
  }
  void rest(rt::Duration duration = std::chrono::seconds(2)) { runtime_.sleep_for(duration); }

  // The name of the job for the n-th minute.
  [[nodiscard]] static std::string job_at(std::int64_t minute, std::string_view cron_job = "c") {
    return std::string(cron_job) + "-" + std::to_string(kFirstMinute + minute);
  }
  // The minutes for which there are jobs: "1,2". A job under another name is shown with it.
  [[nodiscard]] std::string minutes(std::string_view cron_job = "c") {
    std::vector<std::string> names;
    for (const json::Value& job : cluster.list(resources::kJobs, "default"))
      names.emplace_back(job.string_at({"metadata", "name"}));
    return minutes_of(std::move(names), cron_job);
  }
  // The same, of status.active.
  [[nodiscard]] std::string active(std::string_view cron_job = "c") {
    const auto object = cluster.get(resources::kCronJobs, "default", cron_job);
    const json::Value* list = object ? object->find_path({"status", "active"}) : nullptr;
    std::vector<std::string> names;
    if (list != nullptr && list->is_array()) {
      for (const json::Value& entry : list->as_array()) names.emplace_back(entry.string_at({"name"}));
    }
    return minutes_of(std::move(names), cron_job);
  }
  [[nodiscard]] std::string text(std::string_view cron_job, std::initializer_list<std::string_view> path) {
    const auto object = cluster.get(resources::kCronJobs, "default", cron_job);
    return object ? std::string(object->string_at(path)) : "(none)";
  }
  [[nodiscard]] std::string last_schedule(std::string_view cron_job = "c") {
    return text(cron_job, {"status", "lastScheduleTime"});
  }
  [[nodiscard]] std::string last_success(std::string_view cron_job = "c") {
    return text(cron_job, {"status", "lastSuccessfulTime"});
  }
  // How often it was told of the cron job.
  [[nodiscard]] std::int64_t events(std::string_view reason, std::string_view part = {},
                                    std::string_view cron_job = "c") {
    std::int64_t count = 0;
    for (const json::Value& event : cluster.list(resources::kEvents, "default")) {
      if (event.string_at({"involvedObject", "name"}) != cron_job || event.string_at({"reason"}) != reason ||
          event.string_at({"message"}).find(part) == std::string_view::npos)
        continue;
      const json::Value* times = event.find("count");
      count += times != nullptr && times->is_int() ? times->as_int() : 1;
    }
    return count;
  }

  std::shared_ptr<CollectingLogSink> sink;
  Logger log;
  sim::Cluster cluster;
  std::unique_ptr<ControllerProcess> process;

 private:
  static std::string minutes_of(std::vector<std::string> names, std::string_view cron_job) {
    std::ranges::sort(names);
    for (std::string& name : names) {
      const auto number = base::strip_prefix(name, std::string(cron_job) + "-");
      const auto minute = number ? base::parse_int64(*number) : std::nullopt;
      if (minute) name = std::to_string(*minute - kFirstMinute);
    }
    return base::join(names, ",");
  }

  rt::Runtime& runtime_;
  const rt::WallTime begun_;
};

inline void with_fixture(const std::function<void(CronJobFixture&)>& body) {
  rt::run_seeds(1, 3, [&](rt::SimRuntime& runtime) {
    CronJobFixture fixture(runtime);
    fixture.start();
    body(fixture);
  });
}

}  // namespace basalt::controllers::cronjob::testing
