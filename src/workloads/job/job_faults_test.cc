#include <gtest/gtest.h>

#include <set>

#include "controllers/queue/testing/fault_enumeration.h"
#include "workloads/testing/workload_fixture.h"

// Whatever goes wrong, each pod is counted once, and no more of them run than are needed.

namespace basalt::workloads {
namespace {

using controllers::testing::FaultStory;
using std::chrono::seconds;
using Fixture = testing::WorkloadFixture;
using testing::Fate;

// The second pod of the plain job fails.
class JobFixture : public Fixture {
 public:
  explicit JobFixture(rt::SimRuntime& runtime)
      : Fixture(runtime, [this](const Pod& pod) {
          const std::string uid = pod.metadata.uid.str();
          if (pod.metadata.owner_name == "plain" && seen_.insert(uid).second && seen_.size() == 2) failing_ = uid;
          return Fate{.run_for = seconds(1), .exit_code = uid == failing_ ? 1 : 0};
        }) {}

 private:
  std::set<std::string> seen_;
  std::string failing_;
};

void play(JobFixture& f) {
  f.cluster.apply(
      "{apiVersion: batch/v1, kind: Job, metadata: {name: plain}, spec: {completions: 3, parallelism: 2, template: "
      "{spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}");
  f.cluster.apply(
      "{apiVersion: batch/v1, kind: Job, metadata: {name: indexed}, spec: {completions: 2, parallelism: 2, "
      "completionMode: Indexed, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}");
  f.rest(seconds(40));
}

void check_end(JobFixture& f) {
  for (const char* name : {"plain", "indexed"})
    EXPECT_EQ(f.condition(resources::kJobs, name, "Complete"), "True CompletionsReached") << name;
  EXPECT_EQ(f.number(resources::kJobs, "plain", {"status", "succeeded"}), 3);
  EXPECT_EQ(f.number(resources::kJobs, "plain", {"status", "failed"}), 1);
  EXPECT_EQ(f.number(resources::kJobs, "indexed", {"status", "succeeded"}), 2);
  EXPECT_EQ(f.text(resources::kJobs, "indexed", {"status", "completedIndexes"}), "0,1");
  EXPECT_EQ(f.kubelet.names().size(), 6u);
  for (const json::Value& pod : f.pods()) EXPECT_TRUE(list_at(pod, {"metadata", "finalizers"}).empty());
}

FaultStory<JobFixture> story() {
  return {"job", [](rt::SimRuntime& runtime) { return std::make_unique<JobFixture>(runtime); }, &play, &check_end};
}

TEST(CoreJobFaults, ACrashAtEveryCall) { controllers::testing::crash_at_every_call(story()); }
TEST(CoreJobFaults, AFailureOfEveryCall) { controllers::testing::fail_every_call(story()); }
TEST(CoreJobFaults, EveryEventLostRepeatedAndLate) { controllers::testing::strike_every_event(story()); }
TEST(CoreJobFaults, FailingCallsAndLateEvents) { controllers::testing::play_under_random_faults(story(), 20); }

}  // namespace
}  // namespace basalt::workloads
