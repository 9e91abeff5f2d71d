#include "controllers/sharding/sharding_controller.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/gen/names.h"
#include "api/gen/shard.h"
#include "controllers/sharding/cache_check.h"
#include "controllers/sharding/config_source.h"
#include "controllers/sharding/feeds.h"
#include "controllers/sharding/publish_clock.h"
#include "controllers/sharding/shard_plan.h"
#include "controllers/sharding/shard_writer.h"
#include "controllers/sharding/sharding_metrics.h"
#include "controllers/sharding/status_report.h"
#include "kube/informer.h"
#include "kube/typed.h"

namespace basalt::controllers::sharding {
namespace {

using api::shard::NodeShard;

constexpr std::string_view kTooLarge = "NodeShardTooLarge";
constexpr std::string_view kOverdue = "HandoverOverdue";
constexpr std::string_view kTooFew = "TooFewNodes";
constexpr std::size_t kVisitsMax = 4096;                       // of nodes, before sync work is looked at again
constexpr rt::Duration kPoll = std::chrono::milliseconds(10);  // while caches are being filled
constexpr rt::Duration kTick = std::chrono::seconds(1);        // of the audit
constexpr std::size_t kAuditTurn = 600;                        // ticks for all pods

// Nodes and pods as one configuration needs them.
struct Tables {
  Tables(rt::Runtime& runtime, kube::Client& client, const Logger& log, kube::Metrics& metrics, const Catalog& catalog)
      : state(catalog), feeds(runtime, client, log, &metrics, state) {}
  ClusterState state;
  ClusterFeeds feeds;
};

// One thread decides and writes; the watches have theirs. Nothing is calculated before nodes, pods, NodeShards and the
// configuration are all known completely.
class ShardingController final : public Controller {
 public:
  ShardingController(ControllerContext& context, ShardingOptions options);
  [[nodiscard]] std::string_view name() const override { return api::controllers::kSharding; }
  void start() override;
  void stop() override;

 private:
  void run();
  void step();
  void wait();
  void wake();
  void take_configuration();
  void prepare_tables();
  void apply();
  void take_shard_changes();
  bool absorb();
  void publish(bool is_sync);
  void tell_shortages(const ShardPlan::Lists& lists);
  void check_cache();
  void report(const PublishResult* result);
  void event(const std::string& shard, std::string_view reason, const std::string& message);
  [[nodiscard]] rt::Instant next_deadline() const;
  [[nodiscard]] std::int64_t unix_now() const;
  [[nodiscard]] bool is_event_driven() const {
    return applied_.node_event_trigger.value_or(options_.enable_node_event_trigger);
  }

  // Fixed after construction.
  const ShardingOptions options_;
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::EventRecorder& events_;
  kube::Metrics& registry_;

  // Self-locking.
  rt::StopSource stop_;
  kube::Informer<NodeShard> shards_;
  ConfigSource config_;
  ShardWriter writer_;

  rt::Mutex mutex_;
  rt::Condition woken_;
  bool is_woken_ BASALT_GUARDED_BY(mutex_) = false;
  bool spec_changed_ BASALT_GUARDED_BY(mutex_) = false;                          // by somebody else
  std::set<std::string, std::less<>> status_changed_ BASALT_GUARDED_BY(mutex_);  // at most one entry an object

  // Used only by the controller's thread.
  ShardingMetrics metrics_;
  CacheCheck cache_check_;
  StatusReport report_;
  PublishClock clock_;
  std::unique_ptr<Tables> tables_;
  std::unique_ptr<Tables> next_tables_;  // being filled for a configuration that reads more
  std::optional<Configuration> next_configuration_;
  Configuration applied_;
  std::unique_ptr<ShardPlan> plan_;
  std::vector<ShardPlan::Cut> cuts_;
  std::vector<std::size_t> shortages_;
  std::string write_problem_;
  std::set<std::string, std::less<>> statuses_;  // objects whose status is to be looked at
  rt::Instant check_at_{};
  rt::Instant tick_at_{};
  bool has_more_ = false;  // nodes wait

  rt::Thread thread_;
};

kube::InformerOptions<NodeShard> shard_watch(kube::Metrics& metrics) {
  kube::InformerOptions<NodeShard> options;
  options.reflector.resource = kube::resource_of<NodeShard>();
  options.reflector.metrics = &metrics;
  options.reflector.backoff_max = std::chrono::seconds(4);
  options.reflector.idle_timeout = std::chrono::seconds(90);
  return options;
}

std::string report_namespace(const ShardingOptions& options) {
  return options.config_map_namespace.empty() ? std::string(api::components::kSystemNamespace)
                                              : options.config_map_namespace;
}

ShardingController::ShardingController(ControllerContext& context, ShardingOptions options)
    : options_(std::move(options)),
      runtime_(context.runtime),
      client_(context.client),
      log_(context.log.with({{"controller", api::controllers::kSharding}})),
      events_(context.events),
      registry_(context.metrics),
      stop_(runtime_),
      shards_(runtime_, client_, log_, shard_watch(registry_)),
      config_(runtime_, client_, log_, events_, registry_, options_, [this] { wake(); }),
      writer_(runtime_, client_, log_, registry_, shards_),
      woken_(runtime_),
      metrics_(registry_),
      cache_check_(runtime_, client_, log_, registry_),
      report_(runtime_, client_, report_namespace(options_)) {
  shards_.add_handler([this](const kube::Change<NodeShard>& change) {
    const bool is_ours = change.after && writer_.is_as_written(*change.after);
    {
      rt::MutexLock lock(mutex_);
      if (!is_ours) spec_changed_ = true;
      if (change.after) status_changed_.insert(change.after->metadata.name);
    }
    wake();
  });
}

void ShardingController::start() {
  thread_ = rt::Thread(runtime_, "sharding", [this] { run(); });
}

void ShardingController::stop() {
  stop_.request_stop();
  wake();
  if (thread_.joinable()) thread_.join();
}

void ShardingController::wake() {
  {
    rt::MutexLock lock(mutex_);
    is_woken_ = true;
  }
  woken_.notify_one();
}

std::int64_t ShardingController::unix_now() const {
  return std::chrono::duration_cast<std::chrono::seconds>(runtime_.wall_now().time_since_epoch()).count();
}

void ShardingController::run() {
  shards_.start();
  config_.start();
  metrics_.show_ready(false);
  while (!stop_.token().stop_requested()) {
    step();
    wait();
  }
  if (next_tables_) next_tables_->feeds.stop();
  if (tables_) tables_->feeds.stop();
  config_.stop();
  shards_.stop();
}

rt::Instant ShardingController::next_deadline() const {
  const rt::Instant now = runtime_.now();
  if (!plan_ || next_tables_) return rt::saturating_add(now, kPoll);
  rt::Instant next = std::min({clock_.next(), report_.next(), tick_at_});
  if (options_.verify_period > rt::Duration::zero()) next = std::min(next, check_at_);
  return next;
}

void ShardingController::wait() {
  if (has_more_) return;
  const rt::Instant deadline = next_deadline();
  rt::MutexLock lock(mutex_);
  while (!is_woken_ && !stop_.token().stop_requested() && runtime_.now() < deadline)
    static_cast<void>(woken_.wait_until(mutex_, deadline));
  is_woken_ = false;
}

// Sync work first: the configuration, foreign changes of NodeShards, what is due. Then nodes, a bounded number.
void ShardingController::step() {
  if (!shards_.has_synced() || !config_.has_synced()) return;
  take_configuration();
  prepare_tables();
  if (!plan_) return;
  take_shard_changes();
  if (const PublishClock::Due due = clock_.due(runtime_.now()); due != PublishClock::Due::Nothing)
    publish(due == PublishClock::Due::Sync);
  has_more_ = absorb();
  if (!statuses_.empty() && (applied_.write_status || applied_.handover_grace > rt::Duration::zero())) {
    for (const ShardWriter::Stripped& taken :
         writer_.write_statuses(statuses_, applied_.handover_grace, stop_.token())) {
      event(taken.shard, kOverdue,
            std::to_string(taken.nodes) +
                " nodes that others are to have were taken out of nodesInUse: the scheduler of this shard did not give "
                "them up in time; is it running?");
    }
    statuses_.clear();
  }
  check_cache();
  if (report_.next() <= runtime_.now()) report_.write(stop_.token());
}

void ShardingController::take_configuration() {
  std::optional<Configuration> configuration = config_.take();
  if (!configuration) return;
  next_configuration_ = std::move(configuration);
  const Catalog& catalog = next_configuration_->rules->catalog;
  if (next_tables_ && !(next_tables_->state.catalog() == catalog)) {
    next_tables_->feeds.stop();
    next_tables_.reset();
  }
  if (next_tables_ || (tables_ && tables_->state.catalog() == catalog)) return;
  next_tables_ = std::make_unique<Tables>(runtime_, client_, log_, registry_, catalog);
  next_tables_->state.on_change([this] { wake(); });
  next_tables_->feeds.start();
}

// Until the new tables are complete the old configuration stays in force.
void ShardingController::prepare_tables() {
  if (!next_configuration_) return;
  const Catalog& catalog = next_configuration_->rules->catalog;
  if (tables_ && tables_->state.catalog() == catalog) {
    if (next_tables_) next_tables_->feeds.stop();
    next_tables_.reset();
    return apply();
  }
  if (!next_tables_ || !next_tables_->feeds.has_synced()) return;
  plan_.reset();
  if (tables_) tables_->feeds.stop();
  tables_ = std::move(next_tables_);
  metrics_.forget_events();
  apply();
}

void ShardingController::apply() {
  applied_ = std::move(*next_configuration_);
  next_configuration_.reset();
  tables_->state.set_threshold(applied_.utilization_threshold);
  const rt::Instant begin = runtime_.now();
  plan_ = std::make_unique<ShardPlan>(applied_.rules, tables_->state);
  plan_->rebuild(writer_.stored(), unix_now());
  metrics_.recomputed(runtime_.now() - begin);
  cuts_.clear();
  shortages_.assign(applied_.rules->rules.size(), 0);
  const rt::Instant now = runtime_.now();
  clock_.set_period(now, applied_.sync_period.value_or(options_.shard_sync_period), runtime_.random_unit());
  clock_.request_sync(now);
  if (tick_at_ == rt::Instant{}) {
    tick_at_ = rt::saturating_add(now, kTick);
    check_at_ = rt::saturating_add(now, options_.verify_period);
  }
  metrics_.show_ready(true);
  log_.info("sharding", {{"configuration", config_.state().source},
                         {"schedulers", applied_.schedulers.size()},
                         {"nodes", plan_->nodes()}});
}

void ShardingController::take_shard_changes() {
  bool spec_changed = false;
  {
    rt::MutexLock lock(mutex_);
    spec_changed = std::exchange(spec_changed_, false);
    statuses_.merge(status_changed_);
    status_changed_.clear();
  }
  // Put back what somebody else changed or deleted.
  if (spec_changed) clock_.request_sync(rt::saturating_add(runtime_.now(), PublishClock::kDebounce));
}

bool ShardingController::absorb() {
  bool has_more = false;
  if (tables_->state.has_changes()) {
    const rt::Instant begin = runtime_.now();
    has_more = plan_->absorb(kVisitsMax, unix_now());
    metrics_.visited(runtime_.now() - begin);
  }
  if (tables_->state.take_urgent() && is_event_driven()) clock_.trigger(runtime_.now());
  return has_more;
}

void ShardingController::publish(bool is_sync) {
  const rt::Instant begin = runtime_.now();
  ClusterState& state = tables_->state;
  // Before the changes are taken: what comes between counts as a change since this publication.
  static_cast<void>(state.take_urgent());
  state.reset_baselines();
  while (plan_->absorb(kVisitsMax, unix_now())) {}
  if (is_sync && plan_->rules().uses_forecast) plan_->look_again(unix_now());
  if (is_sync) plan_->mark_all();
  PublishClock::Outcome outcome{.is_sync = is_sync, .random_unit = runtime_.random_unit()};
  if (!plan_->is_dirty()) return clock_.done(runtime_.now(), outcome);
  const ShardPlan::Lists lists = plan_->lists(writer_.stored(), static_cast<std::size_t>(applied_.object_bytes_max));
  PublishRequest request;
  request.desired = lists.desired;
  request.configured = lists.configured;
  request.delete_others = !config_.state().is_stand_in;
  const PublishResult result = writer_.publish(request, stop_.token());
  metrics_.count_moves(*plan_, plan_->settle(lists, result.settled));
  // What cannot be deleted is tried again at the next sync and holds up nobody.
  outcome.is_complete = result.settled.size() >= lists.desired.size();
  outcome.wrote = result.writes > 0;
  const double watched_bytes = static_cast<double>(lists.bytes) * static_cast<double>(lists.configured.size());
  outcome.interval = std::chrono::duration_cast<rt::Duration>(
      std::chrono::duration<double>(watched_bytes / static_cast<double>(applied_.fan_out_bytes_max)));
  if (result.retry_after > rt::Duration::zero())
    outcome.not_before = rt::saturating_add(runtime_.now(), result.retry_after);
  if (writer_.breaker_state() == CircuitBreaker::State::Open)
    outcome.not_before = std::max(outcome.not_before, writer_.breaker_open_until());
  clock_.done(runtime_.now(), outcome);
  metrics_.published(runtime_.now() - begin, outcome.is_complete);
  for (const std::string& name : result.settled) statuses_.insert(name);
  tell_shortages(lists);
  report(&result);
}

void ShardingController::event(const std::string& shard, std::string_view reason, const std::string& message) {
  const auto object = shards_.get({"", shard});
  events_.event({.api_version = "shard.volcano.sh/v1alpha1",
                 .kind = "NodeShard",
                 .ns = {},
                 .name = shard,
                 .uid = object ? object->metadata.uid : std::string(),
                 .resource_version = object ? object->metadata.resource_version : std::string()},
                kube::EventType::Warning, reason, message);
}

void ShardingController::tell_shortages(const ShardPlan::Lists& lists) {
  for (const ShardPlan::Cut& cut : lists.cut) {
    if (std::find(cuts_.begin(), cuts_.end(), cut) != cuts_.end()) continue;
    const std::string message = std::to_string(cut.nodes) +
                                " nodes do not fit into the object and belong to nobody; set `partitions` of this "
                                "scheduler in the configuration";
    log_.warn("a NodeShard is too large", {{"shard", cut.object}, {"nodes_left_out", cut.nodes}});
    event(cut.object, kTooLarge, message);
  }
  // Shards that were not listed this time keep what was said about them.
  std::erase_if(cuts_, [&](const ShardPlan::Cut& cut) {
    return std::any_of(lists.desired.begin(), lists.desired.end(),
                       [&](const DesiredShard& desired) { return desired.name == cut.object; });
  });
  cuts_.insert(cuts_.end(), lists.cut.begin(), lists.cut.end());
  for (std::size_t i = 0; i < shortages_.size(); ++i) {
    const std::size_t missing = plan_->shortage(i);
    if (missing > 0 && shortages_[i] == 0) {
      const Rule& rule = applied_.rules->rules[i];
      const std::string message = std::to_string(missing) + " nodes are missing to the minimum of " +
                                  std::to_string(rule.limits.min_of(plan_->nodes())) +
                                  ": not more nodes pass the policies; see `basalt shard explain`";
      log_.info("a shard has fewer nodes than its minimum", {{"shard", rule.name}, {"missing", missing}});
      event(rule.name, kTooFew, message);
    }
    shortages_[i] = missing;
  }
}

void ShardingController::check_cache() {
  const rt::Instant now = runtime_.now();
  if (now >= tick_at_) {
    tick_at_ = rt::saturating_add(now, kTick);
    const std::size_t stretch = std::max<std::size_t>(1024, 2 * tables_->state.pods() / kAuditTurn);
    if (const auto wrong = tables_->state.audit_step(stretch); wrong && *wrong > 0) {
      metrics_.corrected(*wrong);
      log_.warn("sums of requests were wrong and have been corrected", {{"nodes", *wrong}});
    }
    metrics_.count_events(tables_->state);
    const ClusterFeeds::Silence silence = tables_->feeds.silence();
    metrics_.show_silence(silence.nodes, silence.pods);
    metrics_.show_breaker(writer_.breaker_state());
    // Nodes that a scheduler does not give up are looked at until it does, or their time is over.
    if (applied_.handover_grace > rt::Duration::zero()) statuses_.merge(writer_.overdue());
    report(nullptr);
  }
  if (options_.verify_period <= rt::Duration::zero() || now < check_at_) return;
  if (writer_.breaker_state() != CircuitBreaker::State::Open && cache_check_.step(tables_->state, stop_.token()))
    tables_->feeds.relist();
  check_at_ = rt::saturating_add(runtime_.now(), cache_check_.pause(options_.verify_period));
}

void ShardingController::report(const PublishResult* result) {
  const ConfigState& config = config_.state();
  if (result != nullptr) write_problem_ = result->error && !result->is_complete ? result->error->message : "";
  ShardingStatus status;
  status.configuration = config.source;
  status.configuration_version = config.version;
  status.configuration_problem = config.problem;
  status.document = config.document;
  if (config.document.empty()) status.flags = options_.scheduler_configs;
  status.breaker = std::string(to_string(writer_.breaker_state()));
  status.write_problem = write_problem_;
  status.nodes = static_cast<std::int64_t>(plan_->nodes());
  status.unassigned = static_cast<std::int64_t>(plan_->unassigned());
  for (std::size_t i = 0; i < applied_.rules->rules.size(); ++i) {
    const Rule& rule = applied_.rules->rules[i];
    ShardingStatus::Shard shard;
    shard.name = rule.name;
    shard.nodes = static_cast<std::int64_t>(plan_->shard_size(i));
    shard.nodes_min = static_cast<std::int64_t>(rule.limits.min_of(plan_->nodes()));
    const std::size_t most = rule.limits.max_of(plan_->nodes());
    shard.nodes_max = most == kUnlimited ? 0 : static_cast<std::int64_t>(most);
    shard.parts = plan_->parts(i);
    shard.missing = static_cast<std::int64_t>(plan_->shortage(i));
    for (const ShardPlan::Cut& cut : cuts_) {
      if (cut.object == rule.name) shard.cut = static_cast<std::int64_t>(cut.nodes);
    }
    status.shards.push_back(std::move(shard));
  }
  report_.set(std::move(status));
  metrics_.show_plan(*plan_);
  metrics_.show_breaker(writer_.breaker_state());
  if (result != nullptr) metrics_.show_objects(writer_.stored());
}

}  // namespace

std::unique_ptr<Controller> make_sharding_controller(ControllerContext& context, ShardingOptions options) {
  return std::make_unique<ShardingController>(context, std::move(options));
}

}  // namespace basalt::controllers::sharding
