#pragma once

#include <memory>
#include <vector>

#include "base/log.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "workloads/common/keyed_controller.h"

namespace basalt::workloads {

// The controllers of this folder with their caches, in one thread of its own until the caches are filled. They begin
// when the first workload or service comes to be; until then nothing is watched but these kinds. One owner; stop()
// before destruction.
class WorkloadManager {
 public:
  WorkloadManager(rt::Runtime& runtime, kube::Client& client, const Logger& log, kube::Metrics& metrics);
  ~WorkloadManager();  // stops
  WorkloadManager(const WorkloadManager&) = delete;
  WorkloadManager& operator=(const WorkloadManager&) = delete;

  void start();  // never waits
  void stop();   // idempotent

 private:
  void run();
  [[nodiscard]] bool wait_for_work();
  void wake();

  rt::Runtime& runtime_;
  kube::EventRecorder events_;
  Caches caches_;
  Context context_;
  std::vector<std::unique_ptr<KeyedController>> controllers_;

  rt::StopSource stop_;
  rt::Mutex mutex_;
  rt::Condition changed_;
  bool has_news_ BASALT_GUARDED_BY(mutex_) = false;

  bool has_started_ = false;  // used only by the owner
  rt::Thread main_;
};

}  // namespace basalt::workloads
