#include <atomic>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

#include "controllers/hyperjob/test_support.h"
#include "kube/informer.h"
#include "rt/test_size.h"

// Crashes and faults at every call of a reference run, in virtual time. Whatever happens, the end is the same as
// without: no child is made twice, none is left over, none runs again after its success, and the status is right.
namespace basalt::controllers::hyperjob {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;

// What becomes of a hyper job: created, scaled, its children played to their end, one child deleted by a short life.
struct Workload {
  const char* name;
  std::vector<std::string> first;       // entries at creation
  std::vector<std::string> then;        // entries once all run; empty: no change
  const char* gone_after_success = "";  // this child goes soon after it completed
  const char* deleted_by_hand = "";     // this child is deleted while it runs
  bool is_made_again = false;           // the same name once more, after the first is deleted while it runs
};

// By its place, so that the runs can be shared out.
const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {.name = "plain", .first = {"a:2:c1", "b:1"}, .then = {}},
      {.name = "scaled", .first = {"a:2"}, .then = {"a:3:c2", "z:1"}},
      {.name = "reduced", .first = {"a:3"}, .then = {"a:1"}},
      {.name = "short life", .first = {"a:2"}, .then = {}, .gone_after_success = "h-a-0"},
      {.name = "by hand", .first = {"a:2"}, .then = {}, .deleted_by_hand = "h-a-1"},
      {.name = "again", .first = {"a:1"}, .then = {}, .is_made_again = true},
  };
  return all;
}

struct Ending {
  std::string condition;
  std::string groups;
  std::set<std::string> jobs;
  std::set<std::string> policies;
  std::map<std::string, int> runs;  // how often each child was made
  std::uint64_t calls = 0;
  std::vector<std::string> log;  // what was called
  bool operator==(const Ending& other) const {
    return condition == other.condition && groups == other.groups && jobs == other.jobs && policies == other.policies &&
           runs == other.runs;
  }
};
std::ostream& operator<<(std::ostream& out, const Ending& ending) {
  out << ending.condition << " " << ending.groups << " jobs";
  for (const auto& name : ending.jobs) out << " " << name;
  out << " policies";
  for (const auto& name : ending.policies) out << " " << name;
  for (const auto& [name, count] : ending.runs) out << " " << name << "x" << count;
  return out;
}

// Karmada and the members in one: every job that appears runs for a while and completes, unless told otherwise.
class PlayedFederation {
 public:
  PlayedFederation(sim::Driver& cluster, const Workload& workload, const std::atomic<bool>* is_away)
      : cluster_(cluster),
        workload_(workload),
        is_away_(is_away),
        jobs_(cluster.runtime(), cluster.client(), {}, {.reflector = {.resource = resources::kJobs}, .indexes = {}}),
        stop_(cluster.runtime()) {
    jobs_.add_handler([this](const kube::Change<api::batch::Job>& change) {
      if (!change.is_added()) return;
      const rt::MutexLock lock(mutex_);
      ++runs_[change.object().metadata.name];
    });
    jobs_.start();
    thread_ = rt::Thread(cluster.runtime(), "karmada", [this] { run(); });
  }
  void stop() {
    stop_.request_stop();
    thread_.join();
    jobs_.stop();
  }
  void let_finish() { may_finish_ = true; }
  std::map<std::string, int> runs() {
    const rt::MutexLock lock(mutex_);
    return runs_;
  }

 private:
  void run() {
    // A long absence is not worth many looks.
    const rt::Instant begin = cluster_.runtime().now();
    while (!stop_.token().wait_for(cluster_.runtime(), cluster_.runtime().now() - begin < 20s ? 50ms : 5s)) {
      for (const json::Value& job : cluster_.list(resources::kJobs, "default")) step(job);
    }
  }
  void step(const json::Value& job) {
    const std::string name(job.string_at({"metadata", "name"}));
    const std::string_view phase = job.string_at({"status", "state", "phase"});
    if (phase.empty()) set(name, "Running");
    if (phase == "Running" && may_finish_) set(name, "Completed");
    if (phase != "Completed" || name != workload_.gone_after_success) return;
    // Not before a controller that dies now has had a successor, nor while nobody can look: what nobody saw cannot be
    // remembered.
    const rt::Instant now = cluster_.runtime().now();
    if (!completed_ || (is_away_ != nullptr && is_away_->load())) completed_ = now;
    if (now - *completed_ >= 1s) cluster_.remove(resources::kJobs, "default", name);
  }
  void set(const std::string& name, const std::string& phase) {
    static_cast<void>(cluster_.try_patch(resources::kJobs, "default", name,
                                         R"({"status":{"state":{"phase":")" + phase + "\"}}}", "status"));
  }
  sim::Driver& cluster_;
  const Workload& workload_;
  const std::atomic<bool>* const is_away_;  // the API server, from the controller; null: never
  kube::Informer<api::batch::Job> jobs_;
  rt::StopSource stop_;
  rt::Thread thread_;
  std::atomic<bool> may_finish_ = false;
  std::optional<rt::Instant> completed_;  // of the playing thread
  rt::Mutex mutex_;
  std::map<std::string, int> runs_ BASALT_GUARDED_BY(mutex_);
};

using Trouble = std::function<void(kube::FaultClient& faults)>;

class FaultRun {
 public:
  FaultRun(rt::Runtime& runtime, const Workload& workload, const Trouble& trouble, rt::Duration limit,
           const std::atomic<bool>* is_away = nullptr)
      : bench_(runtime, false), workload_(workload), limit_(limit), played_(bench_.cluster, workload, is_away) {
    if (trouble) trouble(bench_.faults);
    bench_.restart();
  }

  Ending go() {
    bench_.cluster.apply(Bench::yaml("h", workload_.first));
    EXPECT_TRUE(wait([&] { return all_run(); })) << workload_.name;
    if (workload_.is_made_again) {
      bench_.cluster.remove(resources::kHyperJobs, "default", "h");
      bench_.cluster.apply(Bench::yaml("h", workload_.first));
    }
    if (workload_.deleted_by_hand[0] != '\0')
      bench_.cluster.remove(resources::kJobs, "default", workload_.deleted_by_hand);
    if (!workload_.then.empty()) bench_.cluster.apply(Bench::yaml("h", workload_.then));
    EXPECT_TRUE(wait([&] { return all_run(); })) << workload_.name;
    played_.let_finish();
    EXPECT_TRUE(wait([&] { return bench_.condition("Completed").has_value(); }))
        << workload_.name << ": " << bench_.hyper_job()->to_text();
    if (workload_.gone_after_success[0] != '\0') {
      EXPECT_TRUE(wait([&] { return !bench_.cluster.get(resources::kJobs, "default", workload_.gone_after_success); }));
    }
    bench_.runtime().sleep_for(2s);
    take_over_if_crashed();
    bench_.runtime().sleep_for(2s);
    Ending ending;
    const auto hyper_job = bench_.hyper_job();
    ending.condition = bench_.condition("Completed") ? bench_.condition("Completed")->string_at({"message"}) : "";
    json::Value groups = *hyper_job->find_path({"status", "replicatedJobsStatus"});
    ending.groups = groups.to_text();
    for (auto& name : bench_.names(resources::kJobs)) ending.jobs.insert(name);
    for (auto& name : bench_.names(resources::kPolicies)) ending.policies.insert(name);
    ending.runs = played_.runs();
    ending.calls = bench_.faults.calls();
    ending.log = bench_.faults.call_log();
    for (const kube::Resource& resource : {resources::kJobs, resources::kPolicies}) {
      for (const json::Value& child : bench_.cluster.list(resource, "default")) {
        const json::Array& owners = child.find_path({"metadata", "ownerReferences"})->as_array();
        EXPECT_EQ(owners.at(0).string_at({"uid"}), hyper_job->string_at({"metadata", "uid"}));
      }
    }
    played_.stop();
    return ending;
  }

 private:
  bool wait(const std::function<bool()>& done) {
    const rt::Instant deadline = rt::saturating_add(bench_.runtime().now(), limit_);
    const auto poll = [&] {
      take_over_if_crashed();
      return done();
    };
    // First at short intervals, then, while the API is away, at long ones.
    while (!bench_.cluster.wait_until(poll, 5s)) {
      if (bench_.runtime().now() >= deadline) return false;
      bench_.runtime().sleep_for(std::min<rt::Duration>(limit_ / 20, 60s));
    }
    return true;
  }
  void take_over_if_crashed() {
    if (!bench_.faults.crashed() || took_over_) return;
    took_over_ = true;
    bench_.process.reset();
    bench_.process = std::make_unique<HyperJobProcess>(bench_.runtime(), bench_.cluster.client(), Logger());
  }
  // As many children as are wanted run, and the status says so.
  bool all_run() {
    if (bench_.number({"status", "observedGeneration"}) != bench_.number({"metadata", "generation"})) return false;
    const std::int64_t wanted = bench_.number({"status", "splitCount"});
    if (wanted < 0) return false;
    std::int64_t running = 0;
    const auto hyper_job = bench_.hyper_job();
    const std::string uid(hyper_job->string_at({"metadata", "uid"}));
    for (const json::Value& job : bench_.cluster.list(resources::kJobs, "default")) {
      if (job.find_path({"metadata", "ownerReferences"})->as_array().at(0).string_at({"uid"}) != uid) return false;
      running += job.string_at({"status", "state", "phase"}) == "Running" ? 1 : 0;
    }
    return running == wanted && static_cast<std::int64_t>(bench_.names(resources::kPolicies).size()) == wanted &&
           static_cast<std::int64_t>(bench_.names(resources::kJobs).size()) == wanted;
  }

  Bench bench_;
  const Workload& workload_;
  const rt::Duration limit_;
  PlayedFederation played_;
  bool took_over_ = false;
};

Ending simulate(std::uint64_t seed, const Workload& workload, const Trouble& trouble, rt::Duration limit = 60s) {
  Ending ending;
  rt::run_seeds(seed, 1, [&](rt::SimRuntime& runtime) { ending = FaultRun(runtime, workload, trouble, limit).go(); });
  return ending;
}

class HyperJobFaults : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Workloads, HyperJobFaults, ::testing::Range(std::size_t{0}, std::size_t{6}));

TEST_P(HyperJobFaults, CrashAtEveryCall) {
  int points = 0;
  const Workload& workload = workloads().at(GetParam());
  const Ending reference = simulate(1, workload, {});
  ASSERT_NE(reference.condition, "") << workload.name;
  for (std::uint64_t call = 1; call <= reference.calls; call += rt::stride_of()) {
    for (const auto point : {kube::FaultClient::CrashPoint::BeforeEffect, kube::FaultClient::CrashPoint::AfterEffect}) {
      const Ending ending = simulate(1, workload, [&](kube::FaultClient& faults) { faults.crash_after(call, point); });
      ++points;
      EXPECT_EQ(ending, reference) << workload.name << ", crash at call " << call
                                   << (point == kube::FaultClient::CrashPoint::BeforeEffect ? " before" : " after");
      if (HasFailure()) return;
    }
  }
  std::printf("%s: crash points: %d\n", workload.name, points);
}

TEST_P(HyperJobFaults, OneErrorAtEveryCall) {
  int points = 0;
  const Workload& workload = workloads().at(GetParam());
  const Ending reference = simulate(1, workload, {});
  for (std::uint64_t call = 1; call <= reference.calls; call += rt::stride_of()) {
    for (const Reason reason : {Reason::Conflict, Reason::TooManyRequests, Reason::InternalError}) {
      for (const auto point :
           {kube::FaultClient::CrashPoint::BeforeEffect, kube::FaultClient::CrashPoint::AfterEffect}) {
        // Only an internal error leaves open whether the call took effect.
        if (point == kube::FaultClient::CrashPoint::AfterEffect && reason != Reason::InternalError) continue;
        // A conflict befalls patches, and whether a read took effect does not matter.
        const std::string& what = reference.log.at(call - 1);
        const bool is_read = what.starts_with("Get") || what.starts_with("List") || what.starts_with("Watch");
        if (reason == Reason::Conflict && !what.starts_with("Patch")) continue;
        if (point == kube::FaultClient::CrashPoint::AfterEffect && is_read) continue;
        const Ending ending = simulate(1, workload, [&](kube::FaultClient& faults) {
          faults.fail_call(call, Error::make(reason, "injected"), point);
        });
        ++points;
        EXPECT_EQ(ending, reference) << workload.name << ", " << to_string(reason) << " at call " << call;
        if (HasFailure()) return;
      }
    }
  }
  std::printf("%s: error points: %d\n", workload.name, points);
}

TEST_P(HyperJobFaults, PlansOfFaults) {
  const std::vector<std::pair<const char*, kube::FaultPlan>> plans = {
      {"409", {.conflict = 0.3}},
      {"429", {.too_many = 0.3}},
      {"500", {.internal_error = 0.3}},
      {"lost", {.lost_reply = 0.3, .timed_out = 0.1}},
      {"watches",
       {.delay_max = 20ms,
        .watch_refused = 0.1,
        .watch_expired = 0.02,
        .watch_broken = 0.1,
        .event_repeated = 0.1,
        .event_delay_max = 300ms}},
      {"stale lists", {.watch_broken = 0.1, .event_delay_max = 500ms, .stale_lists_max = 3}},
  };
  int runs = 0;
  const Workload& workload = workloads().at(GetParam());
  const Ending reference = simulate(1, workload, {});
  for (const auto& [name, plan] : plans) {
    for (std::uint64_t seed = 1; seed <= 4; seed += rt::stride_of()) {
      const Ending ending =
          simulate(seed, workload, [&wanted = plan](kube::FaultClient& faults) { faults.set_plan(wanted); }, 600s);
      ++runs;
      EXPECT_EQ(ending, reference) << workload.name << " under " << name << ", seed " << seed;
      if (HasFailure()) return;
    }
  }
  std::printf("%s: runs with faults: %d\n", workload.name, runs);
}

TEST_P(HyperJobFaults, TheApiIsAwayForAnHour) {
  int runs = 0;
  const Workload& workload = workloads().at(GetParam());
  const Ending reference = simulate(1, workload, {});
  int tried = 0;
  for (const rt::Duration after : {2ms, 20ms, 60ms, 150ms}) {
    if (rt::stride_of() > 1 && ++tried > 2) break;  // a slow build
    Ending ending;
    rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
      std::optional<rt::Thread> thief;
      std::atomic<bool> is_away = false;
      {
        FaultRun run(
            runtime, workload,
            [&](kube::FaultClient& faults) {
              thief.emplace(runtime, "thief", [&faults, &runtime, &is_away, after] {
                runtime.sleep_for(after);
                is_away = true;
                faults.set_away(true);
                runtime.sleep_for(std::chrono::minutes(rt::test_size(60)));
                faults.set_away(false);
                runtime.sleep_for(2min);  // the controller tries again after a while
                is_away = false;
              });
            },
            5000s, &is_away);
        ending = run.go();
        thief->join();
      }
    });
    ++runs;
    EXPECT_EQ(ending, reference) << workload.name;
    if (HasFailure()) return;
  }
  std::printf("%s: absences: %d\n", workload.name, runs);
}

}  // namespace
}  // namespace basalt::controllers::hyperjob
