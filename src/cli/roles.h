#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/result.h"
#include "cli/commands.h"
#include "cli/go_flags.h"
#include "kube/kubeconfig.h"
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
