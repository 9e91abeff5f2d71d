#include "controllers/sharding/config_source.h"

#include <utility>

#include "api/gen/names.h"
#include "kube/typed.h"

namespace basalt::controllers::sharding {
namespace {

constexpr std::string_view kRejected = "ShardingConfigurationRejected";
constexpr std::string_view kApplied = "ShardingConfigurationApplied";

}  // namespace

ConfigSource::ConfigSource(rt::Runtime& runtime, kube::Client& client, Logger log, kube::EventRecorder& events,
                           kube::Metrics& metrics, const ShardingOptions& options, std::function<void()> wake)
    : log_(std::move(log)),
      events_(events),
      options_(options),
      generation_gauge_(metrics.gauge("volcano_sharding_config_generation", "Configurations taken over so far.")),
      errors_counter_(metrics.counter("volcano_sharding_config_errors_total", "Configurations that were refused.")) {
  if (options_.config_map.empty() || options_.config_map_namespace.empty()) return;
  kube::InformerOptions<ConfigMap> watch;
  watch.reflector.resource = kube::resource_of<ConfigMap>();
  watch.reflector.ns = options_.config_map_namespace;
  watch.reflector.field_selector = "metadata.name=" + options_.config_map;
  watch.reflector.metrics = &metrics;
  watch.reflector.backoff_max = std::chrono::seconds(4);
  maps_ = std::make_unique<kube::Informer<ConfigMap>>(runtime, client, log_, std::move(watch));
  maps_->add_handler([wake = std::move(wake)](const kube::Change<ConfigMap>&) { wake(); });
}

void ConfigSource::start() {
  if (maps_) maps_->start();
}

void ConfigSource::stop() {
  if (maps_) maps_->stop();
}

bool ConfigSource::has_synced() const { return !maps_ || maps_->has_synced(); }

void ConfigSource::event(kube::EventType type, std::string_view reason, const std::string& message) {
  if (!maps_) return;
  const auto map = maps_->get({options_.config_map_namespace, options_.config_map});
  if (!map) return;
  events_.event({.api_version = "v1",
                 .kind = "ConfigMap",
                 .ns = map->metadata.namespace_,
                 .name = map->metadata.name,
                 .uid = map->metadata.uid,
                 .resource_version = map->metadata.resource_version},
                type, reason, message);
}

Configuration ConfigSource::flags_configuration() {
  Result<Configuration> flags = read_scheduler_flags(options_.scheduler_configs);
  state_.source = "flags";
  state_.version.clear();
  state_.document.clear();
  if (flags.ok()) return std::move(flags).value();
  log_.warn("the flag is refused; the built-in schedulers are used", {{"error", flags.error()}});
  state_.problem = flags.error().message + "; the built-in schedulers are used";
  errors_counter_.add();
  ++state_.errors;
  state_.source = "built-in";
  return built_in_configuration();
}

Configuration ConfigSource::accept(Configuration configuration) {
  ++state_.generation;
  generation_gauge_.set(static_cast<double>(state_.generation));
  state_.warnings = configuration.warnings;
  for (const std::string& warning : configuration.warnings) log_.warn(warning);
  return configuration;
}

void ConfigSource::reject(const std::string& problem) {
  if (problem == state_.problem) return;
  state_.problem = problem;
  ++state_.errors;
  errors_counter_.add();
  log_.warn("the sharding configuration is refused; the one before stays in force", {{"problem", problem}});
  event(kube::EventType::Warning, kRejected, problem + "; the configuration before it stays in force");
}

std::optional<Configuration> ConfigSource::read(const ConfigMap& map) {
  const std::string where = "ConfigMap " + map.metadata.namespace_ + "/" + map.metadata.name;
  const std::string_view text = map.data.get(api::config_maps::kShardingKey);
  if (text.empty() && !map.data.contains(api::config_maps::kShardingKey)) {
    reject(where + " has no key " + std::string(api::config_maps::kShardingKey));
    return std::nullopt;
  }
  if (state_.problem.empty() && !state_.version.empty() && text == state_.document) {
    state_.version = map.metadata.resource_version;
    return std::nullopt;
  }
  Result<Configuration> read = read_document(text);
  if (!read.ok()) {
    reject(where + ": " + read.error().message);
    return std::nullopt;
  }
  state_.source = where;
  state_.version = map.metadata.resource_version;
  state_.document = std::string(text);
  state_.problem.clear();
  state_.is_stand_in = false;
  Configuration accepted = accept(std::move(read).value());
  event(kube::EventType::Normal, kApplied,
        std::to_string(accepted.schedulers.size()) + " schedulers share the nodes by this configuration");
  return accepted;
}

std::optional<Configuration> ConfigSource::take() {
  const auto map = maps_ ? maps_->get({options_.config_map_namespace, options_.config_map}) : nullptr;
  const bool is_first = !has_begun_;
  has_begun_ = true;
  if (!map) {
    if (is_first) return accept(flags_configuration());
    if (!seen_version_.empty()) {
      seen_version_.clear();
      log_.warn("the ConfigMap of the sharding configuration was deleted; its last content stays in force");
    }
    return std::nullopt;
  }
  if (map->metadata.resource_version == seen_version_) return std::nullopt;
  seen_version_ = map->metadata.resource_version;
  std::optional<Configuration> configuration = read(*map);
  if (configuration || !is_first) return configuration;
  const std::string problem = state_.problem;
  configuration = accept(flags_configuration());
  state_.problem = problem + "; the flags stand in, and no NodeShard is deleted";
  state_.is_stand_in = true;
  return configuration;
}

}  // namespace basalt::controllers::sharding
