#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "controllers/common/controller.h"
#include "controllers/hyperjob/hyper_job_controller.h"
#include "crds/crds.h"
#include "kube/event_recorder.h"
#include "kube/fault_client.h"
#include "kube/metrics.h"
#include "kube/typed.h"
#include "sim/cluster.h"
#include "sim/stage.h"

namespace basalt::sim::resources {
inline const kube::Resource kHyperJobs{"training.volcano.sh", "v1alpha1", "hyperjobs"};
inline const kube::Resource kPolicies{"policy.karmada.io", "v1alpha1", "propagationpolicies"};
inline const kube::Resource kBindings{"work.karmada.io", "v1alpha2", "resourcebindings"};
inline const kube::Resource kClusters{"cluster.karmada.io", "v1alpha1", "clusters"};
}  // namespace basalt::sim::resources

// For tests only: one process of the controller manager with the hyper job controller, on any client.
namespace basalt::controllers::hyperjob {

// The table of scenarios, by its numbers.
inline constexpr int kRows[] = {1,  2,  3,  5,  6,  7,  8,  9,  11, 12, 13, 14, 15, 17, 18, 19, 20,
                                21, 23, 24, 25, 26, 27, 29, 30, 31, 32, 33, 35, 36, 37, 38, 39, 41,
                                42, 43, 44, 45, 47, 48, 49, 50, 51, 53, 54, 55, 56, 57, 58};

class HyperJobProcess {
 public:
  HyperJobProcess(rt::Runtime& runtime, kube::Client& client, Logger log, HyperJobControllerOptions options = {})
      : log_(std::move(log)),
        events_(runtime, client, log_, {.component = "vc-controller-manager"}),
        informers_(runtime, client, log_, &metrics_),
        context_{runtime, client, log_, events_, metrics_, informers_},
        stop_(runtime) {
    controller_ = make_hyper_job_controller(context_, options);
    events_.start();
    informers_.start();
    // A crash or fault may keep the caches from filling; the wait must not hold the test up.
    starter_ = rt::Thread(runtime, "starter", [this] {
      if (!informers_.wait_synced(stop_.token())) return;
      controller_->start();
      has_started_ = true;
    });
  }
  ~HyperJobProcess() { stop(); }
  void stop() {
    if (!controller_) return;
    stop_.request_stop();
    starter_.join();
    controller_->stop();
    informers_.stop();
    controller_.reset();
    events_.stop(std::chrono::seconds(0));
  }
  [[nodiscard]] kube::Metrics& metrics() { return metrics_; }
  [[nodiscard]] bool has_started() const { return has_started_; }  // the caches are filled

 private:
  std::atomic<bool> has_started_ = false;
  Logger log_;
  kube::Metrics metrics_;
  kube::EventRecorder events_;
  SharedInformers informers_;
  ControllerContext context_;
  rt::StopSource stop_;
  std::unique_ptr<Controller> controller_;
  rt::Thread starter_;
};

// What the controller speaks to the host through, if not as an administrator. Set before the first test runs.
inline kube::Client*& client_of_the_controller() {
  static kube::Client* client = nullptr;
  return client;
}

// The control plane of a federation whose Karmada is played by the test: it writes the children's statuses.
class Bench {
 public:
  using Hooks = std::vector<std::shared_ptr<apiserver::AdmissionHook>>;
  explicit Bench(rt::Runtime& runtime, bool start = true, const Hooks& hooks = {})
      : runtime_(runtime),
        memory_(std::make_shared<CollectingLogSink>()),
        log_(memory_, LogLevel::Warn),
        owned_(sim::open_cluster(runtime, cluster_options(hooks))),
        cluster(*owned_),
        faults(runtime, client_of_the_controller() != nullptr ? *client_of_the_controller() : cluster.client()) {
    const bool is_embedded = dynamic_cast<sim::Cluster*>(owned_.get()) != nullptr;
    if (is_embedded) BASALT_CHECK(crds::install_karmada(runtime, cluster.client(), {}).ok());
    for (const char* name : {"c1", "c2"}) {
      cluster.apply(std::string("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: ") + name +
                    "}\nspec: {syncMode: Push}\n");
    }
    if (start) restart();
  }
  ~Bench() { process.reset(); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  void restart() {
    process.reset();
    process = std::make_unique<HyperJobProcess>(runtime_, faults, log_);
  }

  // "entry:replicas[:cluster,cluster]", with one worker of this image each.
  static std::string yaml(const std::string& name, const std::vector<std::string>& entries,
                          const std::string& image = "busybox", int pods = 2) {
    std::string text = "apiVersion: training.volcano.sh/v1alpha1\nkind: HyperJob\nmetadata: {name: " + name +
                       "}\nspec:\n  replicatedJobs:\n";
    for (const std::string& entry : entries) {
      const auto first = entry.find(':');
      const auto second = entry.find(':', first + 1);
      text += "  - name: " + entry.substr(0, first) +
              "\n    replicas: " + entry.substr(first + 1, second == std::string::npos ? second : second - first - 1) +
              "\n";
      if (second != std::string::npos) text += "    clusterNames: [" + entry.substr(second + 1) + "]\n";
      text += "    templateSpec:\n      tasks:\n      - name: w\n        replicas: " + std::to_string(pods) +
              "\n        template: {spec: {containers: [{name: c, image: " + image + "}]}}\n";
    }
    return text;
  }

  [[nodiscard]] std::optional<json::Value> hyper_job(std::string_view name = "h") {
    return cluster.get(sim::resources::kHyperJobs, "default", name);
  }
  [[nodiscard]] std::optional<json::Value> job(std::string_view name) {
    return cluster.get(sim::resources::kJobs, "default", name);
  }
  [[nodiscard]] std::optional<json::Value> policy(std::string_view name) {
    return cluster.get(sim::resources::kPolicies, "default", name);
  }
  [[nodiscard]] std::vector<std::string> names(const kube::Resource& resource) {
    std::vector<std::string> found;
    for (const json::Value& object : cluster.list(resource, "default"))
      found.emplace_back(object.string_at({"metadata", "name"}));
    return found;
  }
  bool wait_jobs(const std::vector<std::string>& wanted) {
    return cluster.wait_until(
        [&] { return names(sim::resources::kJobs) == wanted && names(sim::resources::kPolicies) == wanted; });
  }
  bool set_phase(std::string_view child, std::string_view phase, std::string_view more = {}) {
    return cluster
        .try_patch(sim::resources::kJobs, "default", child,
                   R"({"status":{"state":{"phase":")" + std::string(phase) + "\"}" + std::string(more) + "}}", "status")
        .ok();
  }
  [[nodiscard]] std::optional<json::Value> condition(std::string_view type, std::string_view name = "h") {
    const auto found = hyper_job(name);
    const json::Value* conditions = found ? found->find_path({"status", "conditions"}) : nullptr;
    if (conditions == nullptr) return std::nullopt;
    for (const json::Value& one : conditions->as_array()) {
      if (one.string_at({"type"}) == type) return one;
    }
    return std::nullopt;
  }
  bool wait_condition(std::string_view type, std::string_view reason = {}) {
    return cluster.wait_until([&] {
      const auto found = condition(type);
      return found && found->string_at({"status"}) == "True" &&
             (reason.empty() || found->string_at({"reason"}) == reason);
    });
  }
  [[nodiscard]] std::int64_t number(std::initializer_list<std::string_view> path) {
    const auto found = hyper_job();
    const json::Value* value = found ? found->find_path(path) : nullptr;
    return value == nullptr ? -1 : value->as_int();
  }
  // The status has taken in the present specification.
  bool wait_observed() {
    return cluster.wait_until([&] {
      return number({"status", "observedGeneration"}) == number({"metadata", "generation"}) &&
             number({"metadata", "generation"}) > 0;
    });
  }
  [[nodiscard]] std::string phase_of(std::string_view group, std::string_view child) {
    const auto found = hyper_job();
    const json::Value* groups = found ? found->find_path({"status", "replicatedJobsStatus"}) : nullptr;
    if (groups == nullptr) return "none";
    for (const json::Value& one : groups->as_array()) {
      if (one.string_at({"name"}) != group) continue;
      const json::Value* state = one.find_path({"jobStates", child});
      return state == nullptr ? "none" : std::string(state->string_at({"phase"}));
    }
    return "none";
  }
  [[nodiscard]] int count_events(std::string_view reason) {
    int count = 0;
    for (const json::Value& event : cluster.list(sim::resources::kEvents, "default")) {
      if (event.string_at({"reason"}) != reason) continue;
      const json::Value* times = event.find("count");
      count += times == nullptr ? 1 : static_cast<int>(times->as_int());
    }
    return count;
  }
  // Writes of the controller so far, events aside.
  [[nodiscard]] std::vector<std::string> writes() {
    std::vector<std::string> found;
    for (const std::string& call : faults.call_log()) {
      const bool is_read = call.starts_with("Get") || call.starts_with("List") || call.starts_with("Watch");
      if (!is_read && call.find(" events") == std::string::npos) found.push_back(call);
    }
    return found;
  }
  // Time that costs time on a real server is given sparingly there.
  void settle() { let_pass(std::chrono::seconds(2)); }
  void let_pass(rt::Duration time) { sim::let_pass(runtime_, time); }
  [[nodiscard]] bool is_simulated() const { return runtime_.is_simulated(); }
  bool wait(const std::function<bool()>& holds) { return cluster.wait_until(holds); }
  [[nodiscard]] rt::Runtime& runtime() { return runtime_; }

 private:
  static sim::Cluster::Options cluster_options(const Hooks& hooks) {
    sim::Cluster::Options options;
    options.hooks = hooks;
    return options;
  }
  rt::Runtime& runtime_;
  std::shared_ptr<CollectingLogSink> memory_;
  Logger log_;
  const std::unique_ptr<sim::Driver> owned_;

 public:
  sim::Driver& cluster;
  kube::FaultClient faults;
  std::unique_ptr<HyperJobProcess> process;
};

inline void scenario(const std::function<void(Bench&)>& body, std::uint64_t seeds = 3) {
  sim::play(1, seeds, [&](rt::Runtime& runtime) {
    Bench bench(runtime);
    body(bench);
  });
}

}  // namespace basalt::controllers::hyperjob
