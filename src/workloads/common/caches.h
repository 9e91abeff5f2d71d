#pragma once

#include <string_view>
#include <vector>

#include "api/gen/core_node.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"
#include "workloads/common/object.h"
#include "workloads/common/pod.h"

namespace basalt::workloads {

namespace resources {
inline const kube::Resource kPods{"", "v1", "pods"};
inline const kube::Resource kNodes{"", "v1", "nodes"};
inline const kube::Resource kServices{"", "v1", "services"};
inline const kube::Resource kReplicationControllers{"", "v1", "replicationcontrollers"};
inline const kube::Resource kEndpoints{"", "v1", "endpoints"};
inline const kube::Resource kClaims{"", "v1", "persistentvolumeclaims"};
inline const kube::Resource kDeployments{"apps", "v1", "deployments"};
inline const kube::Resource kReplicaSets{"apps", "v1", "replicasets"};
inline const kube::Resource kStatefulSets{"apps", "v1", "statefulsets"};
inline const kube::Resource kDaemonSets{"apps", "v1", "daemonsets"};
inline const kube::Resource kRevisions{"apps", "v1", "controllerrevisions"};
inline const kube::Resource kJobs{"batch", "v1", "jobs"};
inline const kube::Resource kCronJobs{"batch", "v1", "cronjobs"};
inline const kube::Resource kDisruptionBudgets{"policy", "v1", "poddisruptionbudgets"};
inline const kube::Resource kSlices{"discovery.k8s.io", "v1", "endpointslices"};
}  // namespace resources

namespace indexes {
inline constexpr std::string_view kByOwner = "owner";      // UID of the owner with `controller: true`
inline constexpr std::string_view kOrphans = "orphans";    // namespace, of objects without such an owner
inline constexpr std::string_view kTracked = "tracked";    // pods with the finalizer of jobs: "<namespace>/<owner>"
inline constexpr std::string_view kByService = "service";  // slices: "<namespace>/<service>"
inline constexpr std::string_view kByLabel = "label";  // services: "<namespace>/<key>=<value>" of one selected label
}  // namespace indexes

// The caches that the controllers of this folder share. Handlers are added before the start. Workloads and services are
// watched from the beginning, the rest only from the first of them on: a cluster without any pays nothing for its pods.
class Caches {
 public:
  Caches(rt::Runtime& runtime, kube::Client& client, const Logger& log, kube::Metrics* metrics = nullptr);

  void start();       // those of workloads and services
  void start_rest();  // once there is one of them
  void stop();
  // False if stopped before all that were started are filled.
  [[nodiscard]] bool wait_synced(const rt::StopToken& stop);
  // Whether there is anything that a controller of this folder would act on.
  [[nodiscard]] bool has_work() const;

  kube::Informer<Object> deployments;
  kube::Informer<Object> replica_sets;
  kube::Informer<Object> replication_controllers;
  kube::Informer<Object> stateful_sets;
  kube::Informer<Object> daemon_sets;
  kube::Informer<Object> jobs;
  kube::Informer<Object> cron_jobs;
  kube::Informer<Object> services;
  kube::Informer<Object> budgets;

  kube::Informer<Pod> pods;
  kube::Informer<api::core::NodeProjection> nodes;
  kube::Informer<Object> revisions;
  kube::Informer<Object> claims;
  kube::Informer<Object> endpoints;
  kube::Informer<Object> slices;

 private:
  std::vector<kube::InformerCore*> started_;
};

// Services without a selector are somebody else's.
[[nodiscard]] bool has_selector(const Object& service);

}  // namespace basalt::workloads
