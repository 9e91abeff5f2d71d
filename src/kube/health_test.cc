#include <gtest/gtest.h>

#include <atomic>

#include "kube/health_server.h"
#include "kube/metrics.h"
#include "net/http_client.h"
#include "rt/real_runtime.h"

namespace basalt::kube {
namespace {

std::vector<HealthCheck> checks(bool synced) {
  return {{"ping", [] { return Done(Ok()); }, true, true},
          {"informers-synced",
           [synced]() -> Done {
             if (synced) return Ok();
             return Error::make(Reason::ServiceUnavailable, "pods are not listed yet");
           },
           false, true}};
}

TEST(HealthServer, AnswersAsKubernetesDoes) {
  const HealthServerOptions options;
  EXPECT_EQ(HealthServer::answer(checks(true), options, "/healthz", "").body, "ok");
  EXPECT_EQ(HealthServer::answer(checks(true), options, "/healthz", "verbose").body,
            "[+]ping ok\nhealthz check passed\n");
  EXPECT_EQ(HealthServer::answer(checks(true), options, "/healthz/ping", "").status, 200);
  EXPECT_EQ(HealthServer::answer(checks(false), options, "/livez", "").status, 200) << "not synced is no reason to die";
  const auto ready = HealthServer::answer(checks(false), options, "/readyz", "");
  EXPECT_EQ(ready.status, 500);
  EXPECT_EQ(ready.body, "[+]ping ok\n[-]informers-synced failed: pods are not listed yet\nreadyz check failed\n");
  EXPECT_EQ(HealthServer::answer(checks(false), options, "/readyz", "exclude=informers-synced&verbose").body,
            "[+]ping ok\n[+]informers-synced excluded: ok\nreadyz check passed\n");
  EXPECT_EQ(HealthServer::answer(checks(false), options, "/readyz/informers-synced", "").status, 500);
  EXPECT_EQ(HealthServer::answer(checks(true), options, "/readyz/other", "").status, 404);
  EXPECT_EQ(HealthServer::answer(checks(true), options, "/healthzz", "").status, 404);
  EXPECT_EQ(HealthServer::answer(checks(true), options, "/metrics", "").status, 404) << "no metrics were given";
  EXPECT_EQ(HealthServer::answer(checks(true), options, "/readyz", "%zz").status, 400);
}

TEST(Metrics, AreWrittenInPrometheusText) {
  Metrics metrics;
  metrics.counter("a_total", "A.", {{"x", "1"}}).add(2);
  metrics.counter("a_total", "ignored", {{"x", "1"}}).add();
  metrics.gauge("b", "B.").set(-1.5);
  metrics.histogram("c_seconds", "C.", {1, 2}).observe(1.5);
  Counter nothing;
  nothing.add();
  const auto answer = HealthServer::answer({}, {.metrics = &metrics}, "/metrics", "");
  EXPECT_EQ(answer.status, 200);
  for (const std::string_view line :
       {"# HELP a_total A.", "# TYPE a_total counter", "a_total{x=\"1\"} 3", "b -1.5", "c_seconds_bucket{le=\"1\"} 0",
        "c_seconds_bucket{le=\"2\"} 1", "\nprocess_resident_memory_bytes ", "\nprocess_cpu_seconds_total ",
        "\nprocess_open_fds ", "\nprocess_start_time_seconds "}) {
    EXPECT_NE(answer.body.find(line), std::string::npos) << line << "\n" << answer.body;
  }
}

TEST(HealthServer, ServesOverHttp) {
  const auto runtime = rt::make_real_runtime();
  Metrics metrics;
  metrics.counter("a_total", "A.").add();
  std::atomic<bool> synced{false};
  auto server = HealthServer::start(*runtime, Logger(), {.address = "127.0.0.1", .metrics = &metrics},
                                    {{"synced",
                                      [&]() -> Done {
                                        if (synced) return Ok();
                                        return Error::make(Reason::ServiceUnavailable, "not yet");
                                      },
                                      false, true}});
  ASSERT_TRUE(server.ok()) << server.error().message;
  auto client = net::make_http_client(*runtime, {});
  ASSERT_TRUE(client.ok());
  const auto get = [&](std::string_view path, std::string method = "GET") {
    net::HttpRequest request;
    request.method = std::move(method);
    request.url = "http://127.0.0.1:" + std::to_string((*server)->port()) + std::string(path);
    return (*client)->call(request, {}).value();
  };
  EXPECT_EQ(get("/healthz").body, "ok");
  EXPECT_EQ(get("/readyz").status, 500);
  synced = true;
  EXPECT_EQ(get("/readyz?verbose").body, "[+]ping ok\n[+]synced ok\nreadyz check passed\n");
  EXPECT_NE(get("/metrics").body.find("a_total 1"), std::string::npos);
  EXPECT_EQ(get("/").status, 404);
  EXPECT_EQ(get("/healthz", "POST").status, 405);
  (*server)->stop();
}

}  // namespace
}  // namespace basalt::kube
