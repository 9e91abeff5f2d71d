#include <gtest/gtest.h>

#include "federation/interpreter.h"
#include "federation/ledger.h"
#include "federation/matching.h"
#include "federation/placement.h"
#include "json/reader.h"

// The pure parts: who has a job, where it goes, what is understood of it.
namespace basalt::federation {
namespace {

using api::batch::Job;
using api::batch::JobStatus;
using api::karmada::Placement;
using api::karmada::PropagationPolicy;

PolicyPtr policy(const std::string& name, int priority, const std::string& selector) {
  return std::make_shared<const PropagationPolicy>(*json::from_text<PropagationPolicy>(
      R"({"metadata":{"name":")" + name + R"(","namespace":"d","uid":"u-)" + name + R"("},"spec":{"priority":)" +
      std::to_string(priority) + R"(,"resourceSelectors":[{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job")" +
      selector + "}]}}"));
}

Job job(const std::string& more = "") {
  return *json::from_text<Job>(R"({"metadata":{"name":"j","namespace":"d","uid":"x","labels":{"a":"b")" + more + "}}}");
}

TEST(FederationMatching, PriorityThenClosenessThenName) {
  const PolicyPtr kind = policy("kind", 0, "");
  const PolicyPtr label = policy("label", 0, R"(,"labelSelector":{"matchLabels":{"a":"b"}})");
  const PolicyPtr by_name = policy("named", 0, R"(,"name":"j")");
  const PolicyPtr other = policy("other", 9, R"(,"name":"k")");
  EXPECT_EQ(find_claim(job(), {kind, label, by_name, other}, {}).name, "named");
  EXPECT_EQ(find_claim(job(), {kind, label, other}, {}).name, "label");
  EXPECT_EQ(find_claim(job(), {kind, policy("kind2", 0, "")}, {}).name, "kind");
  EXPECT_EQ(find_claim(job(), {policy("eager", 5, ""), by_name}, {}).name, "eager");
  EXPECT_TRUE(find_claim(job(), {other}, {}).is_none());
  // Once claimed, it stays.
  const Job claimed = job(R"(,"propagationpolicy.karmada.io/permanent-id":"u-kind")");
  EXPECT_EQ(find_claim(claimed, {kind, by_name}, {}).name, "kind");
  EXPECT_EQ(find_claim(claimed, {by_name}, {}).name, "named");
  const auto broad = std::make_shared<const ClusterPropagationPolicy>(*json::from_text<ClusterPropagationPolicy>(
      R"({"metadata":{"name":"all","uid":"c"},"spec":{"priority":100,"resourceSelectors":[
      {"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job"}]}})"));
  EXPECT_EQ(find_claim(job(), {kind}, {broad}).name, "kind");
  EXPECT_TRUE(find_claim(job(), {}, {broad}).is_cluster_wide());
}

Candidate cluster(const std::string& name, const std::string& cpu) {
  Candidate candidate;
  candidate.name = name;
  candidate.is_ready = true;
  if (!cpu.empty()) candidate.free = api::ResourceList{{"cpu", *api::Quantity::parse(cpu)}};
  return candidate;
}

const Placement kOneCluster = *json::from_text<Placement>(
    R"({"replicaScheduling":{"replicaSchedulingType":"Divided","replicaDivisionPreference":"Aggregated"},
    "spreadConstraints":[{"spreadByField":"cluster","minGroups":1,"maxGroups":1}]})");

std::string chosen(const Choice& choice) {
  std::string text;
  for (const auto& target : choice.clusters) text += target.name + ":" + std::to_string(target.replicas) + " ";
  return text.empty() ? choice.reason : text;
}

TEST(FederationPlacement, OneClusterWithTheMostRoom) {
  Wish wish{.placement = &kOneCluster, .replicas = 3, .request = {{"cpu", *api::Quantity::parse("2")}}};
  const std::vector<Candidate> clusters{cluster("a", "7"), cluster("b", "20"), cluster("c", "")};
  EXPECT_EQ(chosen(choose_clusters(wish, clusters)), "b:3 ");
  wish.present = {"a"};
  EXPECT_EQ(chosen(choose_clusters(wish, clusters)), "a:3 ");  // it stays where it is and fits
  wish.present = {};
  wish.replicas = 11;
  EXPECT_EQ(chosen(choose_clusters(wish, clusters)), "SchedulerError");
  Placement several = kOneCluster;
  several.spread_constraints[0].max_groups = 2;
  wish.placement = &several;
  EXPECT_EQ(chosen(choose_clusters(wish, clusters)), "b:10 a:1 ");
  // Without requests a cluster that never said what it has is as good as any.
  wish = {.placement = &kOneCluster, .replicas = 2};
  EXPECT_EQ(chosen(choose_clusters(wish, {cluster("c", "")})), "c:2 ");
}

TEST(FederationPlacement, AffinityAndReadiness) {
  Placement placement = kOneCluster;
  placement.cluster_affinity.emplace();
  placement.cluster_affinity->cluster_names = {"b", "c"};
  placement.cluster_affinity->exclude = {"c"};
  const Wish wish{.placement = &placement, .replicas = 1};
  std::vector<Candidate> clusters{cluster("a", ""), cluster("b", ""), cluster("c", "")};
  EXPECT_EQ(chosen(choose_clusters(wish, clusters)), "b:1 ");
  clusters[1].is_ready = false;
  const Choice none = choose_clusters(wish, clusters);
  EXPECT_EQ(none.reason, "NoClusterFit");
  EXPECT_TRUE(none.message.starts_with("0/3 clusters are available")) << none.message;
  const Placement everywhere =
      *json::from_text<Placement>(R"({"replicaScheduling":{"replicaSchedulingType":"Duplicated"}})");
  EXPECT_EQ(chosen(choose_clusters({.placement = &everywhere, .replicas = 4}, clusters)), "a:4 c:4 ");
}

TEST(FederationPlacement, TheLedgerSharesOut) {
  Ledger ledger;
  const Wish wish{.placement = &kOneCluster, .replicas = 1, .request = {{"cpu", *api::Quantity::parse("4")}}};
  const std::vector<Candidate> clusters{cluster("a", "8"), cluster("b", "8")};
  std::string order;
  for (int i = 0; i < 5; ++i) order += chosen(ledger.choose({"d", std::to_string(i)}, wish, clusters));
  EXPECT_EQ(order, "a:1 b:1 a:1 b:1 SchedulerError");
  ledger.release({"d", "1"});
  EXPECT_EQ(chosen(ledger.choose({"d", "9"}, wish, clusters)), "b:1 ");
}

TEST(FederationInterpreter, CopiesForMembers) {
  const auto host = *json::Value::parse(
      R"({"metadata":{"name":"j","namespace":"d","uid":"u","generation":4,"finalizers":["f"],"ownerReferences":[{}],
      "labels":{"l":"1"}},"spec":{"ttlSecondsAfterFinished":5,"tasks":[{"name":"w","replicas":9},{"name":"v","replicas":2}]},
      "status":{"state":{"phase":"Running"}}})");
  const json::Value copy = member_job(host, "j-job", 3);
  EXPECT_EQ(copy.find("status"), nullptr);
  EXPECT_EQ(copy.find_path({"metadata", "uid"}), nullptr);
  EXPECT_EQ(copy.find_path({"metadata", "finalizers"}), nullptr);
  EXPECT_EQ(copy.find_path({"spec", "ttlSecondsAfterFinished"}), nullptr);
  EXPECT_EQ(copy.find_path({"spec", "tasks"})->as_array()[0].find("replicas")->as_int(), 3);
  EXPECT_EQ(copy.string_at({"metadata", "labels", "karmada.io/managed"}), "true");
  // What the member filled in is no reason to write.
  json::Value live = copy;
  live.find("spec")->as_object().set("minAvailable", 5);
  live.find_path({"spec", "tasks"})->as_array()[0].as_object().set("maxRetry", 3);
  EXPECT_TRUE(member_patch(live, copy).is_null()) << member_patch(live, copy).to_text();
  EXPECT_FALSE(member_patch(live, member_job(host, "j-job", 4)).is_null());
}

TEST(FederationInterpreter, SumsStatusesUp) {
  const auto status = [](const char* text) { return *json::from_text<JobStatus>(text); };
  const JobStatus a = status(R"({"state":{"phase":"Completed"},"succeeded":2})");
  const JobStatus b = status(R"({"state":{"phase":"Running"},"running":1,"succeeded":1})");
  const JobStatus c = status(R"({"state":{"phase":"Aborted"}})");
  EXPECT_EQ(aggregate({a}), a);
  EXPECT_EQ(aggregate({a, b}).state.phase, "Running");
  EXPECT_EQ(aggregate({a, b}).succeeded, 3);
  EXPECT_EQ(aggregate({a, a}).state.phase, "Completed");
  // Of one cluster nothing is known yet.
  EXPECT_EQ(aggregate({a, {}}).state.phase, "");
  EXPECT_EQ(aggregate({{}, a}).state.phase, "");
  EXPECT_EQ(aggregate({b, {}}).state.phase, "Running");
  EXPECT_EQ(aggregate({a, b, c}).state.phase, "Failed");
  EXPECT_EQ(health_of(status("{}")), "Unhealthy");
  EXPECT_EQ(health_of(a), "Healthy");
}

TEST(FederationInterpreter, FindsWhatPodsNeed) {
  const auto spec = *json::from_text<api::batch::JobSpec>(R"({"tasks":[{"replicas":0,"template":{"spec":{
      "serviceAccountName":"sa","imagePullSecrets":[{"name":"pull"}],"volumes":[{"configMap":{"name":"cm"}},
      {"secret":{"secretName":"s"}},{"persistentVolumeClaim":{"claimName":"pvc"}}],"containers":[{"envFrom":
      [{"configMapRef":{"name":"cm"}}],"resources":{"requests":{"cpu":"2"}}}]}}},{"template":{"spec":{"containers":
      [{"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]}}}]})");
  std::string found;
  for (const Dependency& one : dependencies_of(spec)) found += one.kind + "/" + one.name + " ";
  EXPECT_EQ(found, "ConfigMap/cm PersistentVolumeClaim/pvc Secret/pull Secret/s ServiceAccount/sa ");
  EXPECT_EQ(replicas_of(spec), 1);
  EXPECT_EQ(request_of(spec).to_string(), "cpu=2,memory=1Gi");
}

}  // namespace
}  // namespace basalt::federation
