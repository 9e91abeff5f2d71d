// Crashes and faults at every call and every watch event of a reference run, in virtual time. Whatever happens, the end
// is the same as without, and what must never be is never seen: see check().

#include <cstdio>
#include <set>

#include "controllers/datadependency/test_support.h"
#include "rt/test_size.h"

namespace basalt::controllers::datadependency {
namespace {

using namespace std::chrono_literals;

// What happens to claims, data and bindings.
struct Workload {
  const char* name;
  bool changes_table = false;
  bool changes_workload = false;
  bool moves_data = false;
  bool deletes_claim = false;
  bool deletes_source = false;
};
const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {.name = "resolved"},
      {.name = "table changed", .changes_table = true},
      {.name = "workload changed", .changes_workload = true},
      {.name = "data moved", .moves_data = true},
      {.name = "claim deleted", .deletes_claim = true},
      {.name = "source deleted", .deletes_source = true},
  };
  return all;
}

// The end as users see it: without versions, times and identities.
struct Ending {
  std::string state;
  int calls_to_system = 0;
  std::uint64_t calls = 0;
  std::uint64_t events = 0;
  std::vector<std::string> log;
};

using Trouble = std::function<void(kube::FaultClient& faults)>;

class FaultRun {
 public:
  FaultRun(rt::Runtime& runtime, const Workload& workload, rt::Duration limit)
      : plane_(runtime, {.has_hook = false, .config_folder = "", .starts = false}),
        workload_(workload),
        limit_(limit) {}
  [[nodiscard]] kube::FaultClient& faults() { return plane_.faults; }

  Ending go() {
    plane_.system.put("a.b.c", {"m1", "m2"});
    plane_.system.put("a.b.d", {"m2"});
    plane_.system.put("a.b.e", {"m1"});
    plane_.restart();
    plane_.bind("w");
    plane_.bind("v");
    plane_.claim("one", "a.b.c");
    plane_.claim("two", "a.b.d");
    plane_.claim("three", "a.b.c", "v");
    EXPECT_TRUE(wait([&] { return excluded_are(R"(["m1","m3"])", R"(["m3"])"); })) << workload_.name << dump();
    // A scheduler has put them where they may be.
    plane_.schedule("w", R"([{"name":"m2","replicas":1}])");
    plane_.schedule("v", R"([{"name":"m1","replicas":1}])");
    std::string last_w = R"(["m1","m3"])";
    std::string last_v = R"(["m3"])";
    if (workload_.changes_table) {
      plane_.cluster.patch(kClaims, "default", "three", R"({"spec":{"dataSourceName":"a.b.e"}})");
      last_v = R"(["m2","m3"])";
    }
    if (workload_.changes_workload) {
      plane_.cluster.patch(kClaims, "default", "two", R"({"spec":{"workload":{"name":"v"}}})");
      last_w = R"(["m3"])";
      last_v = R"(["m1","m3"])";
    }
    if (workload_.moves_data) {
      plane_.system.put("a.b.c", {"m1", "m2", "m3"});
      plane_.configure(R"({"endpoint":{"url":"http://moved"}})");
      last_v = "none";
    }
    if (workload_.deletes_claim) {
      plane_.cluster.remove(kClaims, "default", "two");
      last_w = R"(["m3"])";
    }
    if (workload_.deletes_source) plane_.cluster.remove(kSources, "", "amoro-table-a.b.d");
    EXPECT_TRUE(wait([&] { return excluded_are(last_w, last_v) && is_settled(); })) << workload_.name << dump();
    plane_.cluster.runtime().sleep_for(5s);  // events that come late are up to three seconds late
    take_over_if_crashed();
    EXPECT_TRUE(wait([&] { return excluded_are(last_w, last_v) && is_settled(); })) << workload_.name << dump();
    Ending ending;
    ending.state = dump();
    ending.calls = plane_.faults.calls();
    ending.events = plane_.faults.events();
    ending.log = plane_.faults.call_log();
    ending.calls_to_system = plane_.system.calls;
    check_restart_writes_nothing();
    return ending;
  }

 private:
  bool wait(const std::function<bool()>& done) {
    const rt::Instant deadline = rt::saturating_add(plane_.cluster.runtime().now(), limit_);
    const auto poll = [&] {
      take_over_if_crashed();
      check();
      return done();
    };
    while (!plane_.cluster.wait_until(poll, 5s)) {
      if (plane_.cluster.runtime().now() >= deadline) return false;
      plane_.cluster.runtime().sleep_for(std::min<rt::Duration>(limit_ / 20, 60s));
    }
    return true;
  }
  void take_over_if_crashed() {
    if (!plane_.faults.crashed() || took_over_) return;
    took_over_ = true;
    plane_.restart_on(plane_.cluster.client());
  }
  bool excluded_are(const std::string& w, const std::string& v) {
    return plane_.excluded("w") == w && plane_.excluded("v") == v;
  }

  // What holds at every moment.
  void check() {
    for (const char* workload : {"w", "v"}) {
      const auto binding = plane_.cluster.get(kBindings, "default", std::string(workload) + "-deployment");
      if (!binding) continue;
      // Nobody but the scheduler (this test) writes the choice.
      const json::Value* clusters = binding->find_path({"spec", "clusters"});
      const std::string chosen = clusters == nullptr ? "" : clusters->to_text();
      if (!seen_[workload].empty()) {
        EXPECT_EQ(chosen, seen_[workload]) << "the choice was touched";
      }
      seen_[workload] = chosen;
      // Once constrained a workload is never without a constraint: its claims do not all go.
      const bool is_constrained = plane_.excluded(workload) != "none";
      if (constrained_.contains(workload) && !workload_.moves_data) {
        EXPECT_TRUE(is_constrained) << workload;
      }
      if (is_constrained) constrained_.insert(workload);
    }
  }

  // References equal the bound claims, nothing is left of what is gone, no steering by a claim that is gone.
  bool is_settled() {
    std::map<std::string, std::set<std::string>> bound;
    std::set<std::string> uids;
    for (const json::Value& claim : plane_.cluster.list(kClaims, "default")) {
      if (claim.string_at({"status", "phase"}) != "Bound") return false;
      if (claim.find_path({"metadata", "deletionTimestamp"}) != nullptr) return false;
      const std::string uid(claim.string_at({"metadata", "uid"}));
      uids.insert(uid);
      bound[std::string(claim.string_at({"status", "boundDataSource"}))].insert(uid);
      if (plane_.condition(claim, "PlacementInjected") != "True Injected") return false;
    }
    for (const json::Value& source : plane_.cluster.list(kSources, "")) {
      if (source.find_path({"metadata", "deletionTimestamp"}) != nullptr) return false;
      std::set<std::string> named;
      if (const json::Value* refs = source.find_path({"status", "claimRefs"})) {
        for (const json::Value& ref : refs->as_array()) named.emplace(ref.string_at({"uid"}));
      }
      if (named != bound[std::string(source.string_at({"metadata", "name"}))]) return false;
    }
    for (const json::Value& binding : plane_.cluster.list(kBindings, "default")) {
      const auto record = json::Value::parse(binding.string_at({"metadata", "annotations", kRecordAnnotation}));
      if (!record.ok()) return false;
      for (const json::Value& uid : record->find("claims")->as_array()) {
        if (!uids.contains(uid.as_string())) return false;
      }
      if (binding.find_path({"metadata", "annotations", kGatedAnnotation}) != nullptr) return false;
    }
    return true;
  }

  void check_restart_writes_nothing() {
    kube::FaultClient quiet(plane_.cluster.runtime(), plane_.cluster.client());
    plane_.restart_on(quiet);
    plane_.cluster.runtime().sleep_for(30s);
    for (const std::string& call : quiet.call_log()) {
      const bool is_read = call.starts_with("Get") || call.starts_with("List") || call.starts_with("Watch");
      EXPECT_TRUE(is_read || call.find("events") != std::string::npos) << "a restart wrote: " << call;
    }
    plane_.end();
  }

  std::string dump() {
    std::string text;
    for (const json::Value& claim : plane_.cluster.list(kClaims, "default")) {
      text += "\n" + std::string(claim.string_at({"metadata", "name"})) + " " +
              plane_.claim_state(std::string(claim.string_at({"metadata", "name"}))) + " " +
              std::string(claim.string_at({"status", "boundDataSource"})) + " " +
              plane_.condition(claim, "PlacementInjected");
    }
    for (const json::Value& source : plane_.cluster.list(kSources, "")) {
      const json::Value* count = source.find_path({"status", "boundClaims"});
      text += "\n" + std::string(source.string_at({"metadata", "name"})) + " " +
              (count == nullptr ? "-" : count->to_text()) + " " +
              source.find_path({"spec", "locality", "clusterNames"})->to_text() + " " +
              source.find_path({"metadata", "finalizers"})->to_text();
    }
    for (const char* workload : {"w", "v"}) text += std::string("\n") + workload + " " + plane_.excluded(workload);
    return text;
  }

  Plane plane_;
  const Workload& workload_;
  const rt::Duration limit_;
  bool took_over_ = false;
  std::map<std::string, std::string> seen_;
  std::set<std::string> constrained_;
};

Ending simulate(std::uint64_t seed, const Workload& workload, const Trouble& trouble, rt::Duration limit = 60s) {
  Ending ending;
  rt::run_seeds(seed, 1, [&](rt::SimRuntime& runtime) {
    FaultRun run(runtime, workload, limit);
    if (trouble) trouble(run.faults());
    ending = run.go();
  });
  return ending;
}

class DataFaults : public ::testing::TestWithParam<std::size_t> {
 protected:
  const Workload& workload_ = workloads().at(GetParam());
  // Independent of the number of workloads and of what happened: one call for each table, and one more for each when
  // the configuration changed; a process that starts anew asks once more.
  void expect_same(const Ending& ending, const Ending& reference, const std::string& what) {
    EXPECT_EQ(ending.state, reference.state) << workload_.name << ", " << what;
    EXPECT_LE(ending.calls_to_system, reference.calls_to_system + 3) << workload_.name << ", " << what;
  }
};
INSTANTIATE_TEST_SUITE_P(Workloads, DataFaults, ::testing::Range(std::size_t{0}, std::size_t{6}));

TEST_P(DataFaults, CrashAtEveryCall) {
  int points = 0;
  const Ending reference = simulate(1, workload_, {});
  for (std::uint64_t call = 1; call <= reference.calls; call += rt::stride_of()) {
    for (const auto point : {kube::FaultClient::CrashPoint::BeforeEffect, kube::FaultClient::CrashPoint::AfterEffect}) {
      const std::string& what = reference.log.at(call - 1);
      const bool is_read = what.starts_with("Get") || what.starts_with("List") || what.starts_with("Watch");
      if (is_read && point == kube::FaultClient::CrashPoint::AfterEffect) continue;
      const Ending ending = simulate(1, workload_, [&](kube::FaultClient& faults) { faults.crash_after(call, point); });
      ++points;
      expect_same(ending, reference, "crash at " + what);
      if (HasFailure()) return;
    }
  }
  std::printf("%s: crash points: %d\n", workload_.name, points);
}

TEST_P(DataFaults, OneErrorAtEveryCall) {
  int points = 0;
  const Ending reference = simulate(1, workload_, {});
  for (std::uint64_t call = 1; call <= reference.calls; call += rt::stride_of()) {
    const std::string& what = reference.log.at(call - 1);
    const bool is_read = what.starts_with("Get") || what.starts_with("List") || what.starts_with("Watch");
    for (const Reason reason : {Reason::Conflict, Reason::TooManyRequests, Reason::InternalError}) {
      for (const auto point :
           {kube::FaultClient::CrashPoint::BeforeEffect, kube::FaultClient::CrashPoint::AfterEffect}) {
        // Only an internal error leaves open whether a write took effect; a conflict befalls patches.
        const bool is_after = point == kube::FaultClient::CrashPoint::AfterEffect;
        if (is_after && (is_read || reason != Reason::InternalError)) continue;
        if (reason == Reason::Conflict && !what.starts_with("Patch")) continue;
        const Ending ending = simulate(1, workload_, [&](kube::FaultClient& faults) {
          faults.fail_call(call, Error::make(reason, "injected"), point);
        });
        ++points;
        expect_same(ending, reference, std::string(to_string(reason)) + " at " + what);
        if (HasFailure()) return;
      }
    }
  }
  std::printf("%s: error points: %d\n", workload_.name, points);
}

TEST_P(DataFaults, OneFaultAtEveryWatchEvent) {
  int points = 0;
  const Ending reference = simulate(1, workload_, {});
  using EventFault = kube::FaultClient::EventFault;
  for (std::uint64_t event = 1; event <= reference.events; event += rt::stride_of()) {
    for (const EventFault fault : {EventFault::Broken, EventFault::Expired, EventFault::Repeated, EventFault::Late}) {
      const Ending ending =
          simulate(1, workload_, [&](kube::FaultClient& faults) { faults.strike_event(event, fault); }, 120s);
      ++points;
      expect_same(ending, reference, "event " + std::to_string(event));
      if (HasFailure()) return;
    }
  }
  std::printf("%s: event points: %d\n", workload_.name, points);
}

TEST_P(DataFaults, PlansOfFaults) {
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
  const Ending reference = simulate(1, workload_, {});
  for (const auto& [name, plan] : plans) {
    for (std::uint64_t seed = 1; seed <= 4; seed += rt::stride_of()) {
      const Ending ending =
          simulate(seed, workload_, [&wanted = plan](kube::FaultClient& faults) { faults.set_plan(wanted); }, 600s);
      ++runs;
      EXPECT_EQ(ending.state, reference.state) << workload_.name << " under " << name << ", seed " << seed;
      if (HasFailure()) return;
    }
  }
  std::printf("%s: runs with faults: %d\n", workload_.name, runs);
}

TEST_P(DataFaults, TheApiIsAwayForAnHour) {
  int runs = 0;
  const Ending reference = simulate(1, workload_, {});
  for (const rt::Duration after : {2ms, 30ms, 120ms}) {
    Ending ending;
    rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
      FaultRun run(runtime, workload_, 6000s);
      rt::Thread thief(runtime, "thief", [&run, &runtime, after] {
        runtime.sleep_for(after);
        run.faults().set_away(true);
        runtime.sleep_for(std::chrono::minutes(rt::test_size(60)));
        run.faults().set_away(false);
      });
      ending = run.go();
      thief.join();
    });
    ++runs;
    EXPECT_EQ(ending.state, reference.state) << workload_.name;
    if (HasFailure()) return;
  }
  std::printf("%s: absences: %d\n", workload_.name, runs);
}

}  // namespace
}  // namespace basalt::controllers::datadependency
