#include "cli/data/data_commands.h"

#include <gtest/gtest.h>

#include "cli/client/host_test_support.h"
#include "crds/crds.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

const kube::Resource kClaims{"datadependency.volcano.sh", "v1alpha1", "datasourceclaims"};
const kube::Resource kSources{"datadependency.volcano.sh", "v1alpha1", "datasources"};

// One table that two workloads read, one that nobody knows yet.
constexpr std::string_view kObjects = R"(
apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata: {name: east}
spec: {syncMode: Push}
---
apiVersion: datadependency.volcano.sh/v1alpha1
kind: DataSource
metadata: {name: amoro-table-p.d.orders}
spec: {system: amoro, type: table, name: p.d.orders, locality: {clusterNames: [east, esat]}}
---
apiVersion: datadependency.volcano.sh/v1alpha1
kind: DataSourceClaim
metadata: {name: one}
spec:
  system: amoro
  dataSourceType: table
  dataSourceName: p.d.orders
  workload: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: train}
---
apiVersion: datadependency.volcano.sh/v1alpha1
kind: DataSourceClaim
metadata: {name: two}
spec:
  system: amoro
  dataSourceType: table
  dataSourceName: p.d.clicks
  workload: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: report}
---
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {name: train-job}
spec:
  resource: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, namespace: default, name: train}
  clusters: [{name: east, replicas: 1}]
---
apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {name: report-job, annotations: {datadependency.volcano.sh/gated: "true"}}
spec:
  resource: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, namespace: default, name: report}
  suspension: {scheduling: true}
)";

class DataCommands : public ::testing::Test {
 protected:
  static void on_cluster(const std::function<void(sim::Cluster&, TestHost&)>& body) {
    rt::run_seeds(1, 1, [&](rt::SimRuntime& runtime) {
      sim::Cluster cluster(runtime);
      ASSERT_TRUE(crds::install_karmada(runtime, cluster.client(), {}).ok());
      cluster.apply(kObjects);
      TestHost host(cluster);
      body(cluster, host);
      cluster.stop();
    });
  }
  static Ran run(TestHost& host, std::vector<std::string> arguments) {
    return run_line(host, data_group(), "basalt data", std::move(arguments));
  }
  static void decide(sim::Cluster& cluster) {
    cluster.patch(
        kClaims, "default", "one",
        R"({"status":{"phase":"Bound","boundDataSource":"amoro-table-p.d.orders","conditions":[{"type":"Bound",
                  "status":"True","reason":"BindingSuccessful","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}})",
        "status");
    cluster.patch(kClaims, "default", "two",
                  R"({"status":{"phase":"Pending","conditions":[{"type":"Bound","status":"False",
                  "reason":"DataSourceNotFound","message":"there is no such table","lastTransitionTime":"2026-01-01T00:00:00Z"}]}})",
                  "status");
    cluster.patch(kSources, "", "amoro-table-p.d.orders",
                  R"({"status":{"boundClaims":1,"conditions":[{"type":"Fresh","status":"False","reason":"RefreshFailed",
                  "message":"the server did not answer","lastTransitionTime":"2026-01-01T00:00:00Z"}]}})",
                  "status");
  }
};

TEST_F(DataCommands, ListsAndViews) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    decide(cluster);
    Ran ran = run(host, {"list"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_NE(ran.out.find("one    amoro    p.d.orders   Bound                east,esat   Job/train    east"),
              std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("two    amoro    p.d.clicks   DataSourceNotFound   <unknown>   Job/report   <held back>"),
              std::string::npos)
        << ran.out;
    EXPECT_EQ(run(host, {"list", "-o", "name"}).out,
              "datasourceclaim.datadependency.volcano.sh/one\ndatasourceclaim.datadependency.volcano.sh/two\n");
    EXPECT_NE(run(host, {"list", "-o", "wide", "-A"}).out.find("amoro-table-p.d.orders"), std::string::npos);
    EXPECT_TRUE(run(host, {"list", "-o", "yaml"}).out.starts_with("apiVersion:"));
    ran = run(host, {"view", "one"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_NE(ran.out.find("Data source: amoro-table-p.d.orders, claimed 1 times"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("Fresh=False RefreshFailed"), std::string::npos) << ran.out;
    EXPECT_TRUE(run(host, {"view", "one", "-o", "json"}).out.starts_with("{"));
    EXPECT_NE(run(host, {"view"}).exit, 0);
  });
}

TEST_F(DataCommands, ExplainsWhyAWorkloadWaits) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    Ran ran = run(host, {"explain", "two"});
    EXPECT_NE(ran.out.find("no controller has looked at the claim"), std::string::npos) << ran.out;
    decide(cluster);
    ran = run(host, {"explain", "two"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_NE(ran.out.find("DataSourceNotFound: there is no such table"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("What helps: check spec.dataSourceName"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("held back until all its claims are bound; not bound: two"), std::string::npos) << ran.out;
    ran = run(host, {"explain", "one"});
    EXPECT_NE(ran.out.find("the workload is in east"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("cluster esat is not registered"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("east"), std::string::npos) << ran.out;
    EXPECT_NE(ran.out.find("the last good answer, known before 2026-01-01T00:00:00Z"), std::string::npos) << ran.out;
    const auto value = json::Value::parse(run(host, {"explain", "one", "-o", "json"}).out);
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(value->string_at({"state"}), "Bound");
  });
}

TEST_F(DataCommands, TheHeatMapCountsUsersAndClusters) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    decide(cluster);
    Ran ran = run(host, {"top"});
    EXPECT_EQ(ran.exit, 0) << ran.err;
    EXPECT_NE(ran.out.find("amoro    p.d.clicks   1           1         1        default:1   <none>      <none>"),
              std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("amoro    p.d.orders   1           0         1        default:1   east,esat   east:1"),
              std::string::npos)
        << ran.out;
    ran = run(host, {"top", "--rows", "1"});
    EXPECT_NE(ran.out.find("and 1 more"), std::string::npos) << ran.out;
    const auto value = json::Value::parse(run(host, {"top", "-o", "json"}).out);
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(value->find("data")->as_array().size(), 2u);
    EXPECT_EQ(run(host, {"top", "-o", "name"}).out, "datasource.datadependency.volcano.sh/amoro-table-p.d.orders\n");
  });
}

}  // namespace
}  // namespace basalt::cli
