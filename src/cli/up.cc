#include "cli/up.h"

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <utility>

#include <CLI/CLI.hpp>

#include "apiserver/http/cluster_files.h"
#include "apiserver/http/front.h"
#include "apiserver/registry/api_server.h"
#include "base/log.h"
#include "cli/cli.h"
#include "rt/real_runtime.h"
#include "rt/signals.h"

namespace basalt::cli {
namespace {

struct UpFlags {
  std::string data_dir = ".basalt";
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::string durability = "full";
  std::string log_level = "warn";
  bool api_only = false;
};

int fail(Invocation& invocation, const Error& error) {
  invocation.err << invocation.program << ": " << error.message << "\n";
  return kExitFailed;
}

// The cluster, with its parts in the order in which they stop.
class LocalCluster {
 public:
  LocalCluster(rt::Runtime& runtime, Logger log) : runtime_(runtime), log_(std::move(log)) {}
  ~LocalCluster() { stop(); }

  Done start(const UpFlags& flags) {
    BASALT_TRY(files_, apiserver::open_cluster_files(runtime_, flags.data_dir, flags.address));
    apiserver::ApiServer::Options options;
    options.store.durability = flags.durability == "memory" ? apiserver::Durability::Memory
                               : flags.durability == "fast" ? apiserver::Durability::Fast
                                                            : apiserver::Durability::Full;
    options.store.directory = std::filesystem::path(flags.data_dir) / "store";
    options.cluster_ca_pem = files_.authority.certificate_pem;
    BASALT_TRY(server_, apiserver::ApiServer::open(runtime_, log_, std::move(options)));
    BASALT_TRY_DONE(server_->start());
    BASALT_TRY_DONE(listen(flags));
    url_ = "https://" + flags.address + ":" + std::to_string(front_->port());
    return apiserver::write_kubeconfig(files_, url_, front_->port());
  }

  void stop() {
    if (front_) front_->stop();
    front_.reset();
    if (server_) server_->stop();
    server_.reset();
  }

  [[nodiscard]] const std::string& url() const { return url_; }
  [[nodiscard]] std::string kubeconfig_path() const { return files_.kubeconfig_path(); }

 private:
  Done listen(const UpFlags& flags) {
    apiserver::FrontOptions options;
    options.server.address = flags.address;
    options.server.port = flags.port != 0 ? flags.port : files_.port;
    options.server.tls.emplace();
    options.server.tls->certificate_pem = files_.server.certificate_pem;
    options.server.tls->key_pem = files_.server.key_pem;
    options.server.tls->client_ca_pem = files_.authority.certificate_pem;
    options.tokens[files_.admin_token] = apiserver::UserInfo{"kubernetes-admin", "", {"system:masters"}};
    auto front = apiserver::Front::start(runtime_, log_, *server_, options);
    if (!front.ok() && flags.port == 0 && options.server.port != 0) {
      // Somebody else has the port of last time; any other will do.
      options.server.port = 0;
      front = apiserver::Front::start(runtime_, log_, *server_, options);
    }
    if (!front.ok()) return std::move(front).error();
    front_ = std::move(*front);
    return Ok{};
  }

  rt::Runtime& runtime_;
  Logger log_;
  apiserver::ClusterFiles files_;
  std::unique_ptr<apiserver::ApiServer> server_;
  std::unique_ptr<apiserver::Front> front_;
  std::string url_;
};

int serve(Invocation& invocation, const UpFlags& flags) {
  LogLevel level = LogLevel::Warn;
  if (!log_level_from_string(flags.log_level, level)) return kExitUsage;  // the flag was checked
  rt::block_stop_signals();
  const auto runtime = rt::make_real_runtime();
  LocalCluster cluster(*runtime, Logger(make_stderr_sink(LogFormat::Text), level));
  if (Done started = cluster.start(flags); !started.ok()) return fail(invocation, started.error());
  invocation.out << "The API server is ready at " << cluster.url() << "\n\n"
                 << "  export KUBECONFIG="
                 << std::filesystem::absolute(cluster.kubeconfig_path()).lexically_normal().string()
                 << "\n  kubectl get namespaces\n\nPress Ctrl-C to stop.\n"
                 << std::flush;
  rt::wait_for_stop_signal();
  invocation.out << "Stopping.\n" << std::flush;
  cluster.stop();
  return kExitOk;
}

}  // namespace

int run_up(Invocation& invocation) {
  UpFlags flags;
  CLI::App app("Starts a Kubernetes API server in this process and runs until it is told to stop.", invocation.program);
  app.add_flag("--api-only", flags.api_only, "only the API server: no nodes, scheduler or controllers");
  app.add_option("--data-dir", flags.data_dir, "folder of the cluster: objects, certificates, kubeconfig")
      ->capture_default_str();
  app.add_option("--address", flags.address, "address to listen on")->capture_default_str();
  app.add_option("--port", flags.port, "port to listen on; 0: the one of last time, or any free one")
      ->capture_default_str();
  app.add_option("--durability", flags.durability,
                 "full: an acknowledged write survives the loss of power; fast: it survives the end of the process; "
                 "memory: nothing is kept")
      ->check(CLI::IsMember({"full", "fast", "memory"}))
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  std::vector<std::string> arguments(invocation.arguments.rbegin(), invocation.arguments.rend());
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    invocation.out << app.help();
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    invocation.err << invocation.program << ": " << error.what() << "\nRun '" << invocation.program
                   << " --help' for its flags.\n";
    return kExitUsage;
  }
  if (!flags.api_only) {
    invocation.err << invocation.program
                   << ": nodes, scheduler and controllers are not part of this build: use --api-only.\n";
    return kExitFailed;
  }
  return serve(invocation, flags);
}

}  // namespace basalt::cli
