#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "node/testing/local_cluster.h"
#include "rt/real_runtime.h"

namespace basalt::node::testing {

// A pod named p on node n1 whose container c runs a shell script; more of the spec may follow.
inline std::string shell_pod(std::string_view name, std::string_view script, std::string_view more = "") {
  json::Object container{{"name", "c"}, {"image", "busybox"}, {"command", json::Array{"sh", "-c", script}}};
  return "{apiVersion: v1, kind: Pod, metadata: {name: " + std::string(name) +
         "}, spec: {nodeName: n1, restartPolicy: Never, containers: [" + json::Value(container).to_text() + "]" +
         std::string(more) + "}}";
}

// A cluster in memory and the agent of node n1 with real processes, in a folder of its own.
class ProcessTest : public ::testing::Test {
 protected:
  void begin(ProcessNodeOptions options = {}, ProcessHostOptions host = {}) {
    agent_ = std::make_unique<Agent>(*runtime_, cluster_.client(), folder_.path(), host, std::move(options));
  }
  void end() {
    if (agent_) agent_->stop();
    agent_.reset();
  }
  void TearDown() override {
    end();
    cluster_.stop();
  }
  bool wait_phase(std::string_view pod, std::string_view phase) {
    return cluster_.wait_until([&] { return phase_of(cluster_, pod) == phase; }, std::chrono::seconds(20));
  }
  std::string log(std::string_view pod, LogOptions options = {}) { return log_of(*agent_->node, pod, "", options); }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  TemporaryFolder folder_;
  sim::Cluster cluster_{*runtime_};
  std::unique_ptr<Agent> agent_;
};

}  // namespace basalt::node::testing
