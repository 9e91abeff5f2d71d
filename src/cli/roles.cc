#include "cli/roles.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <ostream>
#include <utility>

#include "base/strings.h"
#include "rt/signals.h"

namespace basalt::cli {
namespace {

// klog's verbosity 4 is what the stock manifests give; it means "info" there and debug lines begin above it.
constexpr std::int64_t kDebugVerbosity = 5;

}  // namespace

void add_role_flags(GoFlags& flags, RoleFlags& target) {
  flags.section("Connection");
  flags.text("kubeconfig", target.kubeconfig, "kubeconfig file; without it and --master, the pod's service account",
             "FILE", 'k');
  flags.text("master", target.master, "address of the API server; replaces the one in the kubeconfig", "URL", 's');
  flags.fraction("kube-api-qps", target.calls_per_second, "calls a second to the API server");
  flags.number("kube-api-burst", target.burst, "calls at once before that limit counts");
  flags.section("Logs");
  flags.number("v", target.verbosity, "verbosity: from 5 on debug lines are written", 'v');
  flags.choice("log-format", target.log_format, {"text", "json"}, "form of the log lines");
  flags.truth("version", target.print_version, "print the version and exit");
  for (const std::string_view name : {"logtostderr", "alsologtostderr", "add_dir_header", "skip_headers",
                                      "skip_log_headers", "one_output", "legacy_stderr_threshold_behavior"})
    flags.ignored(name, false);
  for (const std::string_view name : {"stderrthreshold", "vmodule", "log_dir", "log_file", "log_file_max_size",
                                      "log_backtrace_at", "alsologtostderrthreshold", "log-flush-frequency"})
    flags.ignored(name, true);
}

Logger make_role_logger(const RoleFlags& flags) {
  const LogFormat format = flags.log_format == "json" ? LogFormat::Json : LogFormat::Text;
  return Logger(make_stderr_sink(format), flags.verbosity >= kDebugVerbosity ? LogLevel::Debug : LogLevel::Info);
}

Result<std::unique_ptr<kube::RestClient>> connect_role(rt::Runtime& runtime, const Logger& log, const RoleFlags& flags,
                                                       std::string_view user_agent, kube::Metrics* metrics) {
  kube::ConfigOverrides overrides;
  overrides.kubeconfig = flags.kubeconfig;
  overrides.server = flags.master;
  BASALT_TRY(const kube::ClientConfig config,
             kube::load_manager_config(overrides, kube::ConfigEnvironment::of_process()));
  kube::RestClientOptions options;
  options.user_agent = kube::default_user_agent(user_agent);
  options.calls_per_second = flags.calls_per_second;
  options.burst = flags.burst;
  options.metrics = metrics;
  return kube::make_rest_client(runtime, log, config, options);
}

int run_until_signal(rt::Runtime& runtime, const std::function<int(const rt::StopToken& stop)>& body) {
  rt::StopSource source(runtime);
  std::atomic<bool> is_over{false};
  rt::Thread signals(runtime, "signals", [&] {
    rt::wait_for_stop_signal();
    if (is_over.load()) return;
    source.request_stop();
    rt::wait_for_stop_signal();
    if (!is_over.load()) std::_Exit(1);
  });
  const int code = body(source.token());
  // Wakes the thread that waits for signals: once if none came, and not at all if it waits for the second.
  is_over.store(true);
  ::kill(::getpid(), SIGTERM);
  signals.join();
  return code;
}

void add_election_flags(GoFlags& flags, bool& leader_elect, ElectionFlags& target,
                        kube::LeaderElectionOptions& options) {
  flags.section("Leader election");
  flags.truth("leader-elect", leader_elect, "act only while holding the lease");
  flags.duration("leader-elect-lease-duration", target.lease_duration, "how long others wait for a silent leader");
  flags.duration("leader-elect-renew-deadline", target.renew_deadline, "how long a leader tries to renew");
  flags.duration("leader-elect-retry-period", target.retry_period, "time between two tries");
  flags.text("leader-elect-resource-name", options.name, "name of the lease", "NAME");
  flags.text("leader-elect-resource-namespace", options.ns, "namespace of the lease", "NAMESPACE");
  flags.text("lock-object-namespace", target.lock_object_namespace, "older name of the flag above", "NAMESPACE");
  flags.hide("lock-object-namespace");
}

void settle_election(const ElectionFlags& flags, kube::LeaderElectionOptions& options) {
  options.lease_duration = flags.lease_duration.value;
  options.renew_deadline = flags.renew_deadline.value;
  options.retry_period = flags.retry_period.value;
  if (!flags.lock_object_namespace.empty()) options.ns = flags.lock_object_namespace;
}

void add_side_server_flags(GoFlags& flags, SideServerFlags& target) {
  flags.section("Health and metrics");
  flags.truth("enable-healthz", target.enable_healthz, "serve /healthz, /livez and /readyz");
  flags.text("healthz-address", target.healthz_address, "where", "[ADDRESS]:PORT");
  flags.truth("enable-metrics", target.enable_metrics, "serve /metrics");
  flags.text("listen-address", target.metrics_address, "where", "[ADDRESS]:PORT");
}

Done take_resources(std::string_view flag, std::string_view text, api::ResourceList& resources) {
  for (const std::string_view entry : base::split(text, ',')) {
    const auto parts = base::split_once(entry, '=');
    if (!parts || parts->first.empty())
      return Error::invalid_input(std::string(flag) + " takes NAME=QUANTITY,..., such as cpu=4,memory=8Gi; " +
                                  base::quote(entry) + " is none");
    const auto parsed = api::Quantity::parse(parts->second);
    if (!parsed.ok())
      return Error::invalid_input(base::quote(parts->second) + " is no quantity for " + std::string(parts->first) +
                                  "; quantities look like 4, 500m, 1k, 1.5Gi");
    const api::Quantity& quantity = *parsed;
    if (quantity < api::Quantity())
      return Error::invalid_input(std::string(flag) + ": " + base::quote(entry) + " is negative");
    resources.set(parts->first, quantity);
  }
  return Ok{};
}

Done take_count(std::string_view text, std::int32_t& count) {
  std::int64_t unit = 1;
  std::string_view digits = text;
  if (digits.ends_with('k') || digits.ends_with('K')) unit = 1000;
  if (digits.ends_with('M')) unit = 1'000'000;
  if (unit > 1) digits.remove_suffix(1);
  const auto number = base::parse_int64(digits);
  if (!number || *number < 0 || *number > std::numeric_limits<std::int32_t>::max() / unit)
    return Error::invalid_input("it takes a whole number from 0 on, such as 3, 5k or 1M");
  count = static_cast<std::int32_t>(*number * unit);
  return Ok{};
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

Result<BindAddress> parse_bind_address(std::string_view flag, std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const auto port = colon == std::string_view::npos ? std::nullopt : base::parse_uint64(text.substr(colon + 1));
  if (!port || *port > 65535)
    return Error::invalid_input("the value " + base::quote(text) + " of " + std::string(flag) +
                                " is wrong: it takes [ADDRESS]:PORT, such as :8081");
  std::string_view address = text.substr(0, colon);
  if (address.starts_with("[") && address.ends_with("]")) address = address.substr(1, address.size() - 2);
  return BindAddress{address.empty() ? "0.0.0.0" : std::string(address), static_cast<std::uint16_t>(*port)};
}

void print_role_version(std::ostream& out) {
  out << "API Version: v1alpha1\nVersion: " << version()
      << "\nGit SHA: Not provided.\n"
      // The names of the lines are those that scripts look for; there is no Go in this program.
      << "Built At: Not provided.\nGo Version: Not provided.\nGo OS/Arch: linux/"
#if defined(__x86_64__)
      << "amd64"
#elif defined(__aarch64__)
      << "arm64"
#else
      << "other"
#endif
      << "\n";
}

}  // namespace basalt::cli
