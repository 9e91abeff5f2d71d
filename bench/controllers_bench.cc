// The job controller on the embedded API server, in memory and in one process, with a played scheduler and kubelet:
//
//   throughput   10,000 jobs x 1 pod, submitted to Completed     >= 2,000 jobs/s
//   big job      1 job x 10,000 pods, submitted to all created   <= 1 s
//   idle         10,000 running jobs                             no write, <= 1 % of a core
//   writes       of the controller for a job's life              <= 8 beside the pods (one pod and ten pods)
//
// Usage: controllers_bench [jobs]. Other arguments are ignored. Exits with 1 if a bar is missed.

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "controllers/common/controller.h"
#include "controllers/job/job_controller.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"
#include "kube/metrics.h"
#include "rt/real_runtime.h"
#include "sim/actors.h"
#include "sim/cluster.h"

namespace basalt {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
namespace resources = sim::resources;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Counts the controller's writes by resource.
class CountingClient : public kube::Client {
 public:
  explicit CountingClient(kube::Client& inner) : inner_(inner) {}
  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    count(request);
    auto response = inner_.call(request, stop);
    if (!response.ok() && response.error().is(Reason::Conflict)) ++conflicts;
    return response;
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
    auto results = inner_.call_all(requests, options, stop);
    for (const kube::Request& request : requests) count(request);
    return results;
  }
  std::atomic<std::uint64_t> pods{0};
  std::atomic<std::uint64_t> events{0};
  std::atomic<std::uint64_t> others{0};
  std::atomic<std::uint64_t> conflicts{0};
  [[nodiscard]] std::uint64_t writes() const { return pods + events + others; }

 private:
  void count(const kube::Request& request) {
    if (request.verb == kube::Verb::Get) return;
    if (request.resource.plural == "pods") {
      ++pods;
    } else if (request.resource.plural == "events") {
      ++events;
    } else {
      ++others;
    }
  }
  kube::Client& inner_;
};

// A cluster with the job controller, scheduler and kubelet.
class World {
 public:
  World(rt::Runtime& runtime, sim::PlayedKubelet::FateOf fate)
      : runtime_(runtime),
        cluster(runtime),
        client(cluster.client()),
        events_(runtime, client, Logger(), {.component = "vc-controller-manager"}),
        informers_(runtime, client, Logger(), &metrics_),
        context_{runtime, client, Logger(), events_, metrics_, informers_},
        scheduler_(runtime, cluster.client()),
        kubelet_(runtime, cluster.client(), std::move(fate)),
        jobs_(runtime, cluster.client(), Logger(), {.reflector = {.resource = resources::kJobs}, .indexes = {}}),
        controller_(controllers::job::make_job_controller(context_)),
        stop_(runtime) {
    jobs_.add_handler([this](const kube::Change<api::batch::Job>& change) {
      if (change.is_deleted()) return;
      const std::string& after = change.after->status.state.phase;
      if (change.before && change.before->status.state.phase == after) return;
      if (after == "Completed") ++completed;
      if (after == "Running") ++running;
    });
    jobs_.start();
    events_.start();
    informers_.start();
    if (!informers_.wait_synced(stop_.token())) std::abort();
    controller_->start();
    scheduler_.start();
    kubelet_.start();
  }
  ~World() {
    kubelet_.stop();
    scheduler_.stop();
    controller_->stop();
    informers_.stop();
    events_.stop(0s);
    jobs_.stop();
    cluster.stop();
  }

  void submit(int jobs, int pods) {
    std::vector<kube::Request> requests;
    requests.reserve(static_cast<std::size_t>(jobs));
    for (int i = 0; i < jobs; ++i) {
      kube::Request request;
      request.verb = kube::Verb::Create;
      request.resource = resources::kJobs;
      request.ns = "default";
      request.body =
          R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"job-)" + std::to_string(i) +
          R"("},"spec":{"schedulerName":"volcano","queue":"default","minAvailable":)" + std::to_string(pods) +
          R"(,"tasks":[{"name":"main","replicas":)" + std::to_string(pods) +
          R"(,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"main","image":"busybox","command":["sh","-c","true"],"resources":{"requests":{"cpu":"100m","memory":"16Mi"}}}]}}}]}})";
      requests.push_back(std::move(request));
    }
    for (const auto& result : cluster.client().call_all(requests, {.in_flight_max = 64}, {})) {
      if (result.ok()) continue;
      std::printf("a job was refused: %s\n", result.error().to_string().c_str());
      std::exit(1);
    }
  }
  bool wait_for(const std::atomic<int>& counter, int wanted, double limit_seconds) {
    const auto begin = Clock::now();
    while (counter < wanted) {
      if (seconds_since(begin) > limit_seconds) {
        std::printf("only %d of %d after %.0f s\n", counter.load(), wanted, limit_seconds);
        return false;
      }
      runtime_.sleep_for(1ms);
    }
    return true;
  }
  std::atomic<int> completed{0};
  std::atomic<int> running{0};

 private:
  rt::Runtime& runtime_;

 public:
  sim::Cluster cluster;
  CountingClient client;

 private:
  kube::Metrics metrics_;
  kube::EventRecorder events_;
  controllers::SharedInformers informers_;
  controllers::ControllerContext context_;
  sim::PlayedScheduler scheduler_;
  sim::PlayedKubelet kubelet_;
  kube::Informer<api::batch::Job> jobs_;
  std::unique_ptr<controllers::Controller> controller_;
  rt::StopSource stop_;
};

sim::PodFate at_once(const api::core::PodProjection& /*pod*/) { return {.start_after = 0ms, .run_for = 0ms}; }
sim::PodFate for_ever(const api::core::PodProjection& /*pod*/) {
  return {.start_after = 0ms, .run_for = rt::Duration::max()};
}

bool bar(bool holds, const char* text) {
  std::printf("  %s %s\n", holds ? "holds: " : "MISSED:", text);
  return holds;
}

bool throughput(rt::Runtime& runtime, int jobs) {
  World world(runtime, at_once);
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  world.submit(jobs, 1);
  const double submitted = seconds_since(begin);
  if (!world.wait_for(world.completed, jobs, 300)) return false;
  const double took = seconds_since(begin);
  std::printf("throughput: %d jobs x 1 pod: %.2f s (submitted in %.2f s), %.0f jobs/s, %.2f ms CPU a job\n", jobs, took,
              submitted, jobs / took, (cpu_seconds() - cpu) * 1000 / jobs);
  runtime.sleep_for(500ms);
  std::printf("writes a job: %.2f beside pods, %.2f pods, %.2f events, %llu conflicts\n",
              static_cast<double>(world.client.others) / jobs, static_cast<double>(world.client.pods) / jobs,
              static_cast<double>(world.client.events) / jobs,
              static_cast<unsigned long long>(world.client.conflicts.load()));
  bool all = bar(jobs / took >= 2000, ">= 2,000 jobs/s");
  all &= bar(static_cast<double>(world.client.others) <= 8.0 * jobs, "<= 8 writes a job");
  return all;
}

bool ten_pods(rt::Runtime& runtime) {
  World world(runtime, at_once);
  constexpr int kJobs = 200;
  const double cpu = cpu_seconds();
  const auto begin = Clock::now();
  world.submit(kJobs, 10);
  if (!world.wait_for(world.completed, kJobs, 100)) return false;
  std::printf("%d jobs x 10 pods: %.2f s, %.0f pods/s, %.2f ms CPU a job\n", kJobs, seconds_since(begin),
              kJobs * 10 / seconds_since(begin), (cpu_seconds() - cpu) * 1000 / kJobs);
  runtime.sleep_for(500ms);
  const double writes = static_cast<double>(world.client.others) / kJobs;
  std::printf("writes a job: %.2f beside pods\n", writes);
  return bar(writes <= 8, "<= 8 writes a job");
}

bool big_job(rt::Runtime& runtime) {
  World world(runtime, for_ever);
  constexpr std::uint64_t kPods = 10'000;
  const auto begin = Clock::now();
  world.submit(1, static_cast<int>(kPods));
  while (world.client.pods < kPods && seconds_since(begin) < 100) runtime.sleep_for(1ms);
  const double created = seconds_since(begin);
  world.wait_for(world.running, 1, 100);
  std::printf("big job: %llu pods created in %.2f s, the job Running after %.2f s\n",
              static_cast<unsigned long long>(kPods), created, seconds_since(begin));
  return bar(created <= 1, "created in <= 1 s");
}

bool idle(rt::Runtime& runtime, int jobs) {
  World world(runtime, for_ever);
  world.submit(jobs, 1);
  if (!world.wait_for(world.running, jobs, 300)) return false;
  runtime.sleep_for(3s);
  const std::uint64_t writes = world.client.writes();
  const double cpu = cpu_seconds();
  runtime.sleep_for(10s);
  const double share = (cpu_seconds() - cpu) / 10 * 100;
  const std::uint64_t written = world.client.writes() - writes;
  std::printf("idle with %d running jobs: %.2f %% of a core, %llu writes in 10 s\n", jobs, share,
              static_cast<unsigned long long>(written));
  bool all = bar(share <= 1, "<= 1 % of a core");
  all &= bar(written == 0, "no write");
  return all;
}

}  // namespace
}  // namespace basalt

int main(int count, char** arguments) {
  const int given = count > 1 ? std::atoi(arguments[1]) : 0;
  const int jobs = given > 0 ? given : 10'000;
  const auto runtime = basalt::rt::make_real_runtime();
  bool all = basalt::throughput(*runtime, jobs);
  all &= basalt::ten_pods(*runtime);
  all &= basalt::big_job(*runtime);
  all &= basalt::idle(*runtime, jobs);
  return all ? 0 : 1;
}
