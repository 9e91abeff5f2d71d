#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "controllers/datadependency/location_mapping.h"
#include "rt/time.h"

namespace basalt::controllers::datadependency {

enum class AuthKind : std::uint8_t { None, Basic, Bearer, ApiKey, AmoroSignature };

struct Credentials {
  AuthKind kind = AuthKind::None;
  std::string username;
  std::string password;
  std::string token;
  std::string api_key;
  std::string secret;
  std::string header = "X-API-Key";  // of an API key
  bool operator==(const Credentials&) const = default;
};

struct RetryConfig {
  int retries_max = 3;
  rt::Duration backoff_initial = std::chrono::seconds(1);
  rt::Duration backoff_max = std::chrono::seconds(30);
  double backoff_multiplier = 2.0;
  rt::Duration timeout = std::chrono::seconds(30);
  bool operator==(const RetryConfig&) const = default;
};

struct TlsConfig {
  bool insecure_skip_verify = false;
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  bool operator==(const TlsConfig&) const = default;
};

// The document of one plugin, as the ConfigMap or a mounted file has it.
struct PluginConfig {
  std::string base_url;  // with the port, without a slash at the end
  Credentials credentials;
  std::string secret_namespace;  // of endpoint.auth.secretRef; "" if there is none
  std::string secret_name;
  TlsConfig tls;
  LocationMapping mapping;
  std::map<std::string, std::vector<std::string>> tables;  // of the plugin "static": name -> clusters
  RetryConfig retry;
  std::string api = "iceberg-rest";  // or dashboard
  bool falls_back_to_dashboard = false;
  std::string warehouse;  // of an Iceberg REST catalog: what its configuration is asked for
  rt::Duration refresh_interval = std::chrono::minutes(5);
  int calls_max = 4;  // at once
  bool operator==(const PluginConfig&) const = default;
};

struct ParsedPluginConfig {
  PluginConfig config;
  std::vector<std::string> warnings;  // unknown keys, credentials in the open, prefixes that match too much
};
// InvalidInput names the field. `plugin` is the key of the document.
[[nodiscard]] Result<ParsedPluginConfig> parse_plugin_config(std::string_view plugin, std::string_view text);

}  // namespace basalt::controllers::datadependency
