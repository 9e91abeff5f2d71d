#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "controllers/common/controller.h"
#include "controllers/common/shared_informers.h"
#include "kube/event_recorder.h"
#include "kube/fault_client.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::controllers::testing {

// One life of a process that runs controllers: its own caches, events and metrics over a client that can be made to
// fail or die. For tests; a restart is a new one.
class ControllerProcess {
 public:
  using Make = std::function<std::unique_ptr<Controller>(ControllerContext&)>;

  ControllerProcess(rt::Runtime& runtime, kube::Client& cluster, const Logger& log, std::vector<Make> makes)
      : runtime_(runtime),
        faults_(runtime, cluster),
        events_(runtime, faults_, log, {.component = "vc-controller-manager"}),
        informers_(runtime, faults_, log),
        context_{runtime, faults_, log, events_, metrics_, informers_},
        stop_(runtime) {
    for (const Make& make : makes) controllers_.push_back(make(context_));
  }
  ~ControllerProcess() { stop(); }
  ControllerProcess(const ControllerProcess&) = delete;
  ControllerProcess& operator=(const ControllerProcess&) = delete;

  // Returns at once; the controllers begin when the caches are filled.
  void start() {
    events_.start();
    informers_.start();
    main_ = rt::Thread(runtime_, "main", [this] {
      if (!informers_.wait_synced(stop_.token())) return;
      for (const auto& controller : controllers_) controller->start();
    });
  }
  void stop() {
    if (!main_.joinable()) return;
    stop_.request_stop();
    main_.join();
    for (const auto& controller : controllers_) controller->stop();
    informers_.stop();
    events_.stop();
  }

  [[nodiscard]] kube::FaultClient& faults() { return faults_; }
  [[nodiscard]] kube::Metrics& metrics() { return metrics_; }
  [[nodiscard]] SharedInformers& informers() { return informers_; }
  // Creates, updates, patches and deletes of this resource (its plural) that were sent.
  [[nodiscard]] std::uint64_t writes(std::string_view plural) const {
    std::uint64_t sum = 0;
    for (const auto& [point, count] : faults_.calls_by_point()) {
      if (point.verb == "Get" || point.verb == "List" || point.verb == "Watch") continue;
      if (point.resource.substr(0, point.resource.find_first_of("./")) == plural) sum += count;
    }
    return sum;
  }

 private:
  rt::Runtime& runtime_;
  kube::FaultClient faults_;
  kube::EventRecorder events_;
  kube::Metrics metrics_;
  SharedInformers informers_;
  ControllerContext context_;
  rt::StopSource stop_;
  std::vector<std::unique_ptr<Controller>> controllers_;
  rt::Thread main_;
};

}  // namespace basalt::controllers::testing
