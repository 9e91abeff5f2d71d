#pragma once

#include <map>
#include <string>
#include <vector>

#include "workloads/common/keyed_controller.h"
#include "workloads/common/revisions.h"
#include "workloads/daemonset/daemon_set_plan.h"

namespace basalt::workloads {

// Keeps a pod on every node that its template fits. See README.md.
class DaemonSetController final : public KeyedController {
 public:
  explicit DaemonSetController(Context& context);

  // Before a pod that has ended is replaced once more on its node; doubles each time.
  static constexpr std::chrono::seconds kPause{1};
  static constexpr std::chrono::seconds kPauseMax{900};
  static constexpr std::size_t kPausesMax = 10'000;  // nodes with such pods; beyond it all begin anew

 private:
  struct Pause {
    rt::Instant until;
    rt::Duration length = kPause;
  };
  rt::Outcome reconcile(const Object& set, const rt::StopToken& stop) override;
  Done carry_out(const Object& set, DaemonSetPlan& plan, std::string_view hash, const rt::StopToken& stop);
  // Of pods that have ended, those that may be replaced by now; of the others the plan notes when.
  std::vector<PodPtr> due_for_replacement(const Object& set, DaemonSetPlan& plan);

  rt::Mutex mutex_;
  std::map<std::string, Pause, std::less<>> pauses_ BASALT_GUARDED_BY(mutex_);  // "<UID of the set>/<node>"
};

}  // namespace basalt::workloads
