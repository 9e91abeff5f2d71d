#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/log.h"
#include "controllers/datadependency/identity.h"
#include "controllers/datadependency/plugins/plugin.h"
#include "kube/metrics.h"
#include "rt/mutex.h"
#include "rt/runtime.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::datadependency {

// A plugin at work, with what of its configuration the resolver needs.
struct ActivePlugin {
  std::shared_ptr<DataSourcePlugin> plugin;
  RetryConfig retry;
  rt::Duration refresh_interval = std::chrono::minutes(5);
};
using ActivePlugins = std::map<std::string, ActivePlugin>;  // by system

// The newest answer about one identity.
struct KnownAnswer {
  Resolution resolution;
  rt::Instant at{};
  // The last answer that named clusters, and its age, if the newest does not.
  std::vector<std::string> last_clusters;
  std::optional<rt::Instant> last_found;
};

// Asks the plugins, on threads of its own: one call at a time for one identity, however many want to know, and again
// after the plugin's period for as long as somebody does. Failures are tried again for ever, with a pause that grows.
class Resolver {
 public:
  struct Options {
    int threads = 4;
    rt::Duration backoff_max = std::chrono::minutes(5);
    std::size_t identities_max = 1'000'000;  // beyond, new ones are not asked about: said once in the log
  };
  // `answered(key)` is called by the threads after every answer; `is_wanted(key)` says whether to go on asking.
  Resolver(rt::Runtime& runtime, Logger log, kube::Metrics& metrics, Options options,
           std::function<void(const std::string& key)> answered, std::function<bool(const std::string& key)> is_wanted);
  ~Resolver();  // stop() has been called if start() was

  void start();
  void stop();

  // Replaces the plugins; what the changed ones answered is asked again.
  void set_plugins(ActivePlugins plugins, const std::vector<std::string>& changed);
  [[nodiscard]] bool has_plugin(const std::string& system) const;

  // Somebody wants to know. Nothing happens if it is being asked, or has been.
  void want(const DataIdentity& identity);
  // Asks now, whatever is known.
  void ask_again(const DataIdentity& identity);
  [[nodiscard]] std::optional<KnownAnswer> answer(const std::string& key) const;
  [[nodiscard]] std::uint64_t calls() const;  // to plugins, so far

 private:
  struct Known {
    DataIdentity identity;
    std::optional<KnownAnswer> answer;
  };
  rt::Outcome resolve(const std::string& key, const rt::StopToken& stop);
  Resolution call(const ActivePlugin& plugin, const DataIdentity& identity, const rt::StopToken& stop);
  void remember(const std::string& key, Resolution resolution);
  [[nodiscard]] rt::Duration jittered(rt::Duration duration) const;

  rt::Runtime& runtime_;
  const Logger log_;
  const Options options_;
  const std::function<void(const std::string&)> answered_;
  const std::function<bool(const std::string&)> is_wanted_;
  kube::Metrics& metrics_;
  rt::WorkQueue<std::string> queue_;

  mutable rt::Mutex mutex_;
  std::unordered_map<std::string, Known> known_ BASALT_GUARDED_BY(mutex_);
  ActivePlugins plugins_ BASALT_GUARDED_BY(mutex_);
  std::uint64_t calls_ BASALT_GUARDED_BY(mutex_) = 0;
  bool said_full_ BASALT_GUARDED_BY(mutex_) = false;

  std::optional<rt::Workers<std::string>> workers_;  // used only by the owner
};

}  // namespace basalt::controllers::datadependency
