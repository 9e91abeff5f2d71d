#include "kube/typed.h"

namespace basalt::kube {

Result<Response> patch_object(Client& client, const Resource& resource, const api::ObjectKey& key, std::string patch,
                              const rt::StopToken& stop) {
  return client.call({.verb = Verb::Patch,
                      .resource = resource,
                      .ns = key.ns,
                      .name = key.name,
                      .body = std::move(patch),
                      .patch_type = PatchType::Merge},
                     stop);
}

Result<Response> patch_status(Client& client, const Resource& resource, const api::ObjectKey& key,
                              std::string_view status, std::string_view resource_version, const rt::StopToken& stop) {
  std::string patch;
  json::Writer writer(patch);
  writer.begin_object();
  if (!resource_version.empty()) {
    writer.key("metadata");
    writer.begin_object();
    writer.key("resourceVersion");
    writer.string(resource_version);
    writer.end_object();
  }
  writer.key("status");
  writer.raw(status);
  writer.end_object();
  return client.call({.verb = Verb::Patch,
                      .resource = resource,
                      .ns = key.ns,
                      .name = key.name,
                      .subresource = "status",
                      .body = std::move(patch),
                      .patch_type = PatchType::Merge},
                     stop);
}

Result<Response> delete_object(Client& client, const Resource& resource, const api::ObjectKey& key,
                               const DeleteOptions& options, const rt::StopToken& stop) {
  Request request;
  request.verb = Verb::Delete;
  request.resource = resource;
  request.ns = key.ns;
  request.name = key.name;
  request.propagation = options.propagation;
  request.grace_period_seconds = options.grace_period_seconds;
  request.precondition_uid = options.uid;
  request.precondition_resource_version = options.resource_version;
  Result<Response> response = client.call(request, stop);
  if (!response.ok() && response.error().is(Reason::NotFound)) return Response{.code = 200, .body = make_bytes("")};
  return response;
}

}  // namespace basalt::kube
