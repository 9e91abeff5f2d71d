#include "controllers/podgroup/group_builder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controllers/podgroup/group_plan.h"
#include "controllers/podgroup/pod_usage.h"
#include "json/reader.h"
#include "json/writer.h"

namespace basalt::controllers::podgroup {
namespace {

using api::scheduling::PodGroup;

api::core::Pod pod_of(std::string_view text) {
  auto pod = json::from_text<api::core::Pod>(text);
  EXPECT_TRUE(pod.ok()) << pod.error().message;
  return std::move(*pod);
}

const api::Time kNow = api::Time::from_unix(1'000'000);

PodGroup build(std::string_view pod, const api::StringMap& owner = {}) {
  std::vector<std::string> complaints;
  return build_group(pod_of(pod), owner, kNow, complaints);
}

constexpr std::string_view kPlain =
    R"({"metadata":{"name":"p","namespace":"n","uid":"u1"},"spec":{"schedulerName":"volcano","containers":[
        {"name":"c","resources":{"requests":{"cpu":"1","memory":"1Gi"},"limits":{"cpu":"2"}}}]}})";

TEST(PodUsage, ContainersInitContainersAndOverhead) {
  const auto usage = [](std::string_view spec) {
    return pod_usage(pod_of(R"({"metadata":{"name":"p"},"spec":)" + std::string(spec) + "}"), kNow).to_string();
  };
  EXPECT_EQ(usage(R"({"containers":[]})"), "count/pods=1,pods=1");
  EXPECT_EQ(
      usage(R"({"containers":[{"resources":{"requests":{"cpu":"1"}}},{"resources":{"requests":{"cpu":"500m"}}}]})"),
      "count/pods=1,cpu=1500m,pods=1,requests.cpu=1500m");
  // An init container that needs more than all the others together.
  EXPECT_EQ(usage(R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],
                      "initContainers":[{"resources":{"requests":{"cpu":"3"}}}]})"),
            "count/pods=1,cpu=3,pods=1,requests.cpu=3");
  // A restartable one counts beside the others, and below the ordinary ones after it.
  EXPECT_EQ(usage(R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],
                      "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"2"}}},
                                        {"resources":{"requests":{"cpu":"2"}}}]})"),
            "count/pods=1,cpu=4,pods=1,requests.cpu=4");
  EXPECT_EQ(usage(R"({"containers":[{"resources":{"requests":{"cpu":"1"},"limits":{"memory":"1Gi"}}}],
                      "overhead":{"cpu":"100m","memory":"1Gi"}})"),
            "count/pods=1,cpu=1100m,limits.memory=2Gi,memory=1Gi,pods=1,requests.cpu=1100m,requests.memory=1Gi");
  // What the pod says for itself as a whole wins.
  EXPECT_EQ(usage(R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],"resources":{"requests":{"cpu":"5"}}})"),
            "count/pods=1,cpu=5,pods=1,requests.cpu=5");
}

TEST(PodUsage, P10NamesOfResources) {
  const auto usage = [](std::string_view requests) {
    return pod_usage(pod_of(R"({"metadata":{},"spec":{"containers":[{"resources":{"requests":)" +
                            std::string(requests) + R"(,"limits":)" + std::string(requests) + "}}]}}"),
                     kNow)
        .to_string();
  };
  EXPECT_EQ(usage(R"({"nvidia.com/gpu":"2"})"), "count/pods=1,nvidia.com/gpu=2,pods=1,requests.nvidia.com/gpu=2");
  EXPECT_EQ(usage(R"({"hugepages-2Mi":"4Mi"})"), "count/pods=1,hugepages-2Mi=4Mi,pods=1,requests.hugepages-2Mi=4Mi");
  EXPECT_EQ(usage(R"({"deviceclass.resource.kubernetes.io/gpu":"1"})"),
            "count/pods=1,pods=1,requests.deviceclass.resource.kubernetes.io/gpu=1");
  EXPECT_EQ(usage(R"({"x.kubernetes.io/y":"1"})"), "count/pods=1,pods=1");
  EXPECT_EQ(usage(R"({"ephemeral-storage":"1Gi"})"),
            "count/pods=1,ephemeral-storage=1Gi,limits.ephemeral-storage=1Gi,pods=1,requests.ephemeral-storage=1Gi");
}

TEST(PodUsage, AFinishedOrOverduePodIsOnlyAnObject) {
  for (const char* phase : {"Succeeded", "Failed"}) {
    api::core::Pod pod = pod_of(kPlain);
    pod.status.phase = phase;
    EXPECT_EQ(pod_usage(pod, kNow).to_string(), "count/pods=1");
  }
  api::core::Pod pod = pod_of(kPlain);
  pod.metadata.deletion_timestamp = kNow - std::chrono::seconds(31);
  pod.metadata.deletion_grace_period_seconds = 30;
  EXPECT_EQ(pod_usage(pod, kNow).to_string(), "count/pods=1");
  pod.metadata.deletion_timestamp = kNow - std::chrono::seconds(29);
  EXPECT_NE(pod_usage(pod, kNow).to_string(), "count/pods=1");
}

TEST(GroupBuilder, P1APlainPod) {
  EXPECT_EQ(json::to_text(build(kPlain)),
            R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"name":"podgroup-u1",)"
            R"("namespace":"n","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u1",)"
            R"("controller":true,"blockOwnerDeletion":true}]},"spec":{"minMember":1,"minResources":{"count/pods":"1",)"
            R"("cpu":"1","limits.cpu":"2","memory":"1Gi","pods":"1","requests.cpu":"1","requests.memory":"1Gi"}},)"
            R"("status":{"phase":"Pending"}})");
}

TEST(GroupBuilder, OwnersAreCopiedIfOneControls) {
  const PodGroup group = build(R"({"metadata":{"name":"p","namespace":"n","uid":"u1","ownerReferences":[
      {"apiVersion":"x/v1","kind":"X","name":"x","uid":"ux"},
      {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"ur","controller":true,"blockOwnerDeletion":true}]},
      "spec":{"containers":[]}})");
  EXPECT_EQ(group.metadata.name, "podgroup-ur");
  ASSERT_EQ(group.metadata.owner_references.size(), 2u);
  EXPECT_EQ(group.metadata.owner_references[0].uid, "ux");
  EXPECT_EQ(group.metadata.owner_references[1].block_owner_deletion, true);
  // Without a controller the others are dropped.
  const PodGroup own = build(R"({"metadata":{"name":"p","uid":"u1","ownerReferences":[
      {"apiVersion":"x/v1","kind":"X","name":"x","uid":"ux"}]},"spec":{"containers":[]}})");
  EXPECT_EQ(own.metadata.name, "podgroup-u1");
  ASSERT_EQ(own.metadata.owner_references.size(), 1u);
  EXPECT_EQ(own.metadata.owner_references[0].kind, "Pod");
}

TEST(GroupBuilder, P3P4MinMember) {
  const auto with = [](std::string_view text) {
    return build(kPlain, {{"scheduling.volcano.sh/group-min-member", text}});
  };
  EXPECT_EQ(with("3").spec.min_member, 3);
  EXPECT_EQ(with("3").spec.min_resources->to_string(),
            "count/pods=3,cpu=3,limits.cpu=6,memory=3Gi,pods=3,requests.cpu=3,requests.memory=3Gi");
  for (const char* text : {"x", "-2", "", "3.5", "99999999999"}) EXPECT_EQ(with(text).spec.min_member, 1) << text;
  EXPECT_EQ(with("0").spec.min_member, 0);
  EXPECT_EQ(with("0").spec.min_resources, api::ResourceList());
  const std::string text = json::to_text(with("0"));
  EXPECT_EQ(text.find("minMember"), std::string::npos);
  EXPECT_NE(text.find(R"("minResources":{})"), std::string::npos);
}

TEST(GroupBuilder, P6P7AnnotationsLabelsAndQueue) {
  const PodGroup group = build(
      R"({"metadata":{"name":"p","uid":"u1","labels":{"app":"a","volcano.sh/preemptable":"true",
          "volcano.sh/cooldown-time":"1m"},"annotations":{"scheduling.volcano.sh/queue-name":"q","own":"1",
          "volcano.sh/preemptable":"false","volcano.sh/revocable-zone":"z","volcano.sh/jdb-max-unavailable":"2"}},
          "spec":{"priorityClassName":"high","containers":[]}})",
      {{"volcano.sh/a", "1"},
       {"scheduling.volcano.sh/b", "2"},
       {"other/c", "3"},
       {"volcano.sh/preemptable", "true"},
       {"volcano.sh/jdb-min-available", "1"},
       {"scheduling.volcano.sh/queue-name", "owners"}});
  EXPECT_EQ(group.metadata.annotations.to_string(),
            "volcano.sh/a=1,volcano.sh/jdb-max-unavailable=2,volcano.sh/jdb-min-available=1,"
            "volcano.sh/preemptable=false,volcano.sh/revocable-zone=z");
  EXPECT_EQ(group.metadata.labels.to_string(), "volcano.sh/cooldown-time=1m,volcano.sh/preemptable=true");
  EXPECT_EQ(group.spec.queue, "q");
  EXPECT_EQ(group.spec.priority_class_name, "high");
  EXPECT_EQ(build(kPlain).spec.queue, "");
}

TEST(GroupBuilder, P15NetworkTopology) {
  const auto with = [](std::string_view annotations, std::vector<std::string>& complaints) {
    return build_group(pod_of(R"({"metadata":{"name":"p","annotations":)" + std::string(annotations) +
                              R"(},"spec":{"containers":[]}})"),
                       {}, kNow, complaints)
        .spec.network_topology;
  };
  std::vector<std::string> complaints;
  EXPECT_FALSE(with("{}", complaints).has_value());
  auto topology =
      with(R"({"volcano.sh/network-topology-mode":"Soft","volcano.sh/network-topology-highest-tier":"2"})", complaints);
  EXPECT_EQ(topology->mode, "soft");
  EXPECT_EQ(topology->highest_tier_allowed, 2);
  EXPECT_EQ(with(R"({"volcano.sh/network-topology-mode":"foo"})", complaints)->mode, "hard");
  EXPECT_TRUE(complaints.empty());
  for (const char* tier : {"-1", "x"}) {
    topology = with(R"({"volcano.sh/network-topology-highest-tier":")" + std::string(tier) + "\"}", complaints);
    EXPECT_EQ(topology->mode, "hard");
    EXPECT_FALSE(topology->highest_tier_allowed.has_value());
  }
  EXPECT_EQ(complaints.size(), 2u);
}

TEST(GroupBuilder, D7ThePatchKeepsWhatOthersWrote) {
  PodGroup found = build(kPlain);
  found.metadata.uid = "g";
  found.metadata.annotations.set("foreign", "1");
  found.metadata.labels.set("foreign", "1");
  found.spec.queue = "from-namespace";
  found.status.phase = "Running";
  EXPECT_EQ(group_patch(found, build(kPlain)), "");
  const PodGroup wanted = build(
      R"({"metadata":{"name":"p","namespace":"n","uid":"u1","annotations":{"volcano.sh/preemptable":"true",
          "scheduling.volcano.sh/queue-name":"q"}},"spec":{"priorityClassName":"high","containers":[
          {"name":"c","resources":{"requests":{"cpu":"2"}}}]}})",
      {{"scheduling.volcano.sh/group-min-member", "2"}});
  EXPECT_EQ(group_patch(found, wanted),
            R"({"metadata":{"annotations":{"volcano.sh/preemptable":"true"},"uid":"g"},"spec":{"minMember":2,)"
            R"("minResources":{"count/pods":"2","cpu":"4","limits.cpu":null,"memory":null,"pods":"2",)"
            R"("requests.cpu":"4","requests.memory":null},"priorityClassName":"high","queue":"q"}})");
}

TEST(GroupBuilder, ThePodIsPatchedByItsUid) {
  EXPECT_EQ(pod_patch("u", "podgroup-x"),
            R"({"metadata":{"annotations":{"scheduling.k8s.io/group-name":"podgroup-x"},"uid":"u"}})");
}

TEST(GroupPlan, KeysAreReadBack) {
  const GroupOwner owner{"n", "ReplicaSet", "r", "u"};
  EXPECT_EQ(GroupOwner::parse(owner.to_key()), owner);
  EXPECT_FALSE(GroupOwner::parse({"n", "x"}));
}

// Every combination of what can be observed of two pods, a workload and a group.
TEST(GroupPlan, EveryObservationIsSafe) {
  using G = ObservedMember::Group;
  int observations = 0;
  for (int bits = 0; bits < (1 << 12); ++bits) {
    const auto bit = [bits](int i) { return (bits >> i & 1) != 0; };
    ObservedGroup observed;
    observed.exists = bit(0);
    observed.owner_is_workload = bit(1);
    if (observed.owner_is_workload && bit(2)) observed.workload = ObservedWorkload{bit(3) ? 2 : 0, bit(4), {}};
    for (const int i : {5, 8}) {
      ObservedMember member{.name = "p" + std::to_string(i), .uid = "u"};
      member.group = bit(i) ? G::Ours : (bit(i + 1) ? G::Other : G::None);
      member.is_finished = bit(i + 1);
      member.is_being_deleted = bit(i + 2);
      observed.members.push_back(member);
    }
    if (bit(11)) observed.members.clear();
    ++observations;
    const GroupPlan plan = plan_group(observed);
    const bool scaled_to_zero = observed.workload && observed.workload->replicas == 0;
    EXPECT_EQ(plan.delete_group, scaled_to_zero && observed.exists);
    EXPECT_FALSE(plan.delete_group && (plan.create_from || plan.refresh_from || !plan.annotate.empty()));
    EXPECT_FALSE(plan.create_from && observed.exists);
    EXPECT_FALSE(plan.refresh_from && !observed.exists);
    for (const std::size_t i : plan.annotate) EXPECT_EQ(observed.members[i].group, G::None);
    // A pod is put into a group only if the group is there or is made before.
    EXPECT_TRUE(plan.annotate.empty() || observed.exists || plan.create_from);
    if (!plan.create_from) continue;
    const ObservedMember& from = observed.members[*plan.create_from];
    EXPECT_FALSE(from.is_being_deleted);
    EXPECT_NE(from.group, G::Other);
    EXPECT_EQ(plan.create_only_if_owner_lives, from.group == G::Ours);
  }
  EXPECT_EQ(observations, 4096);
}

TEST(GroupPlan, TheNewestRevisionOfAStatefulSetDecides) {
  ObservedGroup observed;
  observed.exists = true;
  observed.owner_is_workload = true;
  observed.workload = ObservedWorkload{3, false, "new"};
  observed.members = {{.name = "a", .revision = "old"}, {.name = "b", .revision = "new"}};
  EXPECT_EQ(plan_group(observed), (GroupPlan{.refresh_from = 1, .annotate = {0, 1}}));
  observed.members.pop_back();
  EXPECT_EQ(plan_group(observed), (GroupPlan{.annotate = {0}}));
}

}  // namespace
}  // namespace basalt::controllers::podgroup
