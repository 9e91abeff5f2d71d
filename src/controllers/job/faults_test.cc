#include <cstdio>

#include "controllers/job/testing/fault_workload.h"
#include "rt/test_size.h"

// One fault at every place of a reference run, for several reference runs. The counts are printed.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
using Faults = kube::FaultClient;

class JobFaults : public ::testing::TestWithParam<std::string> {
 protected:
  JobFaults() : workload_(workload(GetParam())), reference_(simulate(1, workload_, {}, nullptr)) {}
  ~JobFaults() override {
    if (points_ > 0) std::printf("%s: %d points of %s\n", workload_.name.c_str(), points_, what_.c_str());
  }

  // False if the test has failed: the first place is enough to look at.
  bool hold(const Trouble& trouble, const std::string& where, std::uint64_t seed = 1) {
    const Ending ending = simulate(seed, workload_, trouble, &reference_);
    if (ending.struck || trouble.away_after) ++points_;
    EXPECT_EQ(ending, reference_) << workload_.name << ", " << where;
    return !HasFailure();
  }

  const Workload& workload_;
  const Ending reference_;
  int points_ = 0;
  std::string what_;
};

std::string name_of(const ::testing::TestParamInfo<std::string>& info) {
  std::string name;
  for (const char letter : info.param) name += letter == '-' ? '_' : letter;
  return name;
}
std::vector<std::string> all_workloads() {
  std::vector<std::string> names;
  for (const Workload& one : workloads()) names.push_back(one.name);
  return names;
}

class CrashAt : public JobFaults {};
TEST_P(CrashAt, EveryCall) {
  what_ = "crashes";
  for (std::uint64_t call = 1; call <= reference_.calls; call += rt::stride_of()) {
    for (const auto point : {Faults::CrashPoint::BeforeEffect, Faults::CrashPoint::AfterEffect}) {
      Trouble trouble;
      trouble.arm = [&](Faults& faults) { faults.crash_after(call, point); };
      // Every other process lives on without its API while the next one works: a leader that was replaced.
      trouble.keeps_zombie = call % 2 == 0;
      if (!hold(trouble, "crash at call " + std::to_string(call))) return;
    }
  }
  EXPECT_GE(points_, static_cast<int>(reference_.calls / rt::stride_of()));
}
INSTANTIATE_TEST_SUITE_P(Job, CrashAt, ::testing::ValuesIn(all_workloads()), name_of);

class FailAt : public JobFaults {};
TEST_P(FailAt, EveryCall) {
  what_ = "failed calls";
  Error too_many = Error::make(Reason::TooManyRequests, "too many requests (injected)");
  too_many.retry_after = 1s;
  const std::pair<Error, Faults::CrashPoint> failures[] = {
      {Error::make(Reason::Conflict, "the object has been modified (injected)"), Faults::CrashPoint::BeforeEffect},
      {too_many, Faults::CrashPoint::BeforeEffect},
      {Error::make(Reason::InternalError, "internal error (injected)"), Faults::CrashPoint::BeforeEffect},
      {Error::make(Reason::ConnectionLost, "the reply was lost (injected)"), Faults::CrashPoint::AfterEffect}};
  for (std::uint64_t call = 1; call <= reference_.calls; call += rt::stride_of()) {
    for (const auto& [error, point] : failures) {
      Trouble trouble;
      trouble.arm = [&, at = point, &failure = error](Faults& faults) { faults.fail_call(call, failure, at); };
      if (!hold(trouble, error.message + " at call " + std::to_string(call))) return;
    }
  }
  EXPECT_GE(points_, static_cast<int>(reference_.calls / rt::stride_of()));
}
INSTANTIATE_TEST_SUITE_P(Job, FailAt, ::testing::ValuesIn(all_workloads()), name_of);

class StrikeAt : public JobFaults {};
TEST_P(StrikeAt, EveryEvent) {
  what_ = "lost, repeated and late events";
  for (std::uint64_t event = 1; event <= reference_.events; event += rt::stride_of()) {
    for (const auto fault : {Faults::EventFault::Broken, Faults::EventFault::Expired, Faults::EventFault::Repeated,
                             Faults::EventFault::Late}) {
      Trouble trouble;
      trouble.arm = [&](Faults& faults) { faults.strike_event(event, fault, 3s); };
      if (fault == Faults::EventFault::Late) trouble.lasts = 3s;
      if (!hold(trouble, "fault " + std::to_string(static_cast<int>(fault)) + " at event " + std::to_string(event)))
        return;
    }
  }
  EXPECT_GE(points_, static_cast<int>(reference_.events / rt::stride_of()));
}
INSTANTIATE_TEST_SUITE_P(Job, StrikeAt, ::testing::ValuesIn(all_workloads()), name_of);

// An API server that is away for an hour ends no job.
class Away : public JobFaults {};
TEST_P(Away, ForAnHour) {
  what_ = "hours without an API server";
  int tried = 0;
  for (const rt::Duration after : {1ms, 4ms, 8ms, 15ms, 30ms, 45ms, 80ms}) {
    if (rt::stride_of() > 1 && ++tried > 2) break;  // a slow build
    Trouble trouble;
    trouble.away_after = after;
    trouble.lasts = std::chrono::minutes(rt::test_size(60));
    if (!hold(trouble, "away after " + std::to_string(after.count()) + " ns")) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Job, Away, ::testing::ValuesIn(all_workloads()), name_of);

// Two processes that both believe to be the leader, which the lease rules out: a pod may be restarted once more than
// needed, but the job ends as it should, and nothing that the auditor watches for happens.
class TwoLeaders : public JobFaults {};
TEST_P(TwoLeaders, AtOnce) {
  what_ = "runs with two leaders";
  for (std::uint64_t seed = 1; seed <= 8 && !HasFailure(); seed += rt::stride_of()) {
    Trouble trouble;
    trouble.second_leader = true;
    trouble.lasts = 5s;
    const Ending ending = simulate(seed, workload_, trouble, &reference_);
    ++points_;
    EXPECT_EQ(ending.phase, reference_.phase) << "seed " << seed;
    EXPECT_EQ(ending.objects, reference_.objects) << "seed " << seed;
    EXPECT_GE(ending.retries, reference_.retries) << "seed " << seed;
  }
}
INSTANTIATE_TEST_SUITE_P(Job, TwoLeaders, ::testing::ValuesIn(all_workloads()), name_of);

// Everything at once, for as long as the job lives.
class Weather : public JobFaults {};
TEST_P(Weather, IsBadAllTheTime) {
  what_ = "runs in bad weather";
  for (std::uint64_t seed = 1; seed <= 6; seed += rt::stride_of()) {
    Trouble trouble;
    trouble.lasts = 10min;
    trouble.arm = [](Faults& faults) {
      faults.set_plan({.conflict = 0.2,
                       .too_many = 0.1,
                       .internal_error = 0.1,
                       .unavailable = 0.1,
                       .unreachable = 0.05,
                       .lost_reply = 0.1,
                       .timed_out = 0.05,
                       .delay_max = 20ms,
                       .watch_refused = 0.1,
                       .watch_expired = 0.02,
                       .watch_broken = 0.1,
                       .event_repeated = 0.1,
                       .event_delay_max = 50ms,
                       .stale_lists_max = 3});
    };
    const Ending ending = simulate(seed, workload_, trouble, &reference_);
    ++points_;
    EXPECT_EQ(ending.phase, reference_.phase) << "seed " << seed;
    EXPECT_EQ(ending.retries, reference_.retries) << "seed " << seed;
    EXPECT_EQ(ending.version, reference_.version) << "seed " << seed;
    EXPECT_EQ(ending.objects, reference_.objects) << "seed " << seed;
    // A pod that was not there yet when its task or partition was restarted is made once only, and one that was not
    // there yet when the job ended is never made.
    for (const auto& [pod, count] : ending.made) {
      const auto expected = reference_.made.find(pod);
      EXPECT_LE(count, expected == reference_.made.end() ? 0 : expected->second) << pod << ", seed " << seed;
    }
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Job, Weather, ::testing::ValuesIn(all_workloads()), name_of);

}  // namespace
}  // namespace basalt::controllers::job
