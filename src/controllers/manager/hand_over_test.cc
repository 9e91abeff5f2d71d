#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controllers/manager/run.h"
#include "kube/fault_client.h"
#include "rt/sim_test_support.h"
#include "sim/actors.h"
#include "sim/cluster.h"

// The leadership goes from one process to another in the middle of the work, at each write of a reference run.

namespace basalt::controllers {
namespace {

using std::chrono::seconds;
namespace resources = sim::resources;
const kube::Resource kLeases{"coordination.k8s.io", "v1", "leases"};

// Passes everything on, counts the writes that matter (not events and the lease), and calls `act` before write number
// `at`.
class WatchedClient final : public kube::Client {
 public:
  WatchedClient(rt::Runtime& runtime, kube::Client& inner) : runtime_(runtime), inner_(inner) {}

  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    if (request.verb != kube::Verb::Get && request.resource.plural != "events") note();
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

  std::uint64_t at = 0;
  std::function<void()> act;
  std::uint64_t writes = 0;
  std::optional<rt::Instant> first_write;
  std::optional<rt::Instant> last_write;

 private:
  void note() {
    bool is_time = false;
    {
      rt::MutexLock lock(mutex_);
      last_write = runtime_.now();
      if (!first_write) first_write = last_write;
      is_time = ++writes == at;
    }
    if (is_time) act();
  }

  rt::Mutex mutex_;
  rt::Runtime& runtime_;
  kube::Client& inner_;
};

// One process: run_controllers() with its own connections.
class Replica {
 public:
  Replica(rt::Runtime& runtime, sim::Cluster& cluster, std::string host)
      : client(runtime, cluster.client()), elections(runtime, cluster.client()), runtime_(runtime), stop(runtime) {
    options_.host = std::move(host);
    options_.health = &health;
  }
  void start() {
    thread_ = rt::Thread(runtime_, "replica", [this] {
      ended = run_controllers(runtime_, client, elections, Logger(), metrics_, options_, stop.token());
    });
  }
  void join() {
    stop.request_stop();
    thread_.join();
  }

  WatchedClient client;
  kube::FaultClient elections;
  RunHealth health;
  std::optional<Done> ended;

 private:
  rt::Runtime& runtime_;
  kube::Metrics metrics_;
  RunOptions options_;
  rt::Thread thread_;

 public:
  rt::StopSource stop;
};

constexpr std::string_view kWork = R"(
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: kept}
spec:
  minAvailable: 2
  schedulerName: volcano
  queue: side
  tasks: [{name: t, replicas: 2, minAvailable: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}]
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: collected}
spec:
  minAvailable: 1
  ttlSecondsAfterFinished: 2
  schedulerName: volcano
  queue: default
  tasks: [{name: t, replicas: 1, minAvailable: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {schedulerName: volcano, restartPolicy: Never, containers: [{name: c, image: i}]}
)";

struct HandOver {
  std::uint64_t at = 0;     // which write of the first; 0: never
  bool is_cut_off = false;  // it cannot renew its lease, while its other calls go through; else it is asked to stop
};

// Returns the writes of the first.
std::uint64_t run_with(const HandOver& hand_over) {
  std::uint64_t writes = 0;
  rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: volcano-system}}");
    sim::PlayedScheduler scheduler(runtime, cluster.client());
    sim::PlayedKubelet kubelet(runtime, cluster.client());
    scheduler.start();
    kubelet.start();
    Replica first(runtime, cluster, "first");
    Replica second(runtime, cluster, "second");
    first.client.at = hand_over.at;
    first.client.act = [&] {
      if (hand_over.is_cut_off) {
        first.elections.set_away(true);
      } else {
        first.stop.request_stop();
      }
    };
    first.start();
    EXPECT_TRUE(cluster.wait_until(
        [&] { return cluster.get(kLeases, "volcano-system", "vc-controller-manager").has_value(); }));
    second.start();
    const json::Value queue = cluster.apply(
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: side}, spec: {weight: 1}}");
    cluster.apply(kWork);
    EXPECT_TRUE(cluster.wait_job_phase("kept", "Completed")) << cluster.job_phase("kept");
    cluster.apply(
        "{apiVersion: bus.volcano.sh/v1alpha1, kind: Command, metadata: {name: close}, action: CloseQueue, target: "
        "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, name: side, uid: " +
        std::string(queue.string_at({"metadata", "uid"})) + "}}");
    EXPECT_TRUE(cluster.wait_until([&] {
      return cluster.get(resources::kQueues, "", "side")->string_at({"status", "state"}) == "Closed" &&
             cluster.list(resources::kCommands).empty() && !cluster.get(resources::kJobs, "default", "collected");
    })) << cluster.get(resources::kQueues, "", "side")->to_text();
    EXPECT_TRUE(cluster.wait_until([&] {
      const auto pod = cluster.get(resources::kPods, "default", "plain");
      return !pod->string_at({"metadata", "annotations", "scheduling.k8s.io/group-name"}).empty();
    }));
    runtime.sleep_for(seconds(20));
    EXPECT_EQ(cluster.list(resources::kPods, "", "volcano.sh/job-name=kept").size(), 2u);
    writes = first.client.writes;
    // Never both: the first has written for the last time before the second begins.
    if (second.client.first_write) {
      EXPECT_LE(*first.client.last_write, *second.client.first_write);
    }
    if (hand_over.is_cut_off) {
      EXPECT_TRUE(first.ended && !first.ended->ok()) << "it ends by itself";
    }
    first.join();
    second.join();
    if (!hand_over.is_cut_off) {
      EXPECT_TRUE(first.ended && first.ended->ok());
    }
    EXPECT_TRUE(second.ended && second.ended->ok());
    kubelet.stop();
    scheduler.stop();
    cluster.stop();
  });
  return writes;
}

void hand_over_at_every_write(bool is_cut_off) {
  const std::uint64_t writes = run_with({});
  EXPECT_GE(writes, 15u);
  for (std::uint64_t at = 1; at <= writes; at += rt::stride_of() > 1 ? 4 : 1) {
    run_with({at, is_cut_off});
    if (::testing::Test::HasFailure()) FAIL() << "hand-over at write " << at << " of " << writes;
  }
  std::printf("manager: %llu hand-overs, %s\n", static_cast<unsigned long long>(writes),
              is_cut_off ? "cut off from the lease" : "asked to stop");
}

TEST(HandOver, TheFirstIsAskedToStopAtEveryWrite) { hand_over_at_every_write(false); }
// users.md, theme J: volcano#1406, #3835.
TEST(HandOver, Users1406_TheFirstLosesItsLeaseAtEveryWrite) { hand_over_at_every_write(true); }

TEST(RunHealth, NamesTheCachesThatAreNotFilled) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    sim::Cluster cluster(runtime);
    kube::FaultClient client(runtime, cluster.client());
    client.set_away(true);
    kube::Metrics metrics;
    RunHealth health;
    RunOptions options;
    options.leader_elect = false;
    options.health = &health;
    EXPECT_TRUE(health.ready().ok()) << "nothing is asked of it yet";
    rt::StopSource stop(runtime);
    rt::Thread thread(runtime, "run", [&] {
      EXPECT_TRUE(run_controllers(runtime, client, client, Logger(), metrics, options, stop.token()).ok());
    });
    runtime.sleep_for(seconds(5));
    const Done waiting = health.ready();
    ASSERT_FALSE(waiting.ok());
    for (const char* cache : {"queues.scheduling.volcano.sh", "jobs.batch.volcano.sh", "pods", "replicasets.apps"})
      EXPECT_NE(waiting.error().message.find(cache), std::string::npos) << waiting.error().message;
    client.set_away(false);
    EXPECT_TRUE(cluster.wait_until([&] { return health.ready().ok(); }, seconds(10)));
    stop.request_stop();
    thread.join();
    EXPECT_TRUE(health.ready().ok());
    cluster.stop();
  });
}

}  // namespace
}  // namespace basalt::controllers
