// The controller on a simulated control plane. The plugin is played: it answers what the test says and counts calls.

#include "controllers/datadependency/test_support.h"

namespace basalt::controllers::datadependency {
namespace {

TEST(DataDependency, AClaimIsResolvedOnceAndSharedByAllThatNameTheTable) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1", "m2"});
    for (int i = 0; i < 20; ++i) plane.claim("c" + std::to_string(i), "prod.db.orders", "w" + std::to_string(i));
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(plane.wait_claim("c" + std::to_string(i), "Bound BindingSuccessful"));
    EXPECT_EQ(plane.system.calls, 1);
    EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == 20; }));
  });
}

TEST(DataDependency, TheWorkloadIsSteeredAndReleased) {
  scenario([](Plane& plane) {
    plane.configure_impatient();
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_claim("c", "Pending DataSourceNotFound"));
    plane.bind("w");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("w"); }));
    // The table appears; the next round finds it.
    plane.system.put("prod.db.orders", {"m2"});
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful", std::chrono::minutes(10)));
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m1","m3"])"));
    EXPECT_TRUE(plane.cluster.wait_until([&] { return !plane.is_gated("w"); }));
    plane.cluster.remove(kClaims, "default", "c");
    ASSERT_TRUE(plane.wait_claim("c", "gone"));
    EXPECT_TRUE(plane.wait_excluded("w", "none"));
    EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == 0; }));
  });
}

TEST(DataDependency, ComputeFollowsData) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
    plane.system.put("prod.db.orders", {"m3"});
    plane.cluster.patch(kSources, "", kOrders,
                        R"({"metadata":{"annotations":{"datadependency.volcano.sh/refresh":"now"}}})");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m1","m2"])"));
  });
}

TEST(DataDependency, AnOutageOfTheSystemEndsNothingAndIsSaid) {
  scenario([](Plane& plane) {
    plane.system.is_down = true;
    plane.configure_impatient();
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_claim("c", "Pending ResolutionFailed", std::chrono::minutes(5)));
    plane.let_pass(std::chrono::minutes(30));
    plane.system.is_down = false;
    plane.system.put("prod.db.orders", {"m1"});
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful", std::chrono::minutes(10)));
  });
}

TEST(DataDependency, ATableThatVanishesMovesNobody) {
  scenario([](Plane& plane) {
    plane.configure_impatient();
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
    plane.system.drop_all();
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.fresh(kOrders) == "False DataSourceNotFound"; }));
    plane.let_pass(std::chrono::minutes(10));
    EXPECT_EQ(plane.claim_state("c"), "Bound BindingSuccessful");
    EXPECT_EQ(plane.excluded("w"), R"(["m2","m3"])");
  });
}

TEST(DataDependency, ARestartWithAHundredBoundClaimsWritesNothing) {
  constexpr int kCount = 100;
  scenario(
      [](Plane& plane) {
        plane.system.put("prod.db.orders", {"m1"});
        for (int i = 0; i < kCount; ++i) {
          plane.claim("c" + std::to_string(i), "prod.db.orders", "w" + std::to_string(i));
          const std::string workload = "w" + std::to_string(i);
          plane.cluster.apply(plane.binding_text(workload + "-deployment", workload) +
                              "  clusters: [{name: m1, replicas: 1}]\n");
        }
        for (int i = 0; i < kCount; ++i) ASSERT_TRUE(plane.wait_excluded("w" + std::to_string(i), R"(["m2","m3"])"));
        plane.let_pass(std::chrono::seconds(10));
        const std::size_t before = plane.binding_writes();
        plane.restart();
        // It is at work again, and has seen everything.
        plane.claim("mark", "prod.db.orders", "mark");
        ASSERT_TRUE(plane.wait_claim("mark", "Bound BindingSuccessful"));
        plane.let_pass(std::chrono::minutes(1));
        EXPECT_EQ(plane.binding_writes(), before);
        for (const json::Value& binding : plane.cluster.list(kBindings, "default"))
          EXPECT_EQ(binding.find_path({"spec", "clusters"})->to_text(), R"([{"name":"m1","replicas":1}])");
      },
      1);
}

TEST(DataDependency, AnOverwrittenPlacementIsPutBack) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    plane.bind("w", "{clusterAffinity: {exclude: [m2]}}");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
    plane.cluster.patch(kBindings, "default", "w-deployment",
                        R"({"spec":{"placement":{"clusterAffinity":{"exclude":null}}}})");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
  });
}

TEST(DataDependency, TwoClaimsAreIntersectedAndContradictionsHold) {
  scenario([](Plane& plane) {
    plane.system.put("a.b.c", {"m1", "m2"});
    plane.system.put("a.b.d", {"m2", "m3"});
    plane.system.put("a.b.e", {"m3"});
    plane.claim("one", "a.b.c");
    plane.claim("two", "a.b.d");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m1","m3"])"));
    plane.cluster.remove(kClaims, "default", "two");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m3"])"));
    plane.claim("x1", "a.b.c", "v");
    plane.claim("x2", "a.b.e", "v");
    ASSERT_TRUE(plane.wait_claim("x2", "Bound BindingSuccessful"));
    plane.bind("v");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("v"); }));
    EXPECT_EQ(plane.excluded("v"), "none");
    for (const char* name : {"x1", "x2"}) {
      EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.placed(name) == "False NoFeasibleCluster"; }))
          << name << " says " << plane.placed(name);
    }
    EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.count_events("NoFeasibleCluster") > 0; }));
  });
}

TEST(DataDependency, AChangedReferenceCleansTheOldWorkload) {
  scenario([](Plane& plane) {
    plane.system.put("a.b.c", {"m1"});
    plane.bind("w");
    plane.bind("v");
    plane.claim("one", "a.b.c", "w");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
    plane.cluster.patch(kClaims, "default", "one", R"({"spec":{"workload":{"name":"v"}}})");
    ASSERT_TRUE(plane.wait_excluded("v", R"(["m2","m3"])"));
    ASSERT_TRUE(plane.wait_excluded("w", "none"));
  });
}

TEST(DataDependency, AChangedTableIsSwappedWithoutAGap) {
  scenario([](Plane& plane) {
    plane.system.put("a.b.c", {"m1"});
    plane.system.put("a.b.d", {"m2"});
    plane.bind("w");
    plane.claim("one", "a.b.c", "w");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
    bool had_gap = false;
    plane.cluster.patch(kClaims, "default", "one", R"({"spec":{"dataSourceName":"a.b.d"}})");
    ASSERT_TRUE(plane.cluster.wait_until([&] {
      had_gap = had_gap || plane.excluded("w") == "none";
      return plane.excluded("w") == R"(["m1","m3"])";
    }));
    EXPECT_FALSE(had_gap);
    EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims("amoro-table-a.b.c") == 0; }));
  });
}

TEST(DataDependency, ADeletedSourceIsLetGoAndMadeAgain) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
    const std::string uid(plane.cluster.get(kSources, "", kOrders)->string_at({"metadata", "uid"}));
    plane.cluster.remove(kSources, "", kOrders);
    ASSERT_TRUE(plane.cluster.wait_until([&] {
      const auto source = plane.cluster.get(kSources, "", kOrders);
      return source && source->string_at({"metadata", "uid"}) != uid;
    }));
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
  });
}

TEST(DataDependency, TheReclaimPolicyDecidesAfterTheLastClaim) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == 1; }));
    plane.cluster.patch(kSources, "", kOrders, R"({"spec":{"reclaimPolicy":"Delete"}})");
    plane.cluster.remove(kClaims, "default", "c");
    ASSERT_TRUE(plane.wait_claim("c", "gone"));
    ASSERT_TRUE(plane.cluster.wait_until([&] { return !plane.cluster.get(kSources, "", kOrders); }));
  });
}

TEST(DataDependency, ASourceMadeByHandNeedsNoPlugin) {
  scenario([](Plane& plane) {
    plane.cluster.apply(
        "apiVersion: datadependency.volcano.sh/v1alpha1\nkind: DataSource\nmetadata: {name: mine}\n"
        "spec: {system: other, type: table, name: t, locality: {clusterNames: [m3]}}\n");
    plane.cluster.apply(
        "apiVersion: datadependency.volcano.sh/v1alpha1\nkind: DataSourceClaim\nmetadata: {name: c}\n"
        "spec:\n  system: other\n  dataSourceType: table\n  dataSourceName: t\n"
        "  workload: {apiVersion: apps/v1, kind: Deployment, name: w}\n");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m1","m2"])"));
    EXPECT_EQ(plane.system.calls, 0);
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims("mine") == 1; }));
    EXPECT_EQ(plane.cluster.get(kSources, "", "mine")->find_path({"metadata", "finalizers"})->to_text(),
              R"(["datadependency.volcano.sh/datasource-finalizer"])");
  });
}

TEST(DataDependency, ClustersThatComeAreExcludedToo) {
  scenario([](Plane& plane) {
    plane.system.put("a.b.c", {"m1"});
    plane.claim("one", "a.b.c");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
    plane.add_cluster("m4");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3","m4"])"));
    plane.cluster.remove(kClusters, "", "m2");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m3","m4"])"));
  });
}

TEST(DataDependency, AnUnknownSystemIsNamedAndServedOnceItIsConfigured) {
  scenario([](Plane& plane) {
    plane.cluster.remove(sim::resources::kConfigMaps, "volcano-global", "volcano-global-datasource-plugins");
    plane.let_pass(std::chrono::seconds(5));
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_claim("c", "Pending ResolutionFailed"));
    plane.system.put("prod.db.orders", {"m1"});
    plane.configure(R"({"endpoint":{"url":"http://played"}})");
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
  });
}

}  // namespace
}  // namespace basalt::controllers::datadependency
