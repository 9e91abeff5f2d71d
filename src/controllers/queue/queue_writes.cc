#include "controllers/queue/queue_writes.h"

#include "api/gen/names.h"
#include "json/writer.h"
#include "kube/typed.h"

namespace basalt::controllers::queue {
namespace {

constexpr std::string_view kApiVersion = "scheduling.volcano.sh/v1beta1";

void member(json::Writer& writer, std::string_view key, std::string_view value) {
  writer.key(key);
  writer.string(value);
}

}  // namespace

std::string well_known_queue_body(std::string_view name) {
  const bool is_root = name == api::queues::kRoot;
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  member(writer, "apiVersion", kApiVersion);
  member(writer, "kind", "Queue");
  writer.key("metadata");
  writer.begin_object();
  member(writer, "name", name);
  writer.end_object();
  writer.key("spec");
  writer.begin_object();
  if (!is_root) member(writer, "parent", api::queues::kRoot);
  writer.key("reclaimable");
  writer.boolean(!is_root);
  writer.key("weight");
  writer.integer(1);
  writer.end_object();
  writer.end_object();
  return body;
}

kube::Request metadata_patch(const api::scheduling::Queue& queue, const MetadataChange& change) {
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  writer.key("metadata");
  writer.begin_object();
  member(writer, "uid", queue.metadata.uid);
  // A parent that the user sets at this moment must not be lost. The annotation is ours alone.
  if (change.set_parent) member(writer, "resourceVersion", queue.metadata.resource_version);
  if (change.mark) {
    writer.key("annotations");
    writer.begin_object();
    member(writer, api::keys::kClosedByParent, *change.mark ? "true" : "false");
    writer.end_object();
  }
  writer.end_object();
  if (change.set_parent) {
    writer.key("spec");
    writer.begin_object();
    member(writer, "parent", api::queues::kRoot);
    writer.end_object();
  }
  writer.end_object();
  return {.verb = kube::Verb::Patch,
          .resource = kube::resource_of<api::scheduling::Queue>(),
          .name = queue.metadata.name,
          .body = std::move(body),
          .patch_type = kube::PatchType::Merge,
          .field_manager = std::string(api::components::kControllerManager)};
}

kube::Request state_patch(const api::scheduling::Queue& queue, QueueState state, std::string_view resource_version,
                          StateWrite how) {
  const bool applies = how == StateWrite::Apply;
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  if (applies) {
    member(writer, "apiVersion", kApiVersion);
    member(writer, "kind", "Queue");
  }
  writer.key("metadata");
  writer.begin_object();
  if (applies) member(writer, "name", queue.metadata.name);
  member(writer, "resourceVersion", resource_version);
  writer.end_object();
  writer.key("status");
  writer.begin_object();
  member(writer, "state", to_string(state));
  writer.end_object();
  writer.end_object();
  return {.verb = kube::Verb::Patch,
          .resource = kube::resource_of<api::scheduling::Queue>(),
          .name = queue.metadata.name,
          .subresource = "status",
          .body = std::move(body),
          .patch_type = applies ? kube::PatchType::Apply : kube::PatchType::Merge,
          .field_manager = std::string(api::components::kQueueFieldManager),
          .force = applies};
}

}  // namespace basalt::controllers::queue
