#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "controllers/common/controller.h"
#include "controllers/gc/gc_controller.h"
#include "controllers/job/job_controller.h"
#include "kube/event_recorder.h"
#include "kube/fault_client.h"
#include "kube/metrics.h"
#include "rt/sim_test_support.h"
#include "sim/actors.h"
#include "sim/cluster.h"
#include "sim/stage.h"

// For tests only: one process of the controller manager with the job controller in it, on any client.
namespace basalt::controllers::job {

class ManagerProcess {
 public:
  ManagerProcess(rt::Runtime& runtime, kube::Client& client, Logger log, JobControllerOptions options = {},
                 bool with_gc = false)
      : log_(std::move(log)),
        events_(runtime, client, log_, {.component = "vc-controller-manager"}),
        informers_(runtime, client, log_, &metrics_),
        context_{runtime, client, log_, events_, metrics_, informers_},
        stop_(runtime) {
    controllers_.push_back(make_job_controller(context_, std::move(options)));
    if (with_gc) controllers_.push_back(gc::make_gc_controller(context_));
    events_.start();
    informers_.start();
    // A crash or fault may keep the caches from filling; the wait must not hold the test up.
    starter_ = rt::Thread(runtime, "starter", [this] {
      if (!informers_.wait_synced(stop_.token())) return;
      for (const auto& controller : controllers_) controller->start();
    });
  }
  ~ManagerProcess() { stop(); }
  void stop() {
    if (controllers_.empty()) return;
    stop_.request_stop();
    starter_.join();
    for (const auto& controller : controllers_) controller->stop();
    informers_.stop();
    controllers_.clear();
    events_.stop(std::chrono::seconds(0));
  }
  [[nodiscard]] kube::Metrics& metrics() { return metrics_; }

 private:
  Logger log_;
  kube::Metrics metrics_;
  kube::EventRecorder events_;
  SharedInformers informers_;
  ControllerContext context_;
  rt::StopSource stop_;
  std::vector<std::unique_ptr<Controller>> controllers_;
  rt::Thread starter_;
};

// A quota: no more pods, as long as the test says so.
class PodQuota : public apiserver::AdmissionHook {
 public:
  [[nodiscard]] bool handles(const apiserver::AdmissionRequest& request) const override {
    return (is_used_up || left >= 0) && request.type.plural == "pods" &&
           request.operation == apiserver::Operation::Create && request.subresource.empty();
  }
  Done mutate(apiserver::AdmissionRequest& /*request*/, json::Value& /*object*/) override { return Ok{}; }
  Done validate(apiserver::AdmissionRequest& request, const json::Value* /*object*/) override {
    for (int more = left; more > 0;)
      if (left.compare_exchange_weak(more, more - 1)) return Ok{};
    return Error::make(Reason::Forbidden,
                       "pods \"" + request.name + "\" is forbidden: exceeded quota: q, limited: pods=1");
  }
  std::atomic<bool> is_used_up = false;
  std::atomic<int> left = -1;  // so many more; negative: any number
};

inline sim::Cluster::Options cluster_options(std::shared_ptr<apiserver::AdmissionHook> hook = {}) {
  sim::Cluster::Options options;
  if (hook) options.hooks.push_back(std::move(hook));
  options.crds = {"jobs", "commands", "podgroups", "queues"};
  return options;
}

// A cluster whose scheduler and kubelet are played by the test itself, step by step.
class Bench {
 public:
  explicit Bench(rt::Runtime& runtime, JobControllerOptions options = {})
      : runtime_(runtime),
        memory_(std::make_shared<CollectingLogSink>()),
        log_(memory_, LogLevel::Warn),
        owned_(sim::open_cluster(runtime, cluster_options(quota))),
        cluster(*owned_),
        faults(runtime, cluster.client()),
        options_(std::move(options)) {
    start();
  }
  ~Bench() {
    stop();
    EXPECT_EQ(memory_->first_error(), "");
  }
  void start(bool with_gc = false) {
    process = std::make_unique<ManagerProcess>(runtime_, faults, log_, options_, with_gc);
  }
  void stop() { process.reset(); }

  json::Value job(std::string_view name = "j") {
    auto found = cluster.get(sim::resources::kJobs, "default", name);
    return found ? *found : json::Value();
  }
  std::int64_t count(std::string_view member, std::string_view name = "j") {
    const json::Value found = job(name);
    const json::Value* value = found.find_path({"status", member});
    return value != nullptr && value->is_int() ? value->as_int() : 0;
  }
  std::string state(std::string_view member, std::string_view name = "j") {
    return std::string(job(name).string_at({"status", "state", member}));
  }
  std::string phase(std::string_view name = "j") { return state("phase", name); }
  // The pods of a job as "name@uid" or just their names.
  std::vector<std::string> pod_names(std::string_view name = "j") {
    std::vector<std::string> names;
    for (const json::Value& pod :
         cluster.list(sim::resources::kPods, "default", "volcano.sh/job-name=" + std::string(name)))
      names.emplace_back(pod.string_at({"metadata", "name"}));
    return names;
  }
  std::string uid(const kube::Resource& resource, std::string_view name) {
    const auto found = cluster.get(resource, "default", name);
    return found ? std::string(found->string_at({"metadata", "uid"})) : "";
  }
  std::string pod_uid(std::string_view name) { return uid(sim::resources::kPods, name); }
  std::string group_name(std::string_view name = "j") {
    return std::string(name) + "-" + uid(sim::resources::kJobs, name);
  }
  std::string group_uid(std::string_view name = "j") { return uid(sim::resources::kPodGroups, group_name(name)); }

  // Waits for a state; a failure says what was seen instead.
  ::testing::AssertionResult eventually(const std::function<bool()>& predicate,
                                        rt::Duration limit = std::chrono::seconds(20)) {
    if (cluster.wait_until(predicate, limit)) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "not within the limit; the job is " << job().to_text()
                                         << "\nactions: " << actions();
  }
  // That the metrics have this line; a controller counts when the answer to its write has come, which may be after
  // others have seen the write.
  ::testing::AssertionResult measures(std::string_view line) {
    return eventually([&] { return process->metrics().to_text().find(line) != std::string::npos; });
  }
  // What the controller said it did, and why.
  std::string actions() {
    std::string all;
    for (const json::Value& event : cluster.list(sim::resources::kEvents, "default")) {
      if (event.string_at({"reason"}) == "ExecuteAction") all += std::string(event.string_at({"message"})) + "; ";
    }
    return all;
  }
  ::testing::AssertionResult reaches(std::string_view wanted, std::string_view name = "j") {
    return eventually([&] { return phase(name) == wanted; });
  }
  void let_pass(rt::Duration time) { sim::let_pass(runtime_, time); }
  // Admits the group of the job once there is one: after a restart the next one, not the one that is about to go.
  ::testing::AssertionResult admit(std::string_view name = "j") {
    Admitted& last = admitted_[std::string(name)];
    std::string group;
    auto found = eventually([&] {
      group = group_uid(name);
      return !group.empty() && (group != last.group || count("version", name) == last.version);
    });
    if (!found) return found;
    cluster.set_pod_group_phase("default", group_name(name), "Inqueue");
    last = {group, count("version", name)};
    return found;
  }
  ::testing::AssertionResult has_pods(std::size_t wanted, std::string_view name = "j") {
    return eventually([&] { return pod_names(name).size() == wanted; });
  }
  void set_all(std::string_view pod_phase, std::string_view name = "j") {
    for (const std::string& pod : pod_names(name)) cluster.set_pod_phase("default", pod, pod_phase);
  }
  // Takes a job from nothing to Running.
  ::testing::AssertionResult run_job(std::string_view yaml, std::size_t pods, std::string_view name = "j") {
    cluster.apply(yaml);
    if (auto admitted = admit(name); !admitted) return admitted;
    if (auto made = has_pods(pods, name); !made) return made;
    set_all("Running", name);
    return reaches("Running", name);
  }
  void command(std::string_view action, std::string_view name = "j", std::string_view target_uid = {}) {
    static int number = 0;
    cluster.apply("apiVersion: bus.volcano.sh/v1alpha1\nkind: Command\nmetadata: {name: c" + std::to_string(++number) +
                  "}\naction: " + std::string(action) +
                  "\ntarget: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: " + std::string(name) +
                  ", uid: " + (target_uid.empty() ? uid(sim::resources::kJobs, name) : std::string(target_uid)) +
                  "}\n");
  }
  std::size_t events(std::string_view reason, std::string_view part = {}) {
    std::size_t found = 0;
    for (const json::Value& event : cluster.list(sim::resources::kEvents, "default")) {
      if (event.string_at({"reason"}) == reason && event.string_at({"message"}).find(part) != std::string_view::npos)
        ++found;
    }
    return found;
  }
  // Status writes and others of the controller, pods and events aside.
  std::size_t writes() { return written().size(); }
  std::string write_log() {
    std::string all;
    for (const std::string& call : written()) all += call + "\n";
    return all;
  }
  std::vector<std::string> written() {
    std::vector<std::string> found;
    for (const std::string& call : faults.call_log()) {
      const bool is_write = call.starts_with("Create") || call.starts_with("Patch") || call.starts_with("Delete") ||
                            call.starts_with("Update");
      if (is_write && call.find(" pods/") == std::string::npos && call.find(" events") == std::string::npos)
        found.push_back(call);
    }
    return found;
  }

  // A conflict on a status is followed by a read of the job; nothing else reads jobs.
  std::size_t reads_of_conflicts() {
    std::size_t found = 0;
    for (const std::string& call : faults.call_log()) found += call.starts_with("Get jobs.") ? 1 : 0;
    return found;
  }

 private:
  rt::Runtime& runtime_;

 public:
  const std::shared_ptr<PodQuota> quota = std::make_shared<PodQuota>();

 private:
  std::shared_ptr<CollectingLogSink> memory_;
  Logger log_;
  std::unique_ptr<sim::Driver> owned_;

 public:
  sim::Driver& cluster;
  kube::FaultClient faults;

 private:
  JobControllerOptions options_;
  struct Admitted {
    std::string group;  // its UID
    std::int64_t version = 0;
  };
  std::map<std::string, Admitted> admitted_;

 public:
  std::unique_ptr<ManagerProcess> process;
};

// Whether what had the UID `old` has a successor by now.
inline bool is_other(const std::string& uid, const std::string& old) { return !uid.empty() && uid != old; }

// A test that runs with several interleavings.
inline void scenario(const std::function<void(Bench&)>& body, const JobControllerOptions& options = {},
                     std::uint64_t seeds = 3) {
  sim::play(1, seeds, [&](rt::Runtime& runtime) {
    Bench bench(runtime, options);
    body(bench);
  });
}

// A job of tasks "name:replicas" with policies in flow style: "[{event: PodFailed, action: RestartJob}]".
struct JobText {
  std::string name = "j";
  std::vector<std::pair<std::string, int>> tasks = {{"t", 2}};
  int min_available = -1;  // the sum if negative
  std::string policies = "[]";
  std::string spec;       // more lines of the spec, each with two spaces before it
  std::string task_more;  // more lines of the first task, with four spaces
  [[nodiscard]] std::string yaml() const {
    int sum = 0;
    for (const auto& [task, replicas] : tasks) sum += replicas;
    std::string text = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: " + name +
                       "}\nspec:\n  schedulerName: volcano\n  minAvailable: " +
                       std::to_string(min_available < 0 ? sum : min_available) +
                       "\n  queue: default\n  policies: " + policies + "\n" + spec + "  tasks:\n";
    bool is_first = true;
    for (const auto& [task, replicas] : tasks) {
      text += "  - name: " + task + "\n    replicas: " + std::to_string(replicas) + "\n";
      if (is_first) text += task_more;
      is_first = false;
      text += "    template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}\n";
    }
    return text;
  }
};

}  // namespace basalt::controllers::job
