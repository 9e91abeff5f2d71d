#include "controllers/datadependency/data_controller.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "api/conditions.h"
#include "api/gen/karmada_binding.h"
#include "controllers/datadependency/data_controller_impl.h"
#include "kube/typed.h"

namespace basalt::controllers::datadependency {
namespace {

// While the caches fill.
constexpr rt::Duration kLookSoonAgain = std::chrono::milliseconds(50);
// Claims of one table come in bursts: its status names together those that came within this time.
constexpr rt::Duration kGather = std::chrono::milliseconds(50);
// How old the age of what waits may be in the metrics.
constexpr rt::Duration kAgePeriod = std::chrono::seconds(10);

kube::EventRecorder::Options recorder_options(kube::Metrics& metrics) {
  kube::EventRecorder::Options options;
  options.component = kControllerName;
  options.metrics = &metrics;
  return options;
}

kube::InformerOptions<BindingView> binding_options() {
  kube::InformerOptions<BindingView> options;
  options.reflector.resource = kube::resource_of<api::karmada::ResourceBinding>();
  options.indexes = {{std::string(indexes::kByWorkload), [](const BindingView& view, std::vector<std::string>& values) {
                        if (!view.workload.empty()) values.push_back(view.workload);
                      }}};
  return options;
}

kube::InformerOptions<api::core::ConfigMap> config_options(const DataControllerOptions& own) {
  kube::InformerOptions<api::core::ConfigMap> options;
  options.reflector.resource = kube::resource_of<api::core::ConfigMap>();
  options.reflector.ns = own.config_namespace;
  options.reflector.field_selector = "metadata.name=" + own.config_name;
  return options;
}

}  // namespace

DataController::DataController(ControllerContext& context, DataControllerOptions options)
    : options_(std::move(options)),
      runtime_(context.runtime),
      client_(context.client),
      log_(context.log.with({{"controller", kControllerName}})),
      metrics_(context.metrics),
      events_(runtime_, client_, log_, recorder_options(context.metrics)),
      claims_(runtime_, client_, log_, claim_cache_options()),
      sources_(runtime_, client_, log_, source_cache_options()),
      bindings_(runtime_, client_, log_, binding_options()),
      clusters_(runtime_, client_, log_, cluster_cache_options()),
      config_(runtime_, client_, log_, config_options(options_)),
      queue_(runtime_, {.name = "datadependency", .backoff = {.cap = options_.backoff_max}}),
      resolver_(
          runtime_, log_, context.metrics, {.threads = options_.resolver_threads, .backoff_max = options_.backoff_max},
          [this](const std::string& key) { on_answer(key); },
          [this](const std::string& key) {
            return claims_.count_by_index(indexes::kByIdentity, key) > 0 ||
                   sources_.count_by_index(indexes::kByIdentity, key) > 0;
          }) {
  claims_.add_handler([this](const auto& change) { on_claim(change); });
  sources_.add_handler([this](const auto& change) { on_source(change); });
  bindings_.add_handler([this](const auto& change) { on_binding(change); });
  clusters_.add_handler([this](const auto& change) {
    if (change.is_updated()) return;
    bindings_.for_each([this](const BindingView& view) { mark_workload(view.workload); });
  });
  config_.add_handler([this](const auto&) { queue_.add({WorkItem::Kind::AllPlugins, "", ""}); });
}

void DataController::start() {
  events_.start();
  resolver_.start();
  claims_.start();
  sources_.start();
  bindings_.start();
  clusters_.start();
  config_.start();
  queue_.add({WorkItem::Kind::AllPlugins, "", ""});
  queue_.add({WorkItem::Kind::GatedAge, "", ""});
  workers_.emplace(
      runtime_, queue_, rt::WorkersOptions{"data", options_.workers},
      [this](const WorkItem& item, const rt::StopToken& stop) { return work(item, stop); },
      [this](const WorkItem& item, const rt::Outcome& outcome, rt::Duration) {
        if (outcome.error)
          log_.info("trying again", {{"object", item.ns + "/" + item.name}, {"error", *outcome.error}});
      });
}

void DataController::stop() {
  if (!workers_) return;
  workers_->stop();
  workers_.reset();
  resolver_.stop();
  for (kube::InformerCore* core :
       {&claims_.core(), &sources_.core(), &bindings_.core(), &clusters_.core(), &config_.core()})
    core->stop();
  events_.stop();
}

void DataController::mark_claim(const Claim& claim) {
  queue_.add({WorkItem::Kind::OneClaim, claim.metadata.namespace_, claim.metadata.name});
}

void DataController::mark_claims_of(std::string_view index, const std::string& value) {
  for (const ClaimPtr& claim : claims_.by_index(index, value)) mark_claim(*claim);
}

void DataController::mark_source(const std::string& name, rt::Duration after) {
  if (!name.empty()) queue_.add_after({WorkItem::Kind::OneSource, "", name}, after);
}

void DataController::mark_workload(const std::string& key) {
  if (!key.empty()) queue_.add({WorkItem::Kind::OneWorkload, "", key});
}

void DataController::count_claim(const Claim& claim, int change) {
  const api::meta::Condition* bound = api::find_condition(claim.status.conditions, "Bound");
  const std::string phase = claim.status.phase == "Bound" ? "Bound" : "Pending";
  // Others may write a status, too: only our own words become labels.
  static constexpr std::array<std::string_view, 8> kReasons = {
      "BindingSuccessful",     "Resolving",          "DataSourceNotFound", "NoClusterMapping",
      "InvalidDataSourceName", "InvalidWorkloadRef", "ResolutionFailed",   "BindingInvalid"};
  std::string reason = bound == nullptr ? "" : bound->reason;
  if (!reason.empty() && std::ranges::find(kReasons, reason) == kReasons.end()) reason = "other";
  std::int64_t& count = claims_in_state_[phase + "/" + reason];
  count += change;
  metrics_.gauge("datadependency_claims", "Claims by phase and reason.", {{"phase", phase}, {"reason", reason}})
      .set(static_cast<double>(count));
}

void DataController::on_claim(const kube::Change<Claim>& change) {
  if (change.before) count_claim(*change.before, -1);
  if (change.after) count_claim(*change.after, 1);
  for (const ClaimPtr& claim : {change.before, change.after}) {
    if (!claim) continue;
    mark_workload(workload_key(*claim));
    mark_source(claim->status.bound_data_source, kGather);
  }
  mark_claim(change.object());
}

void DataController::on_source(const kube::Change<Source>& change) {
  const std::string& name = change.object().metadata.name;
  if (!change.after) {
    rt::MutexLock lock(mutex_);
    refresh_wishes_.erase(change.before->metadata.uid);
  }
  const bool has_moved = !change.is_updated() || change.before->spec != change.after->spec ||
                         change.before->metadata.deletion_timestamp != change.after->metadata.deletion_timestamp;
  const bool is_own_status = !has_moved && change.before->metadata.annotations == change.after->metadata.annotations &&
                             change.before->metadata.finalizers == change.after->metadata.finalizers;
  mark_source(name, is_own_status ? kGather : rt::Duration());
  if (!has_moved) return mark_forgotten(*change.before, *change.after);
  for (const SourcePtr& source : {change.before, change.after}) {
    if (source) mark_claims_of(indexes::kByIdentity, DataIdentity::of(*source).key());
  }
  // The workloads of its claims follow.
  for (const ClaimPtr& claim : claims_.by_index(indexes::kBySource, name)) {
    mark_claim(*claim);
    mark_workload(workload_key(*claim));
  }
}

// Of all its claims only those that it names no longer wait for its status: one more claim must not cost a look at all.
void DataController::mark_forgotten(const Source& before, const Source& after) {
  std::set<std::string_view> named;
  for (const auto& ref : after.status.claim_refs) named.insert(ref.uid);
  for (const auto& ref : before.status.claim_refs) {
    if (!named.contains(ref.uid)) queue_.add({WorkItem::Kind::OneClaim, ref.namespace_, ref.name});
  }
}

void DataController::on_binding(const kube::Change<BindingView>& change) {
  const auto is_gated = [](const auto& view) { return view && view->text.find(kGatedAnnotation) != std::string::npos; };
  if (is_gated(change.after) || is_gated(change.before)) {
    const std::string name = change.object().metadata.namespace_ + "/" + change.object().metadata.name;
    {
      rt::MutexLock lock(mutex_);
      if (is_gated(change.before)) gated_since_.erase({change.before->created, name});
      if (is_gated(change.after)) gated_since_.emplace(change.after->created, name);
    }
    queue_.add({WorkItem::Kind::GatedAge, "", ""});
  }
  if (change.before) mark_workload(change.before->workload);
  if (change.after) mark_workload(change.after->workload);
}

void DataController::on_answer(const std::string& key) {
  mark_claims_of(indexes::kByIdentity, key);
  for (const SourcePtr& source : sources_.by_index(indexes::kByIdentity, key)) mark_source(source->metadata.name);
}

// How many workloads wait for their data, and for how long the first of them. Time alone changes it.
rt::Outcome DataController::measure_gated() {
  std::size_t count = 0;
  std::string oldest;
  {
    rt::MutexLock lock(mutex_);
    count = gated_since_.size();
    if (count > 0) oldest = gated_since_.begin()->first;
  }
  const auto since = api::Time::parse(oldest);
  const std::int64_t age = since.ok() ? std::max<std::int64_t>(0, (wall() - *since).count()) : 0;
  metrics_.gauge("datadependency_gated_bindings", "Workloads that are held back until their data is found.")
      .set(static_cast<double>(count));
  metrics_.gauge("datadependency_gated_oldest_seconds", "For how long the first of them has been held back.")
      .set(static_cast<double>(age));
  return count > 0 ? rt::Outcome::retry_after(kAgePeriod) : rt::Outcome::done();
}

rt::Outcome DataController::work(const WorkItem& item, const rt::StopToken& stop) {
  const bool has_synced = claims_.has_synced() && sources_.has_synced() && bindings_.has_synced() &&
                          clusters_.has_synced() && config_.has_synced();
  if (!has_synced) return rt::Outcome::retry_after(kLookSoonAgain);
  if (item.kind == WorkItem::Kind::GatedAge) return measure_gated();
  if (item.kind == WorkItem::Kind::AllPlugins) return reconcile_plugins(stop);
  // Before the plugins are known every claim would be told that there is none.
  if (!has_plugins_read_.load()) return rt::Outcome::retry_after(kLookSoonAgain);
  if (item.kind == WorkItem::Kind::OneWorkload) return reconcile_workload(item.name, stop);
  if (item.kind == WorkItem::Kind::OneSource) {
    const SourcePtr source = sources_.get({"", item.name});
    return source ? reconcile_source(source, stop) : rt::Outcome::done();
  }
  const ClaimPtr claim = claims_.get({item.ns, item.name});
  return claim ? reconcile_claim(claim, stop) : rt::Outcome::done();
}

Done DataController::set_finalizers(const kube::Resource& resource, const api::meta::ObjectMeta& metadata,
                                    std::string_view finalizer, bool is_wanted, const rt::StopToken& stop) {
  json::Array list;
  for (const std::string& one : metadata.finalizers) {
    if (one != finalizer) list.emplace_back(one);
  }
  if (is_wanted) list.emplace_back(finalizer);
  const json::Value patch = json::Object{
      {"metadata", json::Object{{"finalizers", std::move(list)}, {"resourceVersion", metadata.resource_version}}}};
  const auto done = kube::patch_object(client_, resource, {metadata.namespace_, metadata.name}, patch.to_text(), stop);
  if (!done.ok() && !done.error().is(Reason::NotFound)) return done.error();
  return Ok{};
}

void DataController::tell(const Claim& claim, kube::EventType type, std::string_view reason, std::string message) {
  events_.event({std::string(Claim::kind_info().group) + "/" + std::string(Claim::kind_info().version),
                 std::string(Claim::kind_info().kind), claim.metadata.namespace_, claim.metadata.name,
                 claim.metadata.uid, claim.metadata.resource_version, ""},
                type, reason, message);
}

std::unique_ptr<Controller> make_data_controller(ControllerContext& context, DataControllerOptions options) {
  return std::make_unique<DataController>(context, std::move(options));
}

}  // namespace basalt::controllers::datadependency
