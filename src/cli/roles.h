#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/duration.h"
#include "api/resource_list.h"
#include "base/log.h"
#include "base/result.h"
#include "cli/commands.h"
#include "cli/go_flags.h"
#include "kube/kubeconfig.h"
#include "kube/leader_election.h"
#include "kube/rest_client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

// What the roles that run on a cluster share: flags of Go's logging library, logs, the connection, and signals.

namespace basalt::cli {

struct RoleFlags {
  std::string master;
  std::string kubeconfig;
  double calls_per_second = 50;
  std::int32_t burst = 100;
  std::int64_t verbosity = 0;
  std::string log_format = "text";
  bool print_version = false;
};
// --master, --kubeconfig, --kube-api-qps, --kube-api-burst, --version, -v and what klog takes.
void add_role_flags(GoFlags& flags, RoleFlags& target);
[[nodiscard]] Logger make_role_logger(const RoleFlags& flags);

// Connects as the managers do: by --kubeconfig or --master, else by the service account of the pod. `user_agent` begins
// with the name of the program that this role replaces, so that ownership of fields carries over.
[[nodiscard]] Result<std::unique_ptr<kube::RestClient>> connect_role(rt::Runtime& runtime, const Logger& log,
                                                                     const RoleFlags& flags,
                                                                     std::string_view user_agent,
                                                                     kube::Metrics* metrics);

// Runs `body` until it returns. The first SIGINT or SIGTERM requests the stop, the second ends the process with code 1.
// rt::block_stop_signals() has been called.
int run_until_signal(rt::Runtime& runtime, const std::function<int(const rt::StopToken& stop)>& body);

// The flags of an election, as Go's component base names them, and what they say once parsed.
struct ElectionFlags {
  std::string lock_object_namespace;
  api::Duration lease_duration{std::chrono::seconds(15)};
  api::Duration renew_deadline{std::chrono::seconds(10)};
  api::Duration retry_period{std::chrono::seconds(2)};
};
void add_election_flags(GoFlags& flags, bool& leader_elect, ElectionFlags& target,
                        kube::LeaderElectionOptions& options);
void settle_election(const ElectionFlags& flags, kube::LeaderElectionOptions& options);

// Where health and metrics are served.
struct SideServerFlags {
  bool enable_healthz = false;
  std::string healthz_address = ":11251";
  bool enable_metrics = false;
  std::string metrics_address;
};
void add_side_server_flags(GoFlags& flags, SideServerFlags& target);

// "cpu=4,memory=8Gi,example.com/gpu=2", the value of `flag`.
[[nodiscard]] Done take_resources(std::string_view flag, std::string_view text, api::ResourceList& resources);
// A count of things: "12", "5k", "2M"; 0 to 2147483647.
[[nodiscard]] Done take_count(std::string_view text, std::int32_t& count);

[[nodiscard]] std::string host_name();
// "[host]:port", ":8081". An error names the flag.
struct BindAddress {
  std::string address;  // "0.0.0.0" if none is given
  std::uint16_t port = 0;
};
[[nodiscard]] Result<BindAddress> parse_bind_address(std::string_view flag, std::string_view text);

// The lines that --version of Volcano's programs prints.
void print_role_version(std::ostream& out);

}  // namespace basalt::cli
