// Claims from their first moment on, names, configurations, terms of a policy, kinds; see scenarios_test.cc for the
// main paths.

#include <cstdlib>

#include "controllers/datadependency/resolver.h"
#include "controllers/datadependency/test_support.h"
#include "rt/test_size.h"

namespace basalt::controllers::datadependency {
namespace {

using namespace std::chrono_literals;

constexpr const char* kOnM1 = R"(["m2","m3"])";

TEST(DataDependency, AClaimGetsAFinalizerAPhaseAndOneQuestion) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1", "m2"});
    plane.system.delay = 1s;
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_claim("c", "Pending Resolving"));
    EXPECT_EQ(plane.cluster.get(kClaims, "default", "c")->find_path({"metadata", "finalizers"})->to_text(),
              R"(["datadependency.volcano.sh/finalizer"])");
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
    const auto source = plane.cluster.get(kSources, "", kOrders);
    ASSERT_TRUE(source);
    EXPECT_EQ(source->find_path({"metadata", "finalizers"})->to_text(),
              R"(["datadependency.volcano.sh/datasource-finalizer"])");
    EXPECT_EQ(source->string_at({"spec", "reclaimPolicy"}), "Retain");
    EXPECT_EQ(source->find_path({"spec", "locality", "clusterNames"})->to_text(), R"(["m1","m2"])");
    const auto bound = plane.cluster.get(kClaims, "default", "c");
    EXPECT_EQ(bound->string_at({"status", "boundDataSource"}), kOrders);
    EXPECT_EQ(plane.system.calls, 1);
  });
}

TEST(DataDependency, AThousandClaimsOfFiftyNamespacesAskOnce) {
  const int count = rt::test_size(1000);
  constexpr int kNamespaces = 50;
  scenario(
      [count](Plane& plane) {
        plane.system.put("prod.db.orders", {"m1"});
        for (int i = 0; i < kNamespaces; ++i)
          plane.cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: n" + std::to_string(i) + "}}");
        for (int i = 0; i < count; ++i) {
          plane.cluster.apply(
              "{apiVersion: datadependency.volcano.sh/v1alpha1, kind: DataSourceClaim, metadata: {name: c" +
              std::to_string(i) + ", namespace: n" + std::to_string(i % kNamespaces) +
              "}, spec: {system: amoro, dataSourceType: table, dataSourceName: prod.db.orders, workload: {apiVersion: "
              "apps/v1, kind: Deployment, name: w}}}");
        }
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == count; }));
        EXPECT_EQ(plane.system.calls, 1);
        EXPECT_EQ(plane.cluster.list(kSources).size(), 1U);
        // Its status names those that came together in one write.
        std::size_t writes = 0;
        for (const std::string& call : plane.faults.call_log())
          writes += call.starts_with("Patch") && call.find("datasources") != std::string::npos ? 1 : 0;
        EXPECT_GE(writes, 1U);
        EXPECT_LT(writes, 100U);
      },
      1);
}

TEST(DataDependency, ADataSourceNamesSomeOfItsClaimsAndCountsAll) {
  constexpr int kCount = 8;
  constexpr std::size_t kNamed = 3;
  scenario(
      [](Plane& plane) {
        const auto named = [&] {
          std::vector<std::string> names;
          const auto source = plane.cluster.get(kSources, "", kOrders);
          const json::Value* refs = source ? source->find_path({"status", "claimRefs"}) : nullptr;
          if (refs == nullptr) return names;
          for (const json::Value& ref : refs->as_array()) names.emplace_back(ref.string_at({"name"}));
          return names;
        };
        plane.system.put("prod.db.orders", {"m1"});
        for (int i = 0; i < kCount; ++i)
          plane.claim("c" + std::to_string(i), "prod.db.orders", "w" + std::to_string(i));
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == kCount; }));
        EXPECT_EQ(named(), (std::vector<std::string>{"c0", "c1", "c2"}));
        for (const char* name : {"c1", "c7"}) {
          plane.cluster.remove(kClaims, "default", name);
          ASSERT_TRUE(plane.wait_claim(name, "gone"));
        }
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == kCount - 2; }));
        EXPECT_EQ(named(), (std::vector<std::string>{"c0", "c2", "c3"}));
        plane.cluster.patch(kSources, "", kOrders, R"({"spec":{"reclaimPolicy":"Delete"}})");
        for (int i = 0; i < kCount; ++i) plane.cluster.remove(kClaims, "default", "c" + std::to_string(i));
        ASSERT_TRUE(plane.cluster.wait_until([&] { return !plane.cluster.get(kSources, "", kOrders); }));
      },
      2, {.claim_refs_max = kNamed});
}

// However many want to know at the same time, while the answer takes its time.
TEST(Resolver, TenThousandWhoWantToKnowAreOneQuestion) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    PlayedSystem system;
    played_system = &system;
    system.put("prod.db.orders", {"m1"});
    system.delay = 10s;
    kube::Metrics metrics;
    Resolver resolver(
        runtime, Logger(), metrics, {}, [](const std::string&) {}, [](const std::string&) { return true; });
    resolver.set_plugins({{"amoro", {std::make_shared<PlayedPlugin>(runtime, ""), {}, 5min}}}, {});
    resolver.start();
    const DataIdentity identity{"amoro", "table", "prod.db.orders", {}};
    for (int i = 0; i < 10'000; ++i) {
      resolver.want(identity);
      if (i % 1000 == 0) runtime.sleep_for(100ms);
    }
    runtime.sleep_for(1min);
    EXPECT_EQ(system.calls, 1);
    const auto answer = resolver.answer(identity.key());
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->resolution.clusters, std::vector<std::string>{"m1"});
    resolver.stop();
    played_system = nullptr;
  });
}

TEST(DataDependency, ANameThatNoObjectMayHaveIsBoundAllTheSame) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.User_Table", {"m1"});
    plane.claim("c", "prod.db.User_Table");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", kOnM1));
    const auto sources = plane.cluster.list(kSources);
    ASSERT_EQ(sources.size(), 1U);
    EXPECT_TRUE(sources[0].string_at({"metadata", "name"}).starts_with("amoro-table-prod.db.user-table-"))
        << sources[0].to_text();
    EXPECT_EQ(sources[0].string_at({"spec", "name"}), "prod.db.User_Table");
  });
}

TEST(DataDependency, AChangedConfigurationIsFollowedAtOnce) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", kOnM1));
    plane.system.put("prod.db.orders", {"m2"});
    plane.configure(R"({"endpoint":{"url":"http://played"},"locationMapping":{"s3://a/":["m2"]}})");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m1","m3"])")) << "long before the next refresh";
  });
}

TEST(DataDependency, EveryTermOfAPolicyIsConstrainedAndFreedAgain) {
  scenario([](Plane& plane) {
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    plane.bind("w", "{clusterAffinities: [{affinityName: a}, {affinityName: b, exclude: [m3]}]}");
    const auto terms = [&] {
      const auto binding = plane.cluster.get(kBindings, "default", "w-deployment");
      EXPECT_EQ(binding->find_path({"spec", "placement", "clusterAffinity"}), nullptr);
      return binding->find_path({"spec", "placement", "clusterAffinities"})->to_text();
    };
    EXPECT_TRUE(plane.cluster.wait_until([&] {
      return terms() == R"([{"affinityName":"a","exclude":["m2","m3"]},{"affinityName":"b","exclude":["m3","m2"]}])";
    })) << terms();
    plane.cluster.remove(kClaims, "default", "c");
    ASSERT_TRUE(plane.wait_claim("c", "gone"));
    EXPECT_TRUE(plane.cluster.wait_until([&] {
      return terms() == R"([{"affinityName":"a"},{"affinityName":"b","exclude":["m3"]}])";
    })) << terms();
  });
}

// Karmada's controllers start anew and write the placement of every binding.
TEST(DataDependencyAdmission, AllBindingsOverwrittenAtOnceKeepTheirConstraint) {
  constexpr int kCount = 10;
  scenario(
      [](Plane& plane) {
        plane.system.put("prod.db.orders", {"m1"});
        for (int i = 0; i < kCount; ++i) {
          plane.claim("c" + std::to_string(i), "prod.db.orders", "w" + std::to_string(i));
          plane.bind("w" + std::to_string(i));
        }
        for (int i = 0; i < kCount; ++i) {
          const std::string workload = "w" + std::to_string(i);
          ASSERT_TRUE(plane.wait_excluded(workload, kOnM1));
          plane.schedule(workload, R"([{"name":"m1","replicas":1}])");
          ASSERT_TRUE(plane.wait_admission(workload, kOnM1));
        }
        for (int i = 0; i < kCount; ++i) {
          const json::Value stored = plane.cluster.patch(kBindings, "default", "w" + std::to_string(i) + "-deployment",
                                                         R"({"spec":{"placement":{"clusterAffinity":null}}})");
          EXPECT_EQ(stored.find_path({"spec", "placement", "clusterAffinity", "exclude"})->to_text(), kOnM1);
          EXPECT_EQ(stored.find_path({"spec", "clusters"})->to_text(), R"([{"name":"m1","replicas":1}])");
        }
      },
      2, {.has_hook = true});
}

TEST(DataDependency, AWorkloadWithoutAKindIsRefused) {
  scenario([](Plane& plane) {
    const auto refused = plane.cluster.try_create(
        "{apiVersion: datadependency.volcano.sh/v1alpha1, kind: DataSourceClaim, metadata: {name: odd}, spec: {system: "
        "amoro, dataSourceType: table, dataSourceName: a.b.c, workload: {apiVersion: apps/v1, kind: '', name: w}}}");
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("spec.workload.kind"), std::string::npos) << refused.error().message;
  });
}

// Of a schema that lets it pass, as other installations have it.
TEST(DataDependency, AWorkloadWithoutAKindIsToldWhereTheSchemaLetsItPass) {
  scenario([](Plane& plane) {
    const kube::Resource crds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};
    const std::string name = "datasourceclaims.datadependency.volcano.sh";
    json::Value crd = *plane.cluster.get(crds, "", name);
    for (json::Value& version : crd.find_path({"spec", "versions"})->as_array()) {
      json::Value* properties = version.find_path(
          {"schema", "openAPIV3Schema", "properties", "spec", "properties", "workload", "properties"});
      ASSERT_NE(properties, nullptr);
      properties->find("kind")->as_object().erase("minLength");
    }
    plane.cluster.patch(crds, "", name, json::Value(json::Object{{"spec", *crd.find("spec")}}).to_text());
    plane.cluster.apply(
        "{apiVersion: datadependency.volcano.sh/v1alpha1, kind: DataSourceClaim, metadata: {name: odd}, spec: {system: "
        "amoro, dataSourceType: table, dataSourceName: a.b.c, workload: {apiVersion: apps/v1, kind: '', name: w}}}");
    ASSERT_TRUE(plane.wait_claim("odd", "Pending InvalidWorkloadRef"));
    // The controller is alive.
    plane.system.put("prod.db.orders", {"m1"});
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
    plane.cluster.remove(kClaims, "default", "odd");
    ASSERT_TRUE(plane.wait_claim("odd", "gone"));
  });
}

TEST(DataDependency, EveryKindOfWorkloadInANamespaceIsHeld) {
  scenario([](Plane& plane) {
    plane.configure_impatient();
    plane.cluster.apply(
        "{apiVersion: datadependency.volcano.sh/v1alpha1, kind: DataSourceClaim, metadata: {name: c}, spec: {system: "
        "amoro, dataSourceType: table, dataSourceName: prod.db.orders, workload: {apiVersion: apps/v1, kind: "
        "StatefulSet, name: s}}}");
    plane.cluster.apply(
        "{apiVersion: work.karmada.io/v1alpha2, kind: ResourceBinding, metadata: {name: s-deployment}, spec: "
        "{resource: {apiVersion: apps/v1, kind: StatefulSet, namespace: default, name: s}, placement: {}}}");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("s"); }));
    plane.system.put("prod.db.orders", {"m1"});
    ASSERT_TRUE(plane.wait_excluded("s", kOnM1));
    EXPECT_TRUE(plane.cluster.wait_until([&] { return !plane.is_gated("s"); }));
  });
}

TEST(DataDependency, AWorkloadThatIsHeldGoesFreeWithItsLastClaim) {
  scenario([](Plane& plane) {
    plane.claim("one", "prod.db.orders");
    plane.claim("two", "prod.db.clicks");
    plane.bind("w");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("w"); }));
    plane.cluster.remove(kClaims, "default", "one");
    ASSERT_TRUE(plane.wait_claim("one", "gone"));
    plane.let_pass(1s);
    EXPECT_TRUE(plane.is_gated("w")) << "the other one still waits";
    plane.cluster.remove(kClaims, "default", "two");
    EXPECT_TRUE(plane.cluster.wait_until([&] { return !plane.is_gated("w"); }));
    EXPECT_EQ(plane.excluded("w"), "none");
    ASSERT_TRUE(plane.wait_claim("two", "gone"));
  });
}

TEST(DataDependency, TheAgeOfWhatWaitsGrowsAndEnds) {
  scenario([](Plane& plane) {
    const auto age = [&] {
      const std::string text = plane.metrics();
      const std::string name = "\ndatadependency_gated_oldest_seconds ";
      const std::size_t at = text.find(name);
      return at == std::string::npos ? -1.0 : std::strtod(text.c_str() + at + name.size(), nullptr);
    };
    plane.configure_impatient();
    plane.claim("c", "prod.db.orders");
    plane.bind("w");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("w"); }));
    plane.let_pass(5min);
    plane.claim("later", "prod.db.orders", "v");
    plane.bind("v");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("v"); }));
    plane.let_pass(1min);
    EXPECT_GE(age(), 340);  // of the first, and at most ten seconds old
    EXPECT_LE(age(), 380);
    // A controller that starts later knows it as well.
    plane.restart();
    plane.let_pass(1min);
    EXPECT_GE(age(), 400);
    plane.system.put("prod.db.orders", {"m1"});
    ASSERT_TRUE(plane.wait_excluded("w", kOnM1));
    EXPECT_TRUE(plane.cluster.wait_until([&] { return age() == 0; })) << plane.metrics();
  });
}

}  // namespace
}  // namespace basalt::controllers::datadependency
