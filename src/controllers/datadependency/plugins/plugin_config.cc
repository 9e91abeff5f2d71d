#include "controllers/datadependency/plugins/plugin_config.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "api/duration.h"
#include "base/strings.h"
#include "json/value.h"

namespace basalt::controllers::datadependency {
namespace {

constexpr std::size_t kPrefixesMax = 10'000;
constexpr int kRetriesMax = 20;
constexpr int kCallsMax = 64;

// Reads the members of one object; remembers which were asked for.
class Section {
 public:
  Section(const json::Value* object, std::string path, std::vector<std::string>& warnings)
      : object_(object != nullptr && object->is_object() ? object : nullptr),
        path_(std::move(path)),
        warnings_(warnings) {
    if (object != nullptr && !object->is_object()) problem_ = path_ + " must be an object";
  }
  ~Section() {
    if (object_ == nullptr) return;
    for (const json::Member& member : object_->as_object()) {
      if (std::ranges::find(known_, member.key) == known_.end())
        warnings_.push_back("unknown field " + base::quote(name_of(member.key)));
    }
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  const json::Value* value(std::string_view key) {
    known_.emplace_back(key);
    return object_ == nullptr ? nullptr : object_->find(key);
  }
  void text(std::string_view key, std::string& target) {
    const json::Value* found = value(key);
    if (found == nullptr || found->is_null()) return;
    if (found->is_string()) {
      target = found->as_string();
    } else {
      complain(key, "must be a string");
    }
  }
  void truth(std::string_view key, bool& target) {
    const json::Value* found = value(key);
    if (found == nullptr || found->is_null()) return;
    if (found->is_bool()) {
      target = found->as_bool();
    } else {
      complain(key, "must be true or false");
    }
  }
  void whole(std::string_view key, int& target, int least, int most) {
    const json::Value* found = value(key);
    if (found == nullptr || found->is_null()) return;
    if (found->is_int() && found->as_int() >= least && found->as_int() <= most) {
      target = static_cast<int>(found->as_int());
    } else {
      complain(key, "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
  }
  void duration(std::string_view key, rt::Duration& target) {
    std::string text_value;
    text(key, text_value);
    if (text_value.empty()) return;
    const auto parsed = api::Duration::parse(text_value);
    if (parsed.ok() && parsed->value > rt::Duration::zero()) {
      target = parsed->value;
    } else {
      complain(key, "must be a duration above zero such as \"1.5s\"");
    }
  }
  void complain(std::string_view key, std::string_view what) {
    if (problem_.empty()) problem_ = name_of(key) + " " + std::string(what);
  }
  [[nodiscard]] Done done() const {
    if (!problem_.empty()) return Error::invalid_input(problem_);
    return Ok{};
  }

 private:
  [[nodiscard]] std::string name_of(std::string_view key) const {
    return path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  }
  const json::Value* object_;
  std::string path_;
  std::vector<std::string>& warnings_;
  std::vector<std::string> known_;
  std::string problem_;
};

Result<std::map<std::string, std::vector<std::string>>> lists_of(const json::Value* object, std::string_view path) {
  std::map<std::string, std::vector<std::string>> lists;
  if (object == nullptr || object->is_null()) return lists;
  if (!object->is_object()) return Error::invalid_input(std::string(path) + " must be an object");
  if (object->as_object().size() > kPrefixesMax)
    return Error::invalid_input(std::string(path) + " has more than " + std::to_string(kPrefixesMax) + " entries");
  for (const json::Member& member : object->as_object()) {
    const std::string at = std::string(path) + "[" + base::quote(member.key) + "]";
    if (!member.value.is_array()) return Error::invalid_input(at + " must be a list of cluster names");
    std::vector<std::string>& names = lists[member.key];
    for (const json::Value& name : member.value.as_array()) {
      if (!name.is_string() || name.as_string().empty())
        return Error::invalid_input(at + " must be a list of cluster names");
      names.push_back(name.as_string());
    }
  }
  return lists;
}

Result<AuthKind> auth_kind(std::string_view text) {
  const std::string name = base::to_lower_ascii(text);
  if (name.empty() || name == "none") return AuthKind::None;
  if (name == "basic") return AuthKind::Basic;
  if (name == "bearer" || name == "token" || name == "jwt") return AuthKind::Bearer;
  if (name == "apikey") return AuthKind::ApiKey;
  if (name == "amoro-signature") return AuthKind::AmoroSignature;
  return Error::invalid_input("endpoint.auth.type is " + base::quote(text) +
                              ": it takes none, basic, bearer, apikey or amoro-signature");
}

Done read_auth(const json::Value* object, PluginConfig& config, std::vector<std::string>& warnings) {
  Section auth(object, "endpoint.auth", warnings);
  std::string type;
  auth.text("type", type);
  BASALT_TRY(config.credentials.kind, auth_kind(type));
  auth.text("username", config.credentials.username);
  auth.text("password", config.credentials.password);
  auth.text("token", config.credentials.token);
  config.credentials.api_key = config.credentials.token;
  if (!config.credentials.password.empty() || !config.credentials.token.empty())
    warnings.emplace_back("endpoint.auth holds credentials in the open: name a Secret by endpoint.auth.secretRef");
  {
    Section secret(auth.value("secretRef"), "endpoint.auth.secretRef", warnings);
    secret.text("namespace", config.secret_namespace);
    secret.text("name", config.secret_name);
    BASALT_TRY_DONE(secret.done());
  }
  {
    Section extra(auth.value("extra"), "endpoint.auth.extra", warnings);
    extra.text("header", config.credentials.header);
    BASALT_TRY_DONE(extra.done());
  }
  return auth.done();
}

Done read_endpoint(const json::Value* object, PluginConfig& config, std::vector<std::string>& warnings) {
  Section endpoint(object, "endpoint", warnings);
  int port = 0;
  endpoint.text("url", config.base_url);
  endpoint.whole("port", port, 0, 65535);
  while (config.base_url.ends_with('/')) config.base_url.pop_back();
  if (port > 0) config.base_url += ":" + std::to_string(port);
  BASALT_TRY_DONE(read_auth(endpoint.value("auth"), config, warnings));
  {
    bool is_enabled = false;
    Section tls(endpoint.value("tls"), "endpoint.tls", warnings);
    tls.truth("enabled", is_enabled);
    tls.truth("insecureSkipVerify", config.tls.insecure_skip_verify);
    tls.text("caFile", config.tls.ca_file);
    tls.text("certFile", config.tls.certificate_file);
    tls.text("keyFile", config.tls.key_file);
    BASALT_TRY_DONE(tls.done());
  }
  return endpoint.done();
}

Done read_retry(const json::Value* object, RetryConfig& retry, std::vector<std::string>& warnings) {
  Section section(object, "retryConfig", warnings);
  section.whole("maxRetries", retry.retries_max, 0, kRetriesMax);
  section.duration("initialBackoff", retry.backoff_initial);
  section.duration("maxBackoff", retry.backoff_max);
  section.duration("timeout", retry.timeout);
  if (const json::Value* factor = section.value("backoffMultiplier"); factor != nullptr && !factor->is_null()) {
    if (factor->is_number() && factor->as_double() >= 1.0 && factor->as_double() <= 100.0) {
      retry.backoff_multiplier = factor->as_double();
    } else {
      section.complain("backoffMultiplier", "must be a number from 1 to 100");
    }
  }
  return section.done();
}

}  // namespace

Result<ParsedPluginConfig> parse_plugin_config(std::string_view plugin, std::string_view text) {
  BASALT_TRY(const json::Value document, json::Value::parse(text));
  if (!document.is_object()) return Error::invalid_input("the configuration must be a JSON object");
  ParsedPluginConfig parsed;
  PluginConfig& config = parsed.config;
  {
    Section root(&document, "", parsed.warnings);
    std::string system;
    root.text("system", system);
    if (!system.empty() && system != plugin)
      parsed.warnings.push_back("system is " + base::quote(system) + ", the key is " + base::quote(plugin) +
                                ": the key counts");
    BASALT_TRY_DONE(read_endpoint(root.value("endpoint"), config, parsed.warnings));
    BASALT_TRY_DONE(read_retry(root.value("retryConfig"), config.retry, parsed.warnings));
    root.text("api", config.api);
    if (config.api != "iceberg-rest" && config.api != "dashboard")
      return Error::invalid_input("api is " + base::quote(config.api) + ": it takes iceberg-rest or dashboard");
    root.truth("dashboardFallback", config.falls_back_to_dashboard);
    root.text("warehouse", config.warehouse);
    root.duration("refreshInterval", config.refresh_interval);
    root.whole("maxConcurrentCalls", config.calls_max, 1, kCallsMax);
    static_cast<void>(root.value("extra"));
    std::map<std::string, std::string> aliases;
    if (const json::Value* given = root.value("schemeAliases"); given != nullptr && given->is_object()) {
      for (const json::Member& member : given->as_object()) {
        if (member.value.is_string())
          aliases[base::to_lower_ascii(member.key)] = base::to_lower_ascii(member.value.as_string());
      }
    }
    BASALT_TRY(auto prefixes, lists_of(root.value("locationMapping"), "locationMapping"));
    config.mapping = LocationMapping(std::move(prefixes), std::move(aliases));
    BASALT_TRY(config.tables, lists_of(root.value("tables"), "tables"));
    BASALT_TRY_DONE(root.done());
  }
  if (plugin != "static" && config.base_url.empty()) return Error::invalid_input("endpoint.url is required");
  for (std::string& warning : config.mapping.warnings()) parsed.warnings.push_back(std::move(warning));
  return parsed;
}

}  // namespace basalt::controllers::datadependency
