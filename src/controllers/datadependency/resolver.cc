#include "controllers/datadependency/resolver.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace basalt::controllers::datadependency {

Resolver::Resolver(rt::Runtime& runtime, Logger log, kube::Metrics& metrics, Options options,
                   std::function<void(const std::string&)> answered, std::function<bool(const std::string&)> is_wanted)
    : runtime_(runtime),
      log_(std::move(log)),
      options_(options),
      answered_(std::move(answered)),
      is_wanted_(std::move(is_wanted)),
      metrics_(metrics),
      queue_(runtime, {.name = "datasource-resolver", .backoff = {.cap = options.backoff_max}}) {}

Resolver::~Resolver() = default;

void Resolver::start() {
  workers_.emplace(runtime_, queue_, rt::WorkersOptions{"resolver", options_.threads},
                   [this](const std::string& key, const rt::StopToken& stop) { return resolve(key, stop); });
}

void Resolver::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
}

void Resolver::set_plugins(ActivePlugins plugins, const std::vector<std::string>& changed) {
  std::vector<std::string> keys;
  {
    rt::MutexLock lock(mutex_);
    plugins_ = std::move(plugins);
    for (const auto& [key, known] : known_) {
      if (std::ranges::find(changed, known.identity.system) != changed.end()) keys.push_back(key);
    }
  }
  for (const std::string& key : keys) {
    queue_.forget(key);
    queue_.add(key);
  }
}

bool Resolver::has_plugin(const std::string& system) const {
  rt::MutexLock lock(mutex_);
  return plugins_.contains(system);
}

void Resolver::want(const DataIdentity& identity) {
  const std::string key = identity.key();
  {
    rt::MutexLock lock(mutex_);
    if (known_.contains(key)) return;
    if (known_.size() >= options_.identities_max) {
      if (!std::exchange(said_full_, true))
        log_.warn("too many different data sources are claimed: new ones are not resolved",
                  {{"limit", static_cast<std::int64_t>(options_.identities_max)}});
      return;
    }
    known_.emplace(key, Known{identity, std::nullopt});
  }
  metrics_.counter("datadependency_cache_misses_total", "Data that was claimed and not known yet.").add();
  queue_.add(key);
}

void Resolver::ask_again(const DataIdentity& identity) {
  const std::string key = identity.key();
  {
    rt::MutexLock lock(mutex_);
    known_.try_emplace(key, Known{identity, std::nullopt});
  }
  queue_.forget(key);
  queue_.add(key);
}

std::optional<KnownAnswer> Resolver::answer(const std::string& key) const {
  rt::MutexLock lock(mutex_);
  const auto found = known_.find(key);
  return found == known_.end() ? std::nullopt : found->second.answer;
}

std::uint64_t Resolver::calls() const {
  rt::MutexLock lock(mutex_);
  return calls_;
}

rt::Duration Resolver::jittered(rt::Duration duration) const {
  // Between nine and eleven tenths, so that what was resolved together is not refreshed together for ever.
  const auto tenth = duration / 10;
  return duration - tenth + tenth * static_cast<std::int64_t>(runtime_.random_below(2001)) / 1000;
}

rt::Outcome Resolver::resolve(const std::string& key, const rt::StopToken& stop) {
  DataIdentity identity;
  std::optional<ActivePlugin> plugin;
  {
    rt::MutexLock lock(mutex_);
    const auto found = known_.find(key);
    if (found == known_.end()) return rt::Outcome::done();
    identity = found->second.identity;
    if (const auto active = plugins_.find(identity.system); active != plugins_.end()) plugin = active->second;
  }
  if (!is_wanted_(key)) {
    {
      rt::MutexLock lock(mutex_);
      known_.erase(key);
    }
    if (is_wanted_(key)) want(identity);  // whoever came in between was told that it is being asked
    return rt::Outcome::done();
  }
  if (!plugin) {
    // Not a failure of ours: the plugin's appearance asks again.
    remember(key, {ResolutionKind::Misconfigured,
                   {},
                   "no plugin for the system " + base::quote(identity.system) + " is configured",
                   {}});
    return rt::Outcome::done();
  }
  Resolution resolution = call(*plugin, identity, stop);
  if (stop.stop_requested()) return rt::Outcome::done();
  const bool is_retryable = is_worth_a_retry(resolution.kind);
  const rt::Duration wish = resolution.retry_after;
  remember(key, std::move(resolution));
  if (!is_retryable) return rt::Outcome::retry_after(jittered(plugin->refresh_interval));
  Error error = Error::make(Reason::ServiceUnavailable, "the data source's system is not available");
  if (wish > rt::Duration::zero()) error.retry_after = std::chrono::duration_cast<std::chrono::milliseconds>(wish);
  return rt::Outcome::failed(std::move(error));
}

Resolution Resolver::call(const ActivePlugin& plugin, const DataIdentity& identity, const rt::StopToken& stop) {
  rt::Duration pause = plugin.retry.backoff_initial;
  for (int attempt = 0;; ++attempt) {
    {
      rt::MutexLock lock(mutex_);
      ++calls_;
    }
    const rt::Instant begin = runtime_.now();
    Resolution resolution = plugin.plugin->locate(identity, stop);
    // Nowhere is not a place: it would be written as a locality that no workload can follow.
    if (resolution.kind == ResolutionKind::Found && resolution.clusters.empty())
      resolution = {ResolutionKind::NoMapping, {}, "the plugin names no cluster", {}};
    metrics_
        .histogram("datadependency_call_seconds", "How long calls to plugins took.", kube::Metrics::seconds_bounds(),
                   {{"system", identity.system}})
        .observe(std::chrono::duration<double>(runtime_.now() - begin).count());
    metrics_
        .counter("datadependency_resolutions_total", "Calls to plugins by their result.",
                 {{"system", identity.system}, {"result", std::string(to_string(resolution.kind))}})
        .add();
    if (!is_worth_a_retry(resolution.kind) || attempt >= plugin.retry.retries_max) return resolution;
    const auto drawn = static_cast<std::int64_t>(runtime_.random_below(static_cast<std::uint64_t>(pause.count()) + 1));
    const rt::Duration delay = std::max(rt::Duration(drawn), resolution.retry_after);
    if (stop.wait_for(runtime_, delay)) return resolution;
    const double next = static_cast<double>(pause.count()) * plugin.retry.backoff_multiplier;
    pause = std::min(plugin.retry.backoff_max, rt::Duration(static_cast<std::int64_t>(next)));
  }
}

void Resolver::remember(const std::string& key, Resolution resolution) {
  {
    rt::MutexLock lock(mutex_);
    const auto found = known_.find(key);
    if (found == known_.end()) return;
    KnownAnswer answer;
    if (found->second.answer) {
      answer.last_clusters = found->second.answer->last_clusters;
      answer.last_found = found->second.answer->last_found;
    }
    answer.at = runtime_.now();
    if (resolution.kind == ResolutionKind::Found) {
      answer.last_clusters = resolution.clusters;
      answer.last_found = answer.at;
    }
    answer.resolution = std::move(resolution);
    found->second.answer = std::move(answer);
  }
  answered_(key);
}

}  // namespace basalt::controllers::datadependency
