#include "controllers/job/pod_builder.h"

#include <gtest/gtest.h>

#include <set>

#include "controllers/job/parts_test_support.h"

namespace basalt::controllers::job {
namespace {

using testing::container_of;
using testing::env_of;
using testing::job_of;
using testing::job_with_spec;
using testing::plugins_of;
using testing::pod_of;
using testing::pretty;

TEST(PodNameTest, is_job_task_and_index) {
  EXPECT_EQ(pod_name("train", "worker", 0), "train-worker-0");
  EXPECT_EQ(pod_name("train", "worker", 2147483647), "train-worker-2147483647");
}

// Scenario 24: the keys of table 1.8, the owner reference and the scheduler name, and nothing else.
TEST(PodBuilderTest, a_plain_pod_24) {
  const auto job = job_of(R"({"metadata":{"name":"train","namespace":"ml","uid":"u-1",
        "labels":{"mine":"x"},"annotations":{"mine":"x"}},
      "spec":{"queue":"q","schedulerName":"volcano","tasks":[{"name":"a","replicas":3,
        "template":{"metadata":{"name":"ignored","namespace":"ignored","finalizers":["ignored"]},
          "spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}]}})");
  EXPECT_EQ(pod_of(job, 0, 2).to_pretty_text(), pretty(R"({"apiVersion":"v1","kind":"Pod",
      "metadata":{"name":"train-a-2","namespace":"ml",
        "ownerReferences":[{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","name":"train","uid":"u-1",
          "controller":true,"blockOwnerDeletion":true}],
        "labels":{"volcano.sh/task-spec":"a","volcano.sh/task-index":"2","volcano.sh/job-name":"train",
          "volcano.sh/job-namespace":"ml","volcano.sh/queue-name":"q"},
        "annotations":{"volcano.sh/task-spec":"a","volcano.sh/task-index":"2","volcano.sh/job-name":"train",
          "volcano.sh/queue-name":"q","volcano.sh/job-version":"0","volcano.sh/job-retry-count":"0",
          "volcano.sh/template-uid":"train-a","scheduling.k8s.io/group-name":"train-u-1"}},
      "spec":{"restartPolicy":"Never","schedulerName":"volcano","containers":[{"name":"c","image":"i"}]}})"));
}

TEST(PodBuilderTest, every_optional_key_of_table_1_8) {
  const auto job = job_of(R"({"metadata":{"name":"train","namespace":"ml","uid":"u-1",
        "labels":{"volcano.sh/preemptable":"true","volcano.sh/cooldown-time":"1s","volcano.sh/revocable-zone":"z"},
        "annotations":{"volcano.sh/preemptable":"false","volcano.sh/cooldown-time":"2s","volcano.sh/revocable-zone":"*",
          "volcano.sh/jdb-min-available":"1","volcano.sh/jdb-max-unavailable":"2"}},
      "spec":{"queue":"q","tasks":[{"name":"a","replicas":6,"topologyPolicy":"best-effort",
        "partitionPolicy":{"totalPartitions":3,"partitionSize":2},
        "template":{"metadata":{"labels":{"own":"l","volcano.sh/task-spec":"lie"},"annotations":{"own":"a"}},
          "spec":{"containers":[{"name":"c"}]}}}]},
      "status":{"version":4,"retryCount":7}})");
  const json::Value pod = pod_of(job, 0, 5, {.forwarding = true});
  EXPECT_EQ(pod.find_path({"metadata", "labels"})->to_pretty_text(), pretty(R"({"own":"l","volcano.sh/task-spec":"a",
      "volcano.sh/task-index":"5","volcano.sh/job-name":"train","volcano.sh/job-namespace":"ml",
      "volcano.sh/queue-name":"q","volcano.sh/partition-id":"2","volcano.sh/preemptable":"true",
      "volcano.sh/cooldown-time":"1s","volcano.sh/job-forwarding":"true"})"));
  EXPECT_EQ(pod.find_path({"metadata", "annotations"})->to_pretty_text(), pretty(R"({"own":"a",
      "volcano.sh/task-spec":"a","volcano.sh/task-index":"5","volcano.sh/job-name":"train","volcano.sh/queue-name":"q",
      "volcano.sh/job-version":"4","volcano.sh/job-retry-count":"7","volcano.sh/template-uid":"train-a",
      "scheduling.k8s.io/group-name":"train-u-1","volcano.sh/numa-topology-policy":"best-effort",
      "volcano.sh/preemptable":"false","volcano.sh/cooldown-time":"2s","volcano.sh/revocable-zone":"*",
      "volcano.sh/jdb-min-available":"1","volcano.sh/job-forwarding":"true"})"));
}

TEST(PodBuilderTest, the_second_disruption_key_counts_where_the_first_is_missing) {
  const auto job = job_of(R"({"metadata":{"name":"j","annotations":{"volcano.sh/jdb-max-unavailable":"2"}},
      "spec":{"tasks":[{"name":"a","replicas":1}]}})");
  EXPECT_EQ(pod_of(job, 0, 0).string_at({"metadata", "annotations", "volcano.sh/jdb-max-unavailable"}), "2");
}

TEST(PodBuilderTest, scheduler_and_priority_of_the_template_win_25) {
  const auto job = job_with_spec(R"({"schedulerName":"volcano","priorityClassName":"high","tasks":[
      {"name":"own","replicas":1,"template":{"spec":{"schedulerName":"mine","priorityClassName":"low"}}},
      {"name":"none","replicas":1,"template":{"spec":{}}}]})");
  EXPECT_EQ(pod_of(job, 0, 0).string_at({"spec", "schedulerName"}), "mine");
  EXPECT_EQ(pod_of(job, 0, 0).string_at({"spec", "priorityClassName"}), "low");
  EXPECT_EQ(pod_of(job, 1, 0).string_at({"spec", "schedulerName"}), "volcano");
  EXPECT_EQ(pod_of(job, 1, 0).string_at({"spec", "priorityClassName"}), "high");
}

TEST(PodBuilderTest, an_unnamed_task_is_called_default_in_the_keys) {
  const auto job = job_with_spec(R"({"tasks":[{"replicas":1}]})");
  EXPECT_EQ(pod_of(job, 0, 0).string_at({"metadata", "labels", "volcano.sh/task-spec"}), "default");
  EXPECT_EQ(pod_of(job, 0, 0).string_at({"metadata", "annotations", "volcano.sh/task-spec"}), "default");
}

const char* const kVolumeTask = R"("tasks":[{"name":"a","replicas":2,"template":{"spec":{
    "volumes":[{"name":"own","emptyDir":{}}],
    "initContainers":[{"name":"i"}],
    "containers":[{"name":"c","volumeMounts":[{"name":"own","mountPath":"/own"}]},{"name":"d"}]}}}])";

// Scenario 29: mounted in every container, not in init containers.
TEST(PodBuilderTest, claims_are_mounted_29) {
  const auto job =
      job_with_spec(R"({"volumes":[{"mountPath":"/data","volumeClaimName":"data"}],)" + std::string(kVolumeTask) + "}");
  const json::Value pod = pod_of(job, 0, 1);
  EXPECT_EQ(pod.find_path({"spec", "volumes"})->to_pretty_text(), pretty(R"([{"name":"own","emptyDir":{}},
      {"name":"train-tdvcplbmulmy","persistentVolumeClaim":{"claimName":"data"}}])"));
  EXPECT_EQ(container_of(pod, 0).find("volumeMounts")->to_pretty_text(), pretty(R"([{"name":"own","mountPath":"/own"},
      {"name":"train-tdvcplbmulmy","mountPath":"/data"}])"));
  EXPECT_EQ(container_of(pod, 1).find("volumeMounts")->to_pretty_text(),
            pretty(R"([{"name":"train-tdvcplbmulmy","mountPath":"/data"}])"));
  EXPECT_EQ(container_of(pod, 0, "initContainers").find("volumeMounts"), nullptr);
}

TEST(PodBuilderTest, one_claim_at_two_paths_is_one_volume_with_two_mounts_D15) {
  const auto job = job_with_spec(R"({"volumes":[{"mountPath":"/a","volumeClaimName":"data"},
      {"mountPath":"/b","volumeClaimName":"data"},{"mountPath":"/b","volumeClaimName":"data"}],)" +
                                 std::string(kVolumeTask) + "}");
  const json::Value pod = pod_of(job, 0, 1);
  EXPECT_EQ(pod.find_path({"spec", "volumes"})->as_array().size(), 2U);
  EXPECT_EQ(container_of(pod, 1).find("volumeMounts")->to_pretty_text(), pretty(R"([
      {"name":"train-tdvcplbmulmy","mountPath":"/a"},{"name":"train-tdvcplbmulmy","mountPath":"/b"}])"));
}

TEST(PodBuilderTest, a_volume_without_claim_is_an_empty_dir_S4) {
  const auto job =
      job_with_spec(R"({"volumes":[{"mountPath":"/scratch"},{"mountPath":"/tmp2"}],)" + std::string(kVolumeTask) + "}");
  const json::Value pod = pod_of(job, 0, 0);
  const json::Array& volumes = pod.find_path({"spec", "volumes"})->as_array();
  ASSERT_EQ(volumes.size(), 3U);
  EXPECT_EQ(volumes[1].to_text(), R"({"emptyDir":{},"name":"train-m2nugxrfqikl"})");
  EXPECT_NE(volumes[2].string_at({"name"}), "train-m2nugxrfqikl");
  EXPECT_EQ(volume_name(job, job.spec.volumes[0]), "train-m2nugxrfqikl");
  EXPECT_EQ(container_of(pod, 1).find("volumeMounts")->as_array().size(), 2U);
}

TEST(PodBuilderTest, a_missing_claim_becomes_an_empty_dir_if_asked_for_S5) {
  const auto job = job_with_spec(R"({"volumes":[{"mountPath":"/a","volumeClaimName":"data"},
      {"mountPath":"/b","volumeClaimName":"there"}],)" +
                                 std::string(kVolumeTask) + "}");
  const json::Value pod = pod_of(job, 0, 0, {.empty_dir_claims = {"data"}});
  const json::Array& volumes = pod.find_path({"spec", "volumes"})->as_array();
  ASSERT_EQ(volumes.size(), 3U);
  EXPECT_EQ(volumes[1].to_text(), R"({"emptyDir":{},"name":"train-tdvcplbmulmy"})");
  EXPECT_EQ(volumes[2].string_at({"persistentVolumeClaim", "claimName"}), "there");
}

TEST(PodBuilderTest, a_claim_without_recorded_name_is_not_mounted_as_scratch) {
  const auto job = job_with_spec(R"({"volumes":[{"mountPath":"/a","volumeClaim":{"accessModes":["ReadWriteOnce"]}}],)" +
                                 std::string(kVolumeTask) + "}");
  const auto builder = PodBuilder::make(job, 0, plugins_of(job), {});
  ASSERT_FALSE(builder.ok());
  EXPECT_NE(builder.error().message.find("spec.volumes[0]"), std::string::npos) << builder.error().message;
}

TEST(VolumeNameTest, depends_on_job_and_claim_only_and_fits_a_dns_label) {
  auto job = job_with_spec(R"({"volumes":[{"mountPath":"/a","volumeClaimName":"data"},
      {"mountPath":"/b","volumeClaimName":"data"}]})");
  EXPECT_EQ(volume_name(job, job.spec.volumes[0]), "train-tdvcplbmulmy");
  EXPECT_EQ(volume_name(job, job.spec.volumes[1]), "train-tdvcplbmulmy");
  job.metadata.uid = "u-2";
  EXPECT_EQ(volume_name(job, job.spec.volumes[0]), "train-ucjzlmd6rj6r");
  job.metadata.name = std::string(70, 'x');
  EXPECT_EQ(volume_name(job, job.spec.volumes[0]), std::string(50, 'x') + "-ucjzlmd6rj6r");
}

TEST(PodBuilderTest, a_broken_template_is_an_error_that_names_the_task) {
  auto job = job_with_spec(R"({"tasks":[{"name":"a","replicas":1}]})");
  job.spec.tasks[0].template_ = json::Raw::of(std::string("[1]"));
  auto builder = PodBuilder::make(job, 0, plugins_of(job), {});
  ASSERT_FALSE(builder.ok());
  EXPECT_EQ(builder.error().message, "job ml/train, task \"a\": template is array, expected an object");
  job.spec.tasks[0].template_ = json::Raw::of(std::string("{"));
  builder = PodBuilder::make(job, 0, plugins_of(job), {});
  ASSERT_FALSE(builder.ok());
  EXPECT_TRUE(builder.error().message.starts_with("job ml/train, task \"a\": template: ")) << builder.error().message;
}

TEST(PodBuilderTest, an_index_below_zero_is_refused) {
  const auto job = job_with_spec(R"({"tasks":[{"name":"a","replicas":1}]})");
  EXPECT_FALSE(PodBuilder::make(job, 0, plugins_of(job), {})->build(-1).ok());
}

const char* const kManyPlugins = R"("plugins":{"env":[],"svc":[],"ssh":[],"pytorch":[],"tensorflow":[],"hcclrank":[]})";

// What is prepared once and filled in per index equals what the plugins make of each index.
TEST(PodBuilderTest, filling_in_the_index_equals_building_each_pod) {
  const auto job = job_with_spec(R"({"queue":"q","tasks":[
      {"name":"master","replicas":1,"template":{"spec":{"containers":[{"name":"c"}]}}},
      {"name":"worker","replicas":12,"partitionPolicy":{"totalPartitions":4,"partitionSize":3},
       "template":{"spec":{"containers":[{"name":"c"},{"name":"d"}],"initContainers":[{"name":"i"}]}}}],)" +
                                 std::string(kManyPlugins) + "}");
  const PluginSet plugins = plugins_of(job);
  const auto builder = PodBuilder::make(job, 1, plugins, {});
  ASSERT_TRUE(builder.ok()) << builder.error().to_string();
  // The same without plugins, to which each plugin is applied with a plain number.
  const auto bare = PodBuilder::make(job, 1, PluginSet(), {});
  ASSERT_TRUE(bare.ok());
  for (std::int32_t index = 0; index < 12; ++index) {
    json::Value edited = json::Value::parse(bare->build(index).value()).value();
    for (const auto& plugin : plugins.all()) ASSERT_TRUE(plugin->edit_pod(job, 1, index, edited).ok());
    EXPECT_EQ(builder->build(index).value(), edited.to_text());
    const json::Value pod = json::Value::parse(builder->build(index).value()).value();
    const std::string number = std::to_string(index);
    EXPECT_EQ(pod.string_at({"metadata", "name"}), "train-worker-" + number);
    EXPECT_EQ(pod.string_at({"spec", "hostname"}), "train-worker-" + number);
    EXPECT_EQ(pod.string_at({"metadata", "labels", "volcano.sh/task-index"}), number);
    EXPECT_EQ(pod.string_at({"metadata", "annotations", "volcano.sh/task-index"}), number);
    EXPECT_EQ(pod.string_at({"metadata", "labels", "volcano.sh/partition-id"}), std::to_string(index / 3));
    EXPECT_EQ(pod.string_at({"metadata", "annotations", "hccl/rankIndex"}), std::to_string(index + 1));
    for (const std::size_t container : {0U, 1U}) {
      EXPECT_EQ(env_of(container_of(pod, container), "RANK"), std::to_string(index + 1));
      EXPECT_EQ(env_of(container_of(pod, container), "VC_TASK_INDEX"), number);
      const auto config = json::Value::parse(env_of(container_of(pod, container), "TF_CONFIG"));
      ASSERT_TRUE(config.ok());
      EXPECT_EQ(config->find_path({"task", "index"})->as_int(), index);
    }
  }
}

// A template that contains what the builder marks an index with, whole or in part, comes out unchanged.
TEST(PodBuilderTest, no_text_of_the_user_is_taken_for_an_index) {
  const std::string odd = "@index0:+0; @index1:/2; @index @index2 @ @index0:";
  const auto job = job_with_spec(R"({"queue":"q","tasks":[{"name":"a","replicas":9,"template":{
      "metadata":{"annotations":{"odd":")" +
                                 odd + R"("}},
      "spec":{"containers":[{"name":"c","args":["@index0:","\u0040index1:+1;"]}]}}}],"plugins":{"env":[]}})");
  const json::Value pod = pod_of(job, 0, 8);
  EXPECT_EQ(pod.string_at({"metadata", "annotations", "odd"}), odd);
  EXPECT_EQ(container_of(pod).find("args")->to_text(), R"(["@index0:","@index1:+1;"])");
  EXPECT_EQ(env_of(container_of(pod), "VC_TASK_INDEX"), "8");
}

TEST(PodBuilderTest, ten_thousand_pods_differ_by_their_index) {
  const auto job = job_with_spec(R"({"queue":"q","tasks":[{"name":"a","replicas":10000,
      "template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}],"plugins":{"env":[],"ssh":[]}})");
  const auto builder = PodBuilder::make(job, 0, plugins_of(job), {});
  ASSERT_TRUE(builder.ok());
  std::set<std::string> texts;
  for (std::int32_t index = 0; index < 10000; ++index) texts.insert(builder->build(index).value());
  EXPECT_EQ(texts.size(), 10000U);
  EXPECT_EQ(builder->build(4711).value(), builder->build(4711).value());
}

}  // namespace
}  // namespace basalt::controllers::job
