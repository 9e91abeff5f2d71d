#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/duration.h"
#include "api/resource_list.h"
#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::cli {

struct LocalClusterOptions {
  std::string data_dir = ".basalt";
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;                                  // 0: the one of last time, or any free one
  std::string durability = "full";                         // full, fast, memory
  bool api_only = false;                                   // nothing but the API server
  std::int32_t nodes = 1;                                  // that run processes
  api::ResourceList node_capacity;                         // of each; what is not named is the machine's
  std::map<std::string, std::vector<std::string>> images;  // what containers without a command run: by image
  std::int32_t simulated_nodes = 0;
  api::ResourceList simulated_capacity;
  std::vector<std::string> controllers = {"*", "-sharding-controller"};
  bool runs_workloads = true;       // Deployments, ReplicaSets, StatefulSets, core Jobs, Endpoints
  bool spreads = false;             // the scheduler spreads pods over nodes instead of packing them
  std::string shard_mode = "none";  // how it treats nodes outside its NodeShard: none, soft, hard
  // Above zero: a control plane without nodes of its own, and so many members, each a cluster as described here in a
  // folder of its own, with a stand-in for Karmada between them.
  std::int32_t members = 0;
  std::string pod_addresses = "127.64.0.0/10";
  api::Duration history{std::chrono::minutes(5)};  // how long old versions are kept for watches and pages of lists
  std::string audit_log;                           // a file with a line for each request; "": none
};
inline constexpr std::int32_t kMembersMax = 16;

// A whole cluster in this process: API server with its admission, controllers, scheduler and nodes. start() and stop()
// are called by one thread.
class LocalCluster {
 public:
  LocalCluster(rt::Runtime& runtime, Logger log, LocalClusterOptions options);
  ~LocalCluster();  // stops

  // Returns when the API is served and all kinds are known. The controllers fill their caches meanwhile: what is
  // submitted before they are ready waits for them. On an error everything is stopped again.
  [[nodiscard]] Done start(const rt::StopToken& stop);
  // Ends the pods' processes and everything else. Idempotent.
  void stop();

  [[nodiscard]] const std::string& url() const;
  [[nodiscard]] std::string kubeconfig_path() const;  // absolute
  [[nodiscard]] kube::Client& client();               // as the administrator, after start()
  // Name and kubeconfig of each member.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> members() const;

 private:
  struct Parts;
  Done start_parts(const rt::StopToken& stop);
  Done listen();
  Done publish(const rt::StopToken& stop);
  void add_admission();
  Done start_members(const rt::StopToken& stop);
  Done make_nodes();
  void wait_for_nodes(const rt::StopToken& stop);
  void start_scheduler();
  void start_controllers();
  void start_workloads();

  rt::Runtime& runtime_;
  const Logger log_;
  const LocalClusterOptions options_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace basalt::cli
