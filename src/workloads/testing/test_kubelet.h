#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "json/value.h"
#include "kube/informer.h"
#include "kube/typed.h"
#include "rt/runtime.h"
#include "rt/work_queue.h"
#include "rt/workers.h"
#include "workloads/common/caches.h"
#include "workloads/common/pod.h"

namespace basalt::workloads::testing {

// How a pod fares.
struct Fate {
  bool becomes_ready = true;
  rt::Duration run_for = rt::Duration::max();  // from Running to its end
  int exit_code = 0;
};

// Scheduler and kubelet in one: binds pods, runs them as their fate says, ends and removes those that are deleted.
class TestKubelet {
 public:
  using FateOf = std::function<Fate(const Pod&)>;
  TestKubelet(rt::Runtime& runtime, kube::Client& client, const Logger& log, FateOf fate)
      : runtime_(runtime),
        client_(client),
        fate_(std::move(fate)),
        pods_(runtime, client, log, {.reflector = {.resource = resources::kPods}, .indexes = {}}),
        queue_(runtime, {.name = "kubelet"}) {
    pods_.add_handler([this](const kube::Change<Pod>& change) {
      if (change.is_added() && seen_.insert(change.after->metadata.uid.str()).second)
        names_.push_back(change.after->metadata.name.str());
      queue_.add({change.object().metadata.namespace_.str(), change.object().metadata.name.str()});
    });
  }
  void start() {
    pods_.start();
    workers_ = std::make_unique<rt::Workers<api::ObjectKey>>(
        runtime_, queue_, rt::WorkersOptions{"kubelet", 1},
        [this](const api::ObjectKey& key, const rt::StopToken& stop) { return work_on(key, stop); });
  }
  void stop() {
    if (!workers_) return;
    workers_->stop();
    workers_.reset();
    pods_.stop();
  }
  // All pods that ever were, in the order in which they came.
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }

 private:
  static constexpr rt::Duration kStep = std::chrono::milliseconds(20);

  rt::Outcome work_on(const api::ObjectKey& key, const rt::StopToken& stop) {
    const auto pod = pods_.get(key);
    if (!pod) return rt::Outcome::done();
    const std::string state = pod->is_being_deleted() ? "deleted" : pod->node_name.empty() ? "new" : pod->phase.str();
    const Fate fate = fate_(*pod);
    auto& [known, due] = progress_[pod->metadata.uid.str()];
    if (known != state) {
      known = state;
      due = rt::saturating_add(runtime_.now(), state == "Running" ? fate.run_for : kStep);
    }
    if (due == rt::kNever || (!pod->is_being_deleted() && pod->is_finished())) return rt::Outcome::done();
    if (runtime_.now() < due) return rt::Outcome::retry_after(due - runtime_.now());
    if (pod->is_being_deleted()) {
      if (!pod->is_finished() && pod->is_tracked) set_phase(*pod, "Failed", fate, stop);
      static_cast<void>(kube::delete_object(client_, resources::kPods, key,
                                            {.uid = pod->metadata.uid.str(), .grace_period_seconds = 0}, stop));
      due = rt::kNever;
    } else if (pod->node_name.empty()) {
      bind(*pod, stop);
    } else if (pod->phase == "Running") {
      set_phase(*pod, fate.exit_code == 0 ? "Succeeded" : "Failed", fate, stop);
    } else {
      set_phase(*pod, "Running", fate, stop);
    }
    return rt::Outcome::done();
  }

  void bind(const Pod& pod, const rt::StopToken& stop) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resources::kPods;
    request.ns = pod.metadata.namespace_.str();
    request.name = pod.metadata.name.str();
    request.subresource = "binding";
    json::Value body = json::Object{{"apiVersion", "v1"}, {"kind", "Binding"}};
    body.ensure_path({"metadata", "name"}) = request.name;
    body.ensure_path({"target"}) =
        json::Object{{"kind", "Node"}, {"name", pod.pinned_node.empty() ? "node-0" : pod.pinned_node.view()}};
    request.body = body.to_text();
    static_cast<void>(client_.call(request, stop));
  }

  void set_phase(const Pod& pod, std::string_view phase, const Fate& fate, const rt::StopToken& stop) {
    const std::string now = api::Time::from(runtime_.wall_now()).to_string();
    const bool is_ready = phase == "Running" && fate.becomes_ready;
    json::Value status;
    status.ensure_path({"phase"}) = phase;
    if (pod.address.empty()) status.ensure_path({"podIP"}) = "10.0.0." + std::to_string(1 + next_address_++ % 250);
    status.ensure_path({"conditions"}) = json::Array{
        json::Object{{"type", "Ready"}, {"status", is_ready ? "True" : "False"}, {"lastTransitionTime", now}}};
    json::Value container =
        json::Object{{"name", "c"}, {"ready", is_ready}, {"restartCount", 0}, {"image", "i"}, {"imageID", ""}};
    if (phase == "Running") {
      container.ensure_path({"state", "running", "startedAt"}) = now;
    } else {
      container.ensure_path({"state", "terminated"}) = json::Object{
          {"exitCode", phase == "Failed" && fate.exit_code == 0 ? 137 : fate.exit_code}, {"finishedAt", now}};
    }
    status.ensure_path({"containerStatuses"}) = json::Array{std::move(container)};
    json::Value body;
    body.ensure_path({"metadata", "uid"}) = pod.metadata.uid.view();
    body.ensure_path({"status"}) = std::move(status);
    kube::Request request;
    request.verb = kube::Verb::Patch;
    request.resource = resources::kPods;
    request.ns = pod.metadata.namespace_.str();
    request.name = pod.metadata.name.str();
    request.subresource = "status";
    request.body = body.to_text();
    static_cast<void>(client_.call(request, stop));
  }

  rt::Runtime& runtime_;
  kube::Client& client_;
  const FateOf fate_;
  kube::Informer<Pod> pods_;
  rt::WorkQueue<api::ObjectKey> queue_;
  std::unique_ptr<rt::Workers<api::ObjectKey>> workers_;
  std::map<std::string, std::pair<std::string, rt::Instant>> progress_;  // by UID; used only by the one worker
  int next_address_ = 0;
  std::set<std::string> seen_;  // of the informer's thread
  std::vector<std::string> names_;
};

}  // namespace basalt::workloads::testing
