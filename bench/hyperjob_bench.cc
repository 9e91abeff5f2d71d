// Hyper jobs over ten clusters in one process: a host API, ten member APIs, the hyper job controller and the stand-in
// for Karmada. The members' jobs are played: each completes as soon as it appears, so that what is measured is the
// splitting, the sending and the way back.
//
//   hyperjob_bench [hyper jobs] [jobs each]      1000 and 10 without arguments
//
// Bars: all of them over in 10 s; from a submission to its child in a member, one at a time, p99 at most 130 ms.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "controllers/common/controller.h"
#include "controllers/hyperjob/hyper_job_controller.h"
#include "crds/crds.h"
#include "federation/federation.h"
#include "kube/informer.h"
#include "kube/typed.h"
#include "rt/real_runtime.h"
#include "rt/work_queue.h"
#include "rt/workers.h"
#include "sim/cluster.h"

namespace basalt {
namespace {

namespace resources = sim::resources;
using Clock = std::chrono::steady_clock;
const kube::Resource kHyperJobs{"training.volcano.sh", "v1alpha1", "hyperjobs"};
constexpr int kClusters = 10;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string hyper_job(const std::string& name, int jobs) {
  return R"({"apiVersion":"training.volcano.sh/v1alpha1","kind":"HyperJob","metadata":{"name":")" + name +
         R"("},"spec":{"replicatedJobs":[{"name":"a","replicas":)" + std::to_string(jobs) +
         R"(,"templateSpec":{"minAvailable":2,"queue":"default","schedulerName":"volcano","tasks":[{"name":"w","replicas":2,)"
         R"("template":{"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1m"}}}]}}}]}}]}})";
}

// A member whose jobs complete at once.
class PlayedMember {
 public:
  PlayedMember(rt::Runtime& runtime, std::atomic<std::int64_t>& arrived)
      : cluster_(runtime),
        jobs_(runtime, cluster_.client(), Logger(), {.reflector = {.resource = resources::kJobs}, .indexes = {}}),
        queue_(runtime) {
    cluster_.apply("{apiVersion: v1, kind: Node, metadata: {name: node-0}}");
    cluster_.patch(resources::kNodes, "", "node-0", R"({"status":{"allocatable":{"cpu":"100k"}}})", "status");
    jobs_.add_handler([this, &arrived](const kube::Change<api::batch::Job>& change) {
      if (!change.is_added()) return;
      ++arrived;
      queue_.add({change.after->metadata.namespace_, change.after->metadata.name});
    });
    jobs_.start();
    workers_ = std::make_unique<rt::Workers<api::ObjectKey>>(
        runtime, queue_, rt::WorkersOptions{.name = "member", .count = 1},
        [this](const api::ObjectKey& key, const rt::StopToken& stop) {
          static_cast<void>(kube::patch_status(cluster_.client(), resources::kJobs, key,
                                               R"({"state":{"phase":"Completed"},"succeeded":2})", "", stop));
          return rt::Outcome::done();
        },
        [](const api::ObjectKey&, const rt::Outcome&, rt::Duration) {});
  }
  ~PlayedMember() {
    workers_->stop();
    jobs_.stop();
    cluster_.stop();
  }
  [[nodiscard]] kube::Client& client() { return cluster_.client(); }

 private:
  sim::Cluster cluster_;
  kube::Informer<api::batch::Job> jobs_;
  rt::WorkQueue<api::ObjectKey> queue_;
  std::unique_ptr<rt::Workers<api::ObjectKey>> workers_;
};

class Bench {
 public:
  explicit Bench(rt::Runtime& runtime)
      : runtime_(runtime),
        host_(runtime),
        events_(runtime, host_.client(), Logger(), {.component = "bench"}),
        informers_(runtime, host_.client(), Logger(), &metrics_),
        context_{runtime, host_.client(), Logger(), events_, metrics_, informers_},
        over_(runtime, host_.client(), Logger(), {.reflector = {.resource = kHyperJobs}, .indexes = {}}) {
    BASALT_CHECK(crds::install_karmada(runtime, host_.client(), {}).ok());
    std::map<std::string, kube::Client*> clients;
    for (int i = 1; i <= kClusters; ++i) {
      members_.push_back(std::make_unique<PlayedMember>(runtime, arrived_));
      clients.emplace("member" + std::to_string(i), &members_.back()->client());
    }
    controller_ = controllers::hyperjob::make_hyper_job_controller(context_, {});
    over_.add_handler([this](const kube::Change<api::training::HyperJob>& change) {
      if (change.is_updated() && change.before->status.conditions.empty() && !change.after->status.conditions.empty() &&
          change.after->status.conditions[0].type == "Completed")
        ++completed_;
    });
    events_.start();
    informers_.start();
    over_.start();
    BASALT_CHECK(informers_.wait_synced({}));
    controller_->start();
    federation_ = std::make_unique<federation::Federation>(runtime, host_.client(), clients, Logger());
    federation_->start();
    // Until all clusters are ready a small job tells.
    submit("warm-up", 1);
    wait_for(completed_, 1);
  }
  ~Bench() {
    federation_->stop();
    controller_->stop();
    over_.stop();
    informers_.stop();
    events_.stop();
    members_.clear();
    host_.stop();
  }

  void run_all(int count, int jobs) {
    const std::int64_t arrived = arrived_;
    const std::int64_t completed = completed_;
    const auto begin = Clock::now();
    const std::string prefix = "h" + std::to_string(jobs) + "-";
    for (int i = 0; i < count; ++i) submit(prefix + std::to_string(i), jobs);
    const double submitted = seconds_since(begin);
    wait_for(arrived_, arrived + std::int64_t{count} * jobs);
    const double sent = seconds_since(begin);
    wait_for(completed_, completed + count);
    std::printf(
        "%d hyper jobs x %d jobs over %d clusters: submitted %.2f s, all in their members %.2f s, all completed "
        "%.2f s (bar 10 s)\n",
        count, jobs, kClusters, submitted, sent, seconds_since(begin));
  }

  void run_latency(int count) {
    std::vector<double> milliseconds;
    for (int i = 0; i < count; ++i) {
      const std::int64_t arrived = arrived_;
      const auto begin = Clock::now();
      submit("l" + std::to_string(i), 1);
      while (arrived_ == arrived) runtime_.sleep_for(std::chrono::microseconds(200));
      milliseconds.push_back(seconds_since(begin) * 1000);
    }
    std::sort(milliseconds.begin(), milliseconds.end());
    const auto at = [&](double share) {
      return milliseconds[std::min(milliseconds.size() - 1,
                                   static_cast<std::size_t>(share * static_cast<double>(count)))];
    };
    std::printf("submission to child in a member, %d one by one: p50 %.1f ms, p99 %.1f ms (bar 130 ms), most %.1f ms\n",
                count, at(0.5), at(0.99), milliseconds.back());
  }

 private:
  void submit(const std::string& name, int jobs) {
    const auto made = host_.client().call(
        {.verb = kube::Verb::Create, .resource = kHyperJobs, .ns = "default", .body = hyper_job(name, jobs)}, {});
    BASALT_CHECK_MSG(made.ok(), made.ok() ? std::string() : made.error().to_string());
  }
  void wait_for(const std::atomic<std::int64_t>& counter, std::int64_t value) {
    const auto begin = Clock::now();
    while (counter < value) {
      BASALT_CHECK_MSG(seconds_since(begin) < 300, "it did not end within 300 s");
      runtime_.sleep_for(std::chrono::milliseconds(1));
    }
  }

  rt::Runtime& runtime_;
  sim::Cluster host_;
  std::atomic<std::int64_t> arrived_ = 0;
  std::atomic<std::int64_t> completed_ = 0;
  std::vector<std::unique_ptr<PlayedMember>> members_;
  kube::Metrics metrics_;
  kube::EventRecorder events_;
  controllers::SharedInformers informers_;
  controllers::ControllerContext context_;
  kube::Informer<api::training::HyperJob> over_;
  std::unique_ptr<controllers::Controller> controller_;
  std::unique_ptr<federation::Federation> federation_;
};

}  // namespace
}  // namespace basalt

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int jobs = argc > 2 ? std::atoi(argv[2]) : 10;
  const auto runtime = basalt::rt::make_real_runtime();
  basalt::Bench bench(*runtime);
  bench.run_latency(200);
  if (jobs != 1) bench.run_all(count, 1);
  bench.run_all(count, jobs);
  return 0;
}
