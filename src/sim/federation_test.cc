#include "federation/federation.h"

#include "sim/federation_test_support.h"

// Hyper jobs from submission to their end, over several clusters in one process.
namespace basalt::federation {
namespace {

using namespace std::chrono_literals;
using controllers::hyperjob::Bench;
using Names = std::vector<std::string>;

TEST(Federation, Row53_AHyperJobRunsOverItsClustersToItsEnd) {
  with_world(3, [](World& world) {
    Bench& bench = world.bench;
    bench.cluster.apply(Bench::yaml("h", {"a:2:c1,c2", "b:1:c3"}));
    ASSERT_TRUE(bench.wait_condition("Completed", "AllChildVCJobsCompleted"));
    EXPECT_EQ(bench.condition("Completed")->string_at({"message"}), "All 3 child vcJobs completed");
    EXPECT_EQ(world.where("h-b-0"), Names{"c3"});
    // Each job is wholly in one cluster, and the two were shared out.
    EXPECT_EQ(world.where("h-a-0").size(), 1u);
    EXPECT_NE(world.where("h-a-0"), world.where("h-a-1"));
    const auto status = bench.hyper_job()->find_path({"status", "replicatedJobsStatus"})->as_array()[0];
    EXPECT_EQ(status.find("succeeded")->as_int(), 4);
    const auto job = *world.members["c3"]->cluster.get(resources::kJobs, "default", "h-b-0");
    EXPECT_EQ(job.string_at({"metadata", "labels", "karmada.io/managed"}), "true");
    EXPECT_EQ(job.string_at({"metadata", "labels", "volcano.sh/hyperjob-name"}), "h");
    EXPECT_EQ(job.find_path({"metadata", "ownerReferences"}), nullptr);
    const auto binding = *world.binding("h-b-0");
    EXPECT_EQ(binding.find_path({"spec", "clusters"})->to_text(), R"([{"name":"c3","replicas":2}])");
    EXPECT_EQ(binding.find_path({"status", "aggregatedStatus"})->as_array().size(), 1u);
    // The job was claimed by its own policy.
    EXPECT_EQ(bench.job("h-b-0")->string_at({"metadata", "annotations", "propagationpolicy.karmada.io/name"}), "h-b-0");
  });
}

TEST(Federation, AFailureIsToldAtTheEnd) {
  with_world(2, [](World& world) {
    world.failing = "h-a-1";
    std::string yaml = Bench::yaml("h", {"a:2"});
    const std::string_view before = "templateSpec:\n";
    yaml.insert(yaml.find(before) + before.size(), "      policies: [{event: PodFailed, action: TerminateJob}]\n");
    world.bench.cluster.apply(yaml);
    ASSERT_TRUE(world.bench.wait_condition("Failed", "SomeChildVCJobsUnsuccessful"));
    EXPECT_EQ(world.bench.condition("Failed")->string_at({"message"}),
              "HyperJob failed: 1 completed, 0 failed, 0 aborted, 1 terminated");
  });
}

TEST(Federation, DeletionCleansTheMembers) {
  with_world(2, [](World& world) {
    world.fate_of_all.run_for = rt::Duration::max();
    world.bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(world.bench.cluster.wait_until([&] { return world.bench.phase_of("a", "h-a-0") == "Running"; }));
    world.bench.cluster.remove(resources::kHyperJobs, "default", "h");
    EXPECT_TRUE(world.wait_where("h-a-0", {}));
    EXPECT_TRUE(world.wait_where("h-a-1", {}));
    EXPECT_TRUE(world.bench.cluster.wait_until([&] { return !world.binding("h-a-0"); }));
  });
}

TEST(Federation, ARunningJobMovesWithItsClusterNamesWithoutOverlap) {
  with_world(2, [](World& world) {
    world.fate_of_all.run_for = rt::Duration::max();
    world.bench.cluster.apply(Bench::yaml("h", {"a:1:c1"}));
    ASSERT_TRUE(world.wait_where("h-a-0", {"c1"}));
    world.bench.cluster.apply(Bench::yaml("h", {"a:1:c2"}));
    bool overlapped = false;
    EXPECT_TRUE(world.bench.cluster.wait_until([&] {
      overlapped |= world.where("h-a-0").size() > 1;
      return world.where("h-a-0") == Names{"c2"};
    }));
    EXPECT_FALSE(overlapped);
  });
}

// karmada#2197, #2248: a job that is over is not built again.
TEST(Federation, UsersG1_NothingRunsAgainAfterTheEnd) {
  with_world(2, [](World& world) {
    Bench& bench = world.bench;
    bench.cluster.apply(Bench::yaml("h", {"a:1:c1", "b:1:c2"}));
    ASSERT_TRUE(bench.wait_condition("Completed"));
    bench.settle();
    const auto condition = *bench.condition("Completed");
    // Other clusters, more jobs, another image: all too late.
    bench.cluster.apply(Bench::yaml("h", {"a:3:c2", "b:1:c2"}, "other"));
    EXPECT_TRUE(bench.wait_observed());
    bench.cluster.remove(resources::kJobs, "default", "h-b-0");
    bench.runtime().sleep_for(10s);
    EXPECT_EQ(*bench.condition("Completed"), condition);
    EXPECT_EQ(world.where("h-a-0"), Names{"c1"});
    EXPECT_EQ(world.where("h-b-0"), Names{});
    EXPECT_EQ(world.where("h-a-1"), Names{});
    EXPECT_EQ(bench.names(resources::kJobs), Names{"h-a-0"});
    EXPECT_EQ(bench.count_events("HyperJobFinished"), 1);
  });
}

TEST(Federation, Row55_AMemberThatReplaysAFinishedJobChangesNothing) {
  with_world(1, [](World& world) {
    world.bench.cluster.apply(Bench::yaml("h", {"a:1"}));
    ASSERT_TRUE(world.bench.wait_condition("Completed"));
    world.bench.settle();
    const auto status = *world.bench.hyper_job()->find("status");
    world.members["c1"]->cluster.remove(resources::kJobs, "default", "h-a-0");
    EXPECT_TRUE(world.wait_where("h-a-0", {"c1"}));  // the federation puts it back, as Karmada does
    world.bench.runtime().sleep_for(10s);
    EXPECT_EQ(*world.bench.hyper_job()->find("status"), status);
  });
}

TEST(Federation, NoClusterFitsAndItIsSaidWhy) {
  with_world(2, [](World& world) {
    world.bench.cluster.apply(Bench::yaml("h", {"a:1:nowhere", "b:1:c1"}));
    ASSERT_TRUE(world.bench.wait_condition("Stalled", "UnknownCluster"));
    EXPECT_TRUE(world.bench.cluster.wait_until([&] {
      const auto stalled = world.bench.condition("Stalled");
      return stalled && stalled->string_at({"message"}).find("NoClusterFit") != std::string_view::npos;
    }));
    EXPECT_TRUE(world.bench.cluster.wait_until([&] { return world.bench.phase_of("b", "h-b-0") == "Completed"; }));
    world.bench.cluster.apply(Bench::yaml("h", {"a:1:c2", "b:1:c1"}));
    EXPECT_TRUE(world.bench.wait_condition("Completed"));
    EXPECT_FALSE(world.bench.condition("Stalled"));
  });
}

// volcano-global#20: jobs that are over take nothing from those that wait.
TEST(Federation, UsersG12_RoomDecidesAndFinishedJobsHoldNone) {
  with_world(1, [](World& world) {
    const std::string yaml =
        "apiVersion: training.volcano.sh/v1alpha1\nkind: HyperJob\nmetadata: {name: h}\nspec:\n  replicatedJobs:\n"
        "  - name: a\n    replicas: 4\n    templateSpec:\n      tasks:\n      - name: w\n        replicas: 3\n"
        "        template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '2'}}}]}}\n";
    bool was_told = false;
    world.bench.cluster.apply(yaml);  // 6 CPUs each, one after the other in the 8 there are
    EXPECT_TRUE(world.bench.cluster.wait_until([&] {
      const auto stalled = world.bench.condition("Stalled");
      was_told |= stalled && stalled->string_at({"message"}).find("no enough resource") != std::string_view::npos;
      return world.bench.condition("Completed").has_value();
    }));
    EXPECT_TRUE(was_told);
  });
}

// karmada#7843: a job does fail over, and is not left where nobody can reach it.
TEST(Federation, UsersG8_AClusterIsLostAndComesBack) {
  FederationOptions options;
  options.propagator.eviction_after = 60s;
  with_world(
      2,
      [](World& world) {
        Bench& bench = world.bench;
        world.fate_of_all.run_for = 500s;
        bench.cluster.apply(Bench::yaml("h", {"a:2"}));
        ASSERT_TRUE(bench.cluster.wait_until(
            [&] { return bench.phase_of("a", "h-a-0") == "Running" && bench.phase_of("a", "h-a-1") == "Running"; }));
        const std::string lost = world.where("h-a-0").at(0);
        const std::string other = world.where("h-a-1").at(0);
        EXPECT_NE(lost, other);
        world.members[lost]->link.set_away(true);
        // First it is only waited for.
        bench.runtime().sleep_for(30s);
        EXPECT_EQ(world.ready_clusters(), 1);
        EXPECT_EQ(world.where("h-a-0"), Names{lost});
        EXPECT_TRUE(bench.cluster.wait_until(
            [&] { return world.members[other]->cluster.get(resources::kJobs, "default", "h-a-0").has_value(); }, 300s));
        // What it still has is taken away when it returns.
        world.members[lost]->link.set_away(false);
        EXPECT_TRUE(bench.cluster.wait_until([&] { return world.where("h-a-0") == Names{other}; }, 60s));
        EXPECT_TRUE(bench.cluster.wait_until([&] { return bench.condition("Completed").has_value(); }, 2000s));
      },
      2, options);
}

// kueue#1787: a member that was away for a while is heard again.
TEST(Federation, UsersG10_AnAbsenceThatIsShorterMovesNothing) {
  with_world(2, [](World& world) {
    Bench& bench = world.bench;
    world.fate_of_all.run_for = 20s;
    bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(bench.cluster.wait_until([&] { return bench.phase_of("a", "h-a-0") == "Running"; }));
    const std::string lost = world.where("h-a-0").at(0);
    world.members[lost]->link.set_away(true);
    bench.runtime().sleep_for(120s);  // the job ends meanwhile
    EXPECT_EQ(bench.phase_of("a", "h-a-0"), "Running");
    world.members[lost]->link.set_away(false);
    EXPECT_TRUE(bench.wait_condition("Completed"));
    EXPECT_EQ(world.where("h-a-0"), Names{lost});
  });
}

TEST(Federation, AClusterThatIsTakenOutGivesUpItsJobs) {
  with_world(2, [](World& world) {
    world.fate_of_all.run_for = rt::Duration::max();
    world.bench.cluster.apply(Bench::yaml("h", {"a:1"}));
    ASSERT_TRUE(world.bench.cluster.wait_until([&] { return world.where("h-a-0").size() == 1; }));
    const std::string first = world.where("h-a-0").at(0);
    world.bench.cluster.remove(resources::kClusters, "", first);
    EXPECT_TRUE(world.wait_where("h-a-0", {first == "c1" ? "c2" : "c1"}));
  });
}

TEST(Federation, Row44_ABroadPolicyDoesNotTakeJobsFromTheirOwn) {
  with_world(2, [](World& world) {
    world.bench.cluster.apply(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterPropagationPolicy\nmetadata: {name: all}\nspec: "
        "{priority: 100, resourceSelectors: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job}], placement: "
        "{clusterAffinity: {clusterNames: [c2]}}}\n");
    world.bench.cluster.apply(Bench::yaml("h", {"a:5:c1"}));
    ASSERT_TRUE(world.bench.wait_condition("Completed"));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(world.where("h-a-" + std::to_string(i)), Names{"c1"});
    // It is there for the others.
    world.bench.cluster.apply(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: lone}\nspec: {tasks: [{name: w, replicas: "
        "1, "
        "template: {spec: {containers: [{name: c, image: i}]}}}]}\n");
    EXPECT_TRUE(world.wait_where("lone", {"c2"}));
  });
}

// kueue#13046, #14736: what went wrong in a member is told, and is no door that closes for ever.
TEST(Federation, UsersG9_WhatAMemberRefusesIsToldOnTheHyperJob) {
  with_world(1, [](World& world) {
    // Somebody else's job has the name in the member.
    world.members["c1"]->cluster.apply(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: h-a-0}\nspec: {tasks: [{name: w, replicas: "
        "1, "
        "template: {spec: {containers: [{name: c, image: i}]}}}]}\n");
    world.bench.cluster.apply(Bench::yaml("h", {"a:1"}));
    ASSERT_TRUE(world.bench.wait_condition("Stalled", "MemberRefused"));
    world.members["c1"]->cluster.remove(resources::kJobs, "default", "h-a-0");
    EXPECT_TRUE(world.bench.wait_condition("Completed"));
  });
}

TEST(Federation, Row58_AClusterOfWhichNothingIsKnownHarmsNobody) {
  with_world(1, [](World& world) {
    world.bench.cluster.apply(
        "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: new}\nspec: {syncMode: Push}\n");
    world.bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(world.bench.wait_condition("Completed"));
    EXPECT_EQ(world.where("h-a-0"), Names{"c1"});
    EXPECT_EQ(world.where("h-a-1"), Names{"c1"});
  });
}

TEST(Federation, DependenciesAndNamespacesTravel) {
  with_world(1, [](World& world) {
    world.bench.cluster.apply(
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: "
        "{name: cfg, "
        "namespace: default}\ndata: {a: b}\n");
    const std::string yaml =
        "apiVersion: training.volcano.sh/v1alpha1\nkind: HyperJob\nmetadata: {name: h}\nspec:\n  replicatedJobs:\n"
        "  - name: a\n    templateSpec:\n      tasks:\n      - name: w\n        replicas: 1\n"
        "        template: {spec: {volumes: [{name: v, configMap: {name: cfg}}], containers: [{name: c, image: i}]}}\n";
    world.bench.cluster.apply(yaml);
    ASSERT_TRUE(world.bench.wait_condition("Completed"));
    EXPECT_TRUE(world.members["c1"]->cluster.get(resources::kConfigMaps, "default", "cfg"));
    std::string elsewhere = Bench::yaml("h", {"a:1"});
    elsewhere.replace(elsewhere.find("{name: h}"), 9, "{name: h, namespace: team}");
    world.bench.cluster.apply(elsewhere);
    EXPECT_TRUE(world.bench.cluster.wait_until(
        [&] { return world.members["c1"]->cluster.get(resources::kJobs, "team", "h-a-0").has_value(); }));
  });
}

TEST(Federation, ItIsStoppedAndStartedInTheMiddle) {
  with_world(3, [](World& world) {
    world.fate_of_all.run_for = 5s;
    for (int i = 0; i < 5; ++i) world.bench.cluster.apply(Bench::yaml("h" + std::to_string(i), {"a:3"}));
    for (int i = 0; i < 6; ++i) {
      world.stop_federation();
      world.start_federation();
      world.bench.runtime().sleep_for(std::chrono::milliseconds(700 * i));
    }
    for (int i = 0; i < 5; ++i) {
      const std::string name = "h" + std::to_string(i);
      EXPECT_TRUE(world.bench.cluster.wait_until([&] { return world.bench.condition("Completed", name).has_value(); }));
      for (int j = 0; j < 3; ++j) EXPECT_EQ(world.where(name + "-a-" + std::to_string(j)).size(), 1u);
    }
  });
}

}  // namespace
}  // namespace basalt::federation
