#include "controllers/job/pod_group_builder.h"

#include <gtest/gtest.h>

#include "controllers/job/parts_test_support.h"
#include "json/merge_patch.h"
#include "json/writer.h"

namespace basalt::controllers::job {
namespace {

using testing::job_of;
using testing::job_with_spec;
using testing::pretty;

std::int32_t no_priority(std::string_view) { return 0; }

api::scheduling::PodGroup group_of(const api::batch::Job& job, const PriorityOf& priority_of = no_priority) {
  auto group = build_pod_group(job, priority_of);
  EXPECT_TRUE(group.ok()) << (group.ok() ? "" : group.error().to_string());
  return group.ok() ? std::move(group).value() : api::scheduling::PodGroup();
}

std::string usage_of(std::string_view pod_spec) {
  const auto usage = pod_usage(json::Raw::of(R"({"spec":)" + std::string(pod_spec) + "}"));
  return usage.ok() ? usage->to_string() : usage.error().to_string();
}

// What the webhook fills in before the controller sees the job.
void apply_defaults(api::batch::Job& job) {
  std::int32_t sum = 0;
  for (auto& task : job.spec.tasks) {
    if (!task.min_available) task.min_available = task.replicas;
    sum += *task.min_available;
  }
  if (job.spec.min_available == 0) job.spec.min_available = sum;
}

// Scenario 23: the table of worked values in job.md 5.4.
TEST(PodGroupBuilderTest, worked_values_23) {
  struct Row {
    std::int32_t job_min;
    std::optional<std::int32_t> master_min;
    std::optional<std::int32_t> work_min;
    std::int32_t min_member;
    std::string cpu;
  };
  const std::vector<Row> rows = {
      {0, {}, 1, 3, "200m"}, {0, 1, 1, 2, "150m"}, {3, {}, 1, 3, "200m"}, {3, 1, {}, 3, "250m"},
      {3, 1, 1, 3, "200m"},  {2, 1, 1, 2, "150m"}, {2, {}, 1, 2, "100m"}, {2, 1, {}, 2, "100m"},
  };
  for (const Row& row : rows) {
    auto job = job_with_spec(R"({"tasks":[
        {"name":"master","replicas":2,"template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"50m"}}}]}}},
        {"name":"work","replicas":2,"template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"100m"}}}]}}}]})");
    job.spec.min_available = row.job_min;
    job.spec.tasks[0].min_available = row.master_min;
    job.spec.tasks[1].min_available = row.work_min;
    apply_defaults(job);
    SCOPED_TRACE("job min " + std::to_string(row.job_min) + ", cpu " + row.cpu);
    const auto group = group_of(job);
    EXPECT_EQ(group.spec.min_member, row.min_member);
    const api::ResourceList& resources = *group.spec.min_resources;
    EXPECT_EQ(resources.get("cpu").to_string(), row.cpu);
    EXPECT_EQ(resources.get("requests.cpu").to_string(), row.cpu);
    EXPECT_EQ(resources.get("pods").value(), row.min_member);
    EXPECT_EQ(resources.get("count/pods").value(), row.min_member);
    EXPECT_EQ(resources.size(), 4U);
  }
}

TEST(PodGroupBuilderTest, tasks_of_higher_priority_are_taken_first_and_ties_keep_their_order) {
  auto job = job_with_spec(R"({"minAvailable":3,"priorityClassName":"ignored","tasks":[
      {"name":"low","replicas":2,"minAvailable":2,"template":{"spec":{"containers":[
        {"resources":{"requests":{"cpu":"1"}}}]}}},
      {"name":"high","replicas":2,"minAvailable":2,"template":{"spec":{"priorityClassName":"high","containers":[
        {"resources":{"requests":{"cpu":"10"}}}]}}},
      {"name":"unknown","replicas":2,"minAvailable":2,"template":{"spec":{"priorityClassName":"gone","containers":[
        {"resources":{"requests":{"cpu":"100"}}}]}}}]})");
  const auto priority_of = [](std::string_view name) { return name == "high" ? 1000 : name == "ignored" ? 5 : 0; };
  EXPECT_EQ(group_of(job, priority_of).spec.min_resources->get("cpu").to_string(), "21");
  EXPECT_EQ(group_of(job).spec.min_resources->get("cpu").to_string(), "12");
  const auto negative = [](std::string_view name) { return name == "high" ? 0 : -1; };
  // "low" has no class, hence 0; "unknown" falls behind.
  EXPECT_EQ(group_of(job, negative).spec.min_resources->get("cpu").to_string(), "12");
}

TEST(PodGroupBuilderTest, a_minimum_above_all_replicas_counts_what_there_is) {
  auto job = job_with_spec(R"({"minAvailable":50,"tasks":[{"name":"a","replicas":2,"minAvailable":1,
      "template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}}]})");
  EXPECT_EQ(group_of(job).spec.min_resources->get("pods").value(), 2);
  job.spec.min_available = 0;
  EXPECT_TRUE(group_of(job).spec.min_resources->empty());
  job.spec.min_available = -5;
  EXPECT_TRUE(group_of(job).spec.min_resources->empty());
}

TEST(PodGroupBuilderTest, the_whole_object) {
  const auto job = job_of(R"({"metadata":{"name":"train","namespace":"ml","uid":"u-1","labels":{"l":"1"},
        "annotations":{"a":"2"}},
      "spec":{"minAvailable":3,"queue":"q","priorityClassName":"high","schedulerName":"volcano",
        "networkTopology":{"mode":"soft","highestTierAllowed":2,"highestTierName":"dropped"},
        "tasks":[
          {"name":"master","replicas":1,"minAvailable":1},
          {"name":"plain","replicas":4},
          {"name":"parts","replicas":6,"partitionPolicy":{"totalPartitions":3,"partitionSize":2,"minPartitions":2,
            "networkTopology":{"mode":"hard","highestTierName":"rack"}}},
          {"name":"loose","replicas":4,"partitionPolicy":{"totalPartitions":2,"partitionSize":2}}]}})");
  EXPECT_EQ(pod_group_name(job), "train-u-1");
  EXPECT_EQ(pretty(json::to_text(group_of(job))), pretty(R"({"apiVersion":"scheduling.volcano.sh/v1beta1",
      "kind":"PodGroup",
      "metadata":{"name":"train-u-1","namespace":"ml","labels":{"l":"1"},"annotations":{"a":"2"},
        "ownerReferences":[{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":"train","uid":"u-1",
          "controller":true,"blockOwnerDeletion":true}]},
      "spec":{"minMember":3,"queue":"q","priorityClassName":"high",
        "minTaskMember":{"master":1,"plain":4,"parts":4,"loose":4},
        "minResources":{"pods":"3","count/pods":"3"},
        "networkTopology":{"mode":"soft","highestTierAllowed":2},
        "subGroupPolicy":[
          {"name":"parts","subGroupSize":2,"minSubGroups":2,
           "labelSelector":{"matchLabels":{"volcano.sh/task-spec":"parts"}},
           "matchLabelKeys":["volcano.sh/partition-id"],"networkTopology":{"mode":"hard","highestTierName":"rack"}},
          {"name":"loose","subGroupSize":2,"minSubGroups":0,
           "labelSelector":{"matchLabels":{"volcano.sh/task-spec":"loose"}},
           "matchLabelKeys":["volcano.sh/partition-id"]}]}})"));
}

TEST(PodGroupBuilderTest, a_template_that_cannot_be_read_is_an_error_that_names_the_task) {
  const auto job = job_with_spec(R"({"minAvailable":1,"tasks":[{"name":"a","replicas":1,
      "template":{"spec":{"containers":[{"resources":{"requests":{"cpu":"much"}}}]}}}]})");
  const auto group = build_pod_group(job, no_priority);
  ASSERT_FALSE(group.ok());
  EXPECT_TRUE(group.error().message.starts_with("job ml/train, task \"a\": template: ")) << group.error().message;
  EXPECT_NE(group.error().message.find("spec.containers[0].resources.requests.cpu"), std::string::npos);
}

struct UsageCase {
  std::string_view what;
  std::string_view pod_spec;
  std::string_view usage;  // besides count/pods and pods
};

TEST(PodUsageTest, counts_as_quota_does) {
  const std::vector<UsageCase> cases = {
      {"nothing asked for", R"({"containers":[{"name":"a"}]})", ""},
      {"sum of containers", R"({"containers":[{"resources":{"requests":{"cpu":"1"}}},
          {"resources":{"requests":{"cpu":"500m","memory":"1Gi"}}}]})",
       "cpu=1500m,memory=1Gi,requests.cpu=1500m,requests.memory=1Gi"},
      {"limits do not become requests", R"({"containers":[{"resources":{"limits":{"cpu":"1","memory":"1Gi",
          "ephemeral-storage":"2Gi","nvidia.com/gpu":"1"}}}]})",
       "limits.cpu=1,limits.ephemeral-storage=2Gi,limits.memory=1Gi"},
      {"ephemeral storage", R"({"containers":[{"resources":{"requests":{"ephemeral-storage":"2Gi"}}}]})",
       "ephemeral-storage=2Gi,requests.ephemeral-storage=2Gi"},
      {"huge pages", R"({"containers":[{"resources":{"requests":{"hugepages-2Mi":"4Mi"},
          "limits":{"hugepages-2Mi":"4Mi"}}}]})",
       "hugepages-2Mi=4Mi,requests.hugepages-2Mi=4Mi"},
      {"extended resources", R"({"containers":[{"resources":{"requests":{"nvidia.com/gpu":"2"},
          "limits":{"nvidia.com/gpu":"2"}}}]})",
       "nvidia.com/gpu=2,requests.nvidia.com/gpu=2"},
      {"names of Kubernetes' own and without domain", R"({"containers":[{"resources":{"requests":{
          "kubernetes.io/x":"2","foo.kubernetes.io/y":"1","bare":"1","requests.a.b/c":"1"}}}]})",
       ""},
      {"a large init container", R"({"containers":[{"resources":{"requests":{"cpu":"1","memory":"4Gi"}}}],
          "initContainers":[{"resources":{"requests":{"cpu":"3"}}},{"resources":{"requests":{"cpu":"2"}}}]})",
       "cpu=3,memory=4Gi,requests.cpu=3,requests.memory=4Gi"},
      {"a side car runs beside the containers", R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],
          "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"3"}}}]})",
       "cpu=4,requests.cpu=4"},
      {"an init container runs beside earlier side cars only",
       R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],
          "initContainers":[{"resources":{"requests":{"cpu":"5"}}},
            {"restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},
            {"resources":{"requests":{"cpu":"4"}}},
            {"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}]})",
       "cpu=6,requests.cpu=6"},
      {"pod level", R"({"containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi","ephemeral-storage":"1Gi"},
            "limits":{"cpu":"1"}}}],
          "resources":{"requests":{"cpu":"5","ephemeral-storage":"9Gi","hugepages-2Mi":"2Mi"},"limits":{"cpu":"7"}}})",
       "cpu=5,ephemeral-storage=1Gi,hugepages-2Mi=2Mi,limits.cpu=7,memory=1Gi,requests.cpu=5,"
       "requests.ephemeral-storage=1Gi,requests.hugepages-2Mi=2Mi,requests.memory=1Gi"},
      {"overhead", R"({"overhead":{"cpu":"250m","memory":"64Mi"},"containers":[{"resources":{
            "requests":{"cpu":"1"},"limits":{"cpu":"2","memory":"0"}}}]})",
       "cpu=1250m,limits.cpu=2250m,limits.memory=0,memory=64Mi,requests.cpu=1250m,requests.memory=64Mi"},
      {"overhead on top of the pod level", R"({"overhead":{"cpu":"250m"},"containers":[{"name":"a"}],
          "resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}})",
       "cpu=1250m,limits.cpu=1250m,requests.cpu=1250m"},
  };
  for (const UsageCase& test : cases) {
    SCOPED_TRACE(test.what);
    auto usage = pod_usage(json::Raw::of(R"({"spec":)" + std::string(test.pod_spec) + "}"));
    ASSERT_TRUE(usage.ok()) << usage.error().to_string();
    EXPECT_EQ(usage->get("pods").value(), 1);
    EXPECT_EQ(usage->get("count/pods").value(), 1);
    usage->erase("pods");
    usage->erase("count/pods");
    EXPECT_EQ(usage->to_string(), test.usage);
  }
}

TEST(PodUsageTest, no_template_is_one_pod) {
  const auto usage = pod_usage(json::Raw());
  ASSERT_TRUE(usage.ok());
  EXPECT_EQ(usage->to_string(), "count/pods=1,pods=1");
  EXPECT_NE(usage_of(R"({"containers":7})").find("spec.containers"), std::string::npos);
}

class PodGroupPatchTest : public ::testing::Test {
 protected:
  PodGroupPatchTest()
      : job_(job_with_spec(R"({"minAvailable":2,"queue":"q","priorityClassName":"high","tasks":[
            {"name":"a","replicas":2,"minAvailable":2,"template":{"spec":{"containers":[
              {"resources":{"requests":{"cpu":"1"}}}]}}},
            {"name":"parts","replicas":4,"minAvailable":0,
             "partitionPolicy":{"totalPartitions":2,"partitionSize":2,"networkTopology":{"highestTierAllowed":1}}}]})")),
        found_(group_of(job_)) {}

  // The patch, and a check that it brings the found object to what is wanted.
  std::string patch() {
    const auto wanted = group_of(job_);
    const std::string text = pod_group_patch(found_, wanted);
    if (text.empty()) return text;
    const json::Value before = json::Value::parse(json::to_text(found_)).value();
    const json::Value after = json::apply_merge_patch(before, json::Value::parse(text).value());
    auto patched = json::from_text<api::scheduling::PodGroup>(after.to_text());
    EXPECT_TRUE(patched.ok());
    EXPECT_EQ(pod_group_patch(*patched, wanted), "");
    return text;
  }

  api::batch::Job job_;
  api::scheduling::PodGroup found_;
};

TEST_F(PodGroupPatchTest, nothing_differs) { EXPECT_EQ(patch(), ""); }

TEST_F(PodGroupPatchTest, what_the_server_fills_in_is_no_difference) {
  found_.spec.sub_group_policy[0].min_sub_groups.reset();
  found_.spec.sub_group_policy[0].network_topology->mode = "hard";
  found_.spec.min_resources->set("cpu", api::Quantity::parse("2000m").value());
  EXPECT_EQ(patch(), "");
}

TEST_F(PodGroupPatchTest, queue_labels_annotations_and_topology_are_never_touched) {
  job_.spec.queue = "other";
  job_.metadata.labels.set("new", "x");
  job_.metadata.annotations.set("new", "x");
  job_.spec.network_topology.emplace().mode = "soft";
  EXPECT_EQ(patch(), "");
}

// Scenario 31.
TEST_F(PodGroupPatchTest, the_priority_class_follows_31) {
  job_.spec.priority_class_name = "low";
  EXPECT_EQ(patch(), R"({"spec":{"priorityClassName":"low"}})");
  job_.spec.priority_class_name = "";
  EXPECT_EQ(patch(), R"({"spec":{"priorityClassName":null}})");
}

TEST_F(PodGroupPatchTest, minimum_and_resources_go_together) {
  job_.spec.min_available = 1;
  EXPECT_EQ(patch(), R"({"spec":{"minMember":1,"minResources":{"count/pods":"1","cpu":"1","pods":"1",)"
                     R"("requests.cpu":"1"}}})");
}

TEST_F(PodGroupPatchTest, resources_that_are_gone_are_removed) {
  found_.spec.min_resources->set("memory", api::Quantity::of(1));
  EXPECT_EQ(patch(), R"({"spec":{"minMember":2,"minResources":{"count/pods":"2","cpu":"2","memory":null,"pods":"2",)"
                     R"("requests.cpu":"2"}}})");
  found_.spec.min_resources.reset();
  EXPECT_EQ(patch(), R"({"spec":{"minMember":2,"minResources":{"count/pods":"2","cpu":"2","pods":"2",)"
                     R"("requests.cpu":"2"}}})");
}

// Scenario 62.
TEST_F(PodGroupPatchTest, task_minimums_follow_and_unknown_tasks_stay_62) {
  found_.spec.min_task_member["stranger"] = 7;
  EXPECT_EQ(patch(), "");
  found_.spec.min_task_member.erase("parts");
  found_.spec.min_task_member["a"] = 1;
  EXPECT_EQ(patch(), R"({"spec":{"minTaskMember":{"a":2,"parts":0}}})");
  found_.spec.min_task_member.clear();
  EXPECT_EQ(patch(), R"({"spec":{"minTaskMember":{"a":2,"parts":0}}})");
}

TEST_F(PodGroupPatchTest, sub_groups_are_replaced_as_a_whole) {
  found_.spec.sub_group_policy[0].sub_group_size = 1;
  EXPECT_EQ(patch(), R"({"spec":{"subGroupPolicy":[{"labelSelector":{"matchLabels":{"volcano.sh/task-spec":"parts"}},)"
                     R"("matchLabelKeys":["volcano.sh/partition-id"],"minSubGroups":0,"name":"parts",)"
                     R"("networkTopology":{"highestTierAllowed":1},"subGroupSize":2}]}})");
  job_.spec.tasks[1].partition_policy.reset();
  EXPECT_EQ(patch(), R"({"spec":{"subGroupPolicy":null}})");
}

}  // namespace
}  // namespace basalt::controllers::job
