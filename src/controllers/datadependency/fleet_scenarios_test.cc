// Credentials that change, writes that fail, many workloads at once, clusters that never answered; see
// scenarios_test.cc for the main paths.

#include <atomic>

#include "base/encoding.h"
#include "controllers/datadependency/test_support.h"

namespace basalt::controllers::datadependency {
namespace {

using namespace std::chrono_literals;

constexpr const char* kOnM1 = R"(["m2","m3"])";

// A way to the API on which the status of data sources cannot be written while it is broken, and Secrets not be read.
class BrokenStatusClient final : public kube::Client {
 public:
  explicit BrokenStatusClient(kube::Client& inner) : inner_(inner) {}
  Result<kube::Response> call(const kube::Request& request, const rt::StopToken& stop) override {
    const bool is_status = request.resource == kSources && request.subresource == "status";
    if (is_broken && (is_status || request.resource == sim::resources::kSecrets)) {
      ++refused;
      return Error::make(Reason::InternalError, "the store is full");
    }
    return inner_.call(request, stop);
  }
  Result<kube::ListPage> list(const kube::ListRequest& request, const rt::StopToken& stop) override {
    return inner_.list(request, stop);
  }
  Result<std::unique_ptr<kube::WatchStream>> watch(const kube::WatchRequest& request,
                                                   const rt::StopToken& stop) override {
    return inner_.watch(request, stop);
  }
  std::vector<Result<kube::Response>> call_all(std::span<const kube::Request> requests,
                                               const kube::CallAllOptions& options,
                                               const rt::StopToken& stop) override {
    return inner_.call_all(requests, options, stop);
  }

  std::atomic<bool> is_broken{false};
  std::atomic<int> refused{0};

 private:
  kube::Client& inner_;
};

void put_secret(Plane& plane, const std::string& token) {
  plane.cluster.apply(
      "apiVersion: v1\nkind: Secret\nmetadata: {name: amoro, namespace: volcano-global}\ndata: {token: " +
      base::base64_encode(token) + "}\n");
}

TEST(DataDependency, CredentialsFromASecretAreUsedRotatedAndNeverTold) {
  scenario(
      [](Plane& plane) {
        put_secret(plane, "first-credential");
        plane.configure(
            R"({"endpoint":{"url":"http://played","auth":{"type":"bearer","secretRef":{"name":"amoro"}}}})");
        plane.system.put("prod.db.orders", {"m1"});
        plane.claim("c", "prod.db.orders");
        plane.bind("w");
        ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.system.last_token() == "first-credential"; }, 5min));
        const int calls = plane.system.calls;
        put_secret(plane, "second-credential");
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.system.last_token() == "second-credential"; }, 5min));
        EXPECT_EQ(plane.system.calls, calls + 1) << "one question with the new one";
        EXPECT_EQ(plane.excluded("w"), kOnM1);
        // Somebody writes them into the ConfigMap, and slips.
        plane.configure(
            R"({"endpoint":{"url":"http://played","auth":{"type":"basic","username":"u","password":"third-credential",}}})");
        ASSERT_TRUE(
            plane.cluster.wait_until([&] { return plane.logged().find("cannot be used") != std::string::npos; }));
        plane.configure(
            R"({"endpoint":{"url":"http://played","auth":{"type":"magic","username":"u","password":"third-credential"}}})");
        plane.configure(R"({"endpoint":{"url":"http://played","auth":{"type":"bearer","token":"third-credential"}}})");
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.system.last_token() == "third-credential"; }));
        std::string told = plane.logged();
        for (const auto& resource : {kClaims, kBindings, kube::Resource{"", "v1", "events"}}) {
          for (const json::Value& object : plane.cluster.list(resource, "default")) told += object.to_text();
        }
        for (const json::Value& object : plane.cluster.list(kSources, "")) told += object.to_text();
        for (const std::string word : {"first-credential", "second-credential", "third-credential"}) {
          EXPECT_EQ(std::string::npos, told.find(word)) << told;
          EXPECT_EQ(std::string::npos, told.find(base::base64_encode(word))) << told;
        }
      },
      2);
}

TEST(DataDependency, CredentialsAreKeptWhileTheirSecretCannotBeRead) {
  scenario(
      [](Plane& plane) {
        BrokenStatusClient client(plane.own_client());
        plane.restart_on(client);
        put_secret(plane, "first-credential");
        const auto configure = [&](const std::string& url) {
          plane.configure(R"({"endpoint":{"url":")" + url +
                          R"(","auth":{"type":"bearer","secretRef":{"name":"amoro"}}}})");
        };
        configure("http://played");
        plane.system.put("prod.db.orders", {"m1"});
        plane.claim("c", "prod.db.orders");
        ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.system.last_token() == "first-credential"; }));
        client.is_broken = true;
        const int calls = plane.system.calls;
        configure("http://elsewhere");
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.system.calls > calls; }));
        EXPECT_EQ(plane.system.last_token(), "first-credential");
        put_secret(plane, "second-credential");
        client.is_broken = false;
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.system.last_token() == "second-credential"; }));
        plane.end();
      },
      2);
}

TEST(DataDependency, AClaimStaysUntilItsDataSourceHasForgottenIt) {
  scenario(
      [](Plane& plane) {
        BrokenStatusClient client(plane.own_client());
        plane.restart_on(client);
        plane.system.put("prod.db.orders", {"m1"});
        plane.claim("c", "prod.db.orders");
        ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.bound_claims(kOrders) == 1; }));
        client.is_broken = true;
        plane.cluster.remove(kClaims, "default", "c");
        ASSERT_TRUE(plane.cluster.wait_until([&] { return client.refused > 3; }));
        plane.let_pass(10min);
        EXPECT_NE(plane.claim_state("c"), "gone") << "its finalizer stays while the data source names it";
        client.is_broken = false;
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.claim_state("c") == "gone"; }, 10min));
        EXPECT_EQ(plane.bound_claims(kOrders), 0);
        plane.end();
      },
      2);
}

// A hundred claims and bindings at the same time, which Karmada overwrites meanwhile: none is ever open to a scheduler
// without the clusters that are not near its data excluded.
TEST(DataDependencyAdmission, AHundredWorkloadsAtOnceAreNeverOpenToAWrongCluster) {
  constexpr int kCount = 100;
  scenario(
      [](Plane& plane) {
        plane.system.put("prod.db.orders", {"m1"});
        plane.system.delay = 2s;
        const auto check = [&] {
          bool is_done = true;
          for (const json::Value& binding : plane.cluster.list(kBindings, "default")) {
            const json::Value* gate = binding.find_path({"spec", "suspension", "scheduling"});
            if (gate != nullptr && *gate == json::Value(true)) {
              is_done = false;
              continue;
            }
            const json::Value* excluded = binding.find_path({"spec", "placement", "clusterAffinity", "exclude"});
            EXPECT_EQ(excluded == nullptr ? "none" : excluded->to_text(), kOnM1) << binding.to_text();
          }
          return is_done;
        };
        for (int i = 0; i < kCount; ++i) {
          plane.claim("c" + std::to_string(i), "prod.db.orders", "w" + std::to_string(i));
        }
        ASSERT_TRUE(plane.wait_admission("w" + std::to_string(kCount - 1), "steered"));
        for (int i = 0; i < kCount; ++i) plane.bind("w" + std::to_string(i));
        check();
        for (int i = 0; i < kCount; i += 7)
          plane.cluster.patch(kBindings, "default", "w" + std::to_string(i) + "-deployment",
                              R"({"spec":{"placement":{"clusterAffinity":null,"clusterTolerations":[]}}})");
        ASSERT_TRUE(plane.cluster.wait_until(check, 5min));
        EXPECT_EQ(plane.system.calls, 1);
      },
      2, {.has_hook = true});
}

// With copies in every cluster that fits, an overwritten placement would start one where the data is not.
TEST(DataDependencyAdmission, ACopyInEveryClusterMeansInEveryAllowedOne) {
  scenario(
      [](Plane& plane) {
        plane.system.put("prod.db.orders", {"m1", "m2"});
        plane.claim("c", "prod.db.orders");
        ASSERT_TRUE(plane.wait_claim("c", "Bound BindingSuccessful"));
        ASSERT_TRUE(plane.wait_admission("w", R"(["m3"])"));
        plane.bind("w", "{replicaScheduling: {replicaSchedulingType: Duplicated}}");
        EXPECT_EQ(plane.excluded("w"), R"(["m3"])");
        plane.schedule("w", R"([{"name":"m1","replicas":1},{"name":"m2","replicas":1}])");
        for (int i = 0; i < 10; ++i) {
          plane.cluster.patch(
              kBindings, "default", "w-deployment",
              R"({"metadata":{"labels":{"version":"v)" + std::to_string(i) +
                  R"("}},"spec":{"placement":{"clusterAffinity":null,"replicaScheduling":{"replicaSchedulingType":"Duplicated"}}}})");
          EXPECT_EQ(plane.excluded("w"), R"(["m3"])") << "in the very write";
          EXPECT_FALSE(plane.is_gated("w"));
        }
        const auto binding = plane.cluster.get(kBindings, "default", "w-deployment");
        EXPECT_EQ(binding->string_at({"spec", "placement", "replicaScheduling", "replicaSchedulingType"}),
                  "Duplicated");
        EXPECT_EQ(binding->find_path({"spec", "clusters"})->as_array().size(), 2U);
      },
      2, {.has_hook = true});
}

TEST(DataDependency, AClusterThatWasNeverReachableDisturbsNobody) {
  scenario(
      [](Plane& plane) {
        plane.cluster.apply(
            "apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: lost}\nspec: {syncMode: Pull}\n");
        plane.system.put("prod.db.orders", {"m1"});
        plane.system.put("prod.db.far", {"lost"});
        plane.claim("c", "prod.db.orders");
        plane.claim("d", "prod.db.far", "v");
        plane.bind("w");
        plane.bind("v");
        ASSERT_TRUE(plane.wait_excluded("w", R"(["lost","m2","m3"])"));
        ASSERT_TRUE(plane.wait_excluded("v", R"(["m1","m2","m3"])"));
        EXPECT_FALSE(plane.is_gated("w"));
      },
      2);
}

TEST(DataDependency, MetricsTellStatesCallsAndWrites) {
  scenario(
      [](Plane& plane) {
        plane.system.put("prod.db.orders", {"m1"});
        for (int i = 0; i < 3; ++i) {
          plane.claim("c" + std::to_string(i), "prod.db.orders", "w" + std::to_string(i));
          plane.bind("w" + std::to_string(i));
        }
        plane.claim("missing", "prod.db.none", "v");
        plane.bind("v");
        for (int i = 0; i < 3; ++i) ASSERT_TRUE(plane.wait_excluded("w" + std::to_string(i), kOnM1));
        ASSERT_TRUE(plane.wait_claim("missing", "Pending DataSourceNotFound"));
        ASSERT_TRUE(plane.cluster.wait_until([&] { return plane.is_gated("v"); }));
        // One whose data is known, and a placement that somebody replaces.
        plane.claim("known", "prod.db.orders", "k");
        ASSERT_TRUE(plane.wait_claim("known", "Bound BindingSuccessful"));
        plane.cluster.patch(kBindings, "default", "w0-deployment", R"({"spec":{"placement":null}})");
        ASSERT_TRUE(plane.wait_excluded("w0", kOnM1));
        plane.let_pass(1s);
        const std::string text = plane.metrics();
        for (const std::string line : {
                 R"(datadependency_claims{phase="Bound",reason="BindingSuccessful"} 4)",
                 R"(datadependency_cache_hits_total )",
                 R"(datadependency_reinjections_total 1)",
                 R"(datadependency_claims{phase="Pending",reason="DataSourceNotFound"} 1)",
                 R"(datadependency_gated_bindings 1)",
                 R"(datadependency_gated_oldest_seconds )",
                 R"(datadependency_resolutions_total{result="found",system="amoro"} 1)",
                 R"(datadependency_resolutions_total{result="not found",system="amoro"} 1)",
                 R"(datadependency_injections_total 3)",
                 R"(datadependency_cache_misses_total 2)",
                 R"(datadependency_bindings_total 4)",
                 R"(datadependency_call_seconds_count{system="amoro"} 2)",
             }) {
          EXPECT_NE(std::string::npos, text.find(line)) << line << "\n" << text;
        }
      },
      2);
}

}  // namespace
}  // namespace basalt::controllers::datadependency
