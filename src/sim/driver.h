#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"
#include "kube/client.h"
#include "rt/runtime.h"

namespace basalt::sim {

// The resource types that tests speak of.
namespace resources {
inline const kube::Resource kPods{"", "v1", "pods"};
inline const kube::Resource kNodes{"", "v1", "nodes"};
inline const kube::Resource kNamespaces{"", "v1", "namespaces"};
inline const kube::Resource kServices{"", "v1", "services"};
inline const kube::Resource kConfigMaps{"", "v1", "configmaps"};
inline const kube::Resource kSecrets{"", "v1", "secrets"};
inline const kube::Resource kEvents{"", "v1", "events"};
inline const kube::Resource kClaims{"", "v1", "persistentvolumeclaims"};
inline const kube::Resource kPriorityClasses{"scheduling.k8s.io", "v1", "priorityclasses"};
inline const kube::Resource kNetworkPolicies{"networking.k8s.io", "v1", "networkpolicies"};
inline const kube::Resource kReplicaSets{"apps", "v1", "replicasets"};
inline const kube::Resource kStatefulSets{"apps", "v1", "statefulsets"};
inline const kube::Resource kDaemonSets{"apps", "v1", "daemonsets"};
inline const kube::Resource kBatchJobs{"batch", "v1", "jobs"};
inline const kube::Resource kJobs{"batch.volcano.sh", "v1alpha1", "jobs"};
inline const kube::Resource kCronJobs{"batch.volcano.sh", "v1alpha1", "cronjobs"};
inline const kube::Resource kCommands{"bus.volcano.sh", "v1alpha1", "commands"};
inline const kube::Resource kQueues{"scheduling.volcano.sh", "v1beta1", "queues"};
inline const kube::Resource kPodGroups{"scheduling.volcano.sh", "v1beta1", "podgroups"};
inline const kube::Resource kNodeShards{"shard.volcano.sh", "v1alpha1", "nodeshards"};
}  // namespace resources

// Short words for tests, on any Kubernetes API. Helpers that return plain values end the process (BASALT_CHECK) if the
// call fails, so that a test reads as a list of steps; those that return Result are for calls that may fail.
class Driver {
 public:
  Driver(rt::Runtime& runtime, kube::Client& client) : runtime_(runtime), driven_(&client) {}
  virtual ~Driver() = default;

  [[nodiscard]] rt::Runtime& runtime() { return runtime_; }
  [[nodiscard]] kube::Client& client() { return *driven_; }

  // Creates every document of the YAML text (or replaces what has the same name); returns the last as stored. The
  // namespace is "default" where a namespaced object names none. Kinds: whatever the server knows.
  json::Value apply(std::string_view yaml);
  Result<json::Value> try_create(std::string_view yaml);  // one document

  [[nodiscard]] std::optional<json::Value> get(const kube::Resource& resource, std::string_view ns,
                                               std::string_view name);
  [[nodiscard]] std::vector<json::Value> list(const kube::Resource& resource, std::string_view ns = {},
                                              std::string_view label_selector = {});
  // Merge patches, as JSON text.
  json::Value patch(const kube::Resource& resource, std::string_view ns, std::string_view name,
                    std::string_view merge_patch, std::string_view subresource = {});
  Result<json::Value> try_patch(const kube::Resource& resource, std::string_view ns, std::string_view name,
                                std::string_view merge_patch, std::string_view subresource = {});
  // Nothing to delete is fine. With grace 0 a bound pod goes at once.
  void remove(const kube::Resource& resource, std::string_view ns, std::string_view name,
              std::optional<std::int64_t> grace_seconds = std::nullopt);

  // What a test does that plays scheduler and kubelet by hand.
  void set_pod_group_phase(std::string_view ns, std::string_view name, std::string_view phase);
  void bind_pod(std::string_view ns, std::string_view name, std::string_view node);
  // Sets status.phase and a container status that fits: Running is ready, Succeeded ends with 0, Failed with
  // `exit_code`.
  void set_pod_phase(std::string_view ns, std::string_view name, std::string_view phase, int exit_code = 1);

  // Lets time pass until the predicate holds; false if it does not within `limit` (virtual time in a simulation).
  bool wait_until(const std::function<bool()>& predicate, rt::Duration limit = std::chrono::seconds(60));
  // "" if there is no such object.
  [[nodiscard]] std::string job_phase(std::string_view name, std::string_view ns = "default");
  bool wait_job_phase(std::string_view name, std::string_view phase, rt::Duration limit = std::chrono::seconds(60));

 protected:
  explicit Driver(rt::Runtime& runtime) : runtime_(runtime) {}
  void drive(kube::Client* client) { driven_ = client; }
  struct Kind {
    kube::Resource resource;
    bool namespaced = true;
  };
  // Where objects of a kind live; nothing if it is not known.
  [[nodiscard]] virtual std::optional<Kind> find_kind(std::string_view group, std::string_view version,
                                                      std::string_view kind) const;

 private:
  Result<kube::Response> call(kube::Request request);

  rt::Runtime& runtime_;
  kube::Client* driven_ = nullptr;
};

}  // namespace basalt::sim
