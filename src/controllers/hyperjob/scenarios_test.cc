#include <cstdio>

#include "base/heap_bytes.h"
#include "controllers/hyperjob/test_support.h"

// What users do with hyper jobs, one test a story. Karmada is played by the test. The numbers in the names are the rows
// of the scenario table.
namespace basalt::controllers::hyperjob {
namespace {

using namespace std::chrono_literals;
namespace resources = sim::resources;
using Names = std::vector<std::string>;

TEST(HyperJobScenarios, Rows01And02_MakesJobsAndPoliciesWithNamesLabelsAndOwners) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:2:c1,c2", "b:1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1", "h-b-0"}));
    ASSERT_TRUE(bench.wait_observed());
    EXPECT_EQ(bench.number({"status", "splitCount"}), 3);
    const auto job = *bench.job("h-a-1");
    EXPECT_EQ(job.find_path({"metadata", "labels"})->as_object().size(), 3u);
    EXPECT_EQ(job.string_at({"metadata", "labels", "volcano.sh/hyperjob-name"}), "h");
    EXPECT_EQ(job.string_at({"metadata", "labels", "volcano.sh/replicatedjob-name"}), "a");
    EXPECT_EQ(job.string_at({"metadata", "labels", "volcano.sh/vcjob-template-spec-hash"}).size(), 52u);
    EXPECT_EQ(job.find_path({"metadata", "annotations"}), nullptr);
    const auto policy = *bench.policy("h-a-1");
    EXPECT_EQ(policy.find_path({"metadata", "labels"})->as_object().size(), 2u);
    EXPECT_EQ(policy.find_path({"spec", "placement", "clusterAffinity"})->to_text(), R"({"clusterNames":["c1","c2"]})");
    for (const json::Value& child : {job, policy}) {
      const json::Array& owners = child.find_path({"metadata", "ownerReferences"})->as_array();
      ASSERT_EQ(owners.size(), 1u);
      EXPECT_EQ(owners[0].string_at({"apiVersion"}), "training.volcano.sh/v1alpha1");
      EXPECT_EQ(owners[0].string_at({"kind"}), "HyperJob");
      EXPECT_EQ(owners[0].string_at({"uid"}), bench.hyper_job()->string_at({"metadata", "uid"}));
      EXPECT_TRUE(owners[0].find("controller")->as_bool());
      EXPECT_TRUE(owners[0].find("blockOwnerDeletion")->as_bool());
    }
    // Without cluster names there is no affinity.
    EXPECT_EQ(bench.policy("h-b-0")->find_path({"spec", "placement", "clusterAffinity"}), nullptr);
    EXPECT_TRUE(bench.wait([&] { return bench.phase_of("a", "h-a-0").empty(); }));
    // Each policy came before its job.
    const Names writes = bench.writes();
    for (const char* child : {"h-a-0", "h-a-1", "h-b-0"}) {
      std::size_t policy_at = 0;
      std::size_t job_at = 0;
      for (std::size_t i = 0; i < writes.size(); ++i) {
        if (writes[i].find(child) == std::string::npos || !writes[i].starts_with("Create")) continue;
        (writes[i].find("propagationpolicies") != std::string::npos ? policy_at : job_at) = i;
      }
      EXPECT_LE(policy_at, job_at);
    }
    if (bench.is_simulated()) {
      EXPECT_EQ(bench.writes().size(), 7u);  // three pairs and one status
    }
    EXPECT_TRUE(bench.wait([&] { return bench.count_events("CreatedVCJob") == 3; }));
    EXPECT_TRUE(bench.wait([&] { return bench.count_events("CreatedPP") == 3; }));
  });
}

TEST(HyperJobScenarios, Row03_EmptyClusterNamesMeanAnyCluster) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:1:"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0"}));
    EXPECT_EQ(bench.policy("h-a-0")->find_path({"spec", "placement", "clusterAffinity"}), nullptr);
  });
}

TEST(HyperJobScenarios, Rows05To07_NothingToRunIsNoSuccess) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:0", "b:0"}));
    ASSERT_TRUE(bench.wait_observed());
    bench.settle();
    EXPECT_EQ(bench.number({"status", "splitCount"}), 0);
    EXPECT_EQ(bench.hyper_job()->find_path({"status", "conditions"}), nullptr);
    EXPECT_EQ(bench.hyper_job()->find_path({"status", "replicatedJobsStatus"})->as_array().size(), 2u);
    bench.cluster.apply("apiVersion: training.volcano.sh/v1alpha1\nkind: HyperJob\nmetadata: {name: e}\nspec: {}\n");
    EXPECT_TRUE(bench.cluster.wait_until([&] { return bench.hyper_job("e")->find_path({"status", "splitCount"}); }));
    EXPECT_TRUE(bench.names(resources::kJobs).empty());
    // One entry that has nothing to run beside one that has.
    bench.cluster.apply(Bench::yaml("h", {"a:0", "b:1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-b-0"}));
    ASSERT_TRUE(bench.wait_observed());
    const json::Value idle = bench.hyper_job()->find_path({"status", "replicatedJobsStatus"})->as_array()[0];
    EXPECT_EQ(idle.string_at({"name"}), "a");
    const json::Value* states = idle.find("jobStates");
    EXPECT_TRUE(states == nullptr || states->as_object().empty());
  });
}

TEST(HyperJobScenarios, Rows08And09And11_ScalesUpAndDownAndRenames) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    ASSERT_TRUE(bench.wait_observed());
    const auto before = *bench.job("h-a-0");
    const auto policy_before = *bench.policy("h-a-1");
    bench.cluster.apply(Bench::yaml("h", {"a:3"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1", "h-a-2"}));
    EXPECT_EQ(*bench.job("h-a-0"), before);
    EXPECT_EQ(*bench.policy("h-a-1"), policy_before);
    bench.cluster.apply(Bench::yaml("h", {"a:1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0"}));
    bench.cluster.apply(Bench::yaml("h", {"z:1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-z-0"}));
    ASSERT_TRUE(bench.wait_observed());
    EXPECT_EQ(bench.number({"status", "splitCount"}), 1);
    EXPECT_EQ(bench.phase_of("a", "h-a-0"), "none");
  });
}

TEST(HyperJobScenarios, Rows12And13_ReplicasOfATaskGoThroughToTheJob) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:2"}, "i", 4));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    // As the job webhook does.
    for (const char* child : {"h-a-0", "h-a-1"}) {
      auto job = *bench.job(child);
      json::Object& spec = job.find("spec")->as_object();
      spec.set("minAvailable", 4);
      spec.set("schedulerName", "volcano");
      spec.find("tasks")->as_array()[0].as_object().set("minAvailable", 4);
      spec.find("tasks")->as_array()[0].as_object().set("maxRetry", 3);
      bench.cluster.patch(resources::kJobs, "default", child, json::Value(json::Object{{"spec", spec}}).to_text());
    }
    for (const int pods : {6, 2}) {
      bench.cluster.apply(Bench::yaml("h", {"a:2"}, "i", pods));
      EXPECT_TRUE(bench.cluster.wait_until([&] {
        const json::Value job = *bench.job("h-a-1");
        return job.find_path({"spec", "tasks"})->as_array()[0].find("replicas")->as_int() == pods;
      }));
      const json::Value job = *bench.job("h-a-1");
      EXPECT_EQ(job.find_path({"spec", "minAvailable"})->as_int(), pods);
      EXPECT_EQ(job.find_path({"spec", "tasks"})->as_array()[0].find("minAvailable")->as_int(), pods);
      EXPECT_EQ(job.string_at({"spec", "schedulerName"}), "volcano");
    }
  });
}

TEST(HyperJobScenarios, Row14_APriorityChangesInPlace) {
  scenario([](Bench& bench) {
    const auto with_priority = [](const std::string& priority) {
      std::string yaml = Bench::yaml("h", {"a:1"});
      const std::string before = "templateSpec:\n";
      return yaml.insert(yaml.find(before) + before.size(), "      priorityClassName: " + priority + "\n");
    };
    bench.cluster.apply(with_priority("low"));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0"}));
    const std::string uid(bench.job("h-a-0")->string_at({"metadata", "uid"}));
    bench.cluster.apply(with_priority("high"));
    EXPECT_TRUE(bench.wait([&] { return bench.job("h-a-0")->string_at({"spec", "priorityClassName"}) == "high"; }));
    EXPECT_EQ(bench.job("h-a-0")->string_at({"metadata", "uid"}), uid);
    EXPECT_FALSE(bench.condition("Stalled"));
  });
}

// A hyper job whose children could not have names is refused before any of them is made.
TEST(HyperJobScenarios, Row45_ANameThatIsTooLongIsToldBeforeAnyChild) {
  scenario([](Bench& bench) {
    const std::string name(63, 'x');
    bench.cluster.apply(Bench::yaml(name, {"a:1"}));
    EXPECT_TRUE(bench.wait([&] {
      const auto stalled = bench.condition("Stalled", name);
      return stalled && stalled->string_at({"reason"}) == "InvalidSpec";
    }));
    EXPECT_TRUE(bench.names(resources::kJobs).empty());
    EXPECT_TRUE(bench.names(resources::kPolicies).empty());
  });
}

// The schema of a template keeps what the schema of a job knows.
TEST(HyperJobScenarios, Row47_TheWholeTemplateArrives) {
  scenario([](Bench& bench) {
    std::string yaml = Bench::yaml("h", {"a:1"});
    const std::string before = "templateSpec:\n";
    yaml.insert(yaml.find(before) + before.size(),
                "      networkTopology: {mode: hard, highestTierName: rack}\n      queue: default\n");
    bench.cluster.apply(yaml);
    ASSERT_TRUE(bench.wait_jobs({"h-a-0"}));
    EXPECT_EQ(bench.job("h-a-0")->find_path({"spec", "networkTopology"})->to_text(),
              R"({"highestTierName":"rack","mode":"hard"})");
  });
}

TEST(HyperJobScenarios, Row15_AnImageCannotChangeAndTheRestGoesOn) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:1", "b:1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-b-0"}));
    ASSERT_TRUE(bench.wait_observed());
    const auto before = *bench.job("h-a-0");
    bench.cluster.apply(Bench::yaml("h", {"a:1", "b:2"}, "other"));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-b-0", "h-b-1"}));
    ASSERT_TRUE(bench.wait_observed());
    ASSERT_TRUE(bench.wait_condition("Stalled", "TemplateImmutable"));
    EXPECT_NE(bench.condition("Stalled")->string_at({"message"}).find("containers[0].image"), std::string_view::npos);
    EXPECT_EQ(*bench.job("h-a-0"), before);
    ASSERT_TRUE(bench.set_phase("h-a-0", "Running", R"(,"running":2)"));
    EXPECT_TRUE(bench.cluster.wait_until([&] { return bench.phase_of("a", "h-a-0") == "Running"; }));
    bench.settle();
    // One for each old job, however often we looked.
    EXPECT_TRUE(bench.wait([&] { return bench.count_events("FailedUpdateVCJob") == 2; }));
    // The change is taken back.
    bench.cluster.apply(Bench::yaml("h", {"a:1", "b:1"}));
    EXPECT_TRUE(bench.cluster.wait_until([&] { return !bench.condition("Stalled"); }));
  });
}

TEST(HyperJobScenarios, Row17_ClusterNamesOfARunningJobMove) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:1:c1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0"}));
    bench.cluster.patch(resources::kPolicies, "default", "h-a-0",
                        R"({"metadata":{"labels":{"propagationpolicy.karmada.io/permanent-id":"p1"},"finalizers":
                        ["karmada.io/propagation-policy-controller"]},"spec":{"priority":0,"preemption":"Never"}})");
    bench.settle();
    const auto job = *bench.job("h-a-0");
    bench.cluster.apply(Bench::yaml("h", {"a:1:c2"}));
    EXPECT_TRUE(bench.cluster.wait_until([&] {
      return bench.policy("h-a-0")->find_path({"spec", "placement", "clusterAffinity", "clusterNames"})->to_text() ==
             R"(["c2"])";
    }));
    const auto policy = *bench.policy("h-a-0");
    EXPECT_EQ(policy.string_at({"metadata", "labels", "propagationpolicy.karmada.io/permanent-id"}), "p1");
    EXPECT_EQ(policy.find_path({"metadata", "finalizers"})->as_array().size(), 1u);
    EXPECT_EQ(policy.string_at({"spec", "preemption"}), "Never");
    EXPECT_EQ(*bench.job("h-a-0"), job);
    // And away again: any cluster.
    bench.cluster.apply(Bench::yaml("h", {"a:1"}));
    EXPECT_TRUE(bench.cluster.wait_until(
        [&] { return bench.policy("h-a-0")->find_path({"spec", "placement", "clusterAffinity"}) == nullptr; }));
  });
}

// Five hundred hyper jobs of four children each, on a real server a tenth of it: a process that is started again reads
// them all and writes nothing.
TEST(HyperJobScenarios, Rows18And51_UsersG5_ALookWithoutAChangeWritesNothing) {
  scenario(
      [](Bench& bench) {
        const int count = bench.is_simulated() ? 500 / static_cast<int>(rt::stride_of()) : 50;
        for (int i = 0; i < count; ++i) bench.cluster.apply(Bench::yaml("h" + std::to_string(i), {"a:2", "b:2:c1"}));
        const auto is_seen = [&](int i) {
          const auto found = bench.hyper_job("h" + std::to_string(i));
          const json::Value* seen = found->find_path({"status", "observedGeneration"});
          return seen != nullptr && seen->as_int() == 1;
        };
        for (int i = 0; i < count; ++i) ASSERT_TRUE(bench.wait([&] { return is_seen(i); })) << i;
        ASSERT_EQ(bench.names(resources::kJobs).size(), static_cast<std::size_t>(4 * count));
        bench.settle();
        const std::size_t before = bench.writes().size();
        bench.process.reset();
        const std::size_t bytes = base::heap_bytes();
        const rt::Instant begin = bench.runtime().now();
        bench.restart();
        ASSERT_TRUE(bench.wait([&] { return bench.process->has_started(); }));
        const rt::Duration filled = bench.runtime().now() - begin;
        bench.settle();
        bench.settle();
        EXPECT_EQ(bench.writes().size(), before);
        EXPECT_LT(filled, 10s);
        // karmada#4738: more than 80 KiB an object, and twice that after a restart.
        const double each = static_cast<double>(base::heap_bytes() - bytes) / 1024 / (9 * count);
        if (bench.is_simulated()) {
          EXPECT_LT(each, 20);
        }
        std::printf("%d hyper jobs: caches are filled %.2f s after a restart, %.1f KiB an object; nothing is written\n",
                    count, std::chrono::duration<double>(filled).count(), each);
      },
      1);
}

TEST(HyperJobScenarios, Rows19And26_LabelsAreRestoredWithoutTouchingTheJob) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0"}));
    ASSERT_TRUE(bench.wait_observed());
    const auto before = *bench.job("h-a-0");
    const std::string hash(before.string_at({"metadata", "labels", "volcano.sh/vcjob-template-spec-hash"}));
    for (const char* patch : {R"({"metadata":{"labels":{"volcano.sh/vcjob-template-spec-hash":null}}})",
                              R"({"metadata":{"labels":{"volcano.sh/vcjob-template-spec-hash":"xw46fx28d8666769"}}})",
                              R"({"metadata":{"labels":{"volcano.sh/hyperjob-name":null}}})"}) {
      bench.cluster.patch(resources::kJobs, "default", "h-a-0", patch);
      EXPECT_TRUE(bench.cluster.wait_until([&] {
        const auto job = *bench.job("h-a-0");
        return job.string_at({"metadata", "labels", "volcano.sh/vcjob-template-spec-hash"}) == hash &&
               job.string_at({"metadata", "labels", "volcano.sh/hyperjob-name"}) == "h";
      })) << patch;
    }
    EXPECT_EQ(*bench.job("h-a-0")->find("spec"), *before.find("spec"));
    EXPECT_EQ(bench.number({"metadata", "generation"}), 1);
    EXPECT_EQ(bench.job("h-a-0")->find_path({"metadata", "generation"})->as_int(), 1);
    bench.cluster.patch(resources::kPolicies, "default", "h-a-0",
                        R"({"metadata":{"labels":{"volcano.sh/hyperjob-name":null}}})");
    EXPECT_TRUE(bench.cluster.wait_until(
        [&] { return bench.policy("h-a-0")->string_at({"metadata", "labels", "volcano.sh/hyperjob-name"}) == "h"; }));
  });
}

TEST(HyperJobScenarios, Rows21And24And25_WhatIsDeletedOrEditedByHandIsPutRight) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:2:c1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    ASSERT_TRUE(bench.wait_observed());
    const std::string uid(bench.job("h-a-0")->string_at({"metadata", "uid"}));
    bench.cluster.remove(resources::kJobs, "default", "h-a-0");
    EXPECT_TRUE(bench.cluster.wait_until([&] {
      const auto job = bench.job("h-a-0");
      return job && job->string_at({"metadata", "uid"}) != uid;
    }));
    bench.cluster.remove(resources::kPolicies, "default", "h-a-1");
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    bench.cluster.patch(
        resources::kPolicies, "default", "h-a-1",
        R"({"spec":{"priority":7,"propagateDeps":false,"placement":{"clusterAffinity":{"exclude":["c1"]}}}})");
    EXPECT_TRUE(bench.cluster.wait_until([&] {
      const auto policy = *bench.policy("h-a-1");
      return policy.find_path({"spec", "propagateDeps"})->as_bool() &&
             policy.find_path({"spec", "placement", "clusterAffinity"})->to_text() == R"({"clusterNames":["c1"]})";
    }));
    EXPECT_EQ(bench.policy("h-a-1")->find_path({"spec", "priority"})->as_int(), 7);
    // A specification that was edited by hand stays, and so does what others put beside ours.
    bench.cluster.patch(resources::kJobs, "default", "h-a-0",
                        R"({"metadata":{"labels":{"mine":"x"}},"spec":{"priorityClassName":"high"}})");
    bench.settle();
    EXPECT_EQ(bench.job("h-a-0")->string_at({"spec", "priorityClassName"}), "high");
    EXPECT_EQ(bench.job("h-a-0")->string_at({"metadata", "labels", "mine"}), "x");
  });
}

TEST(HyperJobScenarios, Row27_AForeignObjectInTheWayIsNamedAndTheOthersGoOn) {
  scenario([](Bench& bench) {
    bench.cluster.apply("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: h-a-0}\nspec: {}\n");
    bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(bench.cluster.wait_until([&] { return bench.job("h-a-1").has_value(); }));
    ASSERT_TRUE(bench.wait_condition("Stalled", "NameConflict"));
    EXPECT_TRUE(bench.cluster.wait_until([&] { return bench.count_events("NameConflict") >= 1; }));
    EXPECT_TRUE(bench.wait([&] { return bench.phase_of("a", "h-a-1").empty(); }));
    bench.let_pass(120s);
    EXPECT_FALSE(bench.job("h-a-0")->find_path({"metadata", "ownerReferences"}));
    bench.cluster.remove(resources::kJobs, "default", "h-a-0");
    // At once, not after the backoff.
    EXPECT_TRUE(
        bench.cluster.wait_until([&] { return bench.job("h-a-0").has_value(); }, bench.is_simulated() ? 1s : 20s));
    EXPECT_TRUE(bench.cluster.wait_until([&] { return !bench.condition("Stalled"); }));
  });
}

TEST(HyperJobScenarios, Row29_DeletionTakesTheChildrenAlong) {
  for (const auto propagation : {kube::Propagation::Background, kube::Propagation::Foreground}) {
    scenario([propagation](Bench& bench) {
      bench.cluster.apply(Bench::yaml("h", {"a:2"}));
      ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
      ASSERT_TRUE(kube::delete_object(bench.cluster.client(), resources::kHyperJobs, {"default", "h"},
                                      {.propagation = propagation}, {})
                      .ok());
      EXPECT_TRUE(bench.wait_jobs({}));
      EXPECT_TRUE(bench.cluster.wait_until([&] { return !bench.hyper_job(); }));
    });
  }
}

TEST(HyperJobScenarios, Row29_OrphansAreLeftInPeace) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    ASSERT_TRUE(kube::delete_object(bench.cluster.client(), resources::kHyperJobs, {"default", "h"},
                                    {.propagation = kube::Propagation::Orphan}, {})
                    .ok());
    ASSERT_TRUE(bench.cluster.wait_until([&] { return !bench.hyper_job(); }));
    bench.settle();
    EXPECT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    const auto job = bench.job("h-a-0");
    const json::Value* owners = job->find_path({"metadata", "ownerReferences"});
    EXPECT_TRUE(owners == nullptr || owners->as_array().empty());
  });
}

TEST(HyperJobScenarios, Row43_ACacheThatLagsBehindIsNoReasonToWarn) {
  scenario([](Bench& bench) {
    bench.faults.set_plan({.event_delay_max = std::chrono::milliseconds(500), .stale_lists_max = 3});
    bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1"}));
    bench.restart();  // with lists that do not show them yet
    bench.cluster.apply(Bench::yaml("h", {"a:3"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0", "h-a-1", "h-a-2"}));
    bench.settle();
    for (const char* reason : {"FailedCreateVCJob", "FailedCreatePP", "NameConflict"}) {
      EXPECT_EQ(bench.count_events(reason), 0) << reason;
    }
  });
}

TEST(HyperJobScenarios, Row30_TheSameNameAgainNeverAdoptsOldChildren) {
  scenario([](Bench& bench) {
    bench.cluster.apply(Bench::yaml("h", {"a:1"}));
    ASSERT_TRUE(bench.wait_jobs({"h-a-0"}));
    bench.cluster.patch(resources::kJobs, "default", "h-a-0", R"({"metadata":{"finalizers":["example.com/hold"]}})");
    ASSERT_TRUE(bench.set_phase("h-a-0", "Completed"));
    const std::string old_uid(bench.job("h-a-0")->string_at({"metadata", "uid"}));
    bench.cluster.remove(resources::kHyperJobs, "default", "h");
    bench.cluster.apply(Bench::yaml("h", {"a:1"}));
    bench.settle();
    EXPECT_EQ(bench.job("h-a-0")->string_at({"metadata", "uid"}), old_uid);
    EXPECT_FALSE(bench.condition("Completed"));
    EXPECT_EQ(bench.count_events("NameConflict"), 0);
    bench.cluster.patch(resources::kJobs, "default", "h-a-0", R"({"metadata":{"finalizers":null}})");
    EXPECT_TRUE(bench.cluster.wait_until([&] {
      const auto job = bench.job("h-a-0");
      return job && job->string_at({"metadata", "uid"}) != old_uid;
    }));
  });
}

TEST(HyperJobScenarios, Row20_ChildrenOfUpstreamAreTakenOver) {
  scenario([](Bench& bench) {
    bench.process.reset();
    bench.cluster.apply(Bench::yaml("h", {"a:1:c1"}));
    const std::string uid(bench.hyper_job()->string_at({"metadata", "uid"}));
    const std::string owner =
        "ownerReferences: [{apiVersion: training.volcano.sh/v1alpha1, kind: HyperJob, name: h, uid: " + uid +
        ", controller: true, blockOwnerDeletion: true}]";
    bench.cluster.apply(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: h-a-0, labels: "
        "{volcano.sh/hyperjob-name: h, volcano.sh/pp-spec-hash: v4b7zx8xdb452xdx}, " +
        owner +
        "}\n"
        "spec: {propagateDeps: true, priority: 0, preemption: Never, schedulerName: default-scheduler, "
        "resourceSelectors: "
        "[{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: h-a-0, namespace: default}], placement: "
        "{clusterAffinity: {clusterNames: [c1]}, replicaScheduling: {replicaSchedulingType: Divided, "
        "replicaDivisionPreference: Aggregated}, spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: "
        "1}]}}\n");
    bench.cluster.apply(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: h-a-0, labels: {volcano.sh/hyperjob-name: "
        "h, "
        "volcano.sh/replicatedjob-name: a, volcano.sh/vcjob-template-spec-hash: xw46fx28d8666769}, " +
        owner +
        "}\n"
        "spec: {minAvailable: 2, schedulerName: volcano, queue: default, maxRetry: 3, tasks: [{name: w, replicas: 2, "
        "minAvailable: 2, maxRetry: 3, template: {spec: {containers: [{name: c, image: busybox}]}}}]}\n");
    const auto job = *bench.job("h-a-0");
    const auto policy = *bench.policy("h-a-0");
    bench.restart();
    EXPECT_TRUE(bench.cluster.wait_until([&] {
      return bench.job("h-a-0")->string_at({"metadata", "labels", "volcano.sh/vcjob-template-spec-hash"}).size() ==
                 52 &&
             bench.policy("h-a-0")->string_at({"metadata", "labels", "volcano.sh/pp-spec-hash"}).size() == 52;
    }));
    EXPECT_EQ(*bench.job("h-a-0")->find("spec"), *job.find("spec"));
    EXPECT_EQ(*bench.policy("h-a-0")->find("spec"), *policy.find("spec"));
    EXPECT_EQ(bench.count_events("FailedUpdateVCJob"), 0);
  });
}

}  // namespace
}  // namespace basalt::controllers::hyperjob
