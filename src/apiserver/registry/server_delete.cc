// Deletion: preconditions, grace periods, finalizers, collections.

#include <algorithm>
#include <utility>

#include "api/time.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "apiserver/registry/server_impl.h"
#include "json/writer.h"
#include "kube/status.h"

namespace basalt::apiserver {
namespace {

// How often a delete is tried again when others keep writing the object.
constexpr int kDeleteTriesMax = 10;

Done check_preconditions(const ResourceType& type, const kube::Request& request, const json::Value& object) {
  const std::string_view uid = metadata_text(object, "uid");
  const std::string_view version = metadata_text(object, "resourceVersion");
  // Kubernetes names the kind here, not the resource.
  ResourceType by_kind = type;
  by_kind.plural = type.kind;
  if (!request.precondition_uid.empty() && request.precondition_uid != uid) {
    return conflict(by_kind, request.name,
                    "the UID in the precondition (" + request.precondition_uid +
                        ") does not match the UID in record (" + std::string(uid) +
                        "). The object might have been deleted and then recreated");
  }
  if (!request.precondition_resource_version.empty() && request.precondition_resource_version != version) {
    return conflict(by_kind, request.name,
                    "the ResourceVersion in the precondition (" + request.precondition_resource_version +
                        ") does not match the ResourceVersion in record (" + std::string(version) +
                        "). The object might have been modified");
  }
  return Ok{};
}

// The seconds that the object stays after this request.
std::int64_t grace_of(const ResourceType& type, const kube::Request& request, const json::Value& object) {
  if (!type.graceful_deletion) return 0;
  const std::int64_t natural = type.strategy->default_grace_seconds(object);
  if (natural == 0) return 0;  // nothing runs that could need it
  const std::int64_t wanted = request.grace_period_seconds.value_or(natural);
  return wanted < 0 ? 1 : wanted;
}

void set_finalizer(json::Object& metadata, std::string_view finalizer, bool present) {
  json::Value* list = metadata.find("finalizers");
  if (list == nullptr || !list->is_array()) {
    if (present) metadata.set("finalizers", json::Array{json::Value(finalizer)});
    return;
  }
  json::Array& items = list->as_array();
  std::erase(items, json::Value(finalizer));
  if (present) items.emplace_back(finalizer);
  if (items.empty()) metadata.erase("finalizers");
}

void set_propagation(json::Object& metadata, kube::Propagation propagation) {
  if (propagation == kube::Propagation::Default) return;
  set_finalizer(metadata, kForegroundFinalizer, propagation == kube::Propagation::Foreground);
  set_finalizer(metadata, kOrphanFinalizer, propagation == kube::Propagation::Orphan);
}

std::int64_t remaining_grace(const json::Value& object) {
  const json::Value* grace = object.find_path({"metadata", "deletionGracePeriodSeconds"});
  return grace != nullptr && grace->is_int() ? grace->as_int() : 0;
}

}  // namespace

Result<kube::Response> ApiServerImpl::remove(const TypeRef& type, const kube::Request& request,
                                             const RequestContext& context) {
  for (int attempt = 1;; ++attempt) {
    const ResourceId resource = store_->resource(type->storage_id());
    const EntryRef stored = store_->get(resource, request.ns, request.name);
    if (!stored) return not_found(*type, request.name);
    // Metadata is the same in all versions: nobody needs a conversion webhook to get rid of an object, which may be
    // left when the webhook is not.
    const bool is_other_version = needs_converter(*type, *stored);
    BASALT_TRY(json::Value old,
               is_other_version ? json::Value::parse(*stored->object()) : from_storage(*type, *stored));
    BASALT_TRY_DONE(check_preconditions(*type, request, old));
    Draft draft{type, request, context, old, &old, WritePart::Main, {}};
    if (is_other_version && has_hooks_for(draft, Operation::Delete)) {
      BASALT_TRY(const json::Value shown, from_storage(*type, *stored));
      draft.old = &shown;
      BASALT_TRY_DONE(run_validating_hooks(draft, Operation::Delete, nullptr));
      draft.old = &old;
    } else if (!is_other_version) {
      BASALT_TRY_DONE(run_validating_hooks(draft, Operation::Delete, nullptr));
    }

    json::Object& metadata = draft.object.as_object()["metadata"].as_object();
    std::int64_t grace = grace_of(*type, request, old);
    set_propagation(metadata, request.propagation);
    if (is_being_deleted(old)) {
      // A later request can only shorten what an earlier one granted.
      grace = std::min(grace, remaining_grace(old));
    }
    if (!is_being_deleted(old) || grace < remaining_grace(old)) {
      const rt::WallTime at = runtime_.wall_now() + std::chrono::seconds(grace);
      metadata.set("deletionTimestamp", api::Time::from(at).to_string());
      metadata.set("deletionGracePeriodSeconds", grace);
      if (const json::Value* generation = metadata.find("generation"); generation != nullptr && generation->is_int()) {
        metadata.set("generation", generation->as_int() + 1);
      }
      type->strategy->mark_deleting(draft.object);
    }
    const bool stays = has_finalizers(draft.object) || type->strategy->holds_deletion(draft.object);
    const auto answer_with_object = [&](std::string text) {
      return kube::Response{200, kube::make_bytes(std::move(text)), std::move(draft.warnings)};
    };
    Result<EntryRef> written = stored;
    if (request.dry_run) {
      if (stays) return answer_with_object(draft.object.to_text());
    } else if (stays) {
      if (draft.object == old) return respond(200, *type, *stored, std::move(draft.warnings));
      if (!is_other_version) BASALT_TRY_DONE(to_storage(*type, draft.object));
      written = commit(WriteKind::Update, *type, draft.object, request.ns, request.name, stored->mod_revision());
      if (written.ok()) return respond(200, *type, **written, std::move(draft.warnings));
    } else {
      Write write;
      write.kind = WriteKind::Delete;
      write.resource = resource;
      write.ns = request.ns;
      write.name = request.name;
      write.expected = stored->mod_revision();
      written = store_->write(write);
    }
    if (written.ok()) {
      if (!request.dry_run) refresh_after_write(*type, request.name);
      if (type->returns_deleted_object) return answer_with_object(draft.object.to_text());
      const ErrorSubject subject{request.name, type->group, type->plural, std::string(metadata_text(old, "uid"))};
      return answer_with_object(kube::encode_success(subject));
    }
    const Error& error = written.error();
    if (!error.is(Reason::Conflict) && !error.is(Reason::NotFound)) return error;
    if (attempt >= kDeleteTriesMax) return modified_conflict(*type, request.name);
  }
}

Result<kube::Response> ApiServerImpl::remove_collection(const TypeRef& type, const kube::Request& request,
                                                        const RequestContext& context) {
  kube::ListRequest selected;
  selected.resource = request.resource;
  selected.ns = request.ns;
  selected.label_selector = request.label_selector;
  selected.field_selector = request.field_selector;
  BASALT_TRY(const kube::ListPage page, list(selected, context));
  std::string text;
  json::Writer writer(text);
  writer.begin_object();
  writer.key("apiVersion");
  writer.string(type->api_version());
  writer.key("items");
  writer.begin_array();
  for (const Bytes& item : page.items) {
    BASALT_TRY(const json::Value object, json::Value::parse(*item));
    kube::Request one = request;
    one.verb = kube::Verb::Delete;
    one.ns = std::string(metadata_text(object, "namespace"));
    one.name = std::string(metadata_text(object, "name"));
    auto removed = remove(type, one, context);
    // What somebody else deleted meanwhile is gone, as asked.
    if (!removed.ok() && !removed.error().is(Reason::NotFound)) return std::move(removed).error();
    writer.raw(type->crd_name.empty() ? without_type(*item, *type) : *item);
  }
  writer.end_array();
  writer.key("kind");
  writer.string(type->list_kind);
  writer.key("metadata");
  writer.begin_object();
  writer.key("resourceVersion");
  writer.string(page.resource_version);
  writer.end_object();
  writer.end_object();
  return kube::Response{200, kube::make_bytes(std::move(text)), {}};
}

}  // namespace basalt::apiserver
