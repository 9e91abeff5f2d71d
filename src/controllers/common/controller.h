#pragma once

#include <memory>
#include <string_view>

#include "base/log.h"
#include "controllers/common/shared_informers.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/metrics.h"
#include "rt/runtime.h"

namespace basalt::controllers {

// What the process gives to every controller. All of it outlives them.
struct ControllerContext {
  rt::Runtime& runtime;
  kube::Client& client;  // refuses writes once the leadership is lost
  Logger log;
  kube::EventRecorder& events;
  kube::Metrics& metrics;
  SharedInformers& informers;
};

// One controller. Its constructor takes a ControllerContext and registers handlers with the informers, which have not
// been started yet. The owner then starts the informers, waits until they are filled, and calls start().
class Controller {
 public:
  virtual ~Controller() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;  // as --controllers knows it: "job-controller"
  // Begins the work; never fails and never waits.
  virtual void start() = 0;
  // Ends it: returns when no thread of the controller runs any more. Idempotent; called before destruction.
  virtual void stop() = 0;
};

}  // namespace basalt::controllers
