#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_cronjob.h"
#include "api/gen/batch_job.h"
#include "api/gen/bus.h"
#include "api/gen/core_node.h"
#include "api/gen/core_objects.h"
#include "api/gen/core_podcache.h"
#include "api/gen/core_workloads.h"
#include "api/gen/flow.h"
#include "api/gen/karmada_binding.h"
#include "api/gen/karmada_cluster.h"
#include "api/gen/karmada_policy.h"
#include "api/gen/scheduling_podgroup.h"
#include "api/gen/scheduling_queue.h"
#include "api/gen/training.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::controllers {

// Names of the indexes, for Informer::by_index().
namespace indexes {
inline constexpr std::string_view kByController = "controller";  // UID of the owner with `controller: true`
inline constexpr std::string_view kByNode = "node";              // pods: spec.nodeName, if set
inline constexpr std::string_view kByGroup = "group";  // pods: "<namespace>/<annotation scheduling.k8s.io/group-name>"
inline constexpr std::string_view kByQueue = "queue";  // jobs, pod groups: spec.queue
inline constexpr std::string_view kByParent = "parent";  // queues: spec.parent
// Jobs: label volcano.sh/createdByJobTemplate, "<namespace>.<template>". Job flows: "<namespace>.<step>" of every step.
inline constexpr std::string_view kByTemplate = "template";
inline constexpr std::string_view kByTargetName = "target";  // commands: "<namespace>/<target.kind>/<target.name>"
}  // namespace indexes

// One cache of each resource type, shared by all controllers of a process. A cache exists from the first time it is
// asked for; all are asked for before start(). Not thread-safe before start(), read-only after it.
class SharedInformers {
 public:
  SharedInformers(rt::Runtime& runtime, kube::Client& client, Logger log, kube::Metrics* metrics = nullptr);
  ~SharedInformers();  // stop() has been called if start() was
  SharedInformers(const SharedInformers&) = delete;
  SharedInformers& operator=(const SharedInformers&) = delete;

  [[nodiscard]] kube::Informer<api::core::PodProjection>& pods();
  [[nodiscard]] kube::Informer<api::core::NodeProjection>& nodes();
  [[nodiscard]] kube::Informer<api::batch::Job>& jobs();
  [[nodiscard]] kube::Informer<api::batch::CronJob>& cron_jobs();
  [[nodiscard]] kube::Informer<api::bus::Command>& commands();
  [[nodiscard]] kube::Informer<api::scheduling::PodGroup>& pod_groups();
  [[nodiscard]] kube::Informer<api::scheduling::Queue>& queues();
  [[nodiscard]] kube::Informer<api::core::PersistentVolumeClaim>& persistent_volume_claims();
  [[nodiscard]] kube::Informer<api::core::PriorityClass>& priority_classes();
  [[nodiscard]] kube::Informer<api::core::ConfigMap>& config_maps();
  [[nodiscard]] kube::Informer<api::core::Service>& services();
  [[nodiscard]] kube::Informer<api::core::Namespace>& namespaces();
  [[nodiscard]] kube::Informer<api::core::ReplicaSet>& replica_sets();
  [[nodiscard]] kube::Informer<api::core::StatefulSet>& stateful_sets();
  [[nodiscard]] kube::Informer<api::flow::JobFlow>& job_flows();
  [[nodiscard]] kube::Informer<api::flow::JobTemplate>& job_templates();
  // Only where Karmada's kinds are served: a cache of a kind that is not never fills.
  [[nodiscard]] kube::Informer<api::training::HyperJob>& hyper_jobs();
  [[nodiscard]] kube::Informer<api::karmada::PropagationPolicy>& propagation_policies();
  [[nodiscard]] kube::Informer<api::karmada::ResourceBinding>& resource_bindings();
  [[nodiscard]] kube::Informer<api::karmada::Cluster>& clusters();

  void start();
  void stop();
  // False if stopped before all were filled.
  [[nodiscard]] bool wait_synced(const rt::StopToken& stop);
  // The resources whose caches are not filled yet, for logs and health checks.
  [[nodiscard]] std::vector<std::string> unsynced() const;

 private:
  struct Slots;
  template <class T>
  kube::Informer<T>& cache(std::unique_ptr<kube::Informer<T>>& slot, std::vector<kube::IndexOf<T>> indexes);

  rt::Runtime& runtime_;
  kube::Client& client_;
  Logger log_;
  kube::Metrics* metrics_;
  std::unique_ptr<Slots> slots_;
  std::vector<kube::InformerCore*> all_;
  bool started_ = false;
};

}  // namespace basalt::controllers
