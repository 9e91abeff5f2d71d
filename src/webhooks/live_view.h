#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/gen/core_objects.h"
#include "api/gen/core_workloads.h"
#include "base/log.h"
#include "kube/client.h"
#include "kube/informer.h"
#include "rt/runtime.h"
#include "rt/token_bucket.h"
#include "webhooks/cluster_view.h"

namespace basalt::webhooks {

struct InformerViewOptions {
  bool watch_namespaces = false;        // for /podgroups/mutate
  bool watch_priority_classes = false;  // to warn of names that do not exist
  // Questions to the API server itself, when the cache is about to make us refuse something. A tenant that names queues
  // that do not exist asks many; beyond this rate the cache's word stands.
  double fresh_reads_per_second = 20;
  rt::Duration fresh_read_timeout = std::chrono::seconds(2);
};

// The view of a server in a cluster: caches kept by watches. start() before use, stop() before destruction.
class InformerClusterView final : public ClusterView {
 public:
  InformerClusterView(rt::Runtime& runtime, kube::Client& client, Logger log, InformerViewOptions options);

  void start();
  void stop();
  // Waits for the queues (and namespaces); false if stopped before.
  [[nodiscard]] bool wait_synced(const rt::StopToken& stop);
  [[nodiscard]] bool has_synced() const;

  [[nodiscard]] QueuePtr queue(std::string_view name) const override;
  [[nodiscard]] QueuePtr fresh_queue(std::string_view name) const override;
  [[nodiscard]] std::vector<QueuePtr> children_of(std::string_view parent) const override;
  void for_each_queue(const std::function<bool(const api::scheduling::Queue&)>& visit) const override;
  [[nodiscard]] std::optional<std::string> namespace_annotation(std::string_view ns,
                                                                std::string_view key) const override;
  [[nodiscard]] std::optional<std::vector<std::string>> priority_classes() const override;

 private:
  kube::Client& client_;
  const InformerViewOptions options_;
  kube::Informer<api::scheduling::Queue> queues_;
  std::unique_ptr<kube::Informer<api::core::Namespace>> namespaces_;
  std::unique_ptr<kube::Informer<api::core::PriorityClass>> priority_classes_;
  mutable rt::TokenBucket fresh_reads_;
  rt::StopSource stop_;
};

// A view that asks for every fact: always current, and cheap where the API server lives in this process.
class ClientClusterView final : public ClusterView {
 public:
  explicit ClientClusterView(kube::Client& client) : client_(client) {}

  [[nodiscard]] QueuePtr queue(std::string_view name) const override;
  [[nodiscard]] std::vector<QueuePtr> children_of(std::string_view parent) const override;
  void for_each_queue(const std::function<bool(const api::scheduling::Queue&)>& visit) const override;
  [[nodiscard]] std::optional<std::string> namespace_annotation(std::string_view ns,
                                                                std::string_view key) const override;
  [[nodiscard]] std::optional<std::vector<std::string>> priority_classes() const override;

 private:
  kube::Client& client_;
};

}  // namespace basalt::webhooks
