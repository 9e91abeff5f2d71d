#include <malloc.h>

#include <algorithm>

#include "controllers/job/testing/job_bench.h"
#include "rt/test_size.h"

// More of what users of Volcano suffered from: many jobs, many pods, long times. Names as in users_test.cc.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

// The one worker does not stand still for a task that waits for another.
TEST(JobUsers, UsersA_2898_DependencyBlocksNoWorker) {
  JobControllerOptions options;
  options.workers = 1;
  scenario(
      [](Bench& bench) {
        bench.cluster.apply(JobText{
            .name = "waits", .tasks = {{"worker", 1}, {"master", 1}}, .task_more = "    dependsOn: {name: [master]}\n"}
                                .yaml());
        ASSERT_TRUE(bench.admit("waits"));
        ASSERT_TRUE(bench.has_pods(1, "waits"));
        ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
        EXPECT_EQ(bench.state("reason", "waits"), "DependencyNotReady");
        bench.cluster.set_pod_phase("default", "waits-master-0", "Running");
        EXPECT_TRUE(bench.has_pods(2, "waits"));
      },
      options);
}

// Hundreds of jobs at once all get a status and their end, and a controller that is started again finds them in order.
// Rows volcano#4964 and yunikorn's recovery.
TEST(JobUsers, UsersA_4964_UsersI_703_ManyJobsAllGetTheirStatus) {
  const int jobs = rt::test_size(400);
  scenario(
      [jobs](Bench& bench) {
        sim::PlayedScheduler scheduler(bench.cluster.runtime(), bench.cluster.client());
        sim::PlayedKubelet kubelet(bench.cluster.runtime(), bench.cluster.client());
        scheduler.start();
        kubelet.start();
        for (int i = 0; i < jobs; ++i)
          bench.cluster.apply(JobText{.name = "j" + std::to_string(i), .tasks = {{"t", 1}}}.yaml());
        const auto completed = [&] {
          int count = 0;
          for (const json::Value& job : bench.cluster.list(resources::kJobs, "default"))
            count += job.string_at({"status", "state", "phase"}) == "Completed" ? 1 : 0;
          return count;
        };
        EXPECT_TRUE(bench.cluster.wait_until([&] { return completed() == jobs; }, 120s)) << completed();
        bench.let_pass(5s);
        const std::size_t writes = bench.writes();
        bench.stop();
        bench.start();
        bench.let_pass(60s);
        EXPECT_EQ(bench.writes(), writes);
        kubelet.stop();
        scheduler.stop();
      },
      {}, 1);
}

// A job that is being deleted and held by somebody's finalizer is left in peace.
TEST(JobUsers, UsersA_3518_DeletionIsNotTriedAgainAndAgain) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
    bench.cluster.patch(resources::kJobs, "default", "j", R"({"metadata":{"finalizers":["example.com/hold"]}})");
    bench.cluster.remove(resources::kJobs, "default", "j");
    bench.let_pass(2s);
    const std::size_t writes = bench.writes();
    bench.let_pass(600s);
    EXPECT_EQ(bench.writes(), writes) << bench.write_log();
    bench.cluster.patch(resources::kJobs, "default", "j", R"({"metadata":{"finalizers":null}})");
    ASSERT_TRUE(bench.eventually([&] { return bench.uid(resources::kJobs, "j").empty(); }));
    ASSERT_TRUE(bench.has_pods(0));
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2)) << "the next of its name";
  });
}

// A restart that comes before the first pod.
TEST(JobUsers, UsersA_1241_RestartedBeforeItsFirstPodItGetsItsPods) {
  scenario([](Bench& bench) {
    bench.cluster.apply(JobText{}.yaml());
    ASSERT_TRUE(bench.reaches("Pending"));
    bench.command("RestartJob");
    ASSERT_TRUE(bench.eventually([&] { return bench.count("retryCount") == 1; }));
    ASSERT_TRUE(bench.reaches("Pending"));
    ASSERT_TRUE(bench.admit());
    ASSERT_TRUE(bench.has_pods(2));
    bench.set_all("Running");
    EXPECT_TRUE(bench.reaches("Running"));
  });
}

// What a job costs in calls does not depend on what else there is. Rows volcano#1689 and #2583.
TEST(JobUsers, UsersA_1689_UsersE_2583_PodsOfOthersCostNothing) {
  std::size_t calls_alone = 0;
  for (const int others : {0, 500}) {
    scenario(
        [&](Bench& bench) {
          bench.stop();
          for (int i = 0; i < others; ++i) {
            bench.cluster.apply("{apiVersion: v1, kind: Pod, metadata: {name: other-" + std::to_string(i) +
                                "}, spec: {containers: [{name: c, image: i}]}}");
          }
          const std::size_t before = bench.faults.calls();
          bench.start();
          ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
          for (int i = 0; i < others; i += 10)
            bench.cluster.set_pod_phase("default", "other-" + std::to_string(i), "Running");
          bench.set_all("Succeeded");
          ASSERT_TRUE(bench.reaches("Completed"));
          bench.let_pass(3s);
          const std::size_t calls = bench.faults.calls() - before;
          if (others == 0) calls_alone = calls;
          // Counters are gathered by time, so a status may be written once more or less.
          EXPECT_LE(calls, calls_alone + 2);
        },
        {}, 1);
  }
}

// A job is Running only as long as enough of its pods are.
TEST(JobUsers, UsersA_2684_NotRunningWhileItsPodIsPending) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
    bench.cluster.remove(resources::kPods, "default", "j-t-0", 0);
    ASSERT_TRUE(bench.has_pods(2));
    EXPECT_TRUE(bench.reaches("Pending"));
    bench.cluster.set_pod_phase("default", "j-t-0", "Running");
    EXPECT_TRUE(bench.reaches("Running"));
  });
}

// Notes how many requests are sent at once.
class WaveClient : public kube::Client {
 public:
  explicit WaveClient(kube::Client& inner) : inner_(inner) {}
  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    return inner_.call(request, stop);
  }
  Result<kube::ListPage> list(const kube::ListRequest& request, const rt::StopToken& stop) override {
    return inner_.list(request, stop);
  }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest& request,
                                                   const rt::StopToken& stop) override {
    return inner_.watch(request, stop);
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request> requests,
                                               const kube::CallAllOptions& options,
                                               const rt::StopToken& stop) override {
    in_flight_max = std::max(in_flight_max, options.in_flight_max);
    largest_wave = std::max(largest_wave, requests.size());
    return inner_.call_all(requests, options, stop);
  }
  int in_flight_max = 0;
  std::size_t largest_wave = 0;

 private:
  kube::Client& inner_;
};

// Pods of a large job are made in portions, so many at once and no more.
TEST(JobUsers, UsersE_2933_PodsAreMadeSoManyAtOnce) {
  scenario(
      [](Bench& bench) {
        bench.stop();
        WaveClient waves(bench.cluster.client());
        JobControllerOptions options;
        options.pods_in_flight = 16;
        ManagerProcess process(bench.cluster.runtime(), waves, {}, options);
        bench.cluster.apply(JobText{.tasks = {{"t", 2500}}}.yaml());
        ASSERT_TRUE(bench.admit());
        ASSERT_TRUE(bench.has_pods(2500));
        EXPECT_EQ(waves.in_flight_max, 16);
        EXPECT_LE(waves.largest_wave, 1024U) << "all bodies in memory at once";
      },
      {}, 1);
}

// The end of a job is final: that its pods are collected brings neither its group nor its pods back.
TEST(JobUsers, UsersH_4195_NothingComesBackWhenThePodsOfAFinishedJobGo) {
  scenario([](Bench& bench) {
    ASSERT_TRUE(bench.run_job(JobText{}.yaml(), 2));
    bench.set_all("Succeeded");
    ASSERT_TRUE(bench.reaches("Completed"));
    ASSERT_TRUE(bench.eventually([&] { return bench.group_uid().empty(); }));
    for (const char* pod : {"j-t-0", "j-t-1"}) bench.cluster.remove(resources::kPods, "default", pod);
    bench.let_pass(60s);
    bench.stop();
    bench.start();
    bench.let_pass(60s);
    EXPECT_EQ(bench.phase(), "Completed");
    EXPECT_EQ(bench.group_uid(), "");
    EXPECT_TRUE(bench.pod_names().empty());
    EXPECT_EQ(bench.count("succeeded"), 2);
  });
}

// Jobs of MPI in all shapes that users gave them.
TEST(JobUsers, UsersI_4289_MpiJobsOfAllShapes) {
  const std::vector<std::pair<std::vector<std::pair<std::string, int>>, std::string>> shapes = {
      {{{"mpimaster", 1}, {"mpiworker", 2}}, "[\"--master=mpimaster\", \"--worker=mpiworker\", \"--port=22\"]"},
      {{{"master", 1}, {"worker", 1}}, "[]"},
      {{{"master", 1}}, "[]"},
      {{{"worker", 2}}, "[]"},
      {{{"master", 1}, {"worker", 0}}, "[\"--port=no\"]"},
      {{{"master", 1}, {"worker", 1}}, "[\"--master=\", \"--worker=\"]"},
  };
  JobControllerOptions options;
  options.make_keys = [] { return SshKeyPair{"private\n", "ssh-rsa public\n"}; };
  scenario(
      [&](Bench& bench) {
        for (std::size_t i = 0; i < shapes.size(); ++i) {
          SCOPED_TRACE(i);
          const std::string name = "j" + std::to_string(i);
          std::size_t pods = 0;
          for (const auto& [task, replicas] : shapes[i].first) pods += static_cast<std::size_t>(replicas);
          const JobText text{.name = name,
                             .tasks = shapes[i].first,
                             .spec = "  plugins: {ssh: [], svc: [], mpi: " + shapes[i].second + "}\n"};
          EXPECT_TRUE(bench.run_job(text.yaml(), pods, name));
        }
      },
      options, 2);
}

// A cluster in which nothing happens: nothing is asked but to go on watching, and nothing piles up.
TEST(JobUsers, UsersI_3205_UsersI_52657_NothingGrowsWhereNothingHappens) {
  scenario(
      [](Bench& bench) {
        const auto heap = [] {
          const struct mallinfo2 info = mallinfo2();
          return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
        };
        bench.let_pass(12h);
        const std::size_t calls = bench.faults.calls();
        const std::int64_t before = heap();
        bench.let_pass(24h);
        EXPECT_LT(heap() - before, 1 << 20);
        const auto log = bench.faults.call_log();
        for (std::size_t i = calls; i < log.size(); ++i) EXPECT_TRUE(log[i].starts_with("Watch")) << log[i];
      },
      {}, 1);
}

}  // namespace
}  // namespace basalt::controllers::job
