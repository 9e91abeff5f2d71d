// The generated types, by the examples of the API's description (testdata/example_*) and by objects that use every
// field of a kind (testdata/full_*; tools/gen/test_generate.py checks that they do).
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/admission.h"
#include "api/gen/batch.h"
#include "api/gen/bus.h"
#include "api/gen/core.h"
#include "api/gen/datadependency.h"
#include "api/gen/flow.h"
#include "api/gen/karmada.h"
#include "api/gen/names.h"
#include "api/gen/scheduling.h"
#include "api/gen/shard.h"
#include "api/gen/topology.h"
#include "api/gen/training.h"
#include "base/heap_bytes.h"
#include "json/raw.h"
#include "json/value.h"

namespace basalt::api {
namespace {

const std::filesystem::path kTestdata = std::filesystem::path(BASALT_SOURCE_DIR) / "src/api/testdata";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string testdata(std::string_view name) { return read_file(kTestdata / (std::string(name) + ".json")); }

std::string canonical(std::string_view json) { return json::Value::parse(json).value().to_text(); }

template <class T>
T decoded(std::string_view text) {
  Result<T> result = json::from_text<T>(text);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? std::move(result).value() : T{};
}

template <class T>
std::string error_of(std::string_view text) {
  Result<T> result = json::from_text<T>(text);
  return result.ok() ? "no error" : result.error().message;
}

using RoundTrip = std::function<std::string(std::string_view)>;

template <class T>
std::pair<std::string, RoundTrip> round_trip() {
  return {T::kind_info().api_version() + " " + std::string(T::kind_info().kind),
          [](std::string_view text) { return json::to_text(decoded<T>(text)); }};
}

const std::map<std::string, RoundTrip>& round_trips() {
  static const std::map<std::string, RoundTrip> all = {
      round_trip<batch::Job>(),
      round_trip<batch::CronJob>(),
      round_trip<bus::Command>(),
      round_trip<scheduling::Queue>(),
      round_trip<scheduling::PodGroup>(),
      round_trip<shard::NodeShard>(),
      round_trip<training::HyperJob>(),
      round_trip<datadependency::DataSource>(),
      round_trip<datadependency::DataSourceClaim>(),
      round_trip<flow::JobFlow>(),
      round_trip<flow::JobTemplate>(),
      round_trip<topology::HyperNode>(),
      round_trip<core::Pod>(),
      round_trip<core::Node>(),
      round_trip<core::ConfigMap>(),
      round_trip<core::Service>(),
      round_trip<core::NetworkPolicy>(),
      round_trip<core::Lease>(),
      round_trip<admission::AdmissionReview>(),
      round_trip<admission::ValidatingWebhookConfiguration>(),
      round_trip<admission::CustomResourceDefinition>(),
      round_trip<karmada::PropagationPolicy>(),
      round_trip<karmada::ResourceBinding>(),
      round_trip<karmada::Cluster>(),
  };
  return all;
}

// The type that a document says it is.
const RoundTrip& round_trip_of(std::string_view text) {
  const json::Value value = json::Value::parse(text).value();
  return round_trips().at(std::string(value.string_at({"apiVersion"})) + " " + std::string(value.string_at({"kind"})));
}

std::vector<std::filesystem::path> all_testdata() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(kTestdata)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("example_") || name.starts_with("full_")) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

TEST(GeneratedCodecs, EveryExampleComesBackUnchanged) {
  ASSERT_GE(all_testdata().size(), 30u);
  for (const auto& path : all_testdata()) {
    const std::string text = read_file(path);
    EXPECT_EQ(canonical(round_trip_of(text)(text)), canonical(text)) << path;
  }
}

// Adds an unknown member to every object below `value` that is no free map.
std::size_t plant_unknown(json::Value& value, std::string_view parent) {
  static const std::vector<std::string_view> kMaps = {
      "labels",        "annotations", "plugins",    "taskStatusCount", "phase",       "controlledResources",
      "minTaskMember", "jobStates",   "attributes", "matchLabels",     "capability",  "deserved",
      "resource",      "capacity",    "allocated",  "minResources",    "allocatable", "allocating",
      "nodeSelector",  "data",        "requests",   "limits",          "selector",    "conditions",
      "managedFields", "overhead",    "extra"};
  std::size_t planted = 0;
  if (value.is_array()) {
    for (json::Value& element : value.as_array()) planted += plant_unknown(element, "");
  } else if (value.is_object()) {
    for (auto& member : value.as_object()) planted += plant_unknown(member.value, member.key);
    const bool is_map = std::find(kMaps.begin(), kMaps.end(), parent) != kMaps.end();
    if (!is_map) {
      json::Object inner = {{"deep", json::Value(json::Array{json::Value(1), json::Value("x")})}};
      value.as_object().set("zzUnknown", json::Value(std::move(inner)));
      ++planted;
    }
  }
  return planted;
}

TEST(GeneratedCodecs, UnknownMembersSurviveInEveryStruct) {
  std::size_t planted = 0;
  for (const auto& path : all_testdata()) {
    json::Value value = json::Value::parse(read_file(path)).value();
    planted += plant_unknown(value, "");
    const std::string text = value.to_text();
    EXPECT_EQ(canonical(round_trip_of(text)(text)), text) << path;
  }
  EXPECT_GT(planted, 300u);
}

TEST(GeneratedCodecs, UnknownMembersAreDroppedOnRequest) {
  const std::string text = R"({"metadata":{"name":"a","x":1},"spec":{"queue":"q","y":[2]},"z":3})";
  auto job = json::from_text<batch::Job>(text, {.keep_unknown = false});
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(json::to_text(*job), R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"a"},)"
                                 R"("spec":{"queue":"q"}})");
}

TEST(GeneratedCodecs, KnownMembersComeInSchemaOrderThenTheUnknownOnes) {
  const auto task = decoded<batch::TaskSpec>(R"({"x":1,"replicas":2,"name":"w","a":{"b":null}})");
  EXPECT_EQ(json::to_text(task), R"({"name":"w","replicas":2,"x":1,"a":{"b":null}})");
}

TEST(GeneratedCodecs, AWrongTypeNamesItsPath) {
  EXPECT_EQ(error_of<batch::Job>(R"({"spec":{"tasks":[{},{},{"replicas":"many"}]}})"),
            "spec.tasks[2].replicas: expected integer, found string");
  EXPECT_NE(error_of<batch::Job>(R"({"spec":{"plugins":{"svc":"x"}}})").find("spec.plugins.svc: expected array"),
            std::string::npos);
  EXPECT_NE(error_of<batch::Job>(R"({"spec":[]})").find("spec: expected object"), std::string::npos);
  EXPECT_NE(error_of<batch::Job>(R"({"metadata":{"labels":{"a":1}}})").find("metadata.labels"), std::string::npos);
  EXPECT_NE(error_of<core::Pod>(R"({"status":{"containerStatuses":[{"restartCount":2147483648}]}})")
                .find("status.containerStatuses[0].restartCount"),
            std::string::npos);
}

TEST(GeneratedCodecs, AnotherKindIsRefused) {
  EXPECT_EQ(error_of<batch::Job>(R"({"kind":"Pod"})"), "kind: expected \"Job\", found \"Pod\"");
  EXPECT_EQ(error_of<batch::Job>(R"({"apiVersion":"batch/v1","kind":"Job"})"),
            "apiVersion: expected \"batch.volcano.sh/v1alpha1\", found \"batch/v1\"");
  EXPECT_EQ(error_of<core::Pod>(R"({"apiVersion":"v1"})"), "no error");
}

TEST(GeneratedCodecs, Int64ExtremesSurvive) {
  for (const std::int64_t number : {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(),
                                    std::int64_t{9007199254740993}}) {
    training::HyperJob job;
    job.metadata.generation = number;
    job.status.observed_generation = number;
    const auto back = decoded<training::HyperJob>(json::to_text(job));
    EXPECT_EQ(back.metadata.generation, number);
    EXPECT_EQ(back.status.observed_generation, number);
    EXPECT_EQ(back, job);
  }
  const std::string template_text = R"({"spec":{"containers":[],"x":-9223372036854775808}})";
  const auto task = decoded<batch::TaskSpec>(R"({"template":)" + template_text + "}");
  EXPECT_EQ(task.template_.text(), template_text);
}

TEST(GeneratedCodecs, NullMeansAbsent) {
  const auto job = decoded<batch::Job>(
      R"({"metadata":{"creationTimestamp":null},"spec":{"tasks":null,"minSuccess":null,"queue":null,)"
      R"("networkTopology":null},"status":{"state":{"lastTransitionTime":null}}})");
  EXPECT_EQ(job, batch::Job());
  EXPECT_TRUE(decoded<shard::NodeShard>(R"({"status":{"lastUpdateTime":null}})").status.last_update_time.is_zero());
}

TEST(GeneratedCodecs, ZeroAndAbsentDifferWhereTheyMust) {
  const auto task = decoded<batch::TaskSpec>(R"({"name":"w","replicas":0,"minAvailable":0})");
  EXPECT_EQ(task.min_available, 0);
  EXPECT_EQ(json::to_text(task), R"({"name":"w","minAvailable":0})");
  EXPECT_EQ(json::to_text(decoded<training::ReplicatedJob>(R"({"name":"r","templateSpec":{},"replicas":0})")),
            R"({"name":"r","templateSpec":{},"replicas":0})");
  EXPECT_EQ(json::to_text(decoded<karmada::Placement>(R"({"clusterAffinity":{}})")), R"({"clusterAffinity":{}})");
  EXPECT_EQ(json::to_text(core::PodSpec()), R"({"containers":[]})");
  EXPECT_EQ(json::to_text(shard::NodeShardSpec()), R"({"nodesDesired":[]})");
  EXPECT_EQ(json::to_text(batch::VolumeSpec()), R"({"mountPath":""})");
}

TEST(GeneratedCodecs, AnEmptyObjectIsOnlyItsType) {
  EXPECT_EQ(json::to_text(batch::Job()), R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{}})");
  EXPECT_EQ(
      json::to_text(shard::NodeShard()),
      R"({"apiVersion":"shard.volcano.sh/v1alpha1","kind":"NodeShard","metadata":{},"spec":{"nodesDesired":[]}})");
  EXPECT_EQ(json::to_text(admission::AdmissionReview()),
            R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"})");
}

TEST(GeneratedCodecs, DefaultsAreAtHand) {
  EXPECT_EQ(batch::CronJobSpec().successful_jobs_history_limit_or_default(), 3);
  EXPECT_EQ(batch::CronJobSpec().failed_jobs_history_limit_or_default(), 1);
  EXPECT_FALSE(batch::CronJobSpec().suspend_or_default());
  EXPECT_EQ(training::ReplicatedJob().replicas_or_default(), 1);
  EXPECT_EQ(decoded<training::ReplicatedJob>(R"({"replicas":0})").replicas_or_default(), 0);
}

TEST(GeneratedCodecs, EqualityLooksAtEverything) {
  const auto job = decoded<batch::Job>(testdata("full_job"));
  batch::Job other = job;
  EXPECT_EQ(job, other);
  other.status.task_status_count["worker"].phase["Running"] = 4;
  EXPECT_NE(job, other);
  other = decoded<batch::Job>(R"({"x":1})");
  EXPECT_NE(other, batch::Job());
}

TEST(GeneratedCodecs, ACarriedSpecCanBeReadWhenItMatters) {
  const auto flow_template = decoded<flow::JobTemplate>(testdata("full_jobtemplate"));
  const auto spec = decoded<batch::JobSpec>(flow_template.spec.text());
  ASSERT_EQ(spec.tasks.size(), 3u);
  EXPECT_EQ(spec.tasks[0].policies[1].exit_code, 137);
  const auto pod = decoded<core::PodTemplateSpec>(spec.tasks[0].template_.text());
  EXPECT_EQ(pod.metadata.labels.get("app"), "train");
  EXPECT_EQ(pod.spec.containers[0].resources.requests.get("cpu"), Quantity::parse("500m").value());
  EXPECT_EQ(pod.spec.restart_policy, "OnFailure");
  // What the view does not know goes through it, too.
  EXPECT_EQ(json::Value::parse(json::to_text(pod)).value().find_path({"spec", "futureField"})->to_text(),
            R"({"deep":[1,2.5,null,9007199254740993,"x"]})");
}

TEST(GeneratedKinds, TheyKnowWhatTheyAreCalled) {
  EXPECT_EQ(batch::Job::kind_info().plural, "jobs");
  EXPECT_EQ(batch::Job::kind_info().api_version(), "batch.volcano.sh/v1alpha1");
  EXPECT_TRUE(batch::Job::kind_info().namespaced);
  EXPECT_TRUE(batch::Job::kind_info().has_status);
  EXPECT_FALSE(scheduling::PodGroup::kind_info().has_status);
  EXPECT_FALSE(scheduling::Queue::kind_info().namespaced);
  EXPECT_EQ(core::Pod::kind_info().api_version(), "v1");
  EXPECT_EQ(core::PodProjection::kind_info(), core::Pod::kind_info());
  static_assert(shard::NodeShard::kind_info().plural == "nodeshards");
  EXPECT_EQ(keys::kJobName, "volcano.sh/job-name");
  EXPECT_EQ(bus::event::kAny, "*");
  EXPECT_EQ(batch::numa_policy::kSingleNumaNode, "single-numa-node");
}

TEST(GeneratedProjections, APodKeepsWhatItsReadersNeed) {
  const auto pod = decoded<core::PodProjection>(testdata("full_pod"));
  EXPECT_EQ(pod.metadata.name, "job1-worker-0");
  EXPECT_EQ(pod.metadata.namespace_, "default");
  EXPECT_EQ(pod.metadata.labels.size(), 5u);
  EXPECT_EQ(pod.metadata.annotations.size(), 4u);
  EXPECT_FALSE(pod.metadata.annotations.contains("kubectl.kubernetes.io/last-applied-configuration"));
  ASSERT_EQ(pod.metadata.owner_references.size(), 1u);
  EXPECT_EQ(pod.metadata.owner_references[0].kind, "Job");
  EXPECT_EQ(pod.metadata.owner_references[0].controller, true);
  EXPECT_EQ(pod.metadata.creation_timestamp.to_string(), "2026-01-02T03:04:05Z");
  EXPECT_EQ(pod.spec.node_name, "node-17.example.internal");
  EXPECT_EQ(pod.spec.priority, 0);
  ASSERT_EQ(pod.spec.containers.size(), 1u);
  EXPECT_EQ(pod.spec.containers[0].resources.requests.get("memory"), Quantity::parse("2Gi").value());
  EXPECT_EQ(pod.status.phase, core::pod_phase::kRunning);
  ASSERT_EQ(pod.status.conditions.size(), 2u);  // Ready and PodScheduled of five
  EXPECT_EQ(pod.status.conditions[0].type, "Ready");
  EXPECT_EQ(pod.status.container_statuses[0].restart_count, 1);
  EXPECT_EQ(pod, decoded<core::PodProjection>(testdata("full_pod")));
  EXPECT_EQ(error_of<core::PodProjection>(R"({"spec":{"nodeName":7}})"),
            "spec.nodeName: expected string, found number");
}

TEST(GeneratedProjections, ANodeKeepsWhatItsReadersNeed) {
  const auto node = decoded<core::NodeProjection>(testdata("full_node"));
  EXPECT_TRUE(node.spec.unschedulable);
  EXPECT_EQ(node.spec.taints[0].effect, "NoSchedule");
  EXPECT_EQ(node.status.allocatable.get("cpu"), Quantity::parse("63770m").value());
  EXPECT_EQ(node.status.conditions.size(), 1u);
  EXPECT_EQ(node.metadata.annotations.size(), 1u);
  EXPECT_EQ(node.metadata.labels.get(keys::kWarmupNode), "true");
}

// Heap bytes that one cached object costs, with the allocator's own share.
template <class T>
double bytes_each(const std::string& text) {
  constexpr int kCount = 2000;
  std::vector<std::shared_ptr<const T>> cache;
  cache.reserve(kCount);
  const std::size_t before = base::heap_bytes();
  for (int i = 0; i < kCount; ++i) cache.push_back(std::make_shared<const T>(decoded<T>(text)));
  return static_cast<double>(base::heap_bytes() - before) / kCount;
}

TEST(GeneratedProjections, ACachedPodAndNodeAreSmall) {
  if (base::heap_bytes() == 0) GTEST_SKIP() << "the sanitizer's allocator keeps no count";
  const double pod = bytes_each<core::PodProjection>(testdata("full_pod"));
  const double node = bytes_each<core::NodeProjection>(testdata("full_node"));
  RecordProperty("pod_bytes", std::to_string(pod));
  RecordProperty("node_bytes", std::to_string(node));
  EXPECT_LE(pod, 1536) << "a cached pod costs at most 1.5 KB";
  EXPECT_LE(node, 4096) << "a cached node costs at most 4 KB";
}

}  // namespace
}  // namespace basalt::api
