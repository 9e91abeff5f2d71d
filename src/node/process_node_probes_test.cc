// Probes over the network, of real pods against a server of this process.
#include <gtest/gtest.h>

#include <atomic>

#include "kube/event_recorder.h"
#include "net/http_server.h"
#include "node/testing/process_test.h"

namespace basalt::node {
namespace {

using testing::container_status;
using testing::int_at;
using testing::log_of;
using testing::phase_of;
using namespace std::chrono_literals;
using namespace std::string_literals;

class ProcessNodeProbesTest : public testing::ProcessTest {
 protected:
  void SetUp() override {
    // On all addresses, as most programs: so it answers at that of each pod.
    auto started = net::start_http_server(*runtime_, Logger(), {.address = "0.0.0.0"},
                                          [this](const auto& request, const auto& responder) {
                                            if (request->path == "/live") {
                                              responder->respond(is_live_ ? 200 : 500, {}, ""s);
                                            } else if (request->path == "/keyed") {
                                              const auto key = net::find_header(request->headers, "X-Key");
                                              responder->respond(key == "sesame" ? 200 : 403, {}, ""s);
                                            } else if (request->path == "/grpc.health.v1.Health/Check") {
                                              responder->respond(200, {}, "\0\0\0\0\2\x08\1"s);
                                            } else {
                                              responder->respond(is_ready_ ? 200 : 503, {}, ""s);
                                            }
                                          });
    ASSERT_TRUE(started.ok());
    server_ = std::move(*started);
    events_.start();
  }
  void TearDown() override {
    end();
    events_.stop();
    server_->stop(0s);
    ProcessTest::TearDown();
  }
  void begin_quick() { begin({.restart = {.backoff_base = 10ms, .backoff_cap = 50ms}, .events = &events_}); }
  // A pod with a named port that the server listens on.
  [[nodiscard]] std::string pod(std::string_view name, std::string_view probes) const {
    return "{apiVersion: v1, kind: Pod, metadata: {name: " + std::string(name) +
           "}, spec: {nodeName: n1, restartPolicy: Always, terminationGracePeriodSeconds: 1, containers: [{name: c, "
           "image: x, command: [sh, -c, 'while :; do sleep 0.05; done'], ports: [{name: web, containerPort: " +
           std::to_string(server_->port()) + "}], " + std::string(probes) + "}]}}";
  }
  bool is_ready(std::string_view name) {
    const json::Value status = container_status(cluster_, name);
    const json::Value* ready = status.find("ready");
    return ready != nullptr && ready->as_bool();
  }
  bool has_event(std::string_view name, std::string_view reason, std::string_view text) {
    for (const json::Value& event : cluster_.list({"", "v1", "events"})) {
      if (event.string_at({"involvedObject", "name"}) == name && event.string_at({"reason"}) == reason &&
          event.string_at({"message"}).find(text) != std::string_view::npos) {
        EXPECT_EQ(event.string_at({"involvedObject", "fieldPath"}), "spec.containers{c}");
        return true;
      }
    }
    return false;
  }
  bool eventually(const std::function<bool()>& condition) { return cluster_.wait_until(condition, 30s); }

  std::atomic<bool> is_live_ = true;
  std::atomic<bool> is_ready_ = false;
  std::unique_ptr<net::HttpServer> server_;
  kube::EventRecorder events_{*runtime_, cluster_.client(), Logger(), {.component = "test", .host = ""}};
};

TEST_F(ProcessNodeProbesTest, ReadinessFollowsTheAnswers) {
  begin_quick();
  cluster_.apply(pod("web",
                     "readinessProbe: {httpGet: {port: web, path: /ready}, periodSeconds: 1, timeoutSeconds: 20,"
                     " failureThreshold: 1}"));
  ASSERT_TRUE(wait_phase("web", "Running"));
  ASSERT_TRUE(
      eventually([&] { return has_event("web", "Unhealthy", "Readiness probe failed: HTTP probe failed with"); }));
  EXPECT_FALSE(is_ready("web"));
  is_ready_ = true;
  ASSERT_TRUE(eventually([&] { return is_ready("web"); }));
  is_ready_ = false;
  ASSERT_TRUE(eventually([&] { return !is_ready("web"); }));
  EXPECT_EQ(int_at(container_status(cluster_, "web"), {"restartCount"}), 0);
}

TEST_F(ProcessNodeProbesTest, AFailedLivenessProbeRestartsTheContainer) {
  begin_quick();
  cluster_.apply(pod("web",
                     "startupProbe: {tcpSocket: {port: web}, periodSeconds: 1, timeoutSeconds: 20},"
                     "livenessProbe: {httpGet: {port: web, path: /live}, periodSeconds: 1, timeoutSeconds: 20,"
                     " failureThreshold: 1}"));
  ASSERT_TRUE(eventually([&] { return is_ready("web"); }));
  is_live_ = false;
  ASSERT_TRUE(eventually([&] { return int_at(container_status(cluster_, "web"), {"restartCount"}) >= 1; }));
  is_live_ = true;
  EXPECT_EQ(container_status(cluster_, "web").string_at({"lastState", "terminated", "message"}),
            "container c failed its liveness probe");
  ASSERT_TRUE(eventually([&] {
    return has_event("web", "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500") &&
           has_event("web", "Killing", "Container c failed liveness probe, will be restarted");
  }));
}

TEST_F(ProcessNodeProbesTest, HeadersAndGrpcServices) {
  begin_quick();
  cluster_.apply(pod("keyed",
                     "readinessProbe: {httpGet: {port: web, path: /keyed, httpHeaders: "
                     "[{name: X-Key, value: sesame}]}, periodSeconds: 1, timeoutSeconds: 20}"));
  cluster_.apply(pod("keyless", "readinessProbe: {httpGet: {port: web, path: /keyed}, periodSeconds: 1}"));
  cluster_.apply(pod("grpc", "readinessProbe: {grpc: {port: " + std::to_string(server_->port()) +
                                 "}, periodSeconds: 1, timeoutSeconds: 20}"));
  ASSERT_TRUE(eventually([&] { return is_ready("keyed") && is_ready("grpc"); }));
  ASSERT_TRUE(eventually([&] { return has_event("keyless", "Unhealthy", "statuscode: 403"); }));
  EXPECT_FALSE(is_ready("keyless"));
  EXPECT_FALSE(has_event("grpc", "ProbeNotRun", ""));
}

TEST_F(ProcessNodeProbesTest, WhatCannotBeAskedIsSaidAndDoesNotCount) {
  begin_quick();
  cluster_.apply(pod("wrong", "livenessProbe: {tcpSocket: {port: nope}, periodSeconds: 1, failureThreshold: 1}"));
  ASSERT_TRUE(eventually([&] { return has_event("wrong", "Unhealthy", "Liveness probe errored: port \"nope\" is"); }));
  EXPECT_EQ(int_at(container_status(cluster_, "wrong"), {"restartCount"}), 0);
}

TEST_F(ProcessNodeProbesTest, TheOutputOfACommandIsInTheEvent) {
  begin_quick();
  cluster_.apply(pod("told",
                     "readinessProbe: {exec: {command: [sh, -c, 'echo no luck; exit 1']}, periodSeconds: 1,"
                     " timeoutSeconds: 20}"));
  ASSERT_TRUE(eventually([&] { return has_event("told", "Unhealthy", "Readiness probe failed: no luck"); }));
}

TEST_F(ProcessNodeProbesTest, ACommandThatHangsIsKilledAndHasFailed) {
  begin_quick();
  cluster_.apply(pod("hangs",
                     "livenessProbe: {exec: {command: [sleep, '1000']}, timeoutSeconds: 1,"
                     " failureThreshold: 1}"));
  ASSERT_TRUE(eventually([&] {
    return has_event("hangs", "Unhealthy", "Liveness probe failed: the command did not end within its timeout");
  }));
  ASSERT_TRUE(eventually([&] { return int_at(container_status(cluster_, "hangs"), {"restartCount"}) >= 1; }));
}

// A probe that hangs holds up neither its node nor the stop.
TEST_F(ProcessNodeProbesTest, AProbeUnderWayDoesNotDelayTheStop) {
  rt::Mutex mutex;
  std::vector<std::shared_ptr<net::Responder>> held;
  auto silent =
      net::start_http_server(*runtime_, Logger(), {.address = "0.0.0.0"}, [&](const auto&, const auto& responder) {
        rt::MutexLock lock(mutex);
        held.push_back(responder);
      });
  ASSERT_TRUE(silent.ok());
  begin_quick();
  cluster_.apply(pod(
      "slow", "readinessProbe: {httpGet: {port: " + std::to_string((*silent)->port()) + "}, timeoutSeconds: 3600}"));
  ASSERT_TRUE(eventually([&] {
    rt::MutexLock lock(mutex);
    return !held.empty();
  }));
  cluster_.apply(pod("other", "readinessProbe: {tcpSocket: {port: web}, periodSeconds: 1, timeoutSeconds: 20}"));
  EXPECT_TRUE(eventually([&] { return is_ready("other"); }));
  EXPECT_FALSE(is_ready("slow"));
  const rt::Instant before = runtime_->now();
  end();
  EXPECT_LT(runtime_->now() - before, 60s);
  (*silent)->stop(0s);
}

}  // namespace
}  // namespace basalt::node
