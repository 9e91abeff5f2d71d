#include "controllers/job/testing/fault_workload.h"

#include <cstdio>
#include <cstdlib>

#include "base/check.h"

namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;
using api::core::PodProjection;

// BASALT_TRACE_CALLS=1 prints what happens to job and pods, and at the end all calls of the first process.
bool is_traced() {
  static const bool traced = std::getenv("BASALT_TRACE_CALLS") != nullptr;
  return traced;
}

JobText text_of(std::string policies, std::vector<std::pair<std::string, int>> tasks, std::string spec = {},
                std::string task_more = {}) {
  JobText text;
  text.policies = std::move(policies);
  text.tasks = std::move(tasks);
  text.spec = std::move(spec);
  text.task_more = std::move(task_more);
  return text;
}

sim::PodFate ends_well(const std::string& /*pod*/, int /*earlier*/) { return {.run_for = 20ms}; }
// The first pod of that name fails with 7; the others outlive it.
auto first_fails(std::string name) {
  return [name = std::move(name)](const std::string& pod, int earlier) -> sim::PodFate {
    if (pod == name && earlier == 0) return {.run_for = 20ms, .exit_code = 7};
    return {.run_for = earlier == 0 ? 40ms : 20ms};
  };
}
// Pods run until somebody ends them; their successors end well.
sim::PodFate runs_until_replaced(const std::string& /*pod*/, int earlier) {
  return {.run_for = earlier == 0 ? kForEver : rt::Duration(20ms)};
}

WorkloadStep command_at(std::string phase, std::string action) {
  return {std::move(phase), [action](sim::Cluster& cluster) {
            const std::string uid(cluster.get(resources::kJobs, "default", "j")->string_at({"metadata", "uid"}));
            cluster.apply("apiVersion: bus.volcano.sh/v1alpha1\nkind: Command\nmetadata: {name: c-" +
                          std::string(action == "ResumeJob" ? "resume" : "end") + "}\naction: " + action +
                          "\ntarget: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: j, uid: " + uid + "}\n");
          }};
}
WorkloadStep remove_at(std::string phase, std::string pod) {
  return {std::move(phase),
          [pod = std::move(pod)](sim::Cluster& cluster) { cluster.remove(resources::kPods, "default", pod, 0); }};
}
WorkloadStep scale_at(std::string phase, int replicas) {
  return {std::move(phase), [replicas](sim::Cluster& cluster) {
            const json::Value job = *cluster.get(resources::kJobs, "default", "j");
            json::Value tasks = *job.find_path({"spec", "tasks"});
            tasks.as_array()[0].as_object().set("replicas", replicas);
            cluster.patch(
                resources::kJobs, "default", "j",
                R"({"spec":{"minAvailable":)" + std::to_string(replicas) + R"(,"tasks":)" + tasks.to_text() + "}}");
          }};
}

const char* const kClaimVolume =
    "  volumes:\n  - {mountPath: /d, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: "
    "1Gi}}}}\n";

std::vector<Workload> make_workloads() {
  std::vector<Workload> all;
  all.push_back({"plain", text_of("[]", {{"t", 2}, {"u", 1}}), "Completed", ends_well});
  all.push_back({"restart-job",
                 text_of("[{event: PodFailed, action: RestartJob}]", {{"t", 2}}),
                 "Completed",
                 first_fails("j-t-1"),
                 {},
                 {"Restarting"}});
  all.push_back({"last-retry",
                 text_of("[{event: PodFailed, action: RestartJob}]", {{"t", 2}}, "  maxRetry: 1\n"),
                 "Failed",
                 first_fails("j-t-0"),
                 {},
                 {"Restarting"}});
  all.push_back({"restart-pod",
                 text_of("[{event: PodFailed, action: RestartPod}]", {{"t", 3}}),
                 "Completed",
                 first_fails("j-t-1"),
                 {},
                 {"Restarting"}});
  all.push_back({"restart-task",
                 text_of("[{event: PodEvicted, action: RestartTask}]", {{"t", 2}, {"u", 1}}),
                 "Completed",
                 [](const std::string& pod, int earlier) -> sim::PodFate {
                   return {.run_for = earlier == 0 && pod != "j-u-0" ? kForEver : rt::Duration(20ms)};
                 },
                 {remove_at("Running", "j-t-0")},
                 {"Restarting"}});
  all.push_back({"restart-partition",
                 text_of("[{event: PodFailed, action: RestartPartition}]", {{"t", 4}}, "",
                         "    partitionPolicy: {totalPartitions: 2, partitionSize: 2}\n"),
                 "Completed",
                 first_fails("j-t-3"),
                 {},
                 {"Restarting"}});
  all.push_back({"abort-and-resume",
                 text_of("[]", {{"t", 2}}),
                 "Completed",
                 runs_until_replaced,
                 {command_at("Running", "AbortJob"), command_at("Aborted", "ResumeJob")},
                 {"Aborting", "Aborted", "Restarting"}});
  all.push_back({"terminate",
                 text_of("[{event: '*', action: RestartJob}]", {{"t", 2}}),
                 "Terminated",
                 runs_until_replaced,
                 {command_at("Running", "TerminateJob")},
                 {"Terminating"}});
  all.push_back({"scale-down",
                 text_of("[{event: PodEvicted, action: RestartJob}]", {{"t", 4}}),
                 "Completed",
                 [](const std::string& pod, int) -> sim::PodFate {
                   return {.run_for = pod < "j-t-2" ? rt::Duration(300ms) : kForEver};
                 },
                 {scale_at("Running", 2)}});
  all.push_back(
      {"plugins-and-claim",
       text_of("[{event: TaskCompleted, action: CompleteJob}]", {{"t", 1}, {"u", 1}},
               std::string("  plugins: {svc: [], env: [], ssh: []}\n") + kClaimVolume, "    dependsOn: {name: [u]}\n"),
       "Completed",
       [](const std::string& pod, int) -> sim::PodFate {
         return {.run_for = pod == "j-u-0" ? kForEver : rt::Duration(20ms)};
       },
       {},
       {"Completing"}});
  return all;
}

std::string left_over(sim::Cluster& cluster) {
  std::string text;
  for (const auto& [word, resource] :
       std::vector<std::pair<std::string, kube::Resource>>{{"groups", resources::kPodGroups},
                                                           {"services", resources::kServices},
                                                           {"secrets", resources::kSecrets},
                                                           {"policies", resources::kNetworkPolicies},
                                                           {"claims", resources::kClaims},
                                                           {"commands", resources::kCommands}})
    text += word + "=" + std::to_string(cluster.list(resource, "default").size()) + " ";
  return text;
}

std::int64_t number_in(const json::Value& job, std::string_view member) {
  const json::Value* value = job.find_path({"status", member});
  return value == nullptr ? 0 : value->as_int();
}

// The counters of the status against the pods.
void check_counters(const json::Value& job, sim::Cluster& cluster, Audit& audit) {
  std::int64_t failed = 0;
  std::int64_t kept = 0;
  for (const json::Value& pod : cluster.list(resources::kPods, "default")) {
    const std::string_view phase = pod.string_at({"status", "phase"});
    EXPECT_TRUE(phase == "Succeeded" || phase == "Failed") << pod.string_at({"metadata", "name"}) << " is " << phase;
    failed += phase == "Failed" ? 1 : 0;
    kept += phase == "Succeeded" ? 1 : 0;
  }
  const auto succeeded = static_cast<std::int64_t>(audit.succeeded().size());
  // A pod that was told to go when the job ended may have succeeded just then; the result of the job stands.
  if (job.string_at({"status", "state", "phase"}) == "Completed") {
    EXPECT_EQ(number_in(job, "succeeded"), succeeded);
  } else {
    EXPECT_LE(number_in(job, "succeeded"), succeeded);
    EXPECT_GE(number_in(job, "succeeded"), kept);
  }
  EXPECT_EQ(number_in(job, "failed"), failed);
  EXPECT_EQ(number_in(job, "pending") + number_in(job, "running") + number_in(job, "terminating"), 0);
}

JobControllerOptions fast_options() {
  JobControllerOptions options;
  options.make_keys = [] { return SshKeyPair{"private\n", "ssh-rsa public\n"}; };
  return options;
}

// One run on its way.
class Run {
 public:
  Run(rt::Runtime& runtime, const Workload& workload, const Trouble& trouble)
      : runtime_(runtime),
        workload_(workload),
        trouble_(trouble),
        cluster_(runtime, cluster_options()),
        audit_(runtime, cluster_.client()),
        scheduler_(runtime, cluster_.client()),
        kubelet_(runtime, cluster_.client(),
                 [this](const PodProjection& pod) {
                   const std::string name = pod.metadata.name.str();
                   return workload_.fate(name, audit_.made(name) - 1);
                 }),
        faults_(runtime, cluster_.client()) {}

  Ending play(const Ending* reference) {
    scheduler_.start();
    kubelet_.start();
    cluster_.apply(workload_.job.yaml());
    if (trouble_.arm) trouble_.arm(faults_);
    const rt::Instant begin = runtime_.now();
    process_ = start(faults_);
    if (trouble_.second_leader) other_ = start(cluster_.client());
    std::optional<rt::Thread> thief;
    if (trouble_.away_after) {
      thief.emplace(runtime_, "thief", [this] {
        runtime_.sleep_for(*trouble_.away_after);
        faults_.set_away(true);
        runtime_.sleep_for(1h);
        faults_.set_away(false);
      });
    }
    const rt::Duration limit = reference == nullptr ? rt::Duration(20s) : reference->took + trouble_.lasts + kSettles;
    bool reached = false;
    if (thief) {  // nothing to look at while the server is away
      reached = cluster_.wait_until([this] { return advance(); }, 1s);
      runtime_.sleep_for(1h - 1s);
    }
    reached = reached || cluster_.wait_until([this] { return advance(); }, limit);
    Ending ending;
    ending.took = runtime_.now() - begin;
    EXPECT_TRUE(reached) << workload_.name << ": not " << workload_.end << " within "
                         << std::chrono::duration<double>(limit).count() << " s but "
                         << cluster_.get(resources::kJobs, "default", "j")->to_text();
    faults_.set_plan({});
    rest(kSettles);
    if (thief) thief->join();
    finish(ending);
    return ending;
  }

 private:
  std::unique_ptr<ManagerProcess> start(kube::Client& client) {
    return std::make_unique<ManagerProcess>(runtime_, client, log_, fast_options());
  }
  void take_over() {
    if (!faults_.crashed() || took_over_) return;
    took_over_ = true;
    if (trouble_.keeps_zombie) {
      other_ = start(cluster_.client());
    } else {
      process_.reset();
      process_ = start(cluster_.client());
    }
  }
  // True when the job is where it should end.
  bool advance() {
    take_over();
    const std::string phase = cluster_.job_phase("j");
    if (next_step_ < workload_.steps.size() && phase == workload_.steps[next_step_].phase)
      workload_.steps[next_step_++].act(cluster_);
    return phase == workload_.end && next_step_ == workload_.steps.size();
  }
  void rest(rt::Duration time) {
    runtime_.sleep_for(time);
    if (faults_.crashed() && !took_over_) {  // it died with its last calls
      take_over();
      runtime_.sleep_for(kSettles);
    }
  }
  void finish(Ending& ending) {
    const json::Value job = *cluster_.get(resources::kJobs, "default", "j");
    ending.phase = cluster_.job_phase("j");
    ending.retries = number_in(job, "retryCount");
    ending.version = number_in(job, "version");
    ending.made = audit_.all_made();
    ending.objects = left_over(cluster_);
    ending.calls = faults_.calls();
    ending.events = faults_.events();
    ending.struck = faults_.struck() || faults_.crashed();
    if (is_traced()) {
      for (const std::string& call : faults_.call_log()) std::printf("%s\n", call.c_str());
    }
    check_counters(job, cluster_, audit_);
    EXPECT_EQ(audit_.complaint(), "");
    for (const std::string& phase : audit_.phases()) {
      EXPECT_TRUE(phase.empty() || phase == "Pending" || phase == "Running" || phase == workload_.end ||
                  workload_.allowed_phases.contains(phase))
          << "the job was " << phase;
    }
    process_.reset();
    other_.reset();
    kubelet_.stop();
    scheduler_.stop();
    audit_.stop();
    cluster_.stop();
    EXPECT_EQ(sink_->first_error(), "");
  }

  rt::Runtime& runtime_;
  const Workload& workload_;
  const Trouble& trouble_;
  const std::shared_ptr<CollectingLogSink> sink_ = std::make_shared<CollectingLogSink>();
  const Logger log_{sink_, LogLevel::Warn};
  sim::Cluster cluster_;
  Audit audit_;
  sim::PlayedScheduler scheduler_;
  sim::PlayedKubelet kubelet_;
  kube::FaultClient faults_;
  std::unique_ptr<ManagerProcess> process_;
  std::unique_ptr<ManagerProcess> other_;
  bool took_over_ = false;
  std::size_t next_step_ = 0;
};

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = make_workloads();
  return all;
}

const Workload& workload(std::string_view name) {
  for (const Workload& one : workloads()) {
    if (one.name == name) return one;
  }
  BASALT_CHECK_MSG(false, "no such workload");
  return workloads().front();
}

std::ostream& operator<<(std::ostream& out, const Ending& ending) {
  out << ending.phase << " retries " << ending.retries << " version " << ending.version;
  for (const auto& [pod, count] : ending.made) out << " " << pod << "x" << count;
  return out << " objects " << ending.objects;
}

Audit::Audit(rt::Runtime& runtime, kube::Client& client)
    : pods_(runtime, client, {}, {.reflector = {.resource = resources::kPods}, .indexes = {}}),
      jobs_(runtime, client, {}, {.reflector = {.resource = resources::kJobs}, .indexes = {}}) {
  pods_.add_handler([this](const kube::Change<PodProjection>& change) { on_pod(change); });
  jobs_.add_handler([this](const kube::Change<api::batch::Job>& change) { on_job(change); });
  pods_.start();
  jobs_.start();
}

void Audit::stop() {
  pods_.stop();
  jobs_.stop();
}

void Audit::complain(const std::string& what) {
  if (complaint_.empty()) complaint_ = what;
}

void Audit::on_pod(const kube::Change<PodProjection>& change) {
  const PodProjection& pod = change.object();
  const std::string name = pod.metadata.name.str();
  const std::string uid = pod.metadata.uid.str();
  if (is_traced())
    std::printf("pod %s %s %s%s\n", name.c_str(), pod.status.phase.str().c_str(),
                pod.metadata.annotations.contains("volcano.sh/controller-out-of-sync") ? "marked " : "",
                change.is_deleted() ? "gone"
                : change.is_added() ? "new"
                                    : "");
  const rt::MutexLock lock(mutex_);
  if (pod.metadata.owner_references.empty()) {
    complain("pod " + name + " has no owner");
    return;
  }
  const std::string place = pod.metadata.owner_references[0].uid.str() + "/" +
                            std::string(pod.metadata.labels.get("volcano.sh/task-spec")) + "/" +
                            std::string(pod.metadata.labels.get("volcano.sh/task-index"));
  last_phase_[name] = pod.status.phase.str();
  if (change.is_deleted()) {
    alive_.erase(place);
    return;
  }
  const auto [found, is_new] = alive_.emplace(place, uid);
  if (!is_new && found->second != uid) complain("two pods for " + place);
  if (change.is_added()) ++made_[name];
}

void Audit::on_job(const kube::Change<api::batch::Job>& change) {
  if (is_traced()) std::printf("job %s\n", json::to_text(change.object().status).c_str());
  const rt::MutexLock lock(mutex_);
  phases_.insert(change.object().status.state.phase);
  if (!change.is_updated()) return;
  const std::string& before = change.before->status.state.phase;
  const std::string& after = change.after->status.state.phase;
  if (before != after && is_terminal(phase_of(before))) complain("from " + before + " there is no way to " + after);
  if (change.after->status.version < change.before->status.version) complain("the version went back");
  if (change.after->status.retry_count < change.before->status.retry_count) complain("the retries went back");
}

int Audit::made(const std::string& pod) {
  const rt::MutexLock lock(mutex_);
  const auto found = made_.find(pod);
  return found == made_.end() ? 0 : found->second;
}

std::map<std::string, int> Audit::all_made() {
  const rt::MutexLock lock(mutex_);
  return made_;
}

std::set<std::string> Audit::succeeded() {
  const rt::MutexLock lock(mutex_);
  std::set<std::string> names;
  for (const auto& [name, phase] : last_phase_) {
    if (phase == "Succeeded") names.insert(name);
  }
  return names;
}

std::set<std::string> Audit::phases() {
  const rt::MutexLock lock(mutex_);
  return phases_;
}

std::string Audit::complaint() {
  const rt::MutexLock lock(mutex_);
  return complaint_;
}

Ending run_workload(rt::Runtime& runtime, const Workload& workload, const Trouble& trouble, const Ending* reference) {
  const auto run = std::make_unique<Run>(runtime, workload, trouble);
  return run->play(reference);
}

Ending simulate(std::uint64_t seed, const Workload& workload, const Trouble& trouble, const Ending* reference) {
  Ending ending;
  rt::run_seeds(seed, 1,
                [&](rt::SimRuntime& runtime) { ending = run_workload(runtime, workload, trouble, reference); });
  return ending;
}

}  // namespace basalt::controllers::job
