#include "cli/client/process_host.h"

#include <unistd.h>
#include <csignal>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <utility>

#include "base/log.h"
#include "cli/run/run_local.h"
#include "kube/kubeconfig.h"
#include "kube/rest_client.h"
#include "kube/status.h"
#include "rt/real_runtime.h"
#include "rt/signals.h"

namespace basalt::cli {
namespace {

constexpr std::string_view kLocalKubeconfig =
    ".basalt/kubeconfig";                         // where `basalt up` writes it if nobody says otherwise
constexpr std::size_t kFileBytesMax = 16u << 20;  // of a manifest; an API server takes 3 MiB an object

class RestRawApi final : public RawApi {
 public:
  explicit RestRawApi(kube::RestClient& client) : client_(client) {}
  Result<std::string> get(const std::string& path_and_query, const rt::StopToken& stop) override {
    BASALT_TRY(net::HttpResponse answer, client_.raw("GET", path_and_query, "", stop));
    if (answer.status >= 300) return kube::error_from_answer(answer.status, answer.body, "");
    return std::move(answer.body);
  }

 private:
  kube::RestClient& client_;
};

class ProcessHost final : public Host {
 public:
  ProcessHost() : environment_(kube::ConfigEnvironment::of_process()) {
    rt::block_stop_signals();
    runtime_ = rt::make_real_runtime();
    interrupts_ = std::make_unique<Interrupts>(*runtime_);
    signals_ = rt::Thread(*runtime_, "signals", [this] { watch_signals(); });
  }
  ~ProcessHost() override {
    is_ending_ = true;
    kill(getpid(), SIGHUP);  // wakes the thread, which is the only one that takes it
    signals_.join();
  }

  rt::Runtime& runtime() override { return *runtime_; }
  Interrupts& interrupts() override { return *interrupts_; }

  Result<Connection> connect(const ConnectionFlags& flags) override {
    kube::ConfigOverrides overrides;
    overrides.kubeconfig = flags.kubeconfig;
    overrides.server = flags.master;
    overrides.context = flags.context;
    // `basalt up` in one window, everything else in another: no variable to set.
    if (!is_configured_elsewhere(flags)) {
      overrides.kubeconfig = kLocalKubeconfig;
      if (!has_file(overrides.kubeconfig)) {
        return Error::make(
            Reason::ServiceUnavailable,
            "no cluster is configured: 'basalt up' starts one in this folder; else set KUBECONFIG or use "
            "--kubeconfig FILE");
      }
    }
    return connect(overrides);
  }

  bool is_configured(const ConnectionFlags& flags) const override {
    return is_configured_elsewhere(flags) || has_file(std::string(kLocalKubeconfig));
  }

  Result<Connection> start_local(std::ostream& err) override {
    BASALT_TRY(local_, start_run_local(*runtime_, err));
    kube::ConfigOverrides overrides;
    overrides.kubeconfig = local_->kubeconfig_path();
    return connect(overrides);
  }

  Terminal terminal() const override { return terminal_of_process(environment_.variable); }
  std::optional<std::string> variable(std::string_view name) const override { return environment_.variable(name); }

  Result<std::string> read_file(const std::string& path) override {
    if (path != "-") return environment_.read_file(path);
    std::string text;
    std::array<char, 65536> buffer{};
    while (std::cin.read(buffer.data(), buffer.size()) || std::cin.gcount() > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(std::cin.gcount()));
      if (text.size() > kFileBytesMax) return Error::invalid_input("the standard input holds more than 16 MiB");
    }
    return text;
  }

  std::optional<std::string> read_answer() override {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }

 private:
  Result<Connection> connect(const kube::ConfigOverrides& overrides) {
    BASALT_TRY(const kube::ClientConfig config, kube::load_client_config(overrides, environment_));
    BASALT_TRY(client_, kube::make_rest_client(*runtime_, Logger(), config,
                                               {.user_agent = kube::default_user_agent("basalt-cli")}));
    raw_ = std::make_unique<RestRawApi>(*client_);
    return Connection{client_.get(), raw_.get(), config.ns, config.server, config.context};
  }

  bool has_file(const std::string& path) const { return environment_.read_file(path).ok(); }

  bool is_configured_elsewhere(const ConnectionFlags& flags) const {
    if (!flags.kubeconfig.empty() || !flags.master.empty() || !flags.context.empty()) return true;
    if (environment_.variable("KUBECONFIG") || kube::in_cluster_config(environment_).ok()) return true;
    for (const std::string& path : kube::kubeconfig_paths({}, environment_)) {
      if (has_file(path)) return true;
    }
    return false;
  }

  void watch_signals() {
    for (;;) {
      rt::wait_for_stop_signal();
      if (is_ending_) return;
      if (interrupts_->interrupt()) continue;
      // The cursor may stand in a line that is being redrawn.
      constexpr char kLineEnd[] = "\n";
      if (write(STDERR_FILENO, kLineEnd, 1) < 0) _exit(130);
      _exit(130);
    }
  }

  const kube::ConfigEnvironment environment_;
  std::unique_ptr<rt::Runtime> runtime_;
  std::unique_ptr<Interrupts> interrupts_;
  std::unique_ptr<RunLocal> local_;  // outlives the connection to it
  std::unique_ptr<kube::RestClient> client_;
  std::unique_ptr<RestRawApi> raw_;
  std::atomic<bool> is_ending_ = false;
  rt::Thread signals_;
};

}  // namespace

std::unique_ptr<Host> make_process_host() { return std::make_unique<ProcessHost>(); }

}  // namespace basalt::cli
