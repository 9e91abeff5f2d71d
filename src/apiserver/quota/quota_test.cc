// ResourceQuota and LimitRange: what they let in, what they charge, and how counts are corrected.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/quota/usage.h"
#include "apiserver/registry/api_server.h"
#include "json/value.h"
#include "rt/sim_test_support.h"

namespace basalt::apiserver {
namespace {

const kube::Resource kPods{"", "v1", "pods"};
const kube::Resource kServices{"", "v1", "services"};
const kube::Resource kQuotas{"", "v1", "resourcequotas"};
const kube::Resource kLimitRanges{"", "v1", "limitranges"};
const kube::Resource kClaims{"", "v1", "persistentvolumeclaims"};
const kube::Resource kDeployments{"apps", "v1", "deployments"};
constexpr std::uint64_t kSeeds = 20;

json::Value parsed(std::string_view text) {
  auto value = json::Value::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? std::move(*value) : json::Value();
}

std::string pod_text(const std::string& name, const std::string& resources, const std::string& more = "") {
  return R"({"metadata":{"name":")" + name + R"("},"spec":{"containers":[{"name":"main","image":"i","resources":)" +
         resources + "}]" + more + "}}";
}

std::string quota_text(const std::string& hard, const std::string& more = "") {
  return R"({"metadata":{"name":"q"},"spec":{"hard":)" + hard + more + "}}";
}

// The resources of a pod's first container.
std::string list_text(const json::Value& pod) {
  return pod.find_path({"spec", "containers"})->as_array().at(0).find("resources")->to_text();
}

class QuotaCluster {
 public:
  explicit QuotaCluster(rt::Runtime& runtime) : runtime_(runtime) {
    server_ = *ApiServer::open(runtime, Logger(), ApiServer::Options());
    EXPECT_TRUE(server_->start().ok());
  }
  ~QuotaCluster() { server_->stop(); }

  Result<json::Value> call(kube::Verb verb, const kube::Resource& resource, const std::string& name,
                           const std::string& body = "", const std::string& subresource = "", bool dry_run = false) {
    kube::Request request;
    request.verb = verb;
    request.resource = resource;
    request.ns = "default";
    request.name = name;
    request.body = body;
    request.subresource = subresource;
    request.dry_run = dry_run;
    auto response = server_->call(request, RequestContext{{"ann", "", {}}, "test"});
    if (!response.ok()) return response.error();
    return json::Value::parse(*response->body);
  }
  Result<json::Value> create(const kube::Resource& resource, const std::string& body) {
    return call(kube::Verb::Create, resource, "", body);
  }
  std::string used(std::string_view name) {
    const auto quota = call(kube::Verb::Get, kQuotas, "q");
    return quota.ok() ? std::string(quota->string_at({"status", "used", name})) : "no quota";
  }
  // Waits in virtual time; false after a minute.
  bool eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 600; ++i) {
      if (holds()) return true;
      runtime_.sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }
  void end_pod(const std::string& name) {
    auto pod = call(kube::Verb::Get, kPods, name);
    ASSERT_TRUE(pod.ok());
    pod->ensure_path({"status", "phase"}) = "Succeeded";
    ASSERT_TRUE(call(kube::Verb::Update, kPods, name, pod->to_text(), "status").ok());
  }

 private:
  rt::Runtime& runtime_;
  std::unique_ptr<ApiServer> server_;
};

void on_clusters(const std::function<void(QuotaCluster&, rt::SimRuntime&)>& body) {
  rt::run_seeds(1, kSeeds, [&](rt::SimRuntime& runtime) {
    QuotaCluster cluster(runtime);
    body(cluster, runtime);
  });
}

TEST(QuotaUsage, OfAPodIsWhatItsContainersNeedAtTheirWorst) {
  const json::Value pod = parsed(R"({"spec":{"overhead":{"cpu":"10m"},
      "initContainers":[{"name":"a","resources":{"requests":{"cpu":"3","memory":"1Gi"}}},
                        {"name":"b","restartPolicy":"Always","resources":{"requests":{"cpu":"100m"}}}],
      "containers":[{"name":"c","resources":{"requests":{"cpu":"1","example.com/gpu":"2"},"limits":{"cpu":"2"}}},
                    {"name":"d","resources":{"requests":{"cpu":"500m"}}}]}})");
  const api::ResourceList usage = quota_usage("/pods", pod);
  EXPECT_EQ(usage.to_string(),
            "count/pods=1,cpu=3010m,limits.cpu=2010m,memory=1Gi,pods=1,requests.cpu=3010m,requests.example.com/gpu=2,"
            "requests.memory=1Gi");
}

TEST(QuotaUsage, OfClaimsServicesAndOtherObjects) {
  EXPECT_EQ(quota_usage("/persistentvolumeclaims",
                        parsed(R"({"spec":{"storageClassName":"fast","resources":{"requests":{"storage":"5Gi"}}}})"))
                .to_string(),
            "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,"
            "fast.storageclass.storage.k8s.io/requests.storage=5Gi,persistentvolumeclaims=1,requests.storage=5Gi");
  EXPECT_EQ(
      quota_usage("/services", parsed(R"({"spec":{"type":"NodePort","ports":[{"port":1},{"port":2}]}})")).to_string(),
      "count/services=1,services=1,services.nodeports=2");
  EXPECT_EQ(quota_usage("apps/deployments", parsed("{}")).to_string(), "count/deployments.apps=1");
  EXPECT_EQ(quota_usage("/secrets", parsed("{}")).to_string(), "count/secrets=1,secrets=1");
  EXPECT_EQ(quota_subjects(parsed(R"({"spec":{"hard":{"cpu":"1","count/jobs.batch":"2","requests.storage":"3"}}})")),
            (std::vector<std::string>{"/persistentvolumeclaims", "/pods", "batch/jobs"}));
}

TEST(Quota, RefusesWhatWouldExceedItAndChargesTheRest) {
  on_clusters([](QuotaCluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(cluster.create(kQuotas, quota_text(R"({"pods":"2","requests.cpu":"1"})")).ok());
    ASSERT_TRUE(cluster.eventually([&] { return cluster.used("pods") == "0"; }));
    ASSERT_TRUE(cluster.create(kPods, pod_text("a", R"({"requests":{"cpu":"700m"}})")).ok());
    EXPECT_EQ(cluster.used("requests.cpu"), "700m");
    const auto refused = cluster.create(kPods, pod_text("b", R"({"requests":{"cpu":"400m"}})"));
    ASSERT_FALSE(refused.ok());
    EXPECT_TRUE(refused.error().is(Reason::Forbidden));
    EXPECT_NE(refused.error().message.find(
                  "exceeded quota: q, requested: requests.cpu=400m, used: requests.cpu=700m, limited: requests.cpu=1"),
              std::string::npos)
        << refused.error().message;
    const auto silent = cluster.create(kPods, pod_text("c", "{}"));
    ASSERT_FALSE(silent.ok());
    EXPECT_NE(silent.error().message.find("must specify requests.cpu for: main"), std::string::npos)
        << silent.error().message;
    EXPECT_EQ(cluster.used("pods"), "1");
  });
}

TEST(Quota, IsReleasedWhenPodsEndAndWhenTheyGo) {
  on_clusters([](QuotaCluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(cluster.create(kQuotas, quota_text(R"({"pods":"2","count/pods":"5"})")).ok());
    ASSERT_TRUE(cluster.create(kPods, pod_text("a", "{}")).ok());
    ASSERT_TRUE(cluster.create(kPods, pod_text("b", "{}")).ok());
    EXPECT_FALSE(cluster.create(kPods, pod_text("c", "{}")).ok());
    cluster.end_pod("a");
    ASSERT_TRUE(cluster.eventually([&] { return cluster.used("pods") == "1"; }));
    EXPECT_EQ(cluster.used("count/pods"), "2");
    ASSERT_TRUE(cluster.call(kube::Verb::Delete, kPods, "b").ok());
    ASSERT_TRUE(cluster.eventually([&] { return cluster.used("pods") == "0"; }));
    EXPECT_TRUE(cluster.create(kPods, pod_text("c", "{}")).ok());
  });
}

TEST(Quota, ManyWritersAtOnceNeverExceedIt) {
  on_clusters([](QuotaCluster& cluster, rt::SimRuntime& runtime) {
    ASSERT_TRUE(cluster.create(kQuotas, quota_text(R"({"pods":"7"})")).ok());
    std::atomic<int> let_in = 0;
    {
      std::vector<rt::Thread> writers;
      for (int i = 0; i < 12; ++i) {
        writers.emplace_back(runtime, "writer", [&cluster, &let_in, i] {
          if (cluster.create(kPods, pod_text("p" + std::to_string(i), "{}")).ok()) ++let_in;
        });
      }
      for (rt::Thread& writer : writers) writer.join();
    }
    EXPECT_EQ(let_in, 7);
    EXPECT_TRUE(cluster.eventually([&] { return cluster.used("pods") == "7"; }));
  });
}

TEST(Quota, AChargeForAWriteThatFailedIsTakenBack) {
  on_clusters([](QuotaCluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(cluster.create(kPods, pod_text("a", "{}")).ok());
    ASSERT_TRUE(cluster.create(kQuotas, quota_text(R"({"pods":"3"})")).ok());
    ASSERT_TRUE(cluster.eventually([&] { return cluster.used("pods") == "1"; }));
    EXPECT_FALSE(cluster.create(kPods, pod_text("a", "{}")).ok());  // there is one of that name
    EXPECT_TRUE(cluster.eventually([&] { return cluster.used("pods") == "1"; }));
  });
}

TEST(Quota, ScopesDecideWhatItCounts) {
  on_clusters([](QuotaCluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(
        cluster.create(kQuotas, quota_text(R"({"pods":"1"})", R"(,"scopes":["Terminating","BestEffort"])")).ok());
    EXPECT_TRUE(cluster.create(kPods, pod_text("lasting", "{}")).ok());
    EXPECT_TRUE(
        cluster.create(kPods, pod_text("sized", R"({"requests":{"cpu":"1"}})", R"(,"activeDeadlineSeconds":9)")).ok());
    EXPECT_TRUE(cluster.create(kPods, pod_text("ending", "{}", R"(,"activeDeadlineSeconds":9)")).ok());
    EXPECT_FALSE(cluster.create(kPods, pod_text("ending2", "{}", R"(,"activeDeadlineSeconds":9)")).ok());
    EXPECT_TRUE(cluster.eventually([&] { return cluster.used("pods") == "1"; }));
  });
}

TEST(Quota, CountsAnyResourceAndFollowsItsOwnChanges) {
  on_clusters([](QuotaCluster& cluster, rt::SimRuntime&) {
    const std::string deployment =
        R"({"metadata":{"generateName":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},)"
        R"("template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}})";
    ASSERT_TRUE(cluster.create(kDeployments, deployment).ok());
    ASSERT_TRUE(cluster.create(kQuotas, quota_text(R"({"count/deployments.apps":"1","services.nodeports":"0"})")).ok());
    ASSERT_TRUE(cluster.eventually([&] { return cluster.used("count/deployments.apps") == "1"; }));
    EXPECT_FALSE(cluster.create(kDeployments, deployment).ok());
    EXPECT_FALSE(
        cluster.create(kServices, R"({"metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80}]}})")
            .ok());
    auto quota = cluster.call(kube::Verb::Get, kQuotas, "q");
    ASSERT_TRUE(quota.ok());
    quota->ensure_path({"spec", "hard"}) = json::Object{{"count/deployments.apps", "2"}};
    ASSERT_TRUE(cluster.call(kube::Verb::Update, kQuotas, "q", quota->to_text()).ok());
    EXPECT_TRUE(cluster.create(kDeployments, deployment).ok());
    EXPECT_TRUE(cluster.eventually([&] {
      const auto now = cluster.call(kube::Verb::Get, kQuotas, "q");
      return now.ok() &&
             *now->find_path({"status", "hard"}) == json::Value(json::Object{{"count/deployments.apps", "2"}});
    }));
  });
}

TEST(Quota, ADryRunIsCheckedAndNotCharged) {
  on_clusters([](QuotaCluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(cluster.create(kQuotas, quota_text(R"({"pods":"1"})")).ok());
    EXPECT_TRUE(cluster.call(kube::Verb::Create, kPods, "", pod_text("a", "{}"), "", true).ok());
    EXPECT_TRUE(cluster.create(kPods, pod_text("a", "{}")).ok());
    EXPECT_FALSE(cluster.call(kube::Verb::Create, kPods, "", pod_text("b", "{}"), "", true).ok());
  });
}

TEST(LimitRange, GivesContainersTheirDefaults) {
  on_clusters([](QuotaCluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(cluster
                    .create(kLimitRanges, R"({"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container",)"
                                          R"("default":{"cpu":"500m"},"defaultRequest":{"cpu":"100m"}}]}})")
                    .ok());
    const auto plain = cluster.create(kPods, pod_text("a", "{}"));
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(list_text(*plain), R"({"limits":{"cpu":"500m"},"requests":{"cpu":"100m"}})");
    const auto limited = cluster.create(kPods, pod_text("b", R"({"limits":{"cpu":"200m"}})"));
    ASSERT_TRUE(limited.ok());
    EXPECT_EQ(list_text(*limited), R"({"limits":{"cpu":"200m"},"requests":{"cpu":"200m"}})");
  });
}

TEST(LimitRange, RefusesWithEveryComplaint) {
  on_clusters([](QuotaCluster& cluster, rt::SimRuntime&) {
    ASSERT_TRUE(cluster
                    .create(kLimitRanges,
                            R"({"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","min":{"cpu":"100m"},)"
                            R"("max":{"cpu":"1"},"maxLimitRequestRatio":{"cpu":"2"}},)"
                            R"({"type":"Pod","max":{"memory":"1Gi"}},)"
                            R"({"type":"PersistentVolumeClaim","min":{"storage":"1Gi"}}]}})")
                    .ok());
    const auto refused = cluster.create(
        kPods, pod_text("a", R"({"requests":{"cpu":"50m","memory":"2Gi"},"limits":{"cpu":"2","memory":"2Gi"}})"));
    ASSERT_FALSE(refused.ok());
    EXPECT_TRUE(refused.error().is(Reason::Forbidden));
    for (const char* part : {R"(container "main": request of cpu is 50m, the minimum is 100m)",
                             R"(container "main": limit of cpu is 2, the maximum is 1)", "the ratio must be at most 2",
                             "the pod: request of memory is 2Gi, the maximum is 1Gi"}) {
      EXPECT_NE(refused.error().message.find(part), std::string::npos) << part << " in " << refused.error().message;
    }
    EXPECT_TRUE(cluster
                    .create(kPods, pod_text("b", R"({"requests":{"cpu":"500m","memory":"1Gi"},)"
                                                 R"("limits":{"cpu":"1","memory":"1Gi"}})"))
                    .ok());
    const std::string claim = R"({"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],)"
                              R"("resources":{"requests":{"storage":"1Mi"}}}})";
    EXPECT_FALSE(cluster.create(kClaims, claim).ok());
  });
}

}  // namespace
}  // namespace basalt::apiserver
