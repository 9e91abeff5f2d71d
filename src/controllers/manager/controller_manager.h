#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "controllers/common/controller.h"
#include "controllers/manager/options.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::controllers {

// The selected controllers on shared caches. start() and stop() are called by one thread; the rest by any.
class ControllerManager {
 public:
  // `client` is for the controllers' own calls, fenced by the leadership if there is an election.
  ControllerManager(rt::Runtime& runtime, kube::Client& client, Logger log, kube::Metrics& metrics,
                    ManagerOptions options);
  ~ControllerManager();  // stop() has been called if start() was

  // Makes the controllers, fills the caches and starts the work. Waits for the caches, as long as it takes: an API
  // server that is away is no reason to end. An error only if stopped meanwhile.
  [[nodiscard]] Done start(const rt::StopToken& stop);
  // Ends all work and returns when no thread of it runs. Idempotent.
  void stop();

  [[nodiscard]] bool is_ready() const { return is_ready_.load(std::memory_order_acquire); }
  // "" once all caches are filled.
  [[nodiscard]] std::string waiting_for() const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::Metrics& metrics_;
  const ManagerOptions options_;
  std::unique_ptr<kube::EventRecorder> events_;
  std::unique_ptr<SharedInformers> informers_;
  std::unique_ptr<ControllerContext> context_;
  std::vector<std::unique_ptr<Controller>> controllers_;
  bool started_ = false;
  std::atomic<bool> is_ready_{false};
};

}  // namespace basalt::controllers
