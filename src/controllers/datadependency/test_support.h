#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "controllers/datadependency/claim_caches.h"
#include "controllers/datadependency/data_controller.h"
#include "controllers/datadependency/placement.h"
#include "crds/crds.h"
#include "json/merge_patch.h"
#include "kube/fault_client.h"
#include "sim/stage.h"
#include "yaml/reader.h"

// For tests only: a control plane, a metadata service that is played, and the controller. The plane is a simulated one,
// or a real API server if the program chose it (see sim/stage.h).

namespace basalt::controllers::datadependency {

inline const kube::Resource kClaims{"datadependency.volcano.sh", "v1alpha1", "datasourceclaims"};
inline const kube::Resource kSources{"datadependency.volcano.sh", "v1alpha1", "datasources"};
inline const kube::Resource kBindings{"work.karmada.io", "v1alpha2", "resourcebindings"};
inline const kube::Resource kClusters{"cluster.karmada.io", "v1alpha1", "clusters"};

// What the played system knows. One plane is there at a time.
class PlayedSystem {
 public:
  void put(const std::string& table, std::vector<std::string> clusters) {
    rt::MutexLock lock(mutex_);
    tables_[table] = std::move(clusters);
  }
  void drop_all() {
    rt::MutexLock lock(mutex_);
    tables_.clear();
  }
  [[nodiscard]] std::string last_token() {
    rt::MutexLock lock(mutex_);
    return last_token_;
  }
  [[nodiscard]] Resolution answer(const std::string& table) {
    if (is_down) return {ResolutionKind::Unavailable, {}, "the server did not answer", {}};
    rt::MutexLock lock(mutex_);
    const auto found = tables_.find(table);
    if (found == tables_.end()) return {ResolutionKind::NotFound, {}, "there is no such table", {}};
    return {ResolutionKind::Found, found->second, "", {}};
  }
  void note_call(const std::string& token) {
    ++calls;
    rt::MutexLock lock(mutex_);
    last_token_ = token;
  }

  std::atomic<bool> is_down{false};
  std::atomic<rt::Duration> delay{};  // of every answer
  std::atomic<int> calls{0};

 private:
  rt::Mutex mutex_;
  std::map<std::string, std::vector<std::string>> tables_ BASALT_GUARDED_BY(mutex_);
  std::string last_token_ BASALT_GUARDED_BY(mutex_);
};
inline PlayedSystem* played_system = nullptr;

class PlayedPlugin final : public DataSourcePlugin {
 public:
  PlayedPlugin(rt::Runtime& runtime, std::string token) : runtime_(runtime), token_(std::move(token)) {}
  Resolution locate(const DataIdentity& identity, const rt::StopToken& stop) override {
    played_system->note_call(token_);
    const rt::Duration delay = played_system->delay;
    if (delay > rt::Duration::zero()) static_cast<void>(stop.wait_for(runtime_, delay));
    return played_system->answer(identity.name);
  }

 private:
  rt::Runtime& runtime_;
  const std::string token_;
};

inline Result<std::unique_ptr<DataSourcePlugin>> make_played(PluginContext context) {
  return std::unique_ptr<DataSourcePlugin>(
      std::make_unique<PlayedPlugin>(context.runtime, context.config.credentials.token));
}

// The webhook of bindings, in process. The server asks it from the beginning; it answers once it has caches.
class BindingHook final : public apiserver::AdmissionHook {
 public:
  [[nodiscard]] bool handles(const apiserver::AdmissionRequest& request) const override {
    return has_caches_ && request.type.plural == "resourcebindings" && request.subresource.empty();
  }
  Done mutate(apiserver::AdmissionRequest& request, json::Value& object) override {
    const bool is_new = request.operation == apiserver::Operation::Create;
    if (!is_new && request.operation != apiserver::Operation::Update) return Ok{};
    BASALT_TRY(const auto patch, caches_->patch_for(object, is_new ? nullptr : request.old_object));
    if (patch) object = json::apply_merge_patch(object, *patch);
    return Ok{};
  }
  Done validate(apiserver::AdmissionRequest&, const json::Value*) override { return Ok{}; }

  void start(std::unique_ptr<ClaimCaches> caches) {
    caches_ = std::move(caches);
    has_caches_ = true;
  }
  void stop() {
    if (has_caches_) caches_->stop();
  }

 private:
  std::unique_ptr<ClaimCaches> caches_;
  std::atomic<bool> has_caches_ = false;
};

struct PlaneOptions {
  bool has_hook = false;      // bindings go through admission
  std::string config_folder;  // of plugins
  bool starts = true;         // the controller runs from the beginning
  std::vector<PluginFactory> factories = {{"amoro", &make_played}};
  std::size_t claim_refs_max = DataControllerOptions().claim_refs_max;
};

// On a real API server the controller has its own rights and not the administrator's; null in a simulation.
inline kube::Client*& chosen_own_client() {
  static kube::Client* client = nullptr;
  return client;
}

// What a real API server sends to a real admission server. In the embedded one the hook takes all bindings.
inline constexpr const char* kHookedLabel = "basalt.test/hooked";

// A control plane with three clusters; the controller runs on a client that can fail.
class Plane {
 public:
  explicit Plane(rt::Runtime& runtime, PlaneOptions options = {})
      : runtime_(runtime),
        options_(std::move(options)),
        memory_(std::make_shared<CollectingLogSink>()),
        log_(memory_, LogLevel::Info),
        driver_(sim::open_cluster(
            runtime, {.with_default_queue = false, .hooks = {hook_}, .crds = {"datasourceclaims", "datasources"}})),
        cluster(*driver_),
        faults(runtime, own_client()) {
    played_system = &system;
    const bool is_embedded = dynamic_cast<sim::Cluster*>(driver_.get()) != nullptr;
    if (is_embedded) BASALT_CHECK(crds::install_karmada(runtime, cluster.client(), {}).ok());
    for (const char* name : {"m1", "m2", "m3"}) add_cluster(name);
    cluster.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: volcano-global}\n");
    configure(R"({"endpoint":{"url":"http://played"}})");
    if (options_.has_hook && is_embedded) {
      auto caches = std::make_unique<ClaimCaches>(runtime, cluster.client(), Logger());
      caches->start();
      BASALT_CHECK(caches->wait_synced({}));
      hook_->start(std::move(caches));
    }
    if (options_.starts) restart();
  }
  ~Plane() {
    end();
    hook_->stop();
    if (auto* embedded = dynamic_cast<sim::Cluster*>(driver_.get())) embedded->stop();
    played_system = nullptr;
  }

  void end() {
    if (!controller_) return;
    controller_->stop();
    controller_.reset();
    informers_->stop();
    informers_.reset();
    events_->stop(std::chrono::seconds(0));
  }
  void restart() { restart_on(faults); }
  // Another process, with another way to the API.
  void restart_on(kube::Client& client) {
    end();
    events_ = std::make_unique<kube::EventRecorder>(runtime_, client, log_,
                                                    kube::EventRecorder::Options{.component = "test"});
    events_->start();
    informers_ = std::make_unique<SharedInformers>(runtime_, client, log_, &metrics_);
    context_ =
        std::make_unique<ControllerContext>(ControllerContext{runtime_, client, log_, *events_, metrics_, *informers_});
    DataControllerOptions options;
    options.factories = options_.factories;
    options.config_folder = options_.config_folder;
    options.claim_refs_max = options_.claim_refs_max;
    options.secret_period = std::chrono::seconds(2);
    options.folder_period = std::chrono::milliseconds(500);
    controller_ = make_data_controller(*context_, options);
    informers_->start();
    controller_->start();
  }
  void configure(const std::string& document) {
    cluster.apply(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: volcano-global-datasource-plugins, namespace: "
        "volcano-global}\ndata: {amoro: '" +
        document + "'}\n");
  }
  // The same, asked again soon.
  void configure_impatient() {
    configure(R"({"endpoint":{"url":"http://played"},"refreshInterval":"1s",)"
              R"("retryConfig":{"maxRetries":1,"initialBackoff":"20ms","maxBackoff":"50ms"}})");
  }
  // The controller's way to the API, without faults.
  [[nodiscard]] kube::Client& own_client() {
    return chosen_own_client() != nullptr ? *chosen_own_client() : driver_->client();
  }
  void let_pass(rt::Duration time) { sim::let_pass(runtime_, time); }
  void add_cluster(const std::string& name) {
    cluster.apply("apiVersion: cluster.karmada.io/v1alpha1\nkind: Cluster\nmetadata: {name: " + name +
                  "}\nspec: {syncMode: Push}\n");
  }
  void claim(const std::string& name, const std::string& table, const std::string& workload = "w",
             const std::string& more = "") {
    cluster.apply("apiVersion: datadependency.volcano.sh/v1alpha1\nkind: DataSourceClaim\nmetadata: {name: " + name +
                  "}\nspec:\n  system: amoro\n  dataSourceType: table\n  dataSourceName: " + table +
                  "\n  workload: {apiVersion: apps/v1, kind: Deployment, name: " + workload + "}\n" + more);
  }
  void bind(const std::string& workload, const std::string& placement = "{}") {
    cluster.apply(binding_text(workload + "-deployment", workload) + "  placement: " + placement + "\n");
  }
  // Up to the resource; more of the spec may follow.
  [[nodiscard]] std::string binding_text(const std::string& name, const std::string& workload) const {
    return "apiVersion: work.karmada.io/v1alpha2\nkind: ResourceBinding\nmetadata:\n  name: " + name + "\n  labels: {" +
           kHookedLabel + ": \"" + (options_.has_hook ? "yes" : "no") +
           "\"}\nspec:\n  resource: {apiVersion: apps/v1, kind: Deployment, namespace: default, name: " + workload +
           "}\n";
  }
  // Until admission knows what the claims of the workload ask for: the list that it would exclude, "held", or
  // "steered", which is one of the two.
  bool wait_admission(const std::string& workload, const std::string& wanted) {
    std::string last;
    const bool reached = cluster.wait_until([&] {
      last = ask_admission(workload);
      const bool is_steered = last == "held" || last.starts_with('[');
      return last == wanted || (wanted == "steered" && is_steered);
    });
    if (!reached) ADD_FAILURE() << "admission makes of a binding of " << workload << ": " << last;
    return reached;
  }
  std::string condition(const json::Value& object, std::string_view type) {
    const json::Value* conditions = object.find_path({"status", "conditions"});
    if (conditions == nullptr || !conditions->is_array()) return "";
    for (const json::Value& one : conditions->as_array()) {
      if (one.string_at({"type"}) == type)
        return std::string(one.string_at({"status"})) + " " + std::string(one.string_at({"reason"}));
    }
    return "";
  }
  std::string placed(const std::string& name) {
    const auto found = cluster.get(kClaims, "default", name);
    return found ? condition(*found, "PlacementInjected") : "gone";
  }
  std::string fresh(const std::string& source) {
    const auto found = cluster.get(kSources, "", source);
    return found ? condition(*found, "Fresh") : "gone";
  }
  // As a scheduler does: the workload is in these clusters.
  void schedule(const std::string& workload, const std::string& clusters) {
    cluster.patch(kBindings, "default", workload + "-deployment", R"({"spec":{"clusters":)" + clusters + "}}");
    cluster.patch(kBindings, "default", workload + "-deployment",
                  R"({"status":{"lastScheduledTime":"2026-01-01T00:00:00Z"}})", "status");
  }
  [[nodiscard]] std::string metrics() const { return metrics_.to_text(); }
  [[nodiscard]] std::string logged() const {
    std::string text;
    for (const LogRecord& record : memory_->records()) {
      text += record.message;
      for (const LogRecordField& field : record.fields) text += " " + field.key + "=" + field.value;
      text += "\n";
    }
    return text;
  }
  std::string claim_state(const std::string& name) {
    const auto found = cluster.get(kClaims, "default", name);
    if (!found) return "gone";
    std::string text(found->string_at({"status", "phase"}));
    if (const json::Value* conditions = found->find_path({"status", "conditions"})) {
      for (const json::Value& one : conditions->as_array()) {
        if (one.string_at({"type"}) == "Bound") text += " " + std::string(one.string_at({"reason"}));
      }
    }
    return text;
  }
  bool wait_claim(const std::string& name, const std::string& state, rt::Duration limit = std::chrono::seconds(60)) {
    const bool reached = cluster.wait_until([&] { return claim_state(name) == state; }, limit);
    if (!reached) ADD_FAILURE() << name << " is " << claim_state(name) << ", not " << state;
    return reached;
  }
  std::string excluded(const std::string& workload) {
    const auto found = cluster.get(kBindings, "default", workload + "-deployment");
    const json::Value* list = found ? found->find_path({"spec", "placement", "clusterAffinity", "exclude"}) : nullptr;
    return list == nullptr ? "none" : list->to_text();
  }
  bool is_gated(const std::string& workload) {
    const auto found = cluster.get(kBindings, "default", workload + "-deployment");
    const json::Value* value = found ? found->find_path({"spec", "suspension", "scheduling"}) : nullptr;
    return value != nullptr && value->is_bool() && value->as_bool();
  }
  bool wait_excluded(const std::string& workload, const std::string& list) {
    const bool reached = cluster.wait_until([&] { return excluded(workload) == list; });
    if (!reached) ADD_FAILURE() << workload << " excludes " << excluded(workload) << ", not " << list;
    return reached;
  }
  std::int64_t bound_claims(const std::string& source) {
    const auto found = cluster.get(kSources, "", source);
    const json::Value* value = found ? found->find_path({"status", "boundClaims"}) : nullptr;
    return value == nullptr || !value->is_int() ? -1 : value->as_int();
  }
  std::size_t count_events(std::string_view reason) {
    std::size_t count = 0;
    for (const json::Value& event : cluster.list({"", "v1", "events"}, "default"))
      count += event.string_at({"reason"}) == reason ? 1 : 0;
    return count;
  }
  std::size_t binding_writes() {
    std::size_t count = 0;
    for (const std::string& call : faults.call_log())
      count += call.find("resourcebindings") != std::string::npos && call.starts_with("Patch") ? 1 : 0;
    return count;
  }

  PlayedSystem system;

 private:
  // What becomes of a new binding of the workload; nothing is stored.
  std::string ask_admission(const std::string& workload) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = kBindings;
    request.ns = "default";
    request.dry_run = true;
    request.body = yaml::read(binding_text("probe", workload))->to_text();
    const auto response = cluster.client().call(request, {});
    if (!response.ok()) return response.error().to_string();
    const auto object = json::Value::parse(*response->body);
    const json::Value* gate = object->find_path({"spec", "suspension", "scheduling"});
    if (gate != nullptr && *gate == json::Value(true)) return "held";
    const json::Value* list = object->find_path({"spec", "placement", "clusterAffinity", "exclude"});
    return list == nullptr ? "none" : list->to_text();
  }

  rt::Runtime& runtime_;
  const PlaneOptions options_;
  std::shared_ptr<BindingHook> hook_ = std::make_shared<BindingHook>();
  std::shared_ptr<CollectingLogSink> memory_;
  Logger log_;
  kube::Metrics metrics_;
  std::unique_ptr<sim::Driver> driver_;

 public:
  sim::Driver& cluster;
  kube::FaultClient faults;

 private:
  std::unique_ptr<kube::EventRecorder> events_;
  std::unique_ptr<SharedInformers> informers_;
  std::unique_ptr<ControllerContext> context_;
  std::unique_ptr<Controller> controller_;
};

inline void scenario(const std::function<void(Plane&)>& body, std::uint64_t seeds = 3,
                     const PlaneOptions& options = {}) {
  sim::play(1, seeds, [&](rt::Runtime& runtime) {
    Plane plane(runtime, options);
    body(plane);
  });
}

inline constexpr const char* kOrders = "amoro-table-prod.db.orders";

}  // namespace basalt::controllers::datadependency
