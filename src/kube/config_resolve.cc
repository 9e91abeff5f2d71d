#include <algorithm>
#include <span>
#include <utility>

#include "base/strings.h"
#include "kube/kubeconfig.h"
#include "net/url.h"

// From the entries of a kubeconfig and the flags to one ClientConfig.

namespace basalt::kube {
namespace {

constexpr std::string_view kServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/";

template <class T>
const T* find_named(const std::vector<T>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(), [name](const T& e) { return e.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

template <class T>
std::string suggestion(const std::vector<T>& entries, std::string_view name) {
  std::vector<std::string_view> names;
  for (const T& entry : entries) names.emplace_back(entry.name);
  return base::did_you_mean(name, names);
}

std::string files_of(const Kubeconfig& config) {
  return config.files.empty() ? std::string("the kubeconfig") : base::join(std::span(config.files), ", ");
}

void set_if(std::string& field, const std::string& value) {
  if (!value.empty()) field = value;
}

// The context that counts; an empty one if none is named and the flags say all there is to say.
Result<KubeconfigContext> pick_context(const Kubeconfig& config, const ConfigOverrides& overrides) {
  const std::string& name = overrides.context.empty() ? config.current_context : overrides.context;
  if (name.empty()) {
    if (!overrides.server.empty() || !overrides.cluster.empty()) return KubeconfigContext();
    if (config.files.empty()) {
      return Error::invalid_input(
          "no kubeconfig was found and no server was given: set KUBECONFIG, write ~/.kube/config, or use --server");
    }
    return Error::invalid_input(files_of(config) +
                                ": current-context is not set: use --context or `kubectl config use-context`");
  }
  const KubeconfigContext* context = find_named(config.contexts, name);
  if (context == nullptr) {
    return Error::invalid_input(files_of(config) + ": there is no context " + base::quote(name) +
                                suggestion(config.contexts, name));
  }
  return *context;
}

Result<KubeconfigCluster> pick_cluster(const Kubeconfig& config, const KubeconfigContext& context,
                                       const ConfigOverrides& overrides) {
  const std::string& name = overrides.cluster.empty() ? context.cluster : overrides.cluster;
  KubeconfigCluster cluster;
  if (const KubeconfigCluster* found = find_named(config.clusters, name)) {
    cluster = *found;
  } else if (!name.empty()) {
    const std::string origin = context.origin.empty() ? files_of(config) : context.origin;
    return Error::invalid_input(origin + ": context " + base::quote(context.name) + " names the cluster " +
                                base::quote(name) + ", which does not exist" + suggestion(config.clusters, name));
  } else if (overrides.server.empty()) {
    return Error::invalid_input(context.origin + ": context " + base::quote(context.name) +
                                " names no cluster: set contexts[].context.cluster");
  }
  set_if(cluster.server, overrides.server);
  set_if(cluster.tls_server_name, overrides.tls_server_name);
  set_if(cluster.proxy_url, overrides.proxy_url);
  if (!overrides.ca_file.empty()) {
    cluster.ca_file = overrides.ca_file;
    cluster.ca_pem.clear();
  }
  if (overrides.insecure_skip_tls_verify) {
    cluster.insecure_skip_tls_verify = *overrides.insecure_skip_tls_verify;
    // As kubectl: the flag, not the file's authority, decides.
    if (cluster.insecure_skip_tls_verify) {
      cluster.ca_file.clear();
      cluster.ca_pem.clear();
    }
  }
  return cluster;
}

Result<KubeconfigUser> pick_user(const Kubeconfig& config, const KubeconfigContext& context,
                                 const ConfigOverrides& overrides) {
  const std::string& name = overrides.user.empty() ? context.user : overrides.user;
  KubeconfigUser user;
  if (const KubeconfigUser* found = find_named(config.users, name)) {
    user = *found;
  } else if (!name.empty()) {
    const std::string origin = context.origin.empty() ? files_of(config) : context.origin;
    return Error::invalid_input(origin + ": context " + base::quote(context.name) + " names the user " +
                                base::quote(name) + ", which does not exist" + suggestion(config.users, name));
  }
  if (!overrides.token.empty()) {
    user.token = overrides.token;
    user.token_file.clear();
    user.exec.reset();
    user.auth_provider.clear();
  }
  if (!overrides.username.empty() || !overrides.password.empty()) {
    user.username = overrides.username;
    user.password = overrides.password;
    user.exec.reset();
    user.auth_provider.clear();
  }
  if (!overrides.certificate_file.empty()) {
    user.certificate_file = overrides.certificate_file;
    user.certificate_pem.clear();
  }
  if (!overrides.key_file.empty()) {
    user.key_file = overrides.key_file;
    user.key_pem.clear();
  }
  set_if(user.impersonation.user, overrides.impersonate_user);
  set_if(user.impersonation.uid, overrides.impersonate_uid);
  if (!overrides.impersonate_groups.empty()) user.impersonation.groups = overrides.impersonate_groups;
  return user;
}

Done check_cluster(const KubeconfigCluster& cluster) {
  const std::string label =
      cluster.origin.empty() ? std::string("--server") : cluster.origin + ": cluster " + base::quote(cluster.name);
  if (cluster.server.empty()) {
    return Error::invalid_input(label + " has no server: set clusters[].cluster.server or use --server");
  }
  if (const auto url = net::parse_url(cluster.server); !url.ok()) {
    return Error::invalid_input(label + ": server " + base::quote(cluster.server) + ": " + url.error().message);
  }
  if (cluster.insecure_skip_tls_verify && (!cluster.ca_file.empty() || !cluster.ca_pem.empty())) {
    return Error::invalid_input(label +
                                " has both a certificate authority and insecure-skip-tls-verify: remove one of them");
  }
  return Ok();
}

Done check_user(const KubeconfigUser& user) {
  const std::string label =
      user.origin.empty() ? std::string("the user") : user.origin + ": user " + base::quote(user.name);
  if (!user.auth_provider.empty()) {
    return Error::invalid_input(label + " uses the auth-provider " + base::quote(user.auth_provider) +
                                ", which Kubernetes removed in 1.26: use an exec program instead");
  }
  const bool has_certificate = !user.certificate_file.empty() || !user.certificate_pem.empty();
  const bool has_key = !user.key_file.empty() || !user.key_pem.empty();
  if (has_certificate != has_key) {
    return Error::invalid_input(
        label + " has a client " + (has_certificate ? "certificate" : "key") + " without a " +
        (has_certificate ? "key" : "certificate") + ": set " +
        (has_certificate ? "client-key or client-key-data" : "client-certificate or client-certificate-data"));
  }
  const bool has_token = !user.token.empty() || !user.token_file.empty();
  const bool has_basic = !user.username.empty() || !user.password.empty();
  if (int{has_token} + int{has_basic} + int{user.exec.has_value()} > 1) {
    return Error::invalid_input(label + " has more than one of token, username/password and exec: keep one");
  }
  const Impersonation& as = user.impersonation;
  if (as.user.empty() && (!as.uid.empty() || !as.groups.empty() || !as.extra.empty())) {
    return Error::invalid_input(label + " impersonates a group or UID without a user: set `as` (--as), too");
  }
  return Ok();
}

// kubectl takes "host:port" for a server without TLS.
std::string with_scheme(const std::string& server) {
  if (server.empty() || server.find("://") != std::string::npos) return server;
  return "http://" + server;
}

Done require_file(const ConfigOverrides& overrides, const ConfigEnvironment& env) {
  if (overrides.kubeconfig.empty()) return Ok();
  Result<std::string> text = env.read_file(overrides.kubeconfig);
  if (!text.ok()) return text.error().with_context("--kubeconfig");
  return Ok();
}

}  // namespace

Result<ClientConfig> resolve_config(const Kubeconfig& config, const ConfigOverrides& overrides) {
  BASALT_TRY(const KubeconfigContext context, pick_context(config, overrides));
  BASALT_TRY(KubeconfigCluster cluster, pick_cluster(config, context, overrides));
  BASALT_TRY(KubeconfigUser user, pick_user(config, context, overrides));
  cluster.server = with_scheme(cluster.server);
  BASALT_TRY_DONE(check_cluster(cluster));
  BASALT_TRY_DONE(check_user(user));
  ClientConfig out;
  out.server = cluster.server;
  out.context = context.name;
  out.ns = !overrides.ns.empty() ? overrides.ns : !context.ns.empty() ? context.ns : "default";
  // In-line data wins over a file, as for kubectl.
  out.tls.ca_pem = cluster.ca_pem;
  if (cluster.ca_pem.empty()) out.tls.ca_file = cluster.ca_file;
  out.tls.certificate_pem = user.certificate_pem;
  if (user.certificate_pem.empty()) out.tls.certificate_file = user.certificate_file;
  out.tls.key_pem = user.key_pem;
  if (user.key_pem.empty()) out.tls.key_file = user.key_file;
  out.tls.server_name = cluster.tls_server_name;
  out.tls.insecure_skip_verify = cluster.insecure_skip_tls_verify;
  out.proxy_url = cluster.proxy_url;
  out.token = user.token;
  out.token_file = user.token_file;
  out.exec = std::move(user.exec);
  out.username = user.username;
  out.password = user.password;
  out.impersonation = std::move(user.impersonation);
  return out;
}

Result<ClientConfig> in_cluster_config(const ConfigEnvironment& env) {
  const std::string host = env.variable("KUBERNETES_SERVICE_HOST").value_or("");
  const std::string port = env.variable("KUBERNETES_SERVICE_PORT").value_or("");
  if (host.empty() || port.empty()) {
    return Error::invalid_input(
        "not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set): use --kubeconfig or --master");
  }
  ClientConfig out;
  const bool is_v6 = host.find(':') != std::string::npos;
  out.server = "https://" + (is_v6 ? "[" + host + "]" : host) + ":" + port;
  out.token_file = std::string(kServiceAccount) + "token";
  out.tls.ca_file = std::string(kServiceAccount) + "ca.crt";
  if (Result<std::string> token = env.read_file(out.token_file); !token.ok()) {
    return token.error().with_context("the pod has no service account token (automountServiceAccountToken: false?)");
  }
  if (!env.read_file(out.tls.ca_file).ok()) out.tls.ca_file.clear();  // the system's authorities then
  const Result<std::string> ns = env.read_file(std::string(kServiceAccount) + "namespace");
  if (ns.ok()) out.ns = base::trim(*ns);
  if (out.ns.empty()) out.ns = "default";
  return out;
}

Result<ClientConfig> load_client_config(const ConfigOverrides& overrides, const ConfigEnvironment& env) {
  BASALT_TRY_DONE(require_file(overrides, env));
  BASALT_TRY(const Kubeconfig config, load_kubeconfig(kubeconfig_paths(overrides, env), env));
  const bool says_nothing = config.contexts.empty() && config.clusters.empty() && overrides.server.empty();
  if (says_nothing && overrides.kubeconfig.empty()) {
    if (Result<ClientConfig> pod = in_cluster_config(env); pod.ok()) {
      if (!overrides.ns.empty()) pod->ns = overrides.ns;
      return pod;
    }
  }
  return resolve_config(config, overrides);
}

Result<ClientConfig> load_manager_config(const ConfigOverrides& overrides, const ConfigEnvironment& env) {
  if (overrides.kubeconfig.empty() && overrides.server.empty()) return in_cluster_config(env);
  BASALT_TRY_DONE(require_file(overrides, env));
  Kubeconfig config;
  if (!overrides.kubeconfig.empty()) {
    BASALT_TRY(config, load_kubeconfig({overrides.kubeconfig}, env));
  }
  return resolve_config(config, overrides);
}

std::shared_ptr<Credentials> make_credentials(rt::Runtime& runtime, const ClientConfig& config, ProcessRunner runner) {
  // A file wins over a token in the text: it rotates.
  if (!config.token_file.empty()) return bearer_token_file(runtime, config.token_file);
  if (!config.token.empty()) return bearer_token(config.token);
  if (config.exec) {
    ClusterInfo cluster;
    cluster.server = config.server;
    cluster.tls_server_name = config.tls.server_name;
    cluster.insecure_skip_tls_verify = config.tls.insecure_skip_verify;
    cluster.ca_pem = config.tls.ca_pem;
    cluster.proxy_url = config.proxy_url;
    return exec_credentials(runtime, *config.exec, std::move(cluster), std::move(runner));
  }
  if (!config.username.empty() || !config.password.empty()) return basic_auth(config.username, config.password);
  return no_credentials();
}

}  // namespace basalt::kube
