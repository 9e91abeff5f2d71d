// Patches: JSON patch, merge patch and strategic merge patch.

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
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

constexpr std::array<std::string_view, 4> kIdentity = {"name", "namespace", "resourceVersion", "uid"};
constexpr std::array<std::string_view, 4> kStatusWrite = {"apiVersion", "kind", "metadata", "status"};

bool has_only(const json::Value& object, std::span<const std::string_view> keys) {
  return object.is_object() &&
         std::all_of(object.as_object().begin(), object.as_object().end(), [&](const json::Member& member) {
           return std::find(keys.begin(), keys.end(), member.key) != keys.end();
         });
}

// Whether the patch speaks of the status alone, besides saying which object is meant. A status write keeps everything
// else as it is, so for such a patch, which most are, nothing else is worked on.
bool is_of_status_alone(const kube::Request& request, const json::Value& patch) {
  if (request.subresource != "status" || request.patch_type == kube::PatchType::Json) return false;
  const json::Value* metadata = patch.find("metadata");
  return has_only(patch, kStatusWrite) && (metadata == nullptr || has_only(*metadata, kIdentity));
}

// What a patch of the status alone can change.
json::Value status_part(const json::Value& object) {
  json::Object metadata;
  const auto keep = [&](std::string_view key) {
    if (const json::Value* value = object.find_path({"metadata", key})) metadata.set(key, *value);
  };
  for (const std::string_view key : kIdentity) keep(key);
  keep("annotations");  // a status write may change these two
  keep("labels");
  json::Object part{{"metadata", std::move(metadata)}};
  for (const std::string_view key : {"apiVersion", "kind", "status"}) {
    if (const json::Value* value = object.find(key)) part.set(key, *value);
  }
  return part;
}

}  // namespace

Result<json::Value> patched(json::Value object, const json::Value& patch, kube::PatchType patch_type,
                            const json::StrategicSchema* schema) {
  json::Value changed;
  switch (patch_type) {
    case kube::PatchType::Json: {
      auto applied = json::apply_json_patch(std::move(object), patch);
      if (!applied.ok()) {
        return Error::make(Reason::Invalid, "the server rejected our request due to an error in our request: " +
                                                applied.error().message);
      }
      changed = std::move(*applied);
      break;
    }
    case kube::PatchType::StrategicMerge: {
      if (schema == nullptr) return unsupported_patch();
      BASALT_TRY(changed, json::apply_strategic_merge(std::move(object), patch, *schema));
      break;
    }
    case kube::PatchType::Merge:
    case kube::PatchType::Apply:
      changed = json::apply_merge_patch(std::move(object), patch);
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
  const bool is_status = is_of_status_alone(request, body);
  auto response = change_stored(type, request, context, [&](const json::Value& old) -> Result<json::Value> {
    BASALT_TRY(json::Value changed, patched(is_status ? status_part(old) : old, body, request.patch_type, schema));
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
    BASALT_TRY_DONE(prune_unknown(*type, request, changed, {}, warnings));
    return changed;
  });
  if (response.ok()) {
    for (std::string& warning : warnings) response->warnings.push_back(std::move(warning));
  }
  return response;
}

}  // namespace basalt::apiserver
