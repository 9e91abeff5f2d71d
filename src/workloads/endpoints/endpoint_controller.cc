#include "workloads/endpoints/endpoint_controller.h"

#include <string>
#include <utility>

#include "workloads/common/pod_template.h"

namespace basalt::workloads {
namespace {

// Pods of a service come and go together: what happens within this is written once.
constexpr rt::Duration kBatchPause = std::chrono::milliseconds(50);

bool is_ours(const Object& endpoints) {
  return endpoints.json.string_at({"metadata", "labels", "endpoints.kubernetes.io/managed-by"}) ==
         "endpoint-controller";
}

bool looks_the_same(const Pod& a, const Pod& b) {
  return a.metadata.uid == b.metadata.uid && a.address == b.address && a.is_ready == b.is_ready &&
         a.is_being_deleted() == b.is_being_deleted() && a.is_finished() == b.is_finished() &&
         a.metadata.labels == b.metadata.labels && a.node_name == b.node_name;
}

}  // namespace

EndpointController::EndpointController(Context& context)
    : KeyedController(context, {.name = "endpoint", .kind = kServiceKind, .resource = resources::kServices},
                      context.caches.services) {
  expectations_.connect(context.caches.endpoints.core());
  expectations_.connect(context.caches.slices.core());
  context.caches.pods.add_handler([this](const kube::Change<Pod>& change) { on_pod(change); });
  context.caches.endpoints.add_handler([this](const kube::Change<Object>& change) { add(change.object().key()); });
  context.caches.slices.add_handler([this](const kube::Change<Object>& change) { add_owners(change); });
}

void EndpointController::on_pod(const kube::Change<Pod>& change) {
  if (change.is_updated() && looks_the_same(*change.before, *change.after)) return;
  if (change.before) add_services_of(*change.before);
  if (change.after) add_services_of(*change.after);
}

void EndpointController::add_services_of(const Pod& pod) {
  if (pod.address.empty()) return;
  const std::string ns = pod.metadata.namespace_.str() + "/";
  for (const auto& [key, value] : pod.metadata.labels) {
    std::string label = ns;
    label.append(key).append("=").append(value);
    for (const auto& service : context_.caches.services.by_index(indexes::kByLabel, label)) {
      if (strings_at(service->json, {"spec", "selector"}).is_subset_of(pod.metadata.labels))
        work_.add_after(service->key(), kBatchPause);
    }
  }
}

rt::Outcome EndpointController::reconcile(const Object& service, const rt::StopToken& stop) {
  if (!has_selector(service) || service.json.string_at({"spec", "type"}) == "ExternalName" ||
      service.metadata.is_being_deleted)
    return rt::Outcome::done();
  const api::StringMap selector = strings_at(service.json, {"spec", "selector"});
  std::vector<PodPtr> pods;
  for (PodPtr& pod : context_.caches.pods.list_namespace(service.metadata.namespace_)) {
    if (selector.is_subset_of(pod->metadata.labels)) pods.push_back(std::move(pod));
  }
  const std::vector<Backend> backends = backends_of(service, pods);
  if (Done done = write_endpoints(service, backends, stop); !done.ok())
    return rt::Outcome::failed(std::move(done).error());
  if (Done done = write_slices(service, backends, stop); !done.ok())
    return rt::Outcome::failed(std::move(done).error());
  return rt::Outcome::done();
}

rt::Outcome EndpointController::gone(const api::ObjectKey& key, const rt::StopToken& stop) {
  // The slices go with their owner; Endpoints have none.
  const auto endpoints = context_.caches.endpoints.get(key);
  if (!endpoints || !is_ours(*endpoints)) return rt::Outcome::done();
  Done done =
      writer_.remove_all(key, resources::kEndpoints, {{endpoints->metadata.name, endpoints->metadata.uid}}, stop);
  return done.ok() ? rt::Outcome::done() : rt::Outcome::failed(std::move(done).error());
}

Done EndpointController::write_endpoints(const Object& service, const std::vector<Backend>& backends,
                                         const rt::StopToken& stop) {
  const api::ObjectKey key = service.key();
  const json::Value wanted = endpoints_of(service, backends);
  const auto present = context_.caches.endpoints.get(key);
  if (!present) {
    const auto created = writer_.create(key, resources::kEndpoints, wanted, stop);
    if (!created.ok()) return created.error().with_context("the Endpoints could not be made");
    return Ok{};
  }
  if (same_endpoints(wanted, present->json)) return Ok{};
  Writer::Patch patch;
  patch.target = {key.name, present->metadata.uid};
  patch.body.ensure_path({"metadata", "labels"}) = object_at(wanted, {"metadata", "labels"});
  patch.body.ensure_path({"metadata", "resourceVersion"}) = present->metadata.resource_version;
  const std::string_view cut = annotation_of(wanted, kOverCapacity);
  patch.body.ensure_path({"metadata", "annotations", kOverCapacity}) = cut.empty() ? json::Value() : json::Value(cut);
  for (const json::Member& label : map_at(present->json, {"metadata", "labels"})) {
    json::Value& labels = *patch.body.find_path({"metadata", "labels"});
    if (labels.find(label.key) == nullptr) labels.as_object().set(label.key, nullptr);
  }
  const json::Value* subsets = wanted.find("subsets");
  patch.body.as_object().set("subsets", subsets != nullptr ? *subsets : json::Value());
  return writer_.patch(key, resources::kEndpoints, patch, false, stop);
}

Done EndpointController::write_slices(const Object& service, const std::vector<Backend>& backends,
                                      const rt::StopToken& stop) {
  const api::ObjectKey key = service.key();
  std::vector<std::shared_ptr<const Object>> present;
  for (auto& slice : context_.caches.slices.by_index(indexes::kByService, key.to_string())) {
    if (slice->metadata.owner_uid == service.metadata.uid) present.push_back(std::move(slice));
  }
  SlicePlan plan = plan_slices(service, backends, present);
  for (json::Value& slice : plan.creates) {
    slice.ensure_path({"metadata", "generateName"}) = key.name + "-";
    slice.ensure_path({"metadata", "name"}) = generated_name(context_.runtime, key.name + "-");
    const auto created = writer_.create(key, resources::kSlices, slice, stop);
    if (!created.ok()) return created.error().with_context("an EndpointSlice could not be made");
  }
  for (const SlicePlan::Change& change : plan.changes) {
    Writer::Patch patch;
    patch.target = {change.slice->metadata.name, change.slice->metadata.uid};
    patch.body.ensure_path({"metadata", "labels"}) = object_at(change.body, {"metadata", "labels"});
    patch.body.ensure_path({"metadata", "resourceVersion"}) = change.slice->metadata.resource_version;
    for (const json::Member& label : map_at(change.slice->json, {"metadata", "labels"})) {
      json::Value& labels = *patch.body.find_path({"metadata", "labels"});
      if (labels.find(label.key) == nullptr) labels.as_object().set(label.key, nullptr);
    }
    patch.body.as_object().set("endpoints", list_at(change.body, {"endpoints"}));
    BASALT_TRY_DONE(writer_.patch(key, resources::kSlices, patch, false, stop));
  }
  std::vector<Writer::Target> targets;
  for (const auto& slice : plan.deletes) targets.push_back({slice->metadata.name, slice->metadata.uid});
  return writer_.remove_all(key, resources::kSlices, targets, stop);
}

}  // namespace basalt::workloads
