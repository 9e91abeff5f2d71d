// The controller on a simulated control plane. The plugin is played: it answers what the test says and counts calls.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "controllers/datadependency/data_controller.h"
#include "controllers/datadependency/placement.h"
#include "crds/crds.h"
#include "kube/fault_client.h"
#include "rt/sim_test_support.h"
#include "sim/cluster.h"

namespace basalt::controllers::datadependency {
namespace {

const kube::Resource kClaims{"datadependency.volcano.sh", "v1alpha1", "datasourceclaims"};
const kube::Resource kSources{"datadependency.volcano.sh", "v1alpha1", "datasources"};
const kube::Resource kBindings{"work.karmada.io", "v1alpha2", "resourcebindings"};
const kube::Resource kClusters{"cluster.karmada.io", "v1alpha1", "clusters"};

// What the played system knows. One simulation runs at a time.
struct PlayedSystem {
  std::map<std::string, std::vector<std::string>> tables;
  bool is_down = false;
  int calls = 0;
};
PlayedSystem* played_system = nullptr;

class PlayedPlugin final : public DataSourcePlugin {
 public:
  Resolution locate(const DataIdentity& identity, const rt::StopToken&) override {
    ++played_system->calls;
    if (played_system->is_down) return {ResolutionKind::Unavailable, {}, "the server did not answer", {}};
    const auto found = played_system->tables.find(identity.name);
    if (found == played_system->tables.end()) return {ResolutionKind::NotFound, {}, "there is no such table", {}};
    return {ResolutionKind::Found, found->second, "", {}};
  }
};

Result<std::unique_ptr<DataSourcePlugin>> make_played(PluginContext) {
  return std::unique_ptr<DataSourcePlugin>(std::make_unique<PlayedPlugin>());
}

// A control plane with three clusters; the controller runs on a client that can fail.
class Plane {
 public:
  explicit Plane(rt::Runtime& runtime)
      : runtime_(runtime),
        memory_(std::make_shared<CollectingLogSink>()),
        log_(memory_, LogLevel::Warn),
        cluster(runtime),
        faults(runtime, cluster.client()) {
    played_system = &system;
    BASALT_CHECK(crds::install_karmada(runtime, cluster.client(), {}).ok());
    for (const char* name : {"m1", "m2", "m3"}) add_cluster(name);
    cluster.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: volcano-global}\n");
    configure(R"({"endpoint":{"url":"http://played"}})");
    restart();
  }
  ~Plane() {
    end();
    cluster.stop();
    played_system = nullptr;
  }

  void end() {
    if (!controller_) return;
    controller_->stop();
    controller_.reset();
    informers_->stop();
    informers_.reset();
    events_->stop(std::chrono::seconds(0));
  }
  void restart() {
    end();
    events_ = std::make_unique<kube::EventRecorder>(runtime_, faults, log_,
                                                    kube::EventRecorder::Options{.component = "test"});
    events_->start();
    informers_ = std::make_unique<SharedInformers>(runtime_, faults, log_, &metrics_);
    context_ =
        std::make_unique<ControllerContext>(ControllerContext{runtime_, faults, log_, *events_, metrics_, *informers_});
    DataControllerOptions options;
    options.factories = {{"amoro", &make_played}};
    controller_ = make_data_controller(*context_, options);
    informers_->start();
    controller_->start();
  }
  void configure(const std::string& document) {
    cluster.apply(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano-global-datasource-plugins, namespace: "
        "volcano-global}\ndata: {amoro: '" +
        document + "'}\n");
  }
  void add_cluster(const std::string& name) {
    cluster.apply("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: " + name +
                  "}\nspec: {syncMode: Push}\n");
  }
  void claim(const std::string& name, const std::string& table, const std::string& workload = "w",
             const std::string& more = "") {
    cluster.apply("apiVersion: datadependency.volcano.sh/v1alpha1\nkind: DataSourceClaim\nmetadata: {name: " + name +
                  "}\nspec:\n  system: amoro\n  dataSourceType: table\n  dataSourceName: " + table +
                  "\n  workload: {apiVersion: apps/v1, kind: Deployment, name: " + workload + "}\n" + more);
  }
  void bind(const std::string& workload, const std::string& placement = "{}") {
    cluster.apply(
        "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: " + workload +
        "-deployment}\nspec:\n  resource: {apiVersion: apps/v1, kind: Deployment, namespace: default, name: " +
        workload + "}\n  placement: " + placement + "\n");
  }
  std::string claim_state(const std::string& name) {
    const auto found = cluster.get(kClaims, "default", name);
    if (!found) return "gone";
    std::string text(found->string_at({"status", "phase"}));
    if (const json::Value* conditions = found->find_path({"status", "conditions"})) {
      for (const json::Value& one : conditions->as_array()) {
        if (one.string_at({"type"}) == "Bound") text += " " + std::string(one.string_at({"reason"}));
      }
    }
    return text;
  }
  bool wait_claim(const std::string& name, const std::string& state, rt::Duration limit = std::chrono::seconds(60)) {
    const bool reached = cluster.wait_until([&] { return claim_state(name) == state; }, limit);
    if (!reached) ADD_FAILURE() << name << " is " << claim_state(name) << ", not " << state;
    return reached;
  }
  std::string excluded(const std::string& workload) {
    const auto found = cluster.get(kBindings, "default", workload + "-deployment");
    const json::Value* list = found ? found->find_path({"spec", "placement", "clusterAffinity", "exclude"}) : nullptr;
    return list == nullptr ? "none" : list->to_text();
  }
  bool is_gated(const std::string& workload) {
    const auto found = cluster.get(kBindings, "default", workload + "-deployment");
    const json::Value* value = found ? found->find_path({"spec", "suspension", "scheduling"}) : nullptr;
    return value != nullptr && value->is_bool() && value->as_bool();
  }
  bool wait_excluded(const std::string& workload, const std::string& list) {
    const bool reached = cluster.wait_until([&] { return excluded(workload) == list; });
    if (!reached) ADD_FAILURE() << workload << " excludes " << excluded(workload) << ", not " << list;
    return reached;
  }
  std::int64_t bound_claims(const std::string& source) {
    const auto found = cluster.get(kSources, "", source);
    const json::Value* value = found ? found->find_path({"status", "boundClaims"}) : nullptr;
    return value == nullptr || !value->is_int() ? -1 : value->as_int();
  }
  std::size_t binding_writes() {
    std::size_t count = 0;
    for (const std::string& call : faults.call_log())
      count += call.find("resourcebindings") != std::string::npos && call.starts_with("Patch") ? 1 : 0;
    return count;
  }

  PlayedSystem system;

 private:
  rt::Runtime& runtime_;
  std::shared_ptr<CollectingLogSink> memory_;
  Logger log_;
  kube::Metrics metrics_;

 public:
  sim::Cluster cluster;
  kube::FaultClient faults;

 private:
  std::unique_ptr<kube::EventRecorder> events_;
  std::unique_ptr<SharedInformers> informers_;
  std::unique_ptr<ControllerContext> context_;
  std::unique_ptr<Controller> controller_;
};

void scenario(const std::function<void(Plane&)>& body, std::uint64_t seeds = 3) {
  rt::run_seeds(1, seeds, [&](rt::SimRuntime& runtime) {
    Plane plane(runtime);
    body(plane);
  });
}

constexpr const char* kOrders = "amoro-table-prod.db.orders";

TEST(DataDependency, AClaimIsResolvedOnceAndSharedByAllThatNameTheTable) {
  scenario([](Plane& plane) {
    plane.system.tables["prod.db.orders"] = {"m1", "m2"};
    for (int i = 0; i < 20; ++i) plane.claim("c" + std::to_string(i), "prod.db.orders", "w" + std::to_string(i));
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(plane.wait_claim("c" + std::to_string(i), "Bound BindingSuccessful"));
    EXPECT_EQ(plane.system.calls, 1);
    EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == 20; }));
  });
}

TEST(DataDependency, TheWorkloadIsSteeredAndReleased) {
  scenario([](Plane& plane) {
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_claim("c", "Pending DataSourceNotFound"));
    plane.bind("w");
    ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("w"); }));
    // The table appears; the next round finds it.
    plane.system.tables["prod.db.orders"] = {"m2"};
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful", std::chrono::minutes(10)));
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m1","m3"])"));
    EXPECT_TRUE(plane.cluster.wait_until([&] { return !plane.is_gated("w"); }));
    plane.cluster.remove(kClaims, "default", "c");
    ASSERT_TRUE(plane.wait_claim("c", "gone"));
    EXPECT_EQ(plane.excluded("w"), "none");
    EXPECT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == 0; }));
  });
}

TEST(DataDependency, ComputeFollowsData) {
  scenario([](Plane& plane) {
    plane.system.tables["prod.db.orders"] = {"m1"};
    plane.claim("c", "prod.db.orders");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
    plane.system.tables["prod.db.orders"] = {"m3"};
    plane.cluster.patch(kSources, "", kOrders,
                        R"({"metadata":{"annotations":{"datadependency.volcano.sh/refresh":"now"}}})");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m1","m2"])"));
  });
}

TEST(DataDependency, AnOutageOfTheSystemEndsNothingAndIsSaid) {
  scenario([](Plane& plane) {
    plane.system.is_down = true;
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_claim("c", "Pending ResolutionFailed", std::chrono::minutes(5)));
    plane.cluster.runtime().sleep_for(std::chrono::minutes(30));
    plane.system.is_down = false;
    plane.system.tables["prod.db.orders"] = {"m1"};
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful", std::chrono::minutes(10)));
  });
}

TEST(DataDependency, ATableThatVanishesMovesNobody) {
  scenario([](Plane& plane) {
    plane.system.tables["prod.db.orders"] = {"m1"};
    plane.claim("c", "prod.db.orders");
    plane.bind("w");
    ASSERT_TRUE(plane.wait_excluded("w", R"(["m2","m3"])"));
    plane.system.tables.clear();
    plane.cluster.runtime().sleep_for(std::chrono::minutes(10));
    EXPECT_EQ(plane.claim_state("c"), "Bound BindingSuccessful");
    EXPECT_EQ(plane.excluded("w"), R"(["m2","m3"])");
  });
}

TEST(DataDependency, ARestartWritesNothing) {
  scenario([](Plane& plane) {
    plane.system.tables["prod.db.orders"] = {"m1"};
    for (int i = 0; i < 10; ++i) {
      plane.claim("c" + std::to_string(i), "prod.db.orders", "w" + std::to_string(i));
      plane.bind("w" + std::to_string(i));
    }
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(plane.wait_excluded("w" + std::to_string(i), R"(["m2","m3"])"));
    plane.cluster.runtime().sleep_for(std::chrono::seconds(10));
    const std::size_t before = plane.binding_writes();
    plane.restart();
    plane.cluster.runtime().sleep_for(std::chrono::minutes(1));
    EXPECT_EQ(plane.binding_writes(), before);
  });
}

TEST(DataDependency, AnOverwrittenPlacementIsPutBack) {
  scenario([](Plane& plane) {
    plane.system.tables["prod.db.orders"] = {"m1"};
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
    plane.system.tables["a.b.c"] = {"m1", "m2"};
    plane.system.tables["a.b.d"] = {"m2", "m3"};
    plane.system.tables["a.b.e"] = {"m3"};
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
  });
}

TEST(DataDependency, AChangedReferenceCleansTheOldWorkload) {
  scenario([](Plane& plane) {
    plane.system.tables["a.b.c"] = {"m1"};
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
    plane.system.tables["a.b.c"] = {"m1"};
    plane.system.tables["a.b.d"] = {"m2"};
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
    plane.system.tables["prod.db.orders"] = {"m1"};
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
    plane.system.tables["prod.db.orders"] = {"m1"};
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
  });
}

TEST(DataDependency, ClustersThatComeAreExcludedToo) {
  scenario([](Plane& plane) {
    plane.system.tables["a.b.c"] = {"m1"};
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
    plane.cluster.runtime().sleep_for(std::chrono::seconds(5));
    plane.claim("c", "prod.db.orders");
    ASSERT_TRUE(plane.wait_claim("c", "Pending ResolutionFailed"));
    plane.system.tables["prod.db.orders"] = {"m1"};
    plane.configure(R"({"endpoint":{"url":"http://played"}})");
    ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
  });
}

}  // namespace
}  // namespace basalt::controllers::datadependency
