#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controllers/job/state_machine.h"
#include "controllers/job/testing/job_bench.h"
#include "kube/informer.h"

// For tests only: the life of one job on a whole cluster in virtual time, told again and again with something going
// wrong. Whatever happens, the end is the same as without it, and what the auditor sees on the way is legal.
namespace basalt::controllers::job {

inline constexpr rt::Duration kForEver = rt::Duration::max();
// After a fault is over everything is as it should be within this.
inline constexpr rt::Duration kSettles = std::chrono::seconds(10);

// Something that the test does once the job has reached a phase.
struct WorkloadStep {
  std::string phase;
  std::function<void(sim::Cluster&)> act;
};

struct Workload {
  std::string name;
  JobText job;
  std::string end;
  // What becomes of a pod, by its name and the number of its predecessors.
  std::function<sim::PodFate(const std::string& pod, int earlier)> fate;
  std::vector<WorkloadStep> steps = {};
  std::set<std::string> allowed_phases = {};  // beside Pending, Running and the end
};
[[nodiscard]] const std::vector<Workload>& workloads();
[[nodiscard]] const Workload& workload(std::string_view name);

// What a run came to.
struct Ending {
  std::string phase;
  std::int64_t retries = 0;
  std::int64_t version = 0;
  std::map<std::string, int> made;  // how often each pod was made
  std::string objects;              // what else is left
  // Not compared.
  rt::Duration took{};
  std::uint64_t calls = 0;
  std::uint64_t events = 0;
  bool struck = false;
  bool operator==(const Ending& other) const {
    return phase == other.phase && retries == other.retries && version == other.version && made == other.made &&
           objects == other.objects;
  }
};
std::ostream& operator<<(std::ostream& out, const Ending& ending);

// Sees every pod that ever was and every phase of the job.
class Audit {
 public:
  Audit(rt::Runtime& runtime, kube::Client& client);
  void stop();
  [[nodiscard]] int made(const std::string& pod);
  [[nodiscard]] std::map<std::string, int> all_made();
  // Names whose last pod succeeded, whether it is still there or not.
  [[nodiscard]] std::set<std::string> succeeded();
  [[nodiscard]] std::set<std::string> phases();
  // What must never be: pods without owner, two pods for one index, a way out of a final phase. "" if all is well.
  [[nodiscard]] std::string complaint();

 private:
  void on_pod(const kube::Change<api::core::PodProjection>& change);
  void on_job(const kube::Change<api::batch::Job>& change);
  void complain(const std::string& what) BASALT_REQUIRES(mutex_);

  kube::Informer<api::core::PodProjection> pods_;
  kube::Informer<api::batch::Job> jobs_;
  rt::Mutex mutex_;
  std::map<std::string, int> made_ BASALT_GUARDED_BY(mutex_);
  std::map<std::string, std::string> last_phase_ BASALT_GUARDED_BY(mutex_);  // by name of the pod
  std::map<std::string, std::string> alive_ BASALT_GUARDED_BY(mutex_);       // owner, task and index -> UID of the pod
  std::set<std::string> phases_ BASALT_GUARDED_BY(mutex_);
  std::string complaint_ BASALT_GUARDED_BY(mutex_);
};

struct Trouble {
  // Done to the client of the process before it starts.
  std::function<void(kube::FaultClient&)> arm = {};
  // The API server is away from the process for an hour, so long after the start.
  std::optional<rt::Duration> away_after = std::nullopt;
  rt::Duration lasts{};        // how long the trouble itself lasts, beside kSettles
  bool second_leader = false;  // another process works at the same time, from the start
  bool keeps_zombie = false;   // a process that lost its API goes on running while its successor works
};
// `reference` is the same workload without trouble, or null for that one itself.
[[nodiscard]] Ending run_workload(rt::Runtime& runtime, const Workload& workload, const Trouble& trouble,
                                  const Ending* reference);
[[nodiscard]] Ending simulate(std::uint64_t seed, const Workload& workload, const Trouble& trouble,
                              const Ending* reference);

}  // namespace basalt::controllers::job
