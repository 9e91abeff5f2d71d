#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/credentials.h"
#include "net/http_client.h"

namespace basalt::kube {

struct Impersonation {
  std::string user;
  std::string uid;
  std::vector<std::string> groups;
  std::vector<std::pair<std::string, std::vector<std::string>>> extra;
};

// Everything needed to reach one API server as somebody.
struct ClientConfig {
  std::string server;   // https://host:port[/prefix]
  std::string ns;       // of the context; "default" if it names none
  std::string context;  // name of the context, "" in a cluster
  net::TlsClientOptions tls;
  std::string proxy_url;
  std::string token;       // of these at most one is used, in this order:
  std::string token_file;  // token file, token, exec, basic
  std::optional<ExecConfig> exec;
  std::string username;
  std::string password;
  Impersonation impersonation;
};

// A cluster, user or context as it stands in a file.
struct KubeconfigCluster {
  std::string name;
  std::string origin;  // the file
  std::string server;
  std::string tls_server_name;
  bool insecure_skip_tls_verify = false;
  std::string ca_file;
  std::string ca_pem;
  std::string proxy_url;
};
struct KubeconfigUser {
  std::string name;
  std::string origin;
  std::string certificate_file;
  std::string certificate_pem;
  std::string key_file;
  std::string key_pem;
  std::string token;
  std::string token_file;
  std::string username;
  std::string password;
  std::optional<ExecConfig> exec;
  std::string auth_provider;  // name of a removed plug-in; using the user is an error that says so
  Impersonation impersonation;
};
struct KubeconfigContext {
  std::string name;
  std::string origin;
  std::string cluster;
  std::string user;
  std::string ns;
};

// One or several merged files. Of a name that two files define the first one's whole entry counts, as for kubectl.
struct Kubeconfig {
  std::vector<std::string> files;  // that were read
  std::string current_context;
  std::vector<KubeconfigCluster> clusters;
  std::vector<KubeconfigUser> users;
  std::vector<KubeconfigContext> contexts;
};

// What flags say; "" and nothing mean "not given".
struct ConfigOverrides {
  std::string kubeconfig;  // this file only; it must exist
  std::string context;
  std::string cluster;
  std::string user;
  std::string server;
  std::string token;
  std::string ns;
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  std::string tls_server_name;
  std::string proxy_url;
  std::string username;
  std::string password;
  std::optional<bool> insecure_skip_tls_verify;
  std::string impersonate_user;
  std::string impersonate_uid;
  std::vector<std::string> impersonate_groups;
};

// Environment variables and files, injected so that tests need neither.
struct ConfigEnvironment {
  std::function<std::optional<std::string>(std::string_view name)> variable;
  std::function<Result<std::string>(const std::string& path)> read_file;  // NotFound if there is none
  static ConfigEnvironment of_process();
};

// One file's text. `path` names it in errors and is what relative paths in it are relative to.
[[nodiscard]] Result<Kubeconfig> parse_kubeconfig(std::string_view text, const std::string& path);
// Reads and merges the files in order; absent ones are skipped.
[[nodiscard]] Result<Kubeconfig> load_kubeconfig(const std::vector<std::string>& paths, const ConfigEnvironment& env);
// The file of the flag, else those of KUBECONFIG, else ~/.kube/config.
[[nodiscard]] std::vector<std::string> kubeconfig_paths(const ConfigOverrides& overrides, const ConfigEnvironment& env);
// Picks context, cluster and user, applies the overrides, checks the whole.
[[nodiscard]] Result<ClientConfig> resolve_config(const Kubeconfig& config, const ConfigOverrides& overrides);
// The service account of the pod that we run in.
[[nodiscard]] Result<ClientConfig> in_cluster_config(const ConfigEnvironment& env);

// As kubectl: kubeconfig, overrides, and in a pod without any kubeconfig its service account.
[[nodiscard]] Result<ClientConfig> load_client_config(const ConfigOverrides& overrides, const ConfigEnvironment& env);
// As the controller manager: --kubeconfig or --master if given, else the service account, never KUBECONFIG or the home.
[[nodiscard]] Result<ClientConfig> load_manager_config(const ConfigOverrides& overrides, const ConfigEnvironment& env);

[[nodiscard]] std::shared_ptr<Credentials> make_credentials(rt::Runtime& runtime, const ClientConfig& config,
                                                            ProcessRunner runner = {});

}  // namespace basalt::kube
