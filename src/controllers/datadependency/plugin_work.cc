// Plugins: made of the ConfigMap, again whenever it or a Secret that it names changes.

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "base/encoding.h"
#include "controllers/datadependency/data_controller_impl.h"
#include "kube/typed.h"
#include "net/certificates.h"

namespace basalt::controllers::datadependency {
namespace {

constexpr std::size_t kFilesMax = 64;
constexpr std::size_t kFileBytesMax = 1u << 20;

// Name -> content. Names that begin with ".." are the mount's own.
using Documents = std::map<std::string, std::string>;
Result<Documents> read_folder(const std::string& folder) {
  std::error_code code;
  std::filesystem::directory_iterator at(folder, code);
  if (code) return Error::invalid_input(folder + ": " + code.message());
  Documents documents;
  for (; at != std::filesystem::directory_iterator(); at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("..") || !at->is_regular_file(code)) continue;
    if (documents.size() == kFilesMax)
      return Error::invalid_input(folder + " has more than " + std::to_string(kFilesMax) + " files");
    BASALT_TRY(documents[name], net::read_file(at->path().string(), kFileBytesMax));
  }
  return documents;
}

std::string text_of(const api::core::Secret& secret, std::string_view key) {
  const auto found = secret.data.find(key);
  return found ? base::base64_decode(*found).value_or("") : "";
}

}  // namespace

Done DataController::read_secret(PluginConfig& config, const rt::StopToken& stop) {
  if (config.secret_name.empty()) return Ok{};
  const std::string ns = config.secret_namespace.empty() ? options_.config_namespace : config.secret_namespace;
  BASALT_TRY(const auto secret, kube::get_object<api::core::Secret>(client_, {ns, config.secret_name}, stop));
  const auto take = [&](std::string_view key, std::string& target) {
    if (std::string value = text_of(secret, key); !value.empty()) target = std::move(value);
  };
  take("username", config.credentials.username);
  take("password", config.credentials.password);
  take("token", config.credentials.token);
  take("apiKey", config.credentials.api_key);
  take("secret", config.credentials.secret);
  return Ok{};
}

void DataController::keep_credentials(const std::string& plugin, PluginConfig& config) {
  rt::MutexLock lock(mutex_);
  const auto old = configured_.find(plugin);
  const bool is_same_secret = old != configured_.end() && old->second.secret_name == config.secret_name &&
                              old->second.secret_namespace == config.secret_namespace &&
                              old->second.credentials.kind == config.credentials.kind;
  if (is_same_secret) config.credentials = old->second.credentials;
}

std::map<std::string, std::string> DataController::plugin_documents() {
  Documents documents;
  if (!options_.config_folder.empty()) {
    auto files = read_folder(options_.config_folder);
    if (files.ok()) {
      documents = std::move(*files);
    } else {
      log_.info("the folder of plugin configurations cannot be used: the ConfigMap counts",
                {{"problem", files.error().message}});
    }
  }
  if (!documents.empty()) return documents;
  const auto object = config_.get({options_.config_namespace, options_.config_name});
  if (!object) return documents;
  for (const auto& [name, text] : object->data) documents.emplace(name, text);
  return documents;
}

rt::Outcome DataController::reconcile_plugins(const rt::StopToken& stop) {
  std::map<std::string, PluginConfig> wanted;
  bool names_secrets = false;
  std::optional<Error> unread;
  const auto documents = plugin_documents();
  for (const PluginFactory& factory : options_.factories) {
    const auto document = documents.find(std::string(factory.name));
    if (document == documents.end()) continue;
    auto parsed = parse_plugin_config(factory.name, document->second);
    if (!parsed.ok()) {
      log_.warn("the configuration of a plugin cannot be used",
                {{"plugin", factory.name}, {"problem", parsed.error().message}});
      // What was configured before goes on, so that a slip of the pen stops nobody.
      rt::MutexLock lock(mutex_);
      if (const auto old = configured_.find(std::string(factory.name)); old != configured_.end()) wanted.insert(*old);
      continue;
    }
    for (const std::string& warning : parsed->warnings)
      log_.info("configuration of a plugin", {{"plugin", factory.name}, {"warning", warning}});
    names_secrets = names_secrets || !parsed->config.secret_name.empty();
    if (Done read = read_secret(parsed->config, stop); !read.ok()) {
      log_.warn("the Secret of a plugin cannot be read", {{"plugin", factory.name}, {"problem", read.error().message}});
      // What the API server cannot tell now is as it was: its trouble must not become one with the data's system.
      if (!read.error().is(Reason::NotFound)) {
        unread = read.error();
        keep_credentials(std::string(factory.name), parsed->config);
      }
    }
    wanted.emplace(factory.name, std::move(parsed->config));
  }
  std::vector<std::string> changed;
  {
    rt::MutexLock lock(mutex_);
    for (const auto& [name, config] : wanted) {
      const auto old = configured_.find(name);
      if (old == configured_.end() || old->second != config) changed.push_back(name);
    }
    for (const auto& [name, config] : configured_) {
      if (!wanted.contains(name)) changed.push_back(name);
    }
    configured_ = wanted;
  }
  if (!changed.empty() || !has_plugins_read_.load()) {
    ActivePlugins active;
    for (const PluginFactory& factory : options_.factories) {
      const auto config = wanted.find(std::string(factory.name));
      if (config == wanted.end()) continue;
      auto plugin = factory.make({runtime_, log_, config->second});
      if (!plugin.ok()) {
        log_.warn("a plugin cannot be made", {{"plugin", factory.name}, {"problem", plugin.error().message}});
        continue;
      }
      active[std::string(factory.name)] = {std::shared_ptr<DataSourcePlugin>(std::move(*plugin)), config->second.retry,
                                           config->second.refresh_interval};
    }
    resolver_.set_plugins(std::move(active), changed);
    has_plugins_read_.store(true);
  }
  if (unread) return rt::Outcome::failed(*unread);
  if (!options_.config_folder.empty()) return rt::Outcome::retry_after(options_.folder_period);
  return names_secrets ? rt::Outcome::retry_after(options_.secret_period) : rt::Outcome::done();
}

}  // namespace basalt::controllers::datadependency
