#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/encoding.h"
#include "controllers/manager/controller_manager.h"
#include "sim/scenario_rows.h"
#include "test/kube/data_place.h"
#include "test/kube/metadata_server.h"
#include "test/kube/scenario_program.h"

// The scenarios of data dependencies, the very tests that lie beside the code (see CMakeLists.txt for the files), on a
// real API server with a real admission server; and the plugin for Amoro against a metadata service over HTTP.

namespace basalt::test {
namespace {

using namespace std::chrono_literals;
using data::Plane;

// What is left out here, and why.
constexpr sim::LeftOutTest kLeftOut[] = {
    {"DataDependency.AThousandClaimsOfFiftyNamespacesAskOnce", "thousands of writes; a hundred claims are played"},
    {"DataDependency.AFlappingLocalityMovesAWorkloadRarely", "minutes are what it is about"},
    {"DataDependency.TheAgeOfWhatWaitsGrowsAndEnds", "minutes are what it is about"},
    {"DataDependency.AWorkloadWithoutAKindIsToldWhereTheSchemaLetsItPass", "it changes the schema for all others"},
    {"Resolver.TenThousandWhoWantToKnowAreOneQuestion", "it needs no server"},
};

// What the claim on a table says in the end.
struct Fate {
  std::string_view name;  // of the data, after "lake."
  std::string_view state;
};
constexpr std::string_view kIsBound = "Bound BindingSuccessful";
constexpr std::string_view kHasFailed = "Pending ResolutionFailed";
constexpr Fate kFates[] = {
    {"shop.ok", kIsBound},
    {"shop.odd name/100%", kIsBound},
    {"shop.flaky", kIsBound},
    {"shop.limited", kIsBound},
    {"shop.big", kIsBound},
    {"shop.external", kIsBound},
    {"shop.missing", "Pending DataSourceNotFound"},
    {"shop.nodatabase", "Pending DataSourceNotFound"},
    {"shop.unmapped", "Pending NoClusterMapping"},
    {"two", "Pending InvalidDataSourceName"},
    {"shop.four.parts", "Pending InvalidDataSourceName"},
    {"shop.proxy404", kHasFailed},
    {"shop.html", kHasFailed},
    {"shop.truncated", kHasFailed},
    {"shop.nolocation", kHasFailed},
    {"shop.wrongtype", kHasFailed},
    {"shop.endless", kHasFailed},
    {"shop.denied", kHasFailed},
    {"shop.forbidden", kHasFailed},
    {"shop.refused", kHasFailed},
    {"shop.external2", kHasFailed},
    {"shop.busy", kHasFailed},
    {"shop.slow", kHasFailed},
    {"shop.reset", kHasFailed},
    {"shop.half", kHasFailed},
    {"shop.redirect", kHasFailed},
};

TEST(DataHttpReal, AMetadataServiceThatFailsInEveryWay) {
  MetadataServer server;
  data::scenario(
      [&](Plane& plane) {
        plane.cluster.apply(
            "apiVersion: v1\nkind: Secret\nmetadata: {name: amoro, namespace: volcano-global}\ndata: {apiKey: " +
            base::base64_encode("key-4711") + ", secret: " + base::base64_encode("hush-hush-4712") + "}\n");
        plane.configure(
            R"({"endpoint":{"url":")" + server.url() +
            R"(","auth":{"type":"amoro-signature","secretRef":{"name":"amoro"}}},"dashboardFallback":true,)"
            R"("locationMapping":{"s3://warehouse/":["m1"]},)"
            R"("retryConfig":{"maxRetries":2,"initialBackoff":"20ms","maxBackoff":"50ms","timeout":"2s"}})");
        plane.bind("w");
        int number = 0;
        for (const Fate& fate : kFates)
          plane.claim("c" + std::to_string(number++), "lake." + std::string(fate.name), "nobody");
        plane.claim("steering", "lake.shop.ok");
        number = 0;
        for (const Fate& fate : kFates) {
          SCOPED_TRACE(fate.name);
          plane.wait_claim("c" + std::to_string(number++), std::string(fate.state), 100s);
        }
        ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
        EXPECT_EQ(server.number("calls lake.shop.ok"), 1);
        EXPECT_EQ(server.number("calls lake.shop.odd name/100%"), 1) << "the name arrives as it was written";
        EXPECT_EQ(server.number("calls lake.shop.missing"), 1) << "not asked for again at once";
        EXPECT_EQ(server.number("calls lake.shop.flaky"), 3);
        EXPECT_GE(server.number("limited"), 1000) << "Retry-After is honoured";
        std::string told = plane.logged();
        for (const auto& resource : {data::kClaims, sim::resources::kEvents}) {
          for (const json::Value& object : plane.cluster.list(resource, "default")) told += object.to_text();
        }
        for (const std::string word : {"key-4711", "hush-hush-4712", "secret-path"})
          EXPECT_EQ(told.find(word), std::string::npos) << word;
      },
      1, {.factories = data::plugin_factories()});
}

// The controller as the manager of controllers makes it, with all its plugins, and not as a test does.
TEST(DataManagerReal, AWorkloadIsHeldSteeredMovedAndReleased) {
  data::scenario(
      [](Plane& plane) {
        const auto tables = [&](const std::string& list) {
          plane.cluster.apply(
              "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano-global-datasource-plugins, namespace: "
              "volcano-global}\ndata: {static: '{\"tables\": " +
              list + "}'}\n");
        };
        tables("{}");
        kube::Metrics metrics;
        controllers::ManagerOptions options;
        options.controllers = {"datadependency-controller"};
        controllers::ControllerManager manager(plane.cluster.runtime(), plane.own_client(), Logger(), metrics, options);
        ASSERT_TRUE(manager.start({}).ok());
        plane.cluster.apply(
            "{apiVersion: datadependency.volcano.sh/v1alpha1, kind: DataSourceClaim, metadata: {name: late}, spec: "
            "{system: static, dataSourceType: table, dataSourceName: a.b.late, workload: {apiVersion: apps/v1, kind: "
            "Deployment, name: w}}}");
        EXPECT_TRUE(plane.wait_claim("late", "Pending DataSourceNotFound"));
        plane.bind("w", "{clusterAffinity: {exclude: [m3]}}");
        EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("w"); }));
        tables(R"({"a.b.late": ["m1"]})");
        EXPECT_TRUE(plane.wait_claim("late", "Bound BindingSuccessful"));
        EXPECT_TRUE(plane.wait_excluded("w", R"(["m3","m2"])"));
        EXPECT_TRUE(plane.cluster.wait_until([&] { return !plane.is_gated("w"); }));
        tables(R"({"a.b.late": ["m2"]})");
        EXPECT_TRUE(plane.wait_excluded("w", R"(["m3","m1"])"));
        plane.cluster.remove(data::kClaims, "default", "late");
        EXPECT_TRUE(plane.wait_claim("late", "gone"));
        EXPECT_EQ(plane.excluded("w"), R"(["m3"])");
        manager.stop();
      },
      1, {.starts = false});
}

// While nobody answers for it, no binding is made without its constraint, and what is overwritten the controller
// repairs.
TEST(DataAdmissionReal, AnAdmissionServerMayDieAndReturn) {
  data::scenario(
      [](Plane& plane) {
        auto& place = dynamic_cast<DataPlace&>(*sim::chosen_place());
        plane.system.put("prod.db.orders", {"m1"});
        plane.claim("c", "prod.db.orders");
        ASSERT_TRUE(plane.wait_admission("w", R"(["m2","m3"])"));
        plane.bind("w");
        plane.schedule("w", R"([{"name":"m1","replicas":1}])");
        place.kill_admission();
        EXPECT_FALSE(plane.cluster.try_create(plane.binding_text("v-deployment", "v")).ok());
        constexpr std::string_view kOverwrite = R"({"spec":{"placement":null}})";
        plane.cluster.patch(data::kBindings, "default", "w-deployment", kOverwrite);
        EXPECT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
        place.start_admission();
        ASSERT_TRUE(plane.wait_admission("w", R"(["m2","m3"])"));
        plane.cluster.patch(data::kBindings, "default", "w-deployment", kOverwrite);
        EXPECT_EQ(plane.excluded("w"), R"(["m2","m3"])") << "in the very write";
      },
      1, {.has_hook = true});
}

std::unique_ptr<sim::Place> open_cluster(std::string& error) {
  auto started = RealKube::start();
  error = started.error;
  if (!started.kube) return nullptr;
  auto place = std::make_unique<DataPlace>(std::move(started.kube));
  error = place->prepare();
  data::chosen_own_client() = &place->own_client();
  return place;
}

}  // namespace
}  // namespace basalt::test

int main(int count, char** arguments) {
  return basalt::test::run_scenarios(count, arguments,
                                     {.open = basalt::test::open_cluster,
                                      .close = [] { basalt::test::data::chosen_own_client() = nullptr; },
                                      .filter = basalt::sim::filter_without(basalt::test::kLeftOut)});
}
