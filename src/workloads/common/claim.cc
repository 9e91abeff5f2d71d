#include "workloads/common/claim.h"

namespace basalt::workloads {

Result<bool> may_adopt(Writer& writer, const ClaimRequest& request, const rt::StopToken& stop) {
  const auto read = writer.get(request.owner_resource, request.owner.key(), stop);
  if (!read.ok()) {
    if (read.error().is(Reason::NotFound)) return false;
    return read.error().with_context("the owner could not be read before an adoption");
  }
  BASALT_TRY(const Object fresh, object_of(*read));
  return fresh.metadata.uid == request.owner.metadata.uid && !fresh.metadata.is_being_deleted;
}

Writer::Patch adoption_of(const ClaimRequest& request, std::string_view name, std::string_view uid) {
  json::Value body = request.adoption.is_object() ? request.adoption : json::Value(json::Object());
  body.ensure_path({"metadata", "ownerReferences"}) = json::Array{controller_reference(request.kind, request.owner)};
  return {.target = {std::string(name), std::string(uid)},
          .body = std::move(body),
          .type = kube::PatchType::StrategicMerge};
}

Writer::Patch release_of(const ClaimRequest& request, std::string_view name, std::string_view uid) {
  json::Value body;
  body.ensure_path({"metadata", "ownerReferences"}) =
      json::Array{json::Object{{"$patch", "delete"}, {"uid", request.owner.metadata.uid}}};
  return {.target = {std::string(name), std::string(uid)},
          .body = std::move(body),
          .type = kube::PatchType::StrategicMerge};
}

}  // namespace basalt::workloads
