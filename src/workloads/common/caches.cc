#include "workloads/common/caches.h"

#include <chrono>
#include <utility>

namespace basalt::workloads {
namespace {

template <class T>
kube::IndexOf<T> by_owner() {
  return {std::string(indexes::kByOwner), [](const T& object, std::vector<std::string>& values) {
            if (!object.metadata.owner_uid.empty()) values.emplace_back(std::string_view(object.metadata.owner_uid));
          }};
}

template <class T>
kube::IndexOf<T> orphans() {
  return {std::string(indexes::kOrphans), [](const T& object, std::vector<std::string>& values) {
            if (object.metadata.owner_uid.empty()) values.emplace_back(std::string_view(object.metadata.namespace_));
          }};
}

kube::IndexOf<Pod> tracked() {
  return {std::string(indexes::kTracked), [](const Pod& pod, std::vector<std::string>& values) {
            if (pod.is_tracked) values.push_back(pod.metadata.namespace_.str() + "/" + pod.metadata.owner_name.str());
          }};
}

kube::IndexOf<Object> by_service() {
  return {std::string(indexes::kByService), [](const Object& slice, std::vector<std::string>& values) {
            const auto service = slice.json.string_at({"metadata", "labels", "kubernetes.io/service-name"});
            if (!service.empty()) values.push_back(slice.metadata.namespace_ + "/" + std::string(service));
          }};
}

// Whoever looks for the services of a pod asks for each of its labels.
kube::IndexOf<Object> by_label() {
  return {std::string(indexes::kByLabel), [](const Object& service, std::vector<std::string>& values) {
            const json::Object& selector = map_at(service.json, {"spec", "selector"});
            if (selector.empty() || !selector.begin()->value.is_string()) return;
            values.push_back(service.metadata.namespace_ + "/" + selector.begin()->key + "=" +
                             selector.begin()->value.as_string());
          }};
}

template <class T>
kube::InformerOptions<T> options_of(const kube::Resource& resource, kube::Metrics* metrics,
                                    std::vector<kube::IndexOf<T>> indexes = {}) {
  kube::InformerOptions<T> options;
  options.reflector.resource = resource;
  options.reflector.metrics = metrics;
  options.reflector.backoff_max = std::chrono::seconds(4);
  options.indexes = std::move(indexes);
  return options;
}

}  // namespace

Caches::Caches(rt::Runtime& runtime, kube::Client& client, const Logger& log, kube::Metrics* metrics)
    : deployments(runtime, client, log, options_of<Object>(resources::kDeployments, metrics)),
      replica_sets(runtime, client, log,
                   options_of<Object>(resources::kReplicaSets, metrics, {by_owner<Object>(), orphans<Object>()})),
      replication_controllers(runtime, client, log, options_of<Object>(resources::kReplicationControllers, metrics)),
      stateful_sets(runtime, client, log, options_of<Object>(resources::kStatefulSets, metrics)),
      daemon_sets(runtime, client, log, options_of<Object>(resources::kDaemonSets, metrics)),
      jobs(runtime, client, log, options_of<Object>(resources::kJobs, metrics, {by_owner<Object>()})),
      cron_jobs(runtime, client, log, options_of<Object>(resources::kCronJobs, metrics)),
      services(runtime, client, log, options_of<Object>(resources::kServices, metrics, {by_label()})),
      budgets(runtime, client, log, options_of<Object>(resources::kDisruptionBudgets, metrics)),
      pods(runtime, client, log,
           options_of<Pod>(resources::kPods, metrics, {by_owner<Pod>(), orphans<Pod>(), tracked()})),
      nodes(runtime, client, log, options_of<api::core::NodeProjection>(resources::kNodes, metrics)),
      revisions(runtime, client, log, options_of<Object>(resources::kRevisions, metrics, {by_owner<Object>()})),
      claims(runtime, client, log, options_of<Object>(resources::kClaims, metrics)),
      endpoints(runtime, client, log, options_of<Object>(resources::kEndpoints, metrics)),
      slices(runtime, client, log, options_of<Object>(resources::kSlices, metrics, {by_service()})) {}

void Caches::start() {
  started_ = {&deployments.core(),   &replica_sets.core(), &replication_controllers.core(),
              &stateful_sets.core(), &daemon_sets.core(),  &jobs.core(),
              &cron_jobs.core(),     &services.core(),     &budgets.core()};
  for (kube::InformerCore* cache : started_) cache->start();
}

void Caches::start_rest() {
  for (kube::InformerCore* cache :
       {&pods.core(), &nodes.core(), &revisions.core(), &claims.core(), &endpoints.core(), &slices.core()}) {
    started_.push_back(cache);
    cache->start();
  }
}

void Caches::stop() {
  for (kube::InformerCore* cache : started_) cache->stop();
  started_.clear();
}

bool Caches::wait_synced(const rt::StopToken& stop) {
  for (kube::InformerCore* cache : started_) {
    if (!cache->wait_synced(stop)) return false;
  }
  return true;
}

bool Caches::has_work() const {
  if (deployments.size() + replica_sets.size() + replication_controllers.size() > 0) return true;
  if (stateful_sets.size() + daemon_sets.size() + jobs.size() + cron_jobs.size() + budgets.size() > 0) return true;
  bool found = false;
  services.for_each([&](const Object& service) { found |= has_selector(service); });
  return found;
}

bool has_selector(const Object& service) { return !map_at(service.json, {"spec", "selector"}).empty(); }

}  // namespace basalt::workloads
