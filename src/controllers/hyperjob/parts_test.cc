#include <gtest/gtest.h>

#include "controllers/hyperjob/children.h"
#include "controllers/hyperjob/hash.h"
#include "controllers/hyperjob/job_update.h"
#include "controllers/hyperjob/plan.h"
#include "controllers/hyperjob/problems.h"
#include "controllers/hyperjob/status.h"
#include "controllers/hyperjob/waiting.h"

// The pure parts: hashes, contents, comparisons.
namespace basalt::controllers::hyperjob {
namespace {

json::Value parsed(std::string_view text) {
  auto value = json::Value::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? std::move(*value) : json::Value();
}

std::string hash(std::string_view text) { return *spec_hash(parsed(text)); }

TEST(HyperJobHash, Rows48To50_CheckValues) {
  EXPECT_EQ(hash("{}"), "iqjw7i2vwntyuekgvulpp2det2kpwt6cd7tx5ayqybqpmhfk76fa");
  EXPECT_EQ(
      hash(R"({"maxRetry":3,"tasks":[{"name":"worker","replicas":1,"template":{"spec":{"containers":[)"
           R"({"image":"test-image","name":"worker","resources":{"requests":{"cpu":"100m","memory":"128Mi"}}}]}}}]})"),
      "x2hnch6wy55l5b75f4w5bsbtkxykjdihimeovmayj25fbjdajlrq");
  EXPECT_EQ(*spec_hash(policy_spec("llm-training-trainer-0", {})),
            "el77y5dgkystggakrljl4eiscr2rbvodl6rhkzocd2gug5tlam3q");
  EXPECT_EQ(*spec_hash(policy_spec("llm-training-trainer-0", {"cluster-1", "cluster-2"})),
            "vmc2qn4qa4auzw5qptcps47oqi7pcsvudiu4gwzctkia4x7hivqa");
}

TEST(HyperJobHash, CanonicalText) {
  EXPECT_EQ(*canonical_text(parsed(R"( {"b":[1, 2,{}],"a":{"y":null,"x":true},"c":-5} )")),
            R"({"a":{"x":true},"b":[1,2,{}],"c":-5})");
  EXPECT_EQ(*canonical_text(parsed(R"({"a":"\u0001\b\t\n\f\r\"\\/\u2028ü<"})")),
            "{\"a\":\"\\u0001\\b\\t\\n\\f\\r\\\"\\\\/\xE2\x80\xA8ü<\"}");
  EXPECT_FALSE(canonical_text(parsed(R"({"a":1.5})")).ok());
  // Order of keys does not matter; an empty object means something.
  EXPECT_EQ(hash(R"({"queue":"q","tasks":[]})"), hash(R"({"tasks":[],"queue":"q"})"));
  EXPECT_NE(hash(R"({"volumes":[{"emptyDir":{}}]})"), hash(R"({"volumes":[{}]})"));
  EXPECT_EQ(hash(R"({"queue":null})"), hash("{}"));
}

TEST(HyperJobHash, TellsOursFromOthers) {
  EXPECT_TRUE(is_spec_hash("iqjw7i2vwntyuekgvulpp2det2kpwt6cd7tx5ayqybqpmhfk76fa"));
  EXPECT_FALSE(is_spec_hash("xw46fx28d8666769"));
  EXPECT_FALSE(is_spec_hash(""));
  EXPECT_FALSE(is_spec_hash("iqjw7i2vwntyuekgvulpp2det2kpwt6cd7tx5ayqybqpmhfk76f1"));
}

TEST(HyperJobChildren, TheTemplateIsCopiedWithoutWhatGoLeavesOut) {
  const json::Value spec = job_spec_of_template(
      parsed(R"({"queue":"","minAvailable":0,"ttlSecondsAfterFinished":0,"plugins":{},"volumes":null,
      "networkTopology":{"highestTierName":"rack"},
      "tasks":[{"name":"","replicas":0,"minAvailable":0,"policies":[],
        "template":{"spec":{"volumes":[{"name":"v","emptyDir":{}}],"nodeName":""}}}]})"));
  EXPECT_EQ(spec.to_text(),
            R"({"networkTopology":{"highestTierName":"rack"},"tasks":[{"minAvailable":0,"template":{"spec":)"
            R"({"nodeName":"","volumes":[{"emptyDir":{},"name":"v"}]}}}],"ttlSecondsAfterFinished":0})");
}

api::karmada::PropagationSpec policy_of(std::string_view text) {
  return *json::from_text<api::karmada::PropagationSpec>(text);
}

TEST(HyperJobChildren, WhatKarmadaAddsToAPolicyDoesNotMatter) {
  const std::vector<std::string> clusters{"a", "b"};
  json::Value spec = policy_spec("j", clusters);
  EXPECT_TRUE(policy_matches(policy_of(spec.to_text()), "j", clusters));
  json::Value defaulted = spec;
  defaulted.as_object().set("priority", 0);
  defaulted.as_object().set("preemption", "Never");
  defaulted.as_object().set("schedulerName", "default-scheduler");
  defaulted.as_object().set("conflictResolution", "Abort");
  defaulted.find("resourceSelectors")->as_array()[0].as_object().set("namespace", "default");
  defaulted.find("placement")->as_object().set("clusterTolerations", json::Array());
  EXPECT_TRUE(policy_matches(policy_of(defaulted.to_text()), "j", clusters));
  EXPECT_FALSE(policy_matches(policy_of(defaulted.to_text()), "j", {"a"}));
  EXPECT_FALSE(policy_matches(policy_of(defaulted.to_text()), "j", {}));
  EXPECT_FALSE(policy_matches(policy_of(policy_spec("j", {}).to_text()), "j", clusters));
  json::Value narrowed = defaulted;
  narrowed.find_path({"placement", "clusterAffinity"})->as_object().set("exclude", json::Array{"a"});
  EXPECT_FALSE(policy_matches(policy_of(narrowed.to_text()), "j", clusters));
  // The patch takes away what it must.
  EXPECT_EQ(policy_spec_patch("j", {}).find_path({"placement", "clusterAffinity"})->to_text(), "null");
}

constexpr std::string_view kTemplate =
    R"({"tasks":[{"name":"w","replicas":2,"template":{"spec":{"containers":[{"name":"c","image":"a"}]}}}]})";
// The same job after webhook and controller filled it in.
constexpr std::string_view kLive =
    R"({"minAvailable":2,"queue":"default","schedulerName":"volcano","maxRetry":3,"tasks":[{"name":"w","replicas":2,)"
    R"("minAvailable":2,"maxRetry":3,"template":{"spec":{"containers":[{"name":"c","image":"a"}]}}}]})";

std::string with(std::string_view text, std::string_view from, std::string_view to) {
  std::string changed(text);
  const auto at = changed.find(from);
  EXPECT_NE(at, std::string::npos);
  return changed.replace(at, from.size(), to);
}

TEST(HyperJobUpdate, DefaultsOfTheWebhookAreNoDifference) {
  EXPECT_EQ(plan_job_update(parsed(kTemplate), parsed(kLive)).kind, JobUpdate::Kind::Same);
  // Nor without a webhook.
  EXPECT_EQ(plan_job_update(parsed(kTemplate), parsed(kTemplate)).kind, JobUpdate::Kind::Same);
}

TEST(HyperJobUpdate, GangSizesFollowTheReplicas) {
  for (const auto& [replicas, text] : {std::pair(5, "\"replicas\":5"), std::pair(1, "\"replicas\":1")}) {
    const JobUpdate update = plan_job_update(parsed(with(kTemplate, "\"replicas\":2", text)), parsed(kLive));
    ASSERT_EQ(update.kind, JobUpdate::Kind::Allowed) << update.path;
    EXPECT_EQ(update.patch.find("minAvailable")->as_int(), replicas);
    const json::Value& task = update.patch.find("tasks")->as_array()[0];
    EXPECT_EQ(task.find("replicas")->as_int(), replicas);
    EXPECT_EQ(task.find("minAvailable")->as_int(), replicas);
    EXPECT_EQ(task.find("maxRetry")->as_int(), 3);
  }
}

TEST(HyperJobUpdate, PartitionsDecideTheGangSize) {
  const std::string_view task =
      R"({"tasks":[{"name":"w","replicas":8,"partitionPolicy":{"totalPartitions":4,"partitionSize":2,"minPartitions":3}}]})";
  EXPECT_EQ(wanted_spec(parsed(task), parsed("{}")).find("minAvailable")->as_int(), 6);
}

TEST(HyperJobUpdate, PriorityMayComeAndGo) {
  const std::string with_class = with(kTemplate, "{\"tasks\"", "{\"priorityClassName\":\"high\",\"tasks\"");
  JobUpdate update = plan_job_update(parsed(with_class), parsed(kLive));
  ASSERT_EQ(update.kind, JobUpdate::Kind::Allowed);
  EXPECT_EQ(update.patch.to_text(), R"({"priorityClassName":"high"})");
  const std::string live = with(kLive, "{\"minAvailable\"", "{\"priorityClassName\":\"high\",\"minAvailable\"");
  update = plan_job_update(parsed(kTemplate), parsed(live));
  ASSERT_EQ(update.kind, JobUpdate::Kind::Allowed);
  EXPECT_EQ(update.patch.to_text(), R"({"priorityClassName":null})");
}

TEST(HyperJobUpdate, OtherChangesAreRefusedByTheirPath) {
  JobUpdate update = plan_job_update(parsed(with(kTemplate, "\"a\"", "\"b\"")), parsed(kLive));
  ASSERT_EQ(update.kind, JobUpdate::Kind::Refused);
  EXPECT_EQ(update.path, "spec.tasks[0].template.spec.containers[0].image");
  update = plan_job_update(parsed(with(kTemplate, "{\"tasks\"", "{\"queue\":\"other\",\"tasks\"")), parsed(kLive));
  EXPECT_EQ(update.path, "spec.queue");
  update = plan_job_update(parsed(R"({"tasks":[]})"), parsed(kLive));
  EXPECT_EQ(update.path, "spec.tasks");
}

TEST(HyperJobUpdate, WhatWebhookAndControllerWroteIsKept) {
  const std::string_view templ =
      R"({"plugins":{"mpi":[]},"volumes":[{"mountPath":"/d","volumeClaim":{"a":1}}],"tasks":[{"replicas":1,)"
      R"("template":{"spec":{"hostNetwork":true,"containers":[]}}}]})";
  const std::string_view live =
      R"({"plugins":{"mpi":[],"ssh":[],"svc":[]},"volumes":[{"mountPath":"/d","volumeClaim":{"a":1},)"
      R"("volumeClaimName":"j-volume-x"}],"minAvailable":1,"tasks":[{"name":"default0","minAvailable":1,"replicas":1,)"
      R"("maxRetry":3,"template":{"spec":{"hostNetwork":true,"dnsPolicy":"ClusterFirstWithHostNet","containers":[]}}}]})";
  EXPECT_EQ(plan_job_update(parsed(templ), parsed(live)).path, "");
  EXPECT_EQ(plan_job_update(parsed(templ), parsed(live)).kind, JobUpdate::Kind::Same);
}

TEST(HyperJobProblems, OneConditionForAll) {
  EXPECT_FALSE(stalled_condition({}));
  std::vector<Problem> problems;
  for (int i = 0; i < 20; ++i)
    problems.push_back({problem_reasons::kNotScheduled, "j-" + std::to_string(i), std::string(1000, 'x')});
  problems.push_back({problem_reasons::kNameConflict, "j-20", "taken"});
  const auto condition = *stalled_condition(problems);
  EXPECT_EQ(condition.type, "Stalled");
  EXPECT_EQ(condition.reason, "NameConflict");
  EXPECT_LT(condition.message.size(), (kProblemTextMax + 50) * kProblemsShown);
  EXPECT_TRUE(condition.message.ends_with("; and 13 more"));
}

TEST(HyperJobWaiting, SaysWhatKarmadaSays) {
  auto binding = *json::from_text<api::karmada::ResourceBinding>(
      R"({"metadata":{"name":"j-job","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"resource":{"name":"j","uid":"u"},
      "suspension":{"scheduling":true}}})");
  const api::Time early = *api::Time::parse("2026-01-01T00:00:10Z");
  const api::Time late = *api::Time::parse("2026-01-01T00:01:00Z");
  EXPECT_FALSE(waiting_problem(binding, "u", early));
  EXPECT_EQ(waiting_problem(binding, "u", late)->reason, "HeldBack");
  EXPECT_FALSE(waiting_problem(binding, "another", late));
  binding.spec.suspension.reset();
  binding.status.conditions.push_back(
      {.type = "Scheduled", .status = "False", .reason = "NoClusterFit", .message = "m"});
  EXPECT_EQ(waiting_problem(binding, "u", late)->message, "no cluster takes it: NoClusterFit: m");
  binding.status.conditions[0].status = "True";
  EXPECT_FALSE(waiting_problem(binding, "u", late));
  binding.status.aggregated_status.push_back({.cluster_name = "c1", .applied_message = "queue is closed"});
  EXPECT_EQ(waiting_problem(binding, "u", late)->message, "cluster c1 does not take it: queue is closed");
}

TEST(HyperJobPlan, TooManyJobsTouchNothing) {
  const auto hyper_job = *json::from_text<api::training::HyperJob>(
      R"({"metadata":{"name":"h","namespace":"d","uid":"u"},"spec":{"replicatedJobs":[
      {"name":"a","replicas":2000000000,"templateSpec":{}},{"name":"b","replicas":2000000000,"templateSpec":{}}]}})");
  const Plan plan = plan_children(hyper_job, {});
  EXPECT_TRUE(plan.children.empty());
  EXPECT_FALSE(plan.has_writes());
  ASSERT_EQ(plan.problems.size(), 1u);
  EXPECT_EQ(plan.problems[0].reason, "TooManyJobs");
  EXPECT_EQ(split_count(hyper_job.spec), 2147483647);
  EXPECT_EQ(aggregate_status(hyper_job, {}, {}, {}).replicated_jobs_status.size(), 2u);
}

TEST(HyperJobPlan, NamesThatCannotBeAreToldBeforeAnyChild) {
  for (const std::string& name : {std::string(64, 'x'), std::string(60, 'x')}) {
    const auto hyper_job = *json::from_text<api::training::HyperJob>(
        R"({"metadata":{"name":")" + name +
        R"(","namespace":"d","uid":"u"},"spec":{"replicatedJobs":[{"name":"abc","templateSpec":{}}]}})");
    const Plan plan = plan_children(hyper_job, {});
    EXPECT_FALSE(plan.has_writes());
    ASSERT_EQ(plan.problems.size(), 1u);
    EXPECT_EQ(plan.problems[0].reason, "InvalidSpec");
  }
}

}  // namespace
}  // namespace basalt::controllers::hyperjob
