#include <cstdio>
#include <map>
#include <set>

#include "controllers/job/test_support.h"

// Crashes after every call of a reference run, and plans of faults, on a whole cluster in virtual time. Whatever
// happens, the end is the same as without the fault: phases, counters, and how often each pod was made.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

struct Workload {
  const char* name;
  JobText job;
  const char* end;
  // The exit code of a pod by task, index and the number of its predecessors.
  std::function<int(const std::string& pod, int earlier)> exit_code;
  std::vector<std::pair<std::string, std::string>> commands;  // (phase to wait for, action)
  bool counts_retries = true;  // the number of retries is the same whatever happens
  rt::Duration run_for = 20ms;
};

JobText text_of(std::string policies, std::vector<std::pair<std::string, int>> tasks, std::string spec = {},
                std::string task_more = {}) {
  JobText text;
  text.policies = std::move(policies);
  text.tasks = std::move(tasks);
  text.spec = std::move(spec);
  text.task_more = std::move(task_more);
  return text;
}

const std::vector<Workload>& workloads() {
  const auto none = [](const std::string&, int) { return 0; };
  const auto first_of = [](const char* name) {
    return [name](const std::string& pod, int earlier) { return pod == name && earlier == 0 ? 7 : 0; };
  };
  static const std::vector<Workload> all = {
      {"plain", text_of("[]", {{"t", 2}, {"u", 1}}), "Completed", none, {}},
      {"restart job", text_of("[{event: PodFailed, action: RestartJob}]", {{"t", 2}}), "Completed", first_of("j-t-1"), {}},
      {"last retry", text_of("[{event: PodFailed, action: RestartJob}]", {{"t", 2}}, "  maxRetry: 1\n"), "Failed",
       first_of("j-t-0"), {}},
      {"restart pod", text_of("[{event: PodFailed, action: RestartPod}]", {{"t", 3}}), "Completed", first_of("j-t-1"), {},
       false},
      {"restart task", text_of("[{event: PodFailed, action: RestartTask}]", {{"t", 2}, {"u", 1}}), "Completed",
       first_of("j-t-0"), {}, false},
      {"abort and resume", text_of("[]", {{"t", 2}}), "Completed", none,
       {{"Running", "AbortJob"}, {"Aborted", "ResumeJob"}}, true, 500ms},
      {"terminate", text_of("[{event: '*', action: RestartJob}]", {{"t", 2}}), "Terminated", none,
       {{"Running", "TerminateJob"}}, true, 500ms},
      {"plugins and claim",
       text_of("[{event: TaskCompleted, action: CompleteJob}]", {{"t", 1}, {"u", 1}},
               "  plugins: {svc: [], env: []}\n  volumes:\n  - {mountPath: /d, volumeClaim: {accessModes: [ReadWriteOnce], "
               "resources: {requests: {storage: 1Gi}}}}\n",
               "    dependsOn: {name: [u]}\n"),
       "Completed", none, {}},
  };
  return all;
}

// What a run came to.
struct Ending {
  std::string phase;
  std::int64_t retries = 0;
  std::int64_t version = 0;
  std::string counters;
  std::map<std::string, int> made;  // how often each pod was made
  std::string objects;              // what else is left
  std::uint64_t calls = 0;
  bool operator==(const Ending& other) const {
    return phase == other.phase && retries == other.retries && version == other.version &&
           counters == other.counters && made == other.made && objects == other.objects;
  }
};
std::ostream& operator<<(std::ostream& out, const Ending& ending) {
  out << ending.phase << " retries " << ending.retries << " version " << ending.version << " " << ending.counters;
  for (const auto& [pod, count] : ending.made) out << " " << pod << "x" << count;
  return out << " objects " << ending.objects;
}

// Sees every pod that ever was.
class Audit {
 public:
  Audit(rt::Runtime& runtime, kube::Client& client)
      : pods_(runtime, client, {}, {.reflector = {.resource = resources::kPods}, .indexes = {}}) {
    pods_.add_handler([this](const kube::Change<api::core::PodProjection>& change) {
      const auto& pod = change.object();
      const rt::MutexLock lock(mutex_);
      if (change.is_added()) ++made_[pod.metadata.name.str()];
      if (change.is_added() && pod.metadata.owner_references.empty()) ++orphans_;
    });
    pods_.start();
  }
  void stop() { pods_.stop(); }
  int made(const std::string& pod) {
    const rt::MutexLock lock(mutex_);
    const auto found = made_.find(pod);
    return found == made_.end() ? 0 : found->second;
  }
  std::map<std::string, int> all() {
    const rt::MutexLock lock(mutex_);
    return made_;
  }
  int orphans() {
    const rt::MutexLock lock(mutex_);
    return orphans_;
  }

 private:
  kube::Informer<api::core::PodProjection> pods_;
  rt::Mutex mutex_;
  std::map<std::string, int> made_ BASALT_GUARDED_BY(mutex_);
  int orphans_ BASALT_GUARDED_BY(mutex_) = 0;
};

std::string left_over(sim::Cluster& cluster) {
  std::string text;
  for (const auto& [word, resource] : std::vector<std::pair<std::string, kube::Resource>>{
           {"groups", resources::kPodGroups},
           {"services", resources::kServices},
           {"claims", resources::kClaims},
           {"commands", resources::kCommands}})
    text += word + "=" + std::to_string(cluster.list(resource, "default").size()) + " ";
  return text;
}

// The counters of the status against the pods that exist.
void check_counters(const json::Value& job, sim::Cluster& cluster) {
  std::map<std::string, std::int64_t> seen;
  for (const json::Value& pod : cluster.list(resources::kPods, "default"))
    ++seen[std::string(pod.string_at({"status", "phase"}))];
  const auto count = [&](std::string_view member) {
    const json::Value* value = job.find_path({"status", member});
    return value == nullptr ? 0 : value->as_int();
  };
  EXPECT_EQ(count("succeeded"), seen["Succeeded"]);
  EXPECT_EQ(count("failed"), seen["Failed"]);
  EXPECT_EQ(count("pending") + count("running") + count("terminating"), 0);
}

using Trouble = std::function<void(kube::FaultClient& faults, sim::Cluster& cluster)>;

// One run of a workload. `trouble` is done to the first process's client before it starts; if that process crashes,
// another takes over.
Ending run_workload(rt::Runtime& runtime, const Workload& workload, const Trouble& trouble, rt::Duration limit) {
  Ending ending;
  const auto sink = std::make_shared<CollectingLogSink>();
  const Logger log(sink, LogLevel::Warn);
  sim::Cluster cluster(runtime);
  Audit audit(runtime, cluster.client());
  sim::PlayedScheduler scheduler(runtime, cluster.client());
  sim::PlayedKubelet kubelet(runtime, cluster.client(), [&](const api::core::PodProjection& pod) {
    const std::string name = pod.metadata.name.str();
    return sim::PodFate{.start_after = 1ms, .run_for = workload.run_for,
                        .exit_code = workload.exit_code(name, audit.made(name) - 1)};
  });
  scheduler.start();
  kubelet.start();
  cluster.apply(workload.job.yaml());

  kube::FaultClient faults(runtime, cluster.client());
  if (trouble) trouble(faults, cluster);
  auto process = std::make_unique<ManagerProcess>(runtime, faults, log);
  bool took_over = false;
  std::size_t next_command = 0;
  const bool reached = cluster.wait_until(
      [&] {
        if (faults.crashed() && !took_over) {
          took_over = true;
          process.reset();
          process = std::make_unique<ManagerProcess>(runtime, cluster.client(), log);
        }
        const std::string phase = cluster.job_phase("j");
        if (next_command < workload.commands.size() && phase == workload.commands[next_command].first) {
          const std::string uid(
              cluster.get(resources::kJobs, "default", "j")->string_at({"metadata", "uid"}));
          cluster.apply("apiVersion: bus.volcano.sh/v1alpha1\nkind: Command\nmetadata: {name: c" +
                        std::to_string(next_command) + "}\naction: " + workload.commands[next_command].second +
                        "\ntarget: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: j, uid: " + uid + "}\n");
          ++next_command;
        }
        return phase == workload.end && next_command == workload.commands.size();
      },
      limit);
  EXPECT_TRUE(reached) << workload.name << ": not " << workload.end << " but "
                       << cluster.get(resources::kJobs, "default", "j")->to_text();
  runtime.sleep_for(3s);
  if (faults.crashed() && !took_over) {  // it died with its last calls
    process.reset();
    process = std::make_unique<ManagerProcess>(runtime, cluster.client(), log);
    runtime.sleep_for(5s);
  }
  const json::Value job = *cluster.get(resources::kJobs, "default", "j");
  const auto number = [&](std::string_view member) {
    const json::Value* value = job.find_path({"status", member});
    return value == nullptr ? 0 : value->as_int();
  };
  ending.phase = cluster.job_phase("j");
  ending.retries = workload.counts_retries ? number("retryCount") : 0;
  ending.version = number("version");
  ending.counters = std::to_string(number("succeeded")) + "/" + std::to_string(number("failed"));
  ending.made = audit.all();
  ending.objects = left_over(cluster);
  check_counters(job, cluster);
  EXPECT_EQ(audit.orphans(), 0);
  ending.calls = faults.calls();
  process.reset();
  kubelet.stop();
  scheduler.stop();
  audit.stop();
  cluster.stop();
  EXPECT_EQ(sink->first_error(), "");
  return ending;
}

Ending simulate(std::uint64_t seed, const Workload& workload, const Trouble& trouble,
                rt::Duration limit = std::chrono::seconds(20)) {
  Ending ending;
  rt::run_seeds(seed, 1, [&](rt::SimRuntime& runtime) { ending = run_workload(runtime, workload, trouble, limit); });
  return ending;
}

TEST(JobFaults, CrashAfterEveryCall) {
  std::uint64_t points = 0;
  for (const Workload& workload : workloads()) {
    const Ending reference = simulate(1, workload, {});
    ASSERT_EQ(reference.phase, workload.end) << workload.name;
    for (std::uint64_t call = 1; call <= reference.calls; ++call) {
      for (const auto point : {kube::FaultClient::CrashPoint::BeforeEffect, kube::FaultClient::CrashPoint::AfterEffect}) {
        const Ending ending =
            simulate(1, workload, [&](kube::FaultClient& faults, sim::Cluster&) { faults.crash_after(call, point); });
        ++points;
        EXPECT_EQ(ending, reference) << workload.name << ", crash at call " << call
                                     << (point == kube::FaultClient::CrashPoint::BeforeEffect ? " before" : " after");
        if (HasFailure()) return;
      }
    }
  }
  std::printf("crash points: %llu\n", static_cast<unsigned long long>(points));
}

TEST(JobFaults, EveryKindOfError) {
  const std::vector<std::pair<const char*, kube::FaultPlan>> plans = {
      {"409", {.conflict = 0.3}},
      {"429", {.too_many = 0.3}},
      {"500", {.internal_error = 0.3}},
      {"503", {.unavailable = 0.3}},
      {"lost", {.lost_reply = 0.3, .timed_out = 0.1}},
      {"watches", {.delay_max = 20ms, .watch_refused = 0.1, .watch_expired = 0.02, .watch_broken = 0.1,
                   .event_repeated = 0.1, .event_delay_max = 50ms}},
  };
  int runs = 0;
  for (const Workload& workload : workloads()) {
    const Ending reference = simulate(1, workload, {});
    for (const auto& [name, plan] : plans) {
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        const Ending ending = simulate(
            seed, workload, [&plan = plan](kube::FaultClient& faults, sim::Cluster&) { faults.set_plan(plan); }, 600s);
        ++runs;
        EXPECT_EQ(ending, reference) << workload.name << " under " << name << ", seed " << seed;
        if (HasFailure()) return;
      }
    }
  }
  std::printf("runs with faults: %d\n", runs);
}

// F: an API server that is away for an hour ends no job.
TEST(JobFaults, ApiAwayForAnHour) {
  for (const Workload& workload : workloads()) {
    const Ending reference = simulate(1, workload, {});
    for (const rt::Duration after : {5ms, 15ms, 30ms, 60ms, 120ms}) {
      Ending ending;
      rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
        std::optional<rt::Thread> thief;
        ending = run_workload(
            runtime, workload,
            [&](kube::FaultClient& faults, sim::Cluster& cluster) {
              thief.emplace(runtime, "thief", [&faults, &cluster, after] {
                cluster.runtime().sleep_for(after);
                faults.set_away(true);
                cluster.runtime().sleep_for(1h);
                faults.set_away(false);
              });
            },
            4000s);
        thief->join();
      });
      EXPECT_EQ(ending, reference) << workload.name;
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace basalt::controllers::job
