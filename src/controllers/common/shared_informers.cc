#include "controllers/common/shared_informers.h"

#include <chrono>
#include <utility>

#include "api/gen/names.h"
#include "base/check.h"
#include "kube/typed.h"

namespace basalt::controllers {
namespace {

using api::batch::Job;
using api::bus::Command;
using api::core::NodeProjection;
using api::core::PodProjection;
using api::scheduling::PodGroup;
using api::scheduling::Queue;

template <class T>
kube::IndexOf<T> by_controller() {
  return {std::string(indexes::kByController), [](const T& object, std::vector<std::string>& values) {
            for (const auto& owner : object.metadata.owner_references) {
              bool is_controller = false;
              if constexpr (requires { owner.controller.has_value(); }) {
                is_controller = owner.controller.value_or(false);
              } else {
                is_controller = owner.controller;
              }
              if (is_controller) values.emplace_back(std::string_view(owner.uid));
            }
          }};
}

std::string joined(std::string_view a, std::string_view b) {
  std::string text;
  text.reserve(a.size() + 1 + b.size());
  text.append(a).append("/").append(b);
  return text;
}

}  // namespace

struct SharedInformers::Slots {
  std::unique_ptr<kube::Informer<PodProjection>> pods;
  std::unique_ptr<kube::Informer<NodeProjection>> nodes;
  std::unique_ptr<kube::Informer<Job>> jobs;
  std::unique_ptr<kube::Informer<api::batch::CronJob>> cron_jobs;
  std::unique_ptr<kube::Informer<Command>> commands;
  std::unique_ptr<kube::Informer<PodGroup>> pod_groups;
  std::unique_ptr<kube::Informer<Queue>> queues;
  std::unique_ptr<kube::Informer<api::core::PersistentVolumeClaim>> claims;
  std::unique_ptr<kube::Informer<api::core::PriorityClass>> priority_classes;
  std::unique_ptr<kube::Informer<api::core::ConfigMap>> config_maps;
  std::unique_ptr<kube::Informer<api::core::Service>> services;
  std::unique_ptr<kube::Informer<api::core::Namespace>> namespaces;
  std::unique_ptr<kube::Informer<api::core::ReplicaSet>> replica_sets;
  std::unique_ptr<kube::Informer<api::core::StatefulSet>> stateful_sets;
  std::unique_ptr<kube::Informer<api::flow::JobFlow>> job_flows;
  std::unique_ptr<kube::Informer<api::flow::JobTemplate>> job_templates;
  std::unique_ptr<kube::Informer<api::training::HyperJob>> hyper_jobs;
  std::unique_ptr<kube::Informer<api::karmada::PropagationPolicy>> propagation_policies;
  std::unique_ptr<kube::Informer<api::karmada::ResourceBinding>> resource_bindings;
  std::unique_ptr<kube::Informer<api::karmada::Cluster>> clusters;
};

SharedInformers::SharedInformers(rt::Runtime& runtime, kube::Client& client, Logger log, kube::Metrics* metrics)
    : runtime_(runtime), client_(client), log_(std::move(log)), metrics_(metrics), slots_(std::make_unique<Slots>()) {}

SharedInformers::~SharedInformers() = default;

template <class T>
kube::Informer<T>& SharedInformers::cache(std::unique_ptr<kube::Informer<T>>& slot,
                                          std::vector<kube::IndexOf<T>> indexes) {
  if (!slot) {
    BASALT_CHECK_MSG(!started_, "a cache was asked for after the start");
    kube::InformerOptions<T> options;
    options.reflector.resource = kube::resource_of<T>();
    options.reflector.metrics = metrics_;
    // With jitter twice that: after an outage all controllers know again what is going on within ten seconds.
    options.reflector.backoff_max = std::chrono::seconds(4);
    options.indexes = std::move(indexes);
    slot = std::make_unique<kube::Informer<T>>(runtime_, client_, log_, std::move(options));
    all_.push_back(&slot->core());
  }
  return *slot;
}

kube::Informer<PodProjection>& SharedInformers::pods() {
  return cache<PodProjection>(
      slots_->pods, {by_controller<PodProjection>(),
                     {std::string(indexes::kByNode),
                      [](const PodProjection& pod, std::vector<std::string>& values) {
                        if (!std::string_view(pod.spec.node_name).empty())
                          values.emplace_back(std::string_view(pod.spec.node_name));
                      }},
                     {std::string(indexes::kByGroup), [](const PodProjection& pod, std::vector<std::string>& values) {
                        const auto group = pod.metadata.annotations.get(api::keys::kGroupName);
                        if (!group.empty()) values.push_back(joined(std::string_view(pod.metadata.namespace_), group));
                      }}});
}

kube::Informer<NodeProjection>& SharedInformers::nodes() { return cache<NodeProjection>(slots_->nodes, {}); }

kube::Informer<Job>& SharedInformers::jobs() {
  return cache<Job>(slots_->jobs,
                    {by_controller<Job>(),
                     {std::string(indexes::kByQueue),
                      [](const Job& job, std::vector<std::string>& values) { values.push_back(job.spec.queue); }},
                     {std::string(indexes::kByTemplate), [](const Job& job, std::vector<std::string>& values) {
                        const auto origin = job.metadata.labels.get(api::keys::kCreatedByJobTemplate);
                        if (!origin.empty()) values.emplace_back(origin);
                      }}});
}

kube::Informer<api::batch::CronJob>& SharedInformers::cron_jobs() {
  return cache<api::batch::CronJob>(slots_->cron_jobs, {});
}

kube::Informer<Command>& SharedInformers::commands() {
  return cache<Command>(
      slots_->commands,
      {{std::string(indexes::kByTargetName), [](const Command& command, std::vector<std::string>& values) {
          if (!command.target) return;
          values.push_back(joined(joined(command.metadata.namespace_, command.target->kind), command.target->name));
        }}});
}

kube::Informer<PodGroup>& SharedInformers::pod_groups() {
  return cache<PodGroup>(slots_->pod_groups,
                         {by_controller<PodGroup>(),
                          {std::string(indexes::kByQueue), [](const PodGroup& group, std::vector<std::string>& values) {
                             values.push_back(group.spec.queue);
                           }}});
}

kube::Informer<Queue>& SharedInformers::queues() {
  return cache<Queue>(slots_->queues,
                      {{std::string(indexes::kByParent), [](const Queue& queue, std::vector<std::string>& values) {
                          if (!queue.spec.parent.empty()) values.push_back(queue.spec.parent);
                        }}});
}

kube::Informer<api::core::PersistentVolumeClaim>& SharedInformers::persistent_volume_claims() {
  return cache<api::core::PersistentVolumeClaim>(slots_->claims, {});
}
kube::Informer<api::core::PriorityClass>& SharedInformers::priority_classes() {
  return cache<api::core::PriorityClass>(slots_->priority_classes, {});
}
kube::Informer<api::core::ConfigMap>& SharedInformers::config_maps() {
  return cache<api::core::ConfigMap>(slots_->config_maps, {});
}
kube::Informer<api::core::Service>& SharedInformers::services() {
  return cache<api::core::Service>(slots_->services, {});
}
kube::Informer<api::core::Namespace>& SharedInformers::namespaces() {
  return cache<api::core::Namespace>(slots_->namespaces, {});
}
kube::Informer<api::core::ReplicaSet>& SharedInformers::replica_sets() {
  return cache<api::core::ReplicaSet>(slots_->replica_sets, {});
}
kube::Informer<api::core::StatefulSet>& SharedInformers::stateful_sets() {
  return cache<api::core::StatefulSet>(slots_->stateful_sets, {});
}

kube::Informer<api::flow::JobFlow>& SharedInformers::job_flows() {
  return cache<api::flow::JobFlow>(
      slots_->job_flows,
      {{std::string(indexes::kByTemplate), [](const api::flow::JobFlow& flow, std::vector<std::string>& values) {
          for (const auto& step : flow.spec.flows) values.push_back(flow.metadata.namespace_ + "." + step.name);
        }}});
}
kube::Informer<api::flow::JobTemplate>& SharedInformers::job_templates() {
  return cache<api::flow::JobTemplate>(slots_->job_templates, {});
}

kube::Informer<api::training::HyperJob>& SharedInformers::hyper_jobs() {
  return cache<api::training::HyperJob>(slots_->hyper_jobs, {});
}
kube::Informer<api::karmada::PropagationPolicy>& SharedInformers::propagation_policies() {
  return cache<api::karmada::PropagationPolicy>(slots_->propagation_policies,
                                                {by_controller<api::karmada::PropagationPolicy>()});
}
kube::Informer<api::karmada::ResourceBinding>& SharedInformers::resource_bindings() {
  return cache<api::karmada::ResourceBinding>(slots_->resource_bindings, {});
}
kube::Informer<api::karmada::Cluster>& SharedInformers::clusters() {
  return cache<api::karmada::Cluster>(slots_->clusters, {});
}

void SharedInformers::start() {
  started_ = true;
  for (kube::InformerCore* informer : all_) informer->start();
}

void SharedInformers::stop() {
  for (kube::InformerCore* informer : all_) informer->stop();
}

bool SharedInformers::wait_synced(const rt::StopToken& stop) {
  for (kube::InformerCore* informer : all_) {
    if (!informer->wait_synced(stop)) return false;
  }
  return true;
}

std::vector<std::string> SharedInformers::unsynced() const {
  std::vector<std::string> names;
  for (const kube::InformerCore* informer : all_) {
    if (!informer->has_synced()) names.push_back(informer->resource().to_string());
  }
  return names;
}

}  // namespace basalt::controllers
