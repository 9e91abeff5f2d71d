#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "controllers/manager/controller_manager.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "rt/real_runtime.h"
#include "sim/driver.h"
#include "test/kube/kube_fixture.h"

// Data dependencies on a real API server: the controller with the rights of deploy/karmada/data-rbac.yaml, plugin
// "static". The test plays Karmada: it makes bindings, overwrites them and schedules.

namespace basalt::test {
namespace {

using namespace std::chrono_literals;
const kube::Resource kClaims{"datadependency.volcano.sh", "v1alpha1", "datasourceclaims"};
const kube::Resource kSources{"datadependency.volcano.sh", "v1alpha1", "datasources"};
const kube::Resource kBindings{"work.karmada.io", "v1alpha2", "resourcebindings"};
const kube::Resource kClusters{"cluster.karmada.io", "v1alpha1", "clusters"};
constexpr const char* kOnM1 = R"(["m2","m3"])";
constexpr auto kLimit = 60s;

// Knows the kinds of this test as well.
class Plane final : public sim::Driver {
 public:
  using Driver::Driver;

 protected:
  [[nodiscard]] std::optional<Kind> find_kind(std::string_view group, std::string_view version,
                                              std::string_view kind) const override {
    if (kind == "DataSourceClaim") return Kind{kClaims, true};
    if (kind == "ResourceBinding") return Kind{kBindings, true};
    if (kind == "Cluster") return Kind{kClusters, false};
    return Driver::find_kind(group, version, kind);
  }
};

class DataReal : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!RealKube::why_skip().empty()) return;
    auto started = RealKube::start();
    error() = started.error;
    kube() = std::move(started.kube);
    if (!kube()) return;
    for (const std::string name : {"volcano-global", "karmada-system"})
      static_cast<void>(kube()->kubectl({"create", "namespace", name}));
    for (const std::string what :
         {"deploy/namespace.yaml", "deploy/crds", "deploy/karmada/stand-in", "deploy/karmada/data-rbac.yaml"}) {
      const CommandResult done =
          kube()->kubectl({"apply", "--server-side", "--filename=" BASALT_SOURCE_DIR "/" + what});
      if (done.exit != 0) error() = done.err;
    }
    const CommandResult ready =
        kube()->kubectl({"wait", "--for=condition=Established", "--timeout=60s", "crds", "--all"});
    if (ready.exit != 0) error() = ready.err;
  }
  static void TearDownTestSuite() { kube().reset(); }
  static std::unique_ptr<RealKube>& kube() {
    static std::unique_ptr<RealKube> one;
    return one;
  }
  static std::string& error() {
    static std::string text;
    return text;
  }

  void SetUp() override {
    if (const std::string why = RealKube::why_skip(); !why.empty()) GTEST_SKIP() << why;
    ASSERT_TRUE(kube() && error().empty()) << error();
    admin_ = connect("");
    own_ = connect("volcano-data-controller");
    driver_ = std::make_unique<Plane>(*runtime_, *admin_);
    for (const char* name : {"m1", "m2", "m3"})
      apply("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: " + std::string(name) +
            "}\nspec: {syncMode: Push}\n");
    tables(R"({"a.b.c": ["m1"], "a.b.d": ["m1", "m2"]})");
    start();
  }
  void TearDown() override { end(); }
  void start() {
    controllers::ManagerOptions options;
    options.controllers = {"datadependency-controller"};
    manager_ = std::make_unique<controllers::ControllerManager>(*runtime_, *own_, Logger(), metrics_, options);
    ASSERT_TRUE(manager_->start({}).ok());
  }
  void end() {
    if (manager_) manager_->stop();
    manager_.reset();
  }

  std::unique_ptr<kube::RestClient> connect(const std::string& user) {
    auto config =
        kube::load_client_config({.kubeconfig = kube()->kubeconfig().string()}, kube::ConfigEnvironment::of_process());
    EXPECT_TRUE(config.ok());
    config->impersonation.user = user;
    if (!user.empty()) config->impersonation.groups = {"system:authenticated"};
    auto client = kube::make_rest_client(*runtime_, Logger(), *config);
    EXPECT_TRUE(client.ok());
    return std::move(*client);
  }
  void apply(const std::string& text) { static_cast<void>(driver_->apply(text)); }
  void tables(const std::string& list) {
    apply(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano-global-datasource-plugins, namespace: "
        "volcano-global}\ndata: {static: '{\"tables\": " +
        list + "}'}\n");
  }
  void claim(const std::string& name, const std::string& table, const std::string& workload) {
    apply("apiVersion: datadependency.volcano.sh/v1alpha1\nkind: DataSourceClaim\nmetadata: {name: " + name +
          ", namespace: default}\nspec:\n  system: static\n  dataSourceType: table\n  dataSourceName: " + table +
          "\n  workload: {apiVersion: apps/v1, kind: Deployment, name: " + workload + "}\n");
  }
  void bind(const std::string& workload, const std::string& placement = "{}") {
    apply("apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata: {name: " + workload +
          "-deployment, namespace: default}\nspec:\n  resource: {apiVersion: apps/v1, kind: Deployment, namespace: "
          "default, name: " +
          workload + "}\n  placement: " + placement + "\n");
  }
  std::string excluded(const std::string& workload) {
    const auto found = driver_->get(kBindings, "default", workload + "-deployment");
    const json::Value* list = found ? found->find_path({"spec", "placement", "clusterAffinity", "exclude"}) : nullptr;
    return list == nullptr ? "none" : list->to_text();
  }
  bool wait_excluded(const std::string& workload, const std::string& list) {
    const bool reached = driver_->wait_until([&] { return excluded(workload) == list; }, kLimit);
    if (!reached) ADD_FAILURE() << workload << " excludes " << excluded(workload) << ", not " << list;
    return reached;
  }
  bool is_gated(const std::string& workload) {
    const auto found = driver_->get(kBindings, "default", workload + "-deployment");
    const json::Value* value = found ? found->find_path({"spec", "suspension", "scheduling"}) : nullptr;
    return value != nullptr && value->is_bool() && value->as_bool();
  }
  std::string reason(const std::string& name, std::string_view type) {
    const auto found = driver_->get(kClaims, "default", name);
    const json::Value* conditions = found ? found->find_path({"status", "conditions"}) : nullptr;
    if (conditions == nullptr) return found ? "" : "gone";
    for (const json::Value& one : conditions->as_array()) {
      if (one.string_at({"type"}) == type) return std::string(one.string_at({"reason"}));
    }
    return "";
  }
  bool wait_reason(const std::string& name, std::string_view type, const std::string& wanted) {
    const bool reached = driver_->wait_until([&] { return reason(name, type) == wanted; }, kLimit);
    if (!reached) ADD_FAILURE() << name << " is " << reason(name, type) << ", not " << wanted;
    return reached;
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  kube::Metrics metrics_;
  std::unique_ptr<kube::RestClient> admin_;
  std::unique_ptr<kube::RestClient> own_;
  std::unique_ptr<Plane> driver_;
  std::unique_ptr<controllers::ControllerManager> manager_;
};

TEST_F(DataReal, AWorkloadIsHeldSteeredMovedAndReleased) {
  claim("late", "a.b.late", "w");
  ASSERT_TRUE(wait_reason("late", "Bound", "DataSourceNotFound"));
  bind("w", "{clusterAffinity: {exclude: [m3]}}");
  ASSERT_TRUE(driver_->wait_until([&] { return is_gated("w"); }, kLimit));
  tables(R"({"a.b.late": ["m1"]})");
  ASSERT_TRUE(wait_reason("late", "Bound", "BindingSuccessful"));
  ASSERT_TRUE(wait_excluded("w", R"(["m3","m2"])"));
  ASSERT_TRUE(driver_->wait_until([&] { return !is_gated("w"); }, kLimit));
  // Karmada rewrites the placement.
  driver_->patch(kBindings, "default", "w-deployment", R"({"spec":{"placement":{"clusterAffinity":null}}})");
  ASSERT_TRUE(wait_excluded("w", kOnM1));
  tables(R"({"a.b.late": ["m2"]})");
  ASSERT_TRUE(wait_excluded("w", R"(["m1","m3"])"));
  driver_->remove(kClaims, "default", "late");
  ASSERT_TRUE(wait_reason("late", "Bound", "gone"));
  EXPECT_EQ(excluded("w"), "none");
  EXPECT_EQ(driver_->get(kBindings, "default", "w-deployment")
                ->find_path({"metadata", "annotations", "datadependency.volcano.sh/gated"}),
            nullptr);
}

TEST_F(DataReal, SeveralClaimsReferencesAndDeletion) {
  claim("one", "a.b.c", "x");
  claim("two", "a.b.d", "x");
  claim("three", "a.b.d", "z");
  bind("x");
  bind("z");
  ASSERT_TRUE(wait_excluded("x", kOnM1));
  ASSERT_TRUE(wait_excluded("z", R"(["m3"])"));
  const auto refs = [&] {
    const auto source = driver_->get(kSources, "", "static-table-a.b.d");
    const json::Value* count = source ? source->find_path({"status", "boundClaims"}) : nullptr;
    return count != nullptr && count->is_int() ? count->as_int() : -1;
  };
  ASSERT_TRUE(driver_->wait_until([&] { return refs() == 2; }, kLimit));
  // A data source that is deleted by hand is let go by its claims and made again.
  const std::string uid(driver_->get(kSources, "", "static-table-a.b.d")->string_at({"metadata", "uid"}));
  driver_->remove(kSources, "", "static-table-a.b.d");
  ASSERT_TRUE(driver_->wait_until(
      [&] {
        const auto source = driver_->get(kSources, "", "static-table-a.b.d");
        return source && source->string_at({"metadata", "uid"}) != uid && refs() == 2;
      },
      kLimit));
  driver_->remove(kClaims, "default", "one");
  ASSERT_TRUE(wait_excluded("x", R"(["m3"])"));
  // The last claim goes, and the policy says that the data source goes with it.
  driver_->patch(kSources, "", "static-table-a.b.d", R"({"spec":{"reclaimPolicy":"Delete"}})");
  driver_->remove(kClaims, "default", "two");
  driver_->remove(kClaims, "default", "three");
  ASSERT_TRUE(driver_->wait_until([&] { return !driver_->get(kSources, "", "static-table-a.b.d"); }, kLimit));
}

TEST_F(DataReal, ARestartWritesNothingAndClustersComeAndGo) {
  for (int i = 0; i < 10; ++i) {
    claim("r" + std::to_string(i), "a.b.c", "r" + std::to_string(i));
    bind("r" + std::to_string(i));
  }
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(wait_excluded("r" + std::to_string(i), kOnM1));
    ASSERT_TRUE(wait_reason("r" + std::to_string(i), "PlacementInjected", "Injected"));
  }
  const auto versions = [&] {
    std::map<std::string, std::string> found;
    for (const kube::Resource& resource : {kBindings, kClaims}) {
      for (const json::Value& one : driver_->list(resource, "default"))
        found[resource.plural + std::string(one.string_at({"metadata", "name"}))] =
            one.string_at({"metadata", "resourceVersion"});
    }
    return found;
  };
  const auto before = versions();
  end();
  start();
  claim("mark", "a.b.c", "mark");  // it is at work again
  ASSERT_TRUE(wait_reason("mark", "Bound", "BindingSuccessful"));
  driver_->remove(kClaims, "default", "mark");
  ASSERT_TRUE(wait_reason("mark", "Bound", "gone"));
  EXPECT_EQ(versions(), before);
  apply("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: m4}\nspec: {syncMode: Push}\n");
  ASSERT_TRUE(wait_excluded("r7", R"(["m2","m3","m4"])"));
  driver_->remove(kClusters, "", "m4");
  ASSERT_TRUE(wait_excluded("r7", kOnM1));
}

}  // namespace
}  // namespace basalt::test
