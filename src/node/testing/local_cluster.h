#pragma once

#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "node/pod_volumes.h"
#include "node/process_host.h"
#include "node/process_node.h"
#include "rt/runtime.h"
#include "sim/cluster.h"

namespace basalt::node::testing {

// A folder of its own that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "basalt-node-XXXXXX").native();
    BASALT_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The agent of one node, "n1", and all it needs but the cluster: made and stopped as one process would be.
struct Agent {
  Agent(rt::Runtime& runtime, kube::Client& client, const std::string& root, ProcessHostOptions host_options = {},
        ProcessNodeOptions options = {}, std::unique_ptr<ProcessRunner> runner = nullptr,
        std::unique_ptr<Prober> prober = nullptr) {
    host_options.root = root;
    auto opened =
        ProcessHost::open(runtime, client, Logger(), std::move(host_options), std::move(runner), std::move(prober));
    BASALT_CHECK_MSG(opened.ok(), opened.error().to_string());
    host = std::move(*opened);
    if (options.node.name.empty()) options.node.name = "n1";
    node = std::make_unique<ProcessNode>(runtime, client, Logger(), *host, std::move(options));
    host->start();
    node->start();
  }
  ~Agent() { stop(); }
  void stop() {
    node->stop();
    host->stop();
  }
  std::unique_ptr<ProcessHost> host;
  std::unique_ptr<ProcessNode> node;
};

// Processes of this machine whose environment has the entry.
inline std::size_t count_marked(std::string_view marker) {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string text = read_file(entry.path().native() + "/environ").value_or("");
    for (const std::string_view one : base::split(text, '\0')) count += one == marker ? 1 : 0;
  }
  return count;
}

inline std::string log_of(Node& node, std::string_view pod, std::string_view container = {}, LogOptions options = {}) {
  std::string text;
  const Done done = node.read_log("default", std::string(pod), std::string(container), options,
                                  [&](std::string_view bytes) {
                                    text += bytes;
                                    return true;
                                  },
                                  {});
  return done.ok() ? text : "error: " + done.error().message;
}

inline std::string phase_of(sim::Cluster& cluster, std::string_view pod) {
  const auto object = cluster.get(sim::resources::kPods, "default", pod);
  return object ? std::string(object->string_at({"status", "phase"})) : "";
}

// The status of the i-th container, null if there is none.
inline json::Value container_status(sim::Cluster& cluster, std::string_view pod, std::size_t index = 0,
                                    std::string_view list = "containerStatuses") {
  const auto object = cluster.get(sim::resources::kPods, "default", pod);
  const json::Value* all = object ? object->find_path({"status", list}) : nullptr;
  if (all == nullptr || !all->is_array() || index >= all->as_array().size()) return nullptr;
  return all->as_array()[index];
}

inline std::int64_t int_at(const json::Value& value, std::initializer_list<std::string_view> path) {
  const json::Value* found = value.find_path(path);
  return found != nullptr && found->is_int() ? found->as_int() : -1;
}

}  // namespace basalt::node::testing
