#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/gen/core_objects.h"
#include "base/log.h"
#include "controllers/sharding/configuration.h"
#include "controllers/sharding/options.h"
#include "kube/client.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"
#include "kube/metrics.h"
#include "rt/runtime.h"

namespace basalt::controllers::sharding {

// Where the configuration stands, for people.
struct ConfigState {
  std::string source;    // "flags" or "ConfigMap volcano-system/volcano-sharding-configmap"
  std::string version;   // resource version of the ConfigMap that is in force, "" for flags
  std::string document;  // its text
  std::string problem;   // why what was written last is not in force; "" if it is
  std::vector<std::string> warnings;
  std::uint64_t generation = 0;  // grows with each configuration that is taken over
  std::uint64_t errors = 0;
  // Nothing valid was ever read from a ConfigMap that is there: flags stand in, and nothing may be deleted for them.
  bool is_stand_in = false;
};

// The configuration: the ConfigMap's if there is one, else the flags'. A broken document, an empty one, a missing key
// or a deleted ConfigMap keep what is in force; an event at the ConfigMap and ConfigState say so. take() and state()
// are for one thread; the watch has its own.
class ConfigSource {
 public:
  ConfigSource(rt::Runtime& runtime, kube::Client& client, Logger log, kube::EventRecorder& events,
               kube::Metrics& metrics, const ShardingOptions& options, std::function<void()> wake);
  void start();
  void stop();
  [[nodiscard]] bool has_synced() const;

  // What is to be applied, if that has changed since the last call. Not before has_synced().
  [[nodiscard]] std::optional<Configuration> take();
  [[nodiscard]] const ConfigState& state() const { return state_; }
  // About the ConfigMap.
  void event(kube::EventType type, std::string_view reason, const std::string& message);

 private:
  using ConfigMap = api::core::ConfigMap;

  [[nodiscard]] Configuration flags_configuration();
  std::optional<Configuration> read(const ConfigMap& map);
  void reject(const std::string& problem);
  Configuration accept(Configuration configuration);

  // Fixed after construction.
  const Logger log_;
  kube::EventRecorder& events_;
  const ShardingOptions options_;
  std::unique_ptr<kube::Informer<ConfigMap>> maps_;  // null: flags only
  kube::Gauge generation_gauge_;
  kube::Counter errors_counter_;

  // Used by the thread that calls take().
  ConfigState state_;
  bool has_begun_ = false;
  std::string seen_version_;  // of the ConfigMap that was looked at last
};

}  // namespace basalt::controllers::sharding
