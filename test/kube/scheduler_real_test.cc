#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "controllers/manager/run.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "scheduler/explain.h"
#include "scheduler/run.h"
#include "sim/actors.h"
#include "sim/driver.h"
#include "test/kube/kube_fixture.h"
#include "test/scenario/manifest_rights.h"
#include "test/scenario/recording_client.h"

// The gang scheduler with the controllers on a real API server, with exactly the rights of deploy/scheduler. The test
// plays the kubelet.

namespace basalt::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
namespace resources = sim::resources;

const fs::path kSource = BASALT_SOURCE_DIR;

// Passes everything on, the first binding twice, as a proxy does that lost the first answer: the scheduler sees the
// second.
class RepeatingClient final : public kube::Client {
 public:
  explicit RepeatingClient(kube::Client& inner) : inner_(inner) {}
  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    if (request.subresource == "binding" && !has_repeated_.exchange(true)) {
      EXPECT_TRUE(inner_.call(request, stop).ok());
    }
    return inner_.call(request, stop);
  }
  Result<kube::ListPage> list(const kube::ListRequest& request, const rt::StopToken& stop) override {
    return inner_.list(request, stop);
  }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest& request,
                                                   const rt::StopToken& stop) override {
    return inner_.watch(request, stop);
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request> requests, const kube::CallAllOptions&,
                                               const rt::StopToken& stop) override {
    std::vector<Result<kube::Response>> results;
    for (const kube::Request& request : requests) results.push_back(call(request, stop));
    return results;
  }

 private:
  kube::Client& inner_;
  std::atomic<bool> has_repeated_{false};
};

// Pods of gangs whose names begin with "stay" run until they are deleted.
sim::PodFate fate_of(const api::core::PodProjection& pod) {
  sim::PodFate fate;
  if (std::string_view(pod.metadata.name).starts_with("stay")) fate.run_for = rt::Duration::max();
  return fate;
}

class SchedulerReal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    auto started = RealKube::start({});
    cluster_ = std::move(started.kube);
    ASSERT_NE(cluster_, nullptr) << started.error;
    for (const char* what :
         {"deploy/namespace.yaml", "deploy/crds", "deploy/controllers.yaml", "deploy/scheduler/scheduler.yaml"}) {
      const CommandResult done =
          cluster_->kubectl({"apply", "--server-side", "--filename=" + (kSource / what).string()});
      ASSERT_EQ(done.exit, 0) << done.err;
    }
    const CommandResult ready =
        cluster_->kubectl({"wait", "--for=condition=Established", "--timeout=30s", "crds", "--all"});
    ASSERT_EQ(ready.exit, 0) << ready.err;
    admin_ = connect("");
    driver_ = std::make_unique<sim::Driver>(*runtime_, *admin_);
    kubelet_ = std::make_unique<sim::PlayedKubelet>(*runtime_, *admin_, &fate_of);
    kubelet_->start();
  }
  void TearDown() override {
    if (kubelet_) kubelet_->stop();
  }
  // As the administrator, or by his right to act for others as a service account.
  std::unique_ptr<kube::RestClient> connect(const std::string& service_account) {
    auto config = kube::load_client_config({.kubeconfig = cluster_->kubeconfig().string()},
                                           kube::ConfigEnvironment::of_process());
    EXPECT_TRUE(config.ok());
    if (!service_account.empty()) {
      config->impersonation.user = "system:serviceaccount:volcano-system:" + service_account;
      config->impersonation.groups = {"system:serviceaccounts", "system:serviceaccounts:volcano-system",
                                      "system:authenticated"};
    }
    auto client = kube::make_rest_client(*runtime_, Logger(), *config);
    EXPECT_TRUE(client.ok());
    return std::move(*client);
  }
  void add_node(const std::string& name, int cpu) {
    const std::string room = "{cpu: '" + std::to_string(cpu) + "', memory: 8Gi, pods: '110'}";
    driver_->apply("apiVersion: v1\nkind: Node\nmetadata: {name: " + name + "}\nstatus: {allocatable: " + room +
                   ", capacity: " + room + ", conditions: [{type: Ready, status: 'True'}]}\n");
    // The server takes every new node for one that is not ready; who takes the taint away is not here.
    driver_->patch(resources::kNodes, "", name, R"({"spec":{"taints":null}})");
  }
  void set_cpu(const std::string& node, int cpu) {
    const std::string amount = R"({"cpu":")" + std::to_string(cpu) + R"("})";
    driver_->patch(resources::kNodes, "", node,
                   R"({"status":{"allocatable":)" + amount + R"(,"capacity":)" + amount + "}}", "status");
  }
  static std::string job(const std::string& name, int pods, const std::string& priority_class) {
    const std::string count = std::to_string(pods);
    return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: " + name +
           "}\nspec:\n  schedulerName: volcano\n  queue: default\n  minAvailable: " + count +
           (priority_class.empty() ? "" : "\n  priorityClassName: " + priority_class) +
           "\n  tasks:\n  - {name: t, replicas: " + count +
           ", template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: "
           "{cpu: '1'}}}]}}}\n";
  }
  // A gang without a job: three pods of two cpus.
  void add_wide_pods() {
    for (int i = 0; i < 3; ++i) {
      driver_->apply("apiVersion: v1\nkind: Pod\nmetadata: {name: stay-wide-" + std::to_string(i) +
                     ", annotations: {scheduling.k8s.io/group-name: wide}}\nspec: {schedulerName: volcano, containers: "
                     "[{name: c, image: i, resources: {requests: {cpu: '2'}}}]}\n");
    }
  }
  bool wait_group(const std::string& name, const std::function<bool(const scheduler::Explanation&)>& predicate) {
    return driver_->wait_until(
        [&] {
          const auto object = driver_->get(resources::kPodGroups, "default", name);
          if (!object) return false;
          const auto group = json::from_text<api::scheduling::PodGroup>(object->to_text());
          return group.ok() && predicate(scheduler::explain_group(*group));
        },
        60s);
  }
  int events_of_wide() {
    int count = 0;
    for (const auto& event : driver_->list(resources::kEvents, "default")) {
      if (event.string_at({"involvedObject", "name"}) != "wide") continue;
      const json::Value* times = event.find("count");
      count += times == nullptr ? 1 : static_cast<int>(times->as_int());
    }
    return count;
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::unique_ptr<RealKube> cluster_;
  std::unique_ptr<kube::RestClient> admin_;
  std::unique_ptr<sim::Driver> driver_;
  std::unique_ptr<sim::PlayedKubelet> kubelet_;

  // What every run goes through.
  void gang_finishes();
  void reason_is_said();
  void priority_takes_the_room();
};

void SchedulerReal::gang_finishes() {
  driver_->apply(job("hello", 3, ""));
  EXPECT_TRUE(driver_->wait_job_phase("hello", "Completed", 120s)) << driver_->job_phase("hello");
}

void SchedulerReal::reason_is_said() {
  driver_->apply(
      "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {name: wide}\n"
      "spec: {minMember: 3, queue: default}\n");
  add_wide_pods();
  const auto has_no_room = [](const scheduler::Explanation& said) {
    return said.reason.kind == scheduler::PendingKind::NoRoom && said.reason.fitted == 2 && said.reason.needed == 3;
  };
  EXPECT_TRUE(wait_group("wide", has_no_room));
  EXPECT_TRUE(driver_->wait_until([&] {
    const auto pod = driver_->get(resources::kPods, "default", "stay-wide-0");
    const json::Value* conditions = pod ? pod->find_path({"status", "conditions"}) : nullptr;
    return conditions != nullptr && !conditions->as_array().empty() &&
           conditions->as_array().back().string_at({"reason"}) == "Unschedulable";
  })) << "the pods say it, too";
  EXPECT_TRUE(driver_->wait_until([&] { return events_of_wide() == 1; }));
  set_cpu("n1", 8);
  EXPECT_TRUE(wait_group("wide", [](const auto& said) { return said.phase == "Running"; }));
  // The same again is the same event, counted.
  set_cpu("n1", 4);
  for (int i = 0; i < 3; ++i) driver_->remove(resources::kPods, "default", "stay-wide-" + std::to_string(i));
  EXPECT_TRUE(wait_group("wide", [](const auto& said) { return said.phase != "Running"; }));
  add_wide_pods();
  EXPECT_TRUE(wait_group("wide", has_no_room));
  EXPECT_TRUE(driver_->wait_until([&] { return events_of_wide() == 2; }));
  for (int i = 0; i < 3; ++i) driver_->remove(resources::kPods, "default", "stay-wide-" + std::to_string(i));
  driver_->remove(resources::kPodGroups, "default", "wide");
}

void SchedulerReal::priority_takes_the_room() {
  for (const char* text : {"name: low}\nvalue: 10\n", "name: high}\nvalue: 1000\n"})
    driver_->apply(std::string("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {") + text);
  driver_->apply(job("stay-low", 4, "low"));
  ASSERT_TRUE(driver_->wait_job_phase("stay-low", "Running", 120s)) << driver_->job_phase("stay-low");
  driver_->apply(job("high", 4, "high"));
  EXPECT_TRUE(driver_->wait_job_phase("high", "Completed", 120s)) << driver_->job_phase("high");
  EXPECT_TRUE(driver_->wait_job_phase("stay-low", "Running", 120s)) << "it comes back when the room is free again";
}

TEST_F(SchedulerReal, GangsRunWithTheRightsOfTheManifestAndNoMore) {
  add_node("n1", 4);
  driver_->apply(
      "apiVersion: shard.volcano.sh/v1alpha1\nkind: NodeShard\nmetadata: {name: volcano}\nspec: {nodesDesired: "
      "[n1]}\n");
  auto sink = std::make_shared<CollectingLogSink>();
  const Logger log(sink, LogLevel::Error);
  rt::StopSource stop(*runtime_);

  const auto own = connect("volcano-scheduler");
  RecordingClient recorder(*own);
  RepeatingClient repeating(recorder);
  kube::Metrics metrics;
  scheduler::RunOptions options;
  options.host = "test";
  options.election.name = "volcano";
  options.scheduler.planner.shard_mode = scheduler::ShardMode::Soft;
  rt::Thread scheduling(*runtime_, "scheduling", [&] {
    const Done ended = scheduler::run_scheduler(*runtime_, repeating, recorder, log, metrics, options, stop.token());
    EXPECT_TRUE(ended.ok()) << ended.error().to_string();
  });
  // The scheduler makes the queues; only then the controllers, which would, too.
  EXPECT_TRUE(driver_->wait_until(
      [&] { return driver_->get(resources::kQueues, "", "default") && driver_->get(resources::kQueues, "", "root"); }));
  const auto controllers = connect("volcano-controllers");
  kube::Metrics controller_metrics;
  controllers::RunHealth health;
  controllers::RunOptions controller_options;
  controller_options.host = "test";
  controller_options.health = &health;
  rt::Thread controlling(*runtime_, "controlling", [&] {
    const Done ended = controllers::run_controllers(*runtime_, *controllers, *controllers, log, controller_metrics,
                                                    controller_options, stop.token());
    EXPECT_TRUE(ended.ok()) << ended.error().to_string();
  });

  gang_finishes();
  reason_is_said();
  priority_takes_the_room();
  const auto shard = driver_->get(resources::kNodeShards, "", "volcano");
  ASSERT_TRUE(shard.has_value());
  const json::Value* in_use = shard->find_path({"status", "nodesInUse"});
  EXPECT_TRUE(in_use != nullptr && in_use->to_text() == R"(["n1"])");
  stop.request_stop();
  controlling.join();
  scheduling.join();

  EXPECT_EQ(sink->first_error(), "");
  EXPECT_EQ(lines_of(recorder.refused()), "") << "were refused: deploy/scheduler/scheduler.yaml lacks them";
  const fs::path manifest = kSource / "deploy/scheduler/scheduler.yaml";
  std::set<Right> granted = granted_rights(manifest, "volcano-scheduler");
  ASSERT_FALSE(granted.empty());
  granted.merge(granted_rights(manifest, "volcano-scheduler-sharding"));
  const std::set<Right> used = recorder.used();
  EXPECT_EQ(lines_of(used, granted), "") << "are used, but not in the manifest";
  EXPECT_EQ(lines_of(granted, used), "") << "are in the manifest, but never used";
}

}  // namespace
}  // namespace basalt::test
