// Server-side apply, and who owns which field after any write.

#include <optional>
#include <utility>

#include "apiserver/apply/managed_fields.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "apiserver/registry/server_impl.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr int kCreateTriesMax = 5;
constexpr std::size_t kManagerBytesMax = 128;

bool is_apply(const kube::Request& request) {
  return request.verb == kube::Verb::Patch && request.patch_type == kube::PatchType::Apply;
}

FieldManager manager_of(const ResourceType& type, const kube::Request& request, const RequestContext& context) {
  std::string name = request.field_manager;
  if (name.empty()) name = context.user_agent.substr(0, context.user_agent.find('/'));
  if (name.empty()) name = "unknown";
  if (name.size() > kManagerBytesMax) name.resize(kManagerBytesMax);
  return {std::move(name), is_apply(request), type.api_version(), request.subresource};
}

// `"kubectl" using apps/v1`; who applies is named alone.
std::string shown(const FieldManager& manager) {
  std::string text = base::quote(manager.name);
  if (manager.is_apply) return text;
  if (!manager.subresource.empty()) text += " with subresource " + base::quote(manager.subresource);
  return text + " using " + manager.api_version;
}

Error conflict_error(const ResourceType& type, const std::string& name,
                     const std::vector<ManagedFields::Conflict>& conflicts) {
  std::size_t count = 0;
  std::string text;
  Causes causes;
  for (const auto& conflict : conflicts) {
    count += conflict.paths.size();
    for (const std::string& path : conflict.paths)
      causes.push_back({"FieldManagerConflict", "conflict with " + shown(conflict.manager), path});
  }
  for (const auto& conflict : conflicts) {
    if (count == 1) {
      text = "conflict with " + shown(conflict.manager) + ": " + conflict.paths.front();
      break;
    }
    text += (text.empty() ? "" : "\n") + std::string("conflicts with ") + shown(conflict.manager) + ":";
    for (const std::string& path : conflict.paths) text += "\n- " + path;
  }
  Error error = Error::make(Reason::Conflict, "Apply failed with " + std::to_string(count) +
                                                  (count == 1 ? " conflict: " : " conflicts: ") + text);
  error.causes = std::move(causes);
  error.subject = {name, type.group, type.plural, ""};
  return error;
}

// Kubernetes answers 500 here.
Error undeclared_fields(const ResourceType& type, const kube::Request& request, std::vector<std::string> paths) {
  for (std::string& path : paths) path = "." + path + ": field not declared in schema";
  const std::string about = request.ns + "/" + request.name + "; " + type.api_version() + ", Kind=" + type.kind;
  return Error::make(Reason::Unknown,
                     "failed to create typed patch object (" + about +
                         "): " + (paths.size() == 1 ? paths.front() : "errors:\n  " + base::join(paths, "\n  ")));
}

// The part of the configuration that this write may be about.
void keep_part(const ResourceType& type, std::string_view subresource, json::Value& configuration) {
  json::Object& members = configuration.as_object();
  if (subresource == "status") {
    members.erase_if([](const json::Member& member) {
      return member.key != "apiVersion" && member.key != "kind" && member.key != "metadata" && member.key != "status";
    });
    if (json::Value* metadata = members.find("metadata"); metadata != nullptr && metadata->is_object()) {
      metadata->as_object().erase("labels");
      metadata->as_object().erase("annotations");
      metadata->as_object().erase("finalizers");
      metadata->as_object().erase("ownerReferences");
    }
  } else if (type.has_status) {
    members.erase("status");
  }
}

}  // namespace

bool asks_to_forget_managers(const json::Value& object) {
  const json::Value* list = object.find_path({"metadata", "managedFields"});
  return list != nullptr && list->is_array() && list->as_array().size() == 1 && list->as_array()[0].is_object() &&
         list->as_array()[0].as_object().empty();
}

Done ApiServerImpl::track_fields(Draft& draft) const {
  const ResourceType& type = *draft.type;
  if (draft.applied != nullptr) {
    draft.applied->write_to(draft.object);
    return Ok{};
  }
  if (draft.forgets_managers) return Ok{};
  static const json::Value kNothing = json::Object();
  const json::Value& old = draft.old != nullptr ? *draft.old : kNothing;
  ManagedFields managed = ManagedFields::of(old);
  if (managed.empty() && !draft.context.tracks_fields && !is_apply(draft.request)) return Ok{};
  const FieldManager manager = manager_of(type, draft.request, draft.context);
  if (is_apply(draft.request)) {  // of what was not there
    BASALT_TRY(json::Value configuration, json::Value::parse(draft.request.body));
    keep_part(type, draft.request.subresource, configuration);
    BASALT_TRY(const auto applied, managed.apply(old, configuration, type, manager, true, timestamp()));
    static_cast<void>(applied);
  } else {
    // Objects from before anybody tracked: what they have belongs to nobody in particular.
    if (draft.old != nullptr && managed.empty()) managed.claim_all(old, type, timestamp());
    // A create is not about the status, even where it may bring one along.
    json::Value* sent = draft.old == nullptr && type.has_status ? draft.object.find("status") : nullptr;
    std::optional<json::Value> status;
    if (sent != nullptr) {
      status = std::move(*sent);
      draft.object.as_object().erase("status");
    }
    managed.record_write(old, draft.object, type, manager, timestamp());
    if (status) draft.object.as_object().set("status", std::move(*status));
  }
  managed.write_to(draft.object);
  return Ok{};
}

Result<kube::Response> ApiServerImpl::apply(const TypeRef& type, const kube::Request& request,
                                            const RequestContext& context, json::Value configuration) {
  if (request.field_manager.empty()) {
    ResourceType options;
    options.group = "meta.k8s.io";
    options.kind = "PatchOptions";
    return invalid(options, "", {required("fieldManager", "is required for apply patch")});
  }
  for (const std::string_view key : {"apiVersion", "kind"}) {
    const std::string expected = key == "kind" ? type->kind : type->api_version();
    if (configuration.string_at({key}) != expected)
      return bad_request("the " + std::string(key) + " in the configuration (" +
                         std::string(configuration.string_at({key})) + ") is not " + expected);
  }
  BASALT_TRY_DONE(check_metadata_types(configuration));
  if (configuration.find_path({"metadata", "managedFields"}) != nullptr)
    return bad_request("metadata.managedFields must be nil");
  json::Object& metadata = configuration.as_object()["metadata"].as_object();
  const std::string_view name = metadata_text(configuration, "name");
  if (!name.empty() && name != request.name)
    return bad_request("the name of the object (" + std::string(name) + ") does not match the name on the URL (" +
                       request.name + ")");
  metadata.set("name", request.name);
  std::vector<std::string> unknown;
  BASALT_TRY_DONE(prune_unknown(*type, configuration, &unknown));
  // Nobody can own a field that there is not: refused whatever the field validation.
  if (!unknown.empty()) return undeclared_fields(*type, request, unknown);
  keep_part(*type, request.subresource, configuration);
  const FieldManager manager = manager_of(*type, request, context);

  for (int attempt = 1;; ++attempt) {
    ManagedFields managed;
    auto response = change_stored(
        type, request, context,
        [&](const json::Value& old) -> Result<json::Value> {
          managed = ManagedFields::of(old);
          if (managed.empty()) managed.claim_all(old, *type, timestamp());
          auto applied = managed.apply(old, configuration, *type, manager, request.force, timestamp());
          if (!applied.ok()) return bad_request("failed to create typed patch object: " + applied.error().message);
          if (!applied->conflicts.empty()) return conflict_error(*type, request.name, applied->conflicts);
          return std::move(applied->object);
        },
        &managed);
    const bool is_missing = !response.ok() && response.error().is(Reason::NotFound) && request.subresource.empty();
    if (is_missing) {
      kube::Request creation = request;
      creation.body = configuration.to_text();
      response = create(type, creation, context);
      if (!response.ok() && response.error().is(Reason::AlreadyExists) && attempt < kCreateTriesMax) continue;
    }
    return response;
  }
}

}  // namespace basalt::apiserver
