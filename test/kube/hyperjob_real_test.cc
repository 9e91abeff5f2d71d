#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controllers/manager/controller_manager.h"
#include "federation/federation.h"
#include "sim/driver.h"
#include "test/kube/hyperjob_place.h"

// Hyper jobs on two real API servers, a host and a member: the controller with the rights of deploy/karmada/rbac.yaml,
// the stand-in for Karmada in between. The member's jobs are played by the test. The numbers in the names are the rows
// of the scenario table.

namespace basalt::test {
namespace {

using namespace std::chrono_literals;
using hyper::kBindings;
using hyper::kHyperJobs;
using hyper::kJobs;
using hyper::kPolicies;

std::string manifest(const std::string& name, int replicas, const std::string& clusters,
                     const std::string& image = "i") {
  return "apiVersion: training.volcano.sh/v1alpha1\nkind: HyperJob\nmetadata: {name: " + name +
         ", namespace: default}\nspec:\n  replicatedJobs:\n  - name: a\n    replicas: " + std::to_string(replicas) +
         "\n    clusterNames: " + clusters +
         "\n    templateSpec:\n      tasks:\n      - name: w\n        replicas: 1\n        template: {spec: "
         "{containers: [{name: c, image: " +
         image + "}]}}\n";
}

// A policy by which a server refuses this job, as a webhook would for a queue that is closed.
std::string refusal(const std::string& job, const std::string& message) {
  return "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: refusal}, "
         "spec: "
         "{matchConstraints: {resourceRules: [{apiGroups: [batch.volcano.sh], apiVersions: [v1alpha1], operations: "
         "[CREATE], resources: [jobs]}]}, validations: [{expression: \"object.metadata.name != '" +
         job + "'\", message: \"" + message +
         "\"}]}}\n---\n{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: "
         "{name: refusal}, spec: {policyName: refusal, validationActions: [Deny]}}\n";
}

class HyperJobReal : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_NE(HyperJobPlace::current(), nullptr);
    ASSERT_EQ(place().member().error(), "");
    host_ = place().open({});
    host_client_ = place().host().connect();
    member_client_ = place().member().connect();
    member_ = std::make_unique<HyperJobDriver>(place().runtime(), *member_client_);
    HyperJobPlace::wipe(*member_, kJobs, "default");
    federation_ = std::make_unique<federation::Federation>(
        place().runtime(), *host_client_, std::map<std::string, kube::Client*>{{"member1", member_client_.get()}},
        Logger());
    federation_->start();
    start_controller();
  }
  void start_controller() {
    controllers::ManagerOptions options;
    options.controllers = {"hyperjob-controller"};
    manager_ = std::make_unique<controllers::ControllerManager>(place().runtime(), place().own_client(), Logger(),
                                                                metrics_, options);
    ASSERT_TRUE(manager_->start({}).ok());
  }
  void TearDown() override {
    if (manager_) manager_->stop();
    if (federation_) federation_->stop();
  }
  static HyperJobPlace& place() { return *HyperJobPlace::current(); }
  void apply(const std::string& text) { kubectl(place().host(), {"apply", "--filename=-"}, text); }
  static void kubectl(RealSide& side, const std::vector<std::string>& arguments, const std::string& text) {
    const CommandResult done = side.kube().kubectl(arguments, text);
    ASSERT_EQ(done.exit, 0) << done.err;
  }
  std::optional<json::Value> condition(const std::string& name, std::string_view type, std::string_view reason) {
    const auto found = host_->get(kHyperJobs, "default", name);
    const json::Value* conditions = found ? found->find_path({"status", "conditions"}) : nullptr;
    if (conditions == nullptr) return std::nullopt;
    for (const json::Value& one : conditions->as_array()) {
      if (one.string_at({"type"}) == type && one.string_at({"reason"}) == reason) return one;
    }
    return std::nullopt;
  }
  bool has_condition(const std::string& name, std::string_view type, std::string_view reason) {
    return condition(name, type, reason).has_value();
  }
  bool waits_for(const std::function<bool()>& holds) { return host_->wait_until(holds, 120s); }
  bool arrives(const std::string& job) {
    return waits_for([&] { return member_->get(kJobs, "default", job).has_value(); });
  }
  void complete(const std::string& job) {
    member_->patch(kJobs, "default", job, R"({"status":{"state":{"phase":"Completed"},"succeeded":1}})", "status");
  }

  kube::Metrics metrics_;
  std::unique_ptr<kube::RestClient> host_client_;
  std::unique_ptr<kube::RestClient> member_client_;
  std::unique_ptr<sim::Driver> host_;
  std::unique_ptr<sim::Driver> member_;
  std::unique_ptr<federation::Federation> federation_;
  std::unique_ptr<controllers::ControllerManager> manager_;
};

TEST_F(HyperJobReal, Row53_RunsToItsEndAndStaysThere) {
  apply(manifest("h", 2, "[member1]"));
  for (const char* child : {"h-a-0", "h-a-1"}) {
    ASSERT_TRUE(member_->wait_until([&] { return member_->get(kJobs, "default", child).has_value(); }, 120s)) << child;
    member_->patch(kJobs, "default", child, R"({"status":{"state":{"phase":"Completed"},"succeeded":1}})", "status");
  }
  ASSERT_TRUE(host_->wait_until([&] { return has_condition("h", "Completed", "AllChildVCJobsCompleted"); }, 120s))
      << host_->get(kHyperJobs, "default", "h")->to_text();
  const auto hyper_job = *host_->get(kHyperJobs, "default", "h");
  EXPECT_EQ(hyper_job.find_path({"status", "splitCount"})->as_int(), 2);
  EXPECT_EQ(hyper_job.find_path({"status", "replicatedJobsStatus"})->as_array()[0].find("succeeded")->as_int(), 2);
  EXPECT_EQ(
      host_->get(kBindings, "default", "h-a-0-job")->find_path({"spec", "clusters"})->as_array()[0].string_at({"name"}),
      "member1");
  // A job that is over is not made again.
  host_->remove(kJobs, "default", "h-a-0");
  EXPECT_TRUE(member_->wait_until([&] { return !member_->get(kJobs, "default", "h-a-0"); }, 120s));
  apply(manifest("h", 3, "[member1]"));
  EXPECT_TRUE(host_->wait_until(
      [&] {
        const auto found = *host_->get(kHyperJobs, "default", "h");
        return found.find_path({"status", "observedGeneration"})->as_int() ==
               found.find_path({"metadata", "generation"})->as_int();
      },
      120s));
  EXPECT_FALSE(host_->get(kJobs, "default", "h-a-0"));
  EXPECT_FALSE(host_->get(kJobs, "default", "h-a-2"));
}

TEST_F(HyperJobReal, ScalesRepairsAndSaysWhatItCannotDo) {
  apply(manifest("s", 1, "[nowhere]"));
  EXPECT_TRUE(host_->wait_until([&] { return has_condition("s", "Stalled", "UnknownCluster"); }, 120s));
  apply(manifest("s", 2, "[member1]"));
  EXPECT_TRUE(member_->wait_until([&] { return member_->get(kJobs, "default", "s-a-1").has_value(); }, 120s));
  EXPECT_TRUE(host_->wait_until([&] { return !has_condition("s", "Stalled", "UnknownCluster"); }, 120s));
  host_->patch(kPolicies, "default", "s-a-0", R"({"spec":{"placement":{"clusterAffinity":{"clusterNames":["x"]}}}})");
  EXPECT_TRUE(host_->wait_until(
      [&] {
        return host_->get(kPolicies, "default", "s-a-0")
                   ->find_path({"spec", "placement", "clusterAffinity", "clusterNames"})
                   ->to_text() == R"(["member1"])";
      },
      120s));
  apply(manifest("s", 2, "[member1]", "other"));
  EXPECT_TRUE(host_->wait_until([&] { return has_condition("s", "Stalled", "TemplateImmutable"); }, 120s));
  apply(manifest("s", 1, "[member1]"));
  EXPECT_TRUE(member_->wait_until([&] { return !member_->get(kJobs, "default", "s-a-1"); }, 120s));
}

TEST_F(HyperJobReal, Rows41And42_ARefusedChildHoldsUpNoOtherAndIsTriedAgain) {
  kubectl(place().host(), {"apply", "--filename=-"}, refusal("r-a-1", "queue q is not open"));
  // The server learns of a policy a moment after it is stored.
  ASSERT_TRUE(waits_for([&] {
    const auto made = host_->try_create(
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: r-a-1, namespace: default}, spec: {}}");
    if (made.ok()) host_->remove(kJobs, "default", "r-a-1");
    return !made.ok();
  }));
  apply(manifest("r", 3, "[member1]"));
  EXPECT_TRUE(waits_for([&] {
    const auto stalled = condition("r", "Stalled", "ChildRefused");
    return stalled && stalled->string_at({"message"}).find("queue q is not open") != std::string_view::npos;
  }));
  EXPECT_TRUE(arrives("r-a-0") && arrives("r-a-2"));
  EXPECT_FALSE(host_->get(kJobs, "default", "r-a-1"));
  kubectl(place().host(), {"delete", "--filename=-"}, refusal("r-a-1", "queue q is not open"));
  EXPECT_TRUE(arrives("r-a-1"));
  EXPECT_TRUE(waits_for([&] { return !has_condition("r", "Stalled", "ChildRefused"); }));
}

TEST_F(HyperJobReal, Row44_ABroadPolicyDoesNotTakeJobsFromTheirOwn) {
  host_->apply(
      "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {name: all}\nspec: "
      "{priority: 100, resourceSelectors: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job}], placement: "
      "{clusterAffinity: {clusterNames: [elsewhere]}}}\n");
  apply(manifest("b", 5, "[member1]"));
  for (int i = 0; i < 5; ++i) {
    const std::string child = "b-a-" + std::to_string(i);
    EXPECT_TRUE(arrives(child)) << child;
    EXPECT_EQ(host_->get(kJobs, "default", child)
                  ->string_at({"metadata", "annotations", "propagationpolicy.karmada.io/name"}),
              child);
  }
}

TEST_F(HyperJobReal, Row55_AMemberThatReplaysAFinishedJobChangesNothing) {
  apply(manifest("m", 1, "[member1]"));
  ASSERT_TRUE(arrives("m-a-0"));
  complete("m-a-0");
  ASSERT_TRUE(waits_for([&] { return has_condition("m", "Completed", "AllChildVCJobsCompleted"); }));
  const json::Value before = *host_->get(kHyperJobs, "default", "m")->find("status");
  const std::string uid(member_->get(kJobs, "default", "m-a-0")->string_at({"metadata", "uid"}));
  member_->remove(kJobs, "default", "m-a-0");
  ASSERT_TRUE(waits_for([&] {  // the stand-in puts it back, as Karmada does
    const auto again = member_->get(kJobs, "default", "m-a-0");
    return again && again->string_at({"metadata", "uid"}) != uid;
  }));
  member_->patch(kJobs, "default", "m-a-0", R"({"status":{"state":{"phase":"Running"},"running":1}})", "status");
  ASSERT_TRUE(waits_for(
      [&] { return host_->get(kJobs, "default", "m-a-0")->string_at({"status", "state", "phase"}) == "Running"; }));
  place().runtime().sleep_for(500ms);
  EXPECT_EQ(*host_->get(kHyperJobs, "default", "m")->find("status"), before);
}

TEST_F(HyperJobReal, Row57_AQueueThatIsClosedInTheMemberIsToldOnTheHyperJob) {
  kubectl(place().member(), {"apply", "--filename=-"}, refusal("q-a-0", "queue default is Closed"));
  ASSERT_TRUE(waits_for([&] {
    const auto made = member_->try_create(
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: q-a-0, namespace: default}, spec: {}}");
    if (made.ok()) member_->remove(kJobs, "default", "q-a-0");
    return !made.ok();
  }));
  apply(manifest("q", 2, "[member1]"));
  EXPECT_TRUE(waits_for([&] {
    const auto stalled = condition("q", "Stalled", "MemberRefused");
    return stalled && stalled->string_at({"message"}).find("queue default is Closed") != std::string_view::npos;
  }));
  EXPECT_TRUE(arrives("q-a-1"));
  kubectl(place().member(), {"delete", "--filename=-"}, refusal("q-a-0", "queue default is Closed"));
  EXPECT_TRUE(arrives("q-a-0"));
  EXPECT_TRUE(waits_for([&] { return !has_condition("q", "Stalled", "MemberRefused"); }));
}

TEST_F(HyperJobReal, Row58_AClusterOfWhichNothingIsKnownHarmsNobody) {
  host_->apply(
      "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: new}\nspec: {syncMode: Push}\n");
  apply(manifest("k", 2, "[]"));
  for (const char* child : {"k-a-0", "k-a-1"}) {
    ASSERT_TRUE(arrives(child)) << child;
    complete(child);
  }
  EXPECT_TRUE(waits_for([&] { return has_condition("k", "Completed", "AllChildVCJobsCompleted"); }));
}

// A member that is away for a while, and a controller that is started again meanwhile: what runs goes on, and its end
// is heard of.
TEST_F(HyperJobReal, UsersG10_AMemberGoesAndComesBackAndTheControllerToo) {
  apply(manifest("o", 2, "[member1]"));
  ASSERT_TRUE(arrives("o-a-0") && arrives("o-a-1"));
  complete("o-a-0");
  ASSERT_TRUE(waits_for(
      [&] { return host_->get(kJobs, "default", "o-a-0")->string_at({"status", "state", "phase"}) == "Completed"; }));
  const std::string uid(member_->get(kJobs, "default", "o-a-1")->string_at({"metadata", "uid"}));
  ASSERT_EQ(place().member().kube().kill_apiserver(), "");
  manager_->stop();
  start_controller();
  EXPECT_FALSE(has_condition("o", "Completed", "AllChildVCJobsCompleted"));
  ASSERT_EQ(place().member().kube().start_apiserver(), "");
  const auto client = place().member().connect();
  HyperJobDriver again(place().runtime(), *client);
  EXPECT_EQ(again.get(kJobs, "default", "o-a-1")->string_at({"metadata", "uid"}), uid);
  again.patch(kJobs, "default", "o-a-1", R"({"status":{"state":{"phase":"Completed"},"succeeded":1}})", "status");
  EXPECT_TRUE(waits_for([&] { return has_condition("o", "Completed", "AllChildVCJobsCompleted"); }));
  EXPECT_EQ(again.list(kJobs, "default").size(), 2u);
}

}  // namespace
}  // namespace basalt::test
