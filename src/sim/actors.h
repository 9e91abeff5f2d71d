#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "api/gen/core_podcache.h"
#include "api/gen/scheduling_podgroup.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::sim {

// A scheduler that always has room: moves every PodGroup from no phase or Pending to Inqueue, binds every pod, and
// moves the group to Running once minMember of its pods are bound. One worker; retries what fails.
class PlayedScheduler {
 public:
  struct Options {
    std::string node = "node-0";
    rt::Duration admit_delay = std::chrono::milliseconds(1);
    // Which groups are admitted; all if empty.
    std::function<bool(const api::scheduling::PodGroup&)> admits;
  };
  PlayedScheduler(rt::Runtime& runtime, kube::Client& client);
  PlayedScheduler(rt::Runtime& runtime, kube::Client& client, Options options);
  ~PlayedScheduler();
  void start();
  void stop();
  // Looks at all groups again, for tests that change what `admits` says.
  void wake();

 private:
  rt::Outcome work_on(const std::string& item, const rt::StopToken& stop);
  rt::Outcome work_on_group(const api::ObjectKey& key, const rt::StopToken& stop);
  rt::Outcome bind(const api::ObjectKey& key, const rt::StopToken& stop);

  rt::Runtime& runtime_;
  kube::Client& client_;
  const Options options_;
  kube::Informer<api::core::PodProjection> pods_;
  kube::Informer<api::scheduling::PodGroup> groups_;
  rt::WorkQueue<std::string> queue_;  // "pod ns/name", "group ns/name"
  std::unique_ptr<rt::Workers<std::string>> workers_;
};

// How a played pod goes.
struct PodFate {
  rt::Duration start_after = std::chrono::milliseconds(1);  // from bound to Running
  rt::Duration run_for = std::chrono::milliseconds(5);      // from Running to its end; rt::Duration::max(): for ever
  int exit_code = 0;                                        // 0: Succeeded, else Failed
  rt::Duration stop_after = std::chrono::milliseconds(1);   // from the deletion mark to its removal
};

// A kubelet for all nodes: bound pods run and end as `fate` says; deleted ones are removed. Pods in a final phase stay.
class PlayedKubelet {
 public:
  using FateOf = std::function<PodFate(const api::core::PodProjection&)>;
  PlayedKubelet(rt::Runtime& runtime, kube::Client& client, FateOf fate = {});
  ~PlayedKubelet();
  void start();
  void stop();

 private:
  rt::Outcome work_on(const api::ObjectKey& key, const rt::StopToken& stop);
  Done set_phase(const api::core::PodProjection& pod, std::string_view phase, int exit_code, const rt::StopToken& stop);

  rt::Runtime& runtime_;
  kube::Client& client_;
  const FateOf fate_;
  kube::Informer<api::core::PodProjection> pods_;
  rt::WorkQueue<api::ObjectKey> queue_;
  std::unique_ptr<rt::Workers<api::ObjectKey>> workers_;

  struct Progress {  // of one pod, by UID
    rt::Instant due{};
    std::string phase;
  };
  std::map<std::string, Progress> progress_;  // used only by the one worker
};

}  // namespace basalt::sim
