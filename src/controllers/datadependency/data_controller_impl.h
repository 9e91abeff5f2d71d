#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/gen/core_objects.h"
#include "api/gen/datadependency.h"
#include "api/time.h"
#include "controllers/datadependency/claim_caches.h"
#include "controllers/datadependency/data_controller.h"
#include "controllers/datadependency/placement.h"
#include "controllers/datadependency/resolver.h"
#include "controllers/datadependency/views.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"
#include "rt/work_queue.h"
#include "rt/workers.h"

namespace basalt::controllers::datadependency {

// What the queue holds: one thing to look at.
struct WorkItem {
  enum class Kind : std::uint8_t { OneClaim, OneSource, OneWorkload, AllPlugins, GatedAge };
  Kind kind = Kind::OneClaim;
  std::string ns;
  std::string name;  // of a workload: its key
  bool operator==(const WorkItem&) const = default;
};
struct WorkItemHash {
  std::size_t operator()(const WorkItem& item) const {
    return std::hash<std::string>()(item.ns + "/" + item.name) * 8 + static_cast<std::size_t>(item.kind);
  }
};

// Split over files: claim_work.cc, source_work.cc, workload_work.cc, plugin_work.cc; data_controller.cc holds the rest.
class DataController final : public Controller {
 public:
  DataController(ControllerContext& context, DataControllerOptions options);
  [[nodiscard]] std::string_view name() const override { return kControllerName; }
  void start() override;
  void stop() override;

 private:
  // Handlers: they only mark.
  void on_claim(const kube::Change<Claim>& change);
  void on_source(const kube::Change<Source>& change);
  void on_binding(const kube::Change<BindingView>& change);
  void on_answer(const std::string& key);
  void count_claim(const Claim& claim, int change);
  void mark_claim(const Claim& claim);
  void mark_claims_of(std::string_view index, const std::string& value);
  void mark_source(const std::string& name, rt::Duration after = {});
  void mark_forgotten(const Source& before, const Source& after);
  void mark_workload(const std::string& key);

  rt::Outcome work(const WorkItem& item, const rt::StopToken& stop);
  rt::Outcome measure_gated();

  // claim_work.cc
  rt::Outcome reconcile_claim(const ClaimPtr& claim, const rt::StopToken& stop);
  rt::Outcome release_claim(const Claim& claim, const rt::StopToken& stop);
  rt::Outcome bind_claim(const Claim& claim, const Source& source, const rt::StopToken& stop);
  rt::Outcome wait_for_source(const Claim& claim, const rt::StopToken& stop);
  Result<bool> create_source(const DataIdentity& identity, const std::vector<std::string>& clusters,
                             const rt::StopToken& stop);
  [[nodiscard]] SourcePtr matching_source(const Claim& claim) const;
  [[nodiscard]] bool keeps_old_binding(const Claim& claim);
  void set_placement_condition(const Claim& claim, api::datadependency::DataSourceClaimStatus& status) const;
  Done write_claim_status(const Claim& claim, api::datadependency::DataSourceClaimStatus status,
                          const rt::StopToken& stop);

  // source_work.cc
  rt::Outcome reconcile_source(const SourcePtr& source, const rt::StopToken& stop);
  [[nodiscard]] std::vector<ClaimPtr> claims_of_source(const std::string& name) const;
  Result<bool> follow_data(const Source& source, const rt::StopToken& stop);
  Done write_source_status(const Source& source, const std::vector<ClaimPtr>& claims, const rt::StopToken& stop);

  // workload_work.cc
  rt::Outcome reconcile_workload(const std::string& key, const rt::StopToken& stop);
  [[nodiscard]] std::shared_ptr<const BindingView> binding_of(const std::string& workload) const;
  [[nodiscard]] static bool moves(const json::Value& binding, const PlacementPlan& plan);
  [[nodiscard]] rt::Duration until_next_move(const std::string& key);

  // plugin_work.cc
  rt::Outcome reconcile_plugins(const rt::StopToken& stop);
  [[nodiscard]] std::map<std::string, std::string> plugin_documents();  // by plugin
  Done read_secret(PluginConfig& config, const rt::StopToken& stop);
  void keep_credentials(const std::string& plugin, PluginConfig& config);

  Done set_finalizers(const kube::Resource& resource, const api::meta::ObjectMeta& metadata, std::string_view finalizer,
                      bool is_wanted, const rt::StopToken& stop);
  void tell(const Claim& claim, kube::EventType type, std::string_view reason, std::string message);
  [[nodiscard]] api::Time wall() const { return api::Time::from(runtime_.wall_now()); }

  // Fixed after construction.
  const DataControllerOptions options_;
  rt::Runtime& runtime_;
  kube::Client& client_;
  const Logger log_;
  kube::Metrics& metrics_;

  // Self-locking.
  kube::EventRecorder events_;
  kube::Informer<Claim> claims_;
  kube::Informer<Source> sources_;
  kube::Informer<BindingView> bindings_;
  kube::Informer<ClusterView> clusters_;
  kube::Informer<api::core::ConfigMap> config_;
  rt::WorkQueue<WorkItem, WorkItemHash> queue_;
  Resolver resolver_;
  std::atomic<bool> has_plugins_read_{false};

  rt::Mutex mutex_;
  std::map<std::string, rt::Instant> changed_since_ BASALT_GUARDED_BY(mutex_);   // claim UID -> its identity changed
  std::map<std::string, rt::Instant> last_moves_ BASALT_GUARDED_BY(mutex_);      // workload -> when
  std::map<std::string, std::string> refresh_wishes_ BASALT_GUARDED_BY(mutex_);  // source UID -> annotation dealt with
  std::map<std::string, PluginConfig> configured_ BASALT_GUARDED_BY(mutex_);
  // The bindings that are held back, by when they were made, which is when they began to wait; and their names.
  std::set<std::pair<std::string, std::string>> gated_since_ BASALT_GUARDED_BY(mutex_);

  // Used only by the informers' handlers: how many claims are in each state. Gauges are set, not changed, so that a
  // controller that follows another one in this process begins anew.
  std::map<std::string, std::int64_t> claims_in_state_;

  std::optional<rt::Workers<WorkItem, WorkItemHash>> workers_;  // used only by the owner
};

}  // namespace basalt::controllers::datadependency
