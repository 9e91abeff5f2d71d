// What else can happen to claims, data sources, bindings and plugins; see scenarios_test.cc for the main paths.

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "controllers/datadependency/test_support.h"

namespace basalt::controllers::datadependency {
namespace {

using namespace std::chrono_literals;

constexpr const char* kOnM1 = R"(["m2","m3"])";
constexpr const char* kRefresh = R"({"metadata":{"annotations":{"datadependency.volcano.sh/refresh":")";

void refresh(Plane& plane, const std::string& wish) {
  plane.cluster.patch(kSources, "", kOrders, kRefresh + wish + R"("}}})");
}

// A claim, its binding, and the table on m1.
void steer(Plane& plane, const std::string& placement = "{}") {
  plane.system.put("prod.db.orders", {"m1"});
  plane.claim("c", "prod.db.orders");
  plane.bind("w", placement);
  ASSERT_TRUE(plane.wait_excluded("w", kOnM1));
}

TEST(DataDependencyAdmission, ANewBindingIsConstrainedBeforeAnybodySeesIt) {
  scenario(
      [](Plane& plane) {
        plane.system.put("prod.db.orders", {"m1"});
        plane.claim("c", "prod.db.orders");
        ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
        ASSERT_TRUE(plane.wait_admission("w", kOnM1));
        plane.bind("w");
        EXPECT_EQ(plane.excluded("w"), kOnM1);
        EXPECT_FALSE(plane.is_gated("w"));
        const std::size_t before = plane.binding_writes();
        plane.let_pass(1min);
        EXPECT_EQ(plane.binding_writes(), before) << "the controller has nothing to add";
        EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.placed("c") == "True Injected"; }));
      },
      3, {.has_hook = true});
}

TEST(DataDependencyAdmission, AnUnresolvedClaimHoldsANewBindingAndTakesItsChoiceBack) {
  scenario(
      [](Plane& plane) {
        plane.system.is_down = true;
        plane.configure_impatient();
        plane.claim("c", "prod.db.orders");
        ASSERT_TRUE(plane.wait_claim("c", "Pending ResolutionFailed", 5min));
        ASSERT_TRUE(plane.wait_admission("w", "held"));
        plane.cluster.apply(
            plane.binding_text("w-deployment", "w") +
            "  clusters: [{name: m3, replicas: 1}]\n  suspension: {dispatchingOnClusters: {clusterNames: [m2]}}\n");
        const auto held = plane.cluster.get(kBindings, "default", "w-deployment");
        EXPECT_TRUE(plane.is_gated("w"));
        EXPECT_EQ(held->find_path({"spec", "clusters"}), nullptr);
        plane.system.is_down = false;
        plane.system.put("prod.db.orders", {"m1"});
        ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful", 10min));
        ASSERT_TRUE(plane.wait_excluded("w", kOnM1));
        ASSERT_TRUE(plane.cluster.wait_until([&] { return !plane.is_gated("w"); }));
        // What the policy suspends is the policy's.
        const auto released = plane.cluster.get(kBindings, "default", "w-deployment");
        EXPECT_NE(released->find_path({"spec", "suspension", "dispatchingOnClusters"}), nullptr);
      },
      3, {.has_hook = true});
}

TEST(DataDependencyAdmission, AnOverwriteIsNeverVisible) {
  scenario(
      [](Plane& plane) {
        steer(plane);
        plane.schedule("w", R"([{"name":"m1","replicas":1}])");
        ASSERT_TRUE(plane.wait_admission("w", kOnM1));
        for (int i = 0; i < 20; ++i) {
          // Karmada's detector: the policy's placement, annotations merged.
          plane.cluster.patch(kBindings, "default", "w-deployment", R"({"spec":{"placement":null}})");
          EXPECT_EQ(plane.excluded("w"), kOnM1) << "in the very write";
        }
        // A policy's own change stays, ours is added again.
        plane.cluster.patch(kBindings, "default", "w-deployment",
                            R"({"spec":{"placement":{"clusterAffinity":{"exclude":["m3"],"clusterNames":["m1"]}}}})");
        EXPECT_EQ(plane.excluded("w"), R"(["m3","m2"])");
      },
      3, {.has_hook = true});
}

TEST(DataDependency, AFinishedJobIsNeverMoved) {
  scenario([](Plane& plane) {
    steer(plane);
    plane.schedule("w", R"([{"name":"m1","replicas":1}])");
    plane.cluster.patch(kBindings, "default", "w-deployment",
                        R"({"status":{"aggregatedStatus":[{"clusterName":"m1","applied":true,
                        "status":{"state":{"phase":"Completed"}}}]}})",
                        "status");
    plane.let_pass(1s);
    const std::size_t before = plane.binding_writes();
    plane.system.put("prod.db.orders", {"m2"});
    refresh(plane, "1");
    plane.restart();
    plane.cluster.patch(kClaims, "default", "c", R"({"metadata":{"labels":{"a":"b"}}})");
    plane.let_pass(10min);
    EXPECT_EQ(plane.excluded("w"), kOnM1);
    EXPECT_EQ(plane.binding_writes(), before);
    plane.cluster.remove(kClaims, "default", "c");
    ASSERT_TRUE(plane.wait_claim("c", "gone"));
    EXPECT_EQ(plane.excluded("w"), kOnM1) << "or Karmada would choose again, and the job run again";
  });
}

TEST(DataDependency, AWiderLocalityMovesNobodyAndAForbiddenClusterMovesOnce) {
  scenario([](Plane& plane) {
    steer(plane);
    plane.schedule("w", R"([{"name":"m1","replicas":1}])");
    plane.system.put("prod.db.orders", {"m1", "m2"});
    refresh(plane, "1");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m3"])"));
    EXPECT_EQ(plane.count_events("Rescheduled"), 0u);
    plane.system.put("prod.db.orders", {"m2"});
    refresh(plane, "2");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m1","m3"])"));
    const auto binding = plane.cluster.get(kBindings, "default", "w-deployment");
    EXPECT_EQ(binding->find_path({"spec", "clusters"})->to_text(), R"([{"name":"m1","replicas":1}])")
        << "what is chosen is Karmada's business";
    EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.count_events("Rescheduled") == 1; }));
  });
}

TEST(DataDependency, AFlappingLocalityMovesAWorkloadRarely) {
  scenario(
      [](Plane& plane) {
        steer(plane);
        plane.schedule("w", R"([{"name":"m1","replicas":1}])");
        plane.let_pass(1s);
        int moves = 0;
        std::string at = "m1";
        for (int i = 0; i < 40; ++i) {  // over twenty minutes; the scheduler follows
          plane.system.put("prod.db.orders", {i % 2 == 0 ? "m2" : "m3"});
          refresh(plane, std::to_string(i));
          plane.let_pass(30s);
          const std::string excluded = plane.excluded("w");
          for (const std::string name : {"m1", "m2", "m3"}) {
            if (excluded.find(name) == std::string::npos && at != name) {
              at = name;
              ++moves;
              plane.schedule("w", R"([{"name":")" + name + R"(","replicas":1}])");
            }
          }
        }
        EXPECT_LE(moves, 5);
        EXPECT_GE(moves, 2);
      },
      3);
}

TEST(DataDependency, TheGateWaitsForEveryClaimAndContradictionsEvictNobody) {
  scenario([](Plane& plane) {
    plane.configure_impatient();
    plane.system.put("a.b.c", {"m1"});
    plane.claim("one", "a.b.c");
    plane.claim("two", "a.b.d");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_claim("two", "Pending DataSourceNotFound"));
    ASSERT_TRUE(plane.wait_claim("one", "Bound BindingSuccessful"));
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("w"); }));
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.placed("one") == "False WaitingForBinding"; }));
    plane.system.put("a.b.d", {"m1", "m3"});
    ASSERT_TRUE(plane.cluster.wait_until([&] { return !plane.is_gated("w"); }, 10min));
    EXPECT_EQ(plane.excluded("w"), kOnM1);
    plane.schedule("w", R"([{"name":"m1","replicas":1}])");
    // The data of one goes elsewhere: the workload runs on where it is, and the claims say so.
    plane.system.put("a.b.d", {"m3"});
    plane.cluster.patch(kSources, "", "amoro-table-a.b.d", kRefresh + std::string("x") + R"("}}})");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.placed("one") == "False NoFeasibleCluster"; }));
    EXPECT_EQ(plane.excluded("w"), kOnM1);
    EXPECT_FALSE(plane.is_gated("w"));
  });
}

TEST(DataDependency, AClaimAfterTheWorkloadMovesItAndTellsSo) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.bind("w", "{clusterAffinity: {exclude: [m2]}}");
    plane.schedule("w", R"([{"name":"m3","replicas":1}])");
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_excluded("w", kOnM1));
    EXPECT_FALSE(plane.is_gated("w")) << "what runs is not suspended";
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.placed("c") == "True Injected"; }));
    const auto binding = plane.cluster.get(kBindings, "default", "w-deployment");
    EXPECT_EQ(binding->string_at({"metadata", "annotations", kExcludedAnnotation}), "m2,m3");
    EXPECT_EQ(binding->string_at({"metadata", "annotations", kInjectedAnnotation}), "true");
    plane.cluster.remove(kClaims, "default", "c");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2"])"));
    const auto after = plane.cluster.get(kBindings, "default", "w-deployment");
    for (const std::string_view key : {kInjectedAnnotation, kExcludedAnnotation, kRecordAnnotation, kGatedAnnotation})
      EXPECT_EQ(after->find_path({"metadata", "annotations", key}), nullptr) << key;
  });
}

TEST(DataDependency, APolicyThatForbidsTheDatasClusterIsTold) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    plane.bind("w", "{clusterAffinity: {clusterNames: [m3]}}");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.placed("c") == "False NoFeasibleCluster"; }));
    EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.count_events("NoFeasibleCluster") > 0; }));
  });
}

TEST(DataDependency, AnotherControllersSuspensionStays) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.cluster.apply(plane.binding_text("w-deployment", "w") + "  suspension: {scheduling: true}\n");
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_excluded("w", kOnM1));
    plane.let_pass(1min);
    EXPECT_TRUE(plane.is_gated("w")) << "the dispatcher suspended it, the dispatcher releases it";
  });
}

TEST(DataDependency, ClaimsThatCannotSteerSaySo) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.cluster.apply(
        "apiVersion: datadependency.volcano.sh/v1alpha1\nkind: DataSourceClaim\nmetadata: {name: ns}\n"
        "spec: {system: amoro, dataSourceType: table, dataSourceName: prod.db.orders,"
        " workload: {apiVersion: v1, kind: Namespace, name: space}}\n");
    plane.cluster.apply(
        "apiVersion: datadependency.volcano.sh/v1alpha1\nkind: DataSourceClaim\nmetadata: {name: far}\n"
        "spec: {system: amoro, dataSourceType: table, dataSourceName: prod.db.orders,"
        " workload: {apiVersion: apps/v1, kind: Deployment, name: w, namespace: other}}\n");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.placed("ns") == "False NotSupportedKind"; }));
    ASSERT_TRUE(plane.wait_claim("far", "Pending InvalidWorkloadRef"));
    // A claim that names no namespace means its own.
    plane.claim("c", "prod.db.orders");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", kOnM1));
    // One that becomes invalid steers no longer, and does not say that it does.
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.placed("c") == "True Injected"; }));
    plane.cluster.patch(kClaims, "default", "c", R"({"spec":{"workload":{"namespace":"other"}}})");
    ASSERT_TRUE(plane.wait_claim("c", "Pending InvalidWorkloadRef"));
    EXPECT_EQ(plane.placed("c"), "");
    ASSERT_TRUE(plane.wait_excluded("w", "none"));
  });
}

TEST(DataDependency, RefreshesThatBringNothingWriteNothing) {
  scenario([](Plane& plane) {
    plane.configure_impatient();
    plane.system.put("prod.db.orders", {"m1", "m2"});
    plane.claim("c", "prod.db.orders", "w", "  attributes: {}\n");
    plane.claim("d", "prod.db.orders", "v");
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.fresh(kOrders) == "True Refreshed"; }));
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == 2; }));
    plane.let_pass(1s);
    const auto version = [&] {
      return std::string(plane.cluster.get(kSources, "", kOrders)->string_at({"metadata", "resourceVersion"}));
    };
    const std::string before = version();
    plane.system.put("prod.db.orders", {"m2", "m1"});
    const int calls = plane.system.calls;
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.system.calls >= calls + 3; }));
    EXPECT_EQ(version(), before);
    plane.system.put("prod.db.orders", {});
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.fresh(kOrders) == "False RefreshFailed"; }));
    EXPECT_EQ(plane.cluster.get(kSources, "", kOrders)->find_path({"spec", "locality", "clusterNames"})->to_text(),
              R"(["m1","m2"])")
        << "nowhere is never written";
    plane.system.drop_all();
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.fresh(kOrders) == "False DataSourceNotFound"; }, 10min));
    EXPECT_EQ(plane.cluster.get(kSources, "", kOrders)->find_path({"spec", "locality", "clusterNames"})->to_text(),
              R"(["m1","m2"])");
  });
}

TEST(DataDependency, APluginThatIsRemovedLeavesConstraintsAlone) {
  scenario([](Plane& plane) {
    steer(plane);
    plane.cluster.remove(sim::resources::kConfigMaps, "volcano-global", "volcano-global-datasource-plugins");
    plane.let_pass(20min);
    EXPECT_EQ(plane.excluded("w"), kOnM1);
    EXPECT_EQ(plane.claim_state("c"), "Bound BindingSuccessful");
    EXPECT_LE(plane.system.calls, 2);
  });
}

TEST(DataDependency, AnIdleSourceThatIsDeletedWhileNobodyWatchesGoes) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == 1; }));
    plane.cluster.remove(kClaims, "default", "c");
    ASSERT_TRUE(plane.wait_claim("c", "gone"));
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == 0; }));
    plane.end();
    plane.cluster.remove(kSources, "", kOrders);
    ASSERT_TRUE(plane.cluster.get(kSources, "", kOrders)) << "the finalizer holds it";
    plane.restart();
    ASSERT_TRUE(plane.cluster.wait_until([&] { return !plane.cluster.get(kSources, "", kOrders); }));
  });
}

TEST(DataDependency, ALeaderChangeDuringAResolutionAsksAtMostTwice) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.system.delay = 2s;
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.system.calls == 1; }));
    plane.restart();
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
    EXPECT_LE(plane.system.calls, 2);
    EXPECT_EQ(plane.cluster.list(kSources, "").size(), 1u);
  });
}

TEST(DataDependency, MountedFilesAreReadAgainWhenTheyAreSwapped) {
  const std::string folder = ::testing::TempDir() + "/basalt-plugins-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/.." + name, std::ios::binary) << text;
    std::filesystem::rename(folder + "/.." + name, folder + "/" + name);
  };
  scenario(
      [&](Plane& plane) {
        plane.cluster.remove(sim::resources::kConfigMaps, "volcano-global", "volcano-global-datasource-plugins");
        std::filesystem::remove(folder + "/amoro");
        plane.claim("c", "prod.db.orders");
        ASSERT_TRUE(plane.wait_claim("c", "Pending ResolutionFailed"));
        plane.system.put("prod.db.orders", {"m1"});
        write("amoro", R"({"endpoint":{"url":"http://played"}})");
        ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
        plane.system.put("prod.db.orders", {"m2"});
        const int calls = plane.system.calls;
        write("amoro", R"({"endpoint":{"url":"http://elsewhere"}})");
        EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.system.calls > calls; }, 1min));
      },
      2, {.has_hook = false, .config_folder = folder});
  std::filesystem::remove_all(folder);
}

// No call to a metadata service is on the way of a workload whose data is known, or of a claim that goes.
TEST(DataDependency, ASystemThatNeverAnswersHoldsUpNobodyElse) {
  scenario(
      [](Plane& plane) {
        steer(plane);
        plane.system.delay = 24h;
        for (int i = 0; i < 20; ++i) plane.claim("hung" + std::to_string(i), "a.b.t" + std::to_string(i), "h");
        ASSERT_TRUE(plane.wait_claim("hung19", "Pending Resolving"));
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.system.calls >= 5; }));  // all threads hang
        const rt::Instant begin = plane.cluster.runtime().now();
        plane.claim("d", "prod.db.orders", "v");
        ASSERT_TRUE(plane.wait_claim("d", "Bound BindingSuccessful"));
        ASSERT_TRUE(plane.wait_admission("v", kOnM1));
        ASSERT_TRUE(plane.wait_admission("h", "held"));
        plane.bind("v");
        EXPECT_EQ(plane.excluded("v"), kOnM1) << "admission asks nobody outside";
        plane.bind("free");
        EXPECT_FALSE(plane.is_gated("free"));
        plane.bind("h");
        EXPECT_TRUE(plane.is_gated("h"));
        plane.cluster.remove(kClaims, "default", "hung3");
        ASSERT_TRUE(plane.wait_claim("hung3", "gone"));
        EXPECT_LT(plane.cluster.runtime().now() - begin, 60s);
        EXPECT_LE(plane.system.calls, 5) << "four threads, one call each, and the first table";
      },
      3, {.has_hook = true});
}

TEST(DataDependency, ConflictsWithASchedulerThatWritesAllTheTimeEnd) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.bind("w");
    plane.claim("c", "prod.db.orders");
    for (int i = 0; i < 50; ++i) {
      plane.cluster.patch(kBindings, "default", "w-deployment",
                          R"({"metadata":{"annotations":{"scheduler":")" + std::to_string(i) + R"("}}})");
      plane.let_pass(2ms);
    }
    ASSERT_TRUE(plane.wait_excluded("w", kOnM1));
  });
}

}  // namespace
}  // namespace basalt::controllers::datadependency
