// Patches: JSON patch, merge patch and strategic merge patch.

#include <utility>

#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "apiserver/registry/server_impl.h"
#include "json/merge_patch.h"
#include "json/patch.h"
#include "json/strategic_core.h"
#include "json/strategic_merge.h"

namespace basalt::apiserver {
namespace {

Error unsupported_patch() {
  return Error::make(Reason::UnsupportedMediaType,
                     "the body of the request was in an unknown format - accepted media types include: "
                     "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml");
}

}  // namespace

Result<json::Value> patched(const json::Value& object, const json::Value& patch, kube::PatchType patch_type,
                            const json::StrategicSchema* schema) {
  json::Value changed;
  switch (patch_type) {
    case kube::PatchType::Json: {
      auto applied = json::apply_json_patch(object, patch);
      if (!applied.ok()) {
        return Error::make(Reason::Invalid, "the server rejected our request due to an error in our request: " +
                                                applied.error().message);
      }
      changed = std::move(*applied);
      break;
    }
    case kube::PatchType::StrategicMerge: {
      if (schema == nullptr) return unsupported_patch();
      BASALT_TRY(changed, json::apply_strategic_merge(object, patch, *schema));
      break;
    }
    case kube::PatchType::Merge:
    case kube::PatchType::Apply:
      changed = json::apply_merge_patch(object, patch);
      break;
  }
  if (!changed.is_object()) return bad_request("the patch does not leave an object");
  return changed;
}

Result<kube::Response> ApiServerImpl::patch(const TypeRef& type, const kube::Request& request,
                                            const RequestContext& context) {
  if (request.body.size() > options_.object_bytes_max) {
    return Error::make(Reason::RequestEntityTooLarge,
                       "Request entity too large: limit is " + std::to_string(options_.object_bytes_max));
  }
  json::Value::ParseOptions parse;
  parse.depth_max = options_.depth_max;
  parse.duplicate_keys_are_errors = false;
  auto parsed = json::Value::parse(request.body, parse);
  if (!parsed.ok()) return bad_request("error decoding patch: " + parsed.error().message);
  const json::Value body = std::move(*parsed);
  const bool is_json_patch = request.patch_type == kube::PatchType::Json;
  if (is_json_patch != body.is_array()) {
    return bad_request(is_json_patch ? "error decoding patch: a JSON patch must be an array of operations"
                                     : "error decoding patch: it must be an object");
  }
  if (request.patch_type == kube::PatchType::Apply) return apply(type, request, context, body);
  // Custom resources have no schema for this patch: they take the other kinds.
  const json::StrategicSchema* schema =
      type->crd_name.empty() ? json::core_strategic_schema(type->group, type->kind) : nullptr;
  std::vector<std::string> warnings;
  auto response = change_stored(type, request, context, [&](const json::Value& old) -> Result<json::Value> {
    BASALT_TRY(json::Value changed, patched(old, body, request.patch_type, schema));
    for (const std::string_view key : {"apiVersion", "kind"}) {
      if (changed.string_at({key}) != old.string_at({key})) {
        return bad_request("a patch may not change " + std::string(key));
      }
    }
    BASALT_TRY_DONE(check_metadata_types(changed));
    for (const std::string_view key : {"name", "namespace"}) {
      if (metadata_text(changed, key) != metadata_text(old, key)) {
        return bad_request("the " + std::string(key) + " of the object (" + std::string(metadata_text(changed, key)) +
                           ") does not match the " + std::string(key) + " on the URL (" +
                           std::string(metadata_text(old, key)) + ")");
      }
    }
    warnings.clear();  // of an attempt that somebody else's write made void
    BASALT_TRY_DONE(prune_unknown(*type, request, changed, warnings));
    return changed;
  });
  if (response.ok()) {
    for (std::string& warning : warnings) response->warnings.push_back(std::move(warning));
  }
  return response;
}

}  // namespace basalt::apiserver
