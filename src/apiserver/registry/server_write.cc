// Writing: create and update, and the steps that every write goes through.

#include <algorithm>
#include <utility>

#include "apiserver/proto/field_shapes.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "apiserver/registry/object_text.h"
#include "apiserver/registry/selection.h"
#include "apiserver/registry/server_impl.h"
#include "base/random_name.h"
#include "base/strings.h"
#include "json/reader.h"

namespace basalt::apiserver {
namespace {

// How often a generated name that is taken is drawn again, as Kubernetes does.
constexpr int kNameDrawsMax = 8;
// How often an update that names no version is tried again when others keep writing.
constexpr int kUnconditionalTriesMax = 10;

json::Object& metadata_of(json::Value& object) { return object.as_object()["metadata"].as_object(); }

WritePart part_of(std::string_view subresource) {
  if (subresource == "status") return WritePart::Status;
  return subresource.empty() ? WritePart::Main : WritePart::Internal;
}

Error write_error(const Error& error, const ResourceType& type, std::string_view name) {
  if (error.is(Reason::AlreadyExists)) return already_exists(type, name);
  if (error.is(Reason::Conflict)) return modified_conflict(type, name);
  if (error.is(Reason::NotFound)) return not_found(type, name);
  return error;
}

// `duplicate field "spec.replicas"` for each that stands more than once.
std::vector<std::string> duplicate_fields(std::string_view body, int depth_max) {
  json::Reader reader(body, {.depth_max = depth_max, .keep_unknown = false, .strict = true});
  reader.skip();
  return reader.warnings();
}

std::string generated_name(rt::Runtime& runtime, std::string_view prefix) {
  return base::generate_name(prefix, [&](std::size_t n) { return static_cast<std::size_t>(runtime.random_below(n)); });
}

}  // namespace

Result<json::Value> ApiServerImpl::decode_body(const ResourceType& type, const kube::Request& request,
                                               std::vector<std::string>& warnings) const {
  if (request.body.size() > options_.object_bytes_max) {
    return Error::make(Reason::RequestEntityTooLarge,
                       "Request entity too large: limit is " + std::to_string(options_.object_bytes_max));
  }
  json::Value::ParseOptions parse;
  parse.depth_max = options_.depth_max;
  parse.duplicate_keys_are_errors = request.field_validation == "Strict" || request.field_validation == "Warn";
  auto parsed = json::Value::parse(request.body, parse);
  std::vector<std::string> duplicates;
  if (!parsed.ok() && parse.duplicate_keys_are_errors) {
    // Read once more: of fields that stand twice the last one counts, and all are named.
    parse.duplicate_keys_are_errors = false;
    parsed = json::Value::parse(request.body, parse);
    if (parsed.ok()) duplicates = duplicate_fields(request.body, options_.depth_max);
  }
  if (!parsed.ok()) return bad_request("the body of the request is not an object: " + parsed.error().message);
  json::Value object = std::move(*parsed);
  if (!object.is_object())
    return bad_request("the body of the request must be an object, not " + std::string(object.type_name()));
  json::Object& members = object.as_object();
  const std::string api_version = type.api_version();
  if (const json::Value* given = members.find("apiVersion"); given != nullptr && *given != json::Value(api_version)) {
    return bad_request("the API version in the data (" + (given->is_string() ? given->as_string() : shown(*given)) +
                       ") does not match the expected API version (" + api_version + ")");
  }
  if (const json::Value* given = members.find("kind"); given != nullptr && *given != json::Value(type.kind)) {
    return bad_request("the kind in the data (" + (given->is_string() ? given->as_string() : shown(*given)) +
                       ") does not match the expected kind (" + type.kind + ")");
  }
  members.set("apiVersion", api_version);
  members.set("kind", type.kind);
  BASALT_TRY_DONE(check_metadata_types(object));

  BASALT_TRY_DONE(prune_unknown(type, request, object, std::move(duplicates), warnings));
  return object;
}

Done prune_unknown(const ResourceType& type, const kube::Request& request, json::Value& object,
                   std::vector<std::string> duplicates, std::vector<std::string>& warnings) {
  std::vector<std::string> problems;
  const bool strict = request.field_validation == "Strict";
  const bool wants_unknown = strict || request.field_validation == "Warn";
  BASALT_TRY_DONE(prune_unknown(type, object, wants_unknown ? &problems : nullptr));
  for (std::string& path : problems) path = "unknown field " + base::quote(path);
  for (std::string& duplicate : duplicates) problems.push_back(std::move(duplicate));
  if (strict && !problems.empty()) {
    return bad_request(type.kind + " in version \"" + type.version + "\" cannot be handled as a " + type.kind +
                       ": strict decoding error: " + base::join(problems, ", "));
  }
  for (std::string& problem : problems) warnings.push_back(std::move(problem));
  return Ok{};
}

Done prune_unknown(const ResourceType& type, json::Value& object, std::vector<std::string>* unknown) {
  const proto::MessageFact* shape =
      type.crd_name.empty() ? proto::message_of_kind(type.api_version(), type.kind) : nullptr;
  if (shape != nullptr) {
    if (Done fits = proto::fit_to_message(*shape, object, unknown); !fits.ok())
      return bad_request(type.kind + " in version \"" + type.version + "\" cannot be handled as a " + type.kind + ": " +
                         fits.error().message);
  }
  type.strategy->prune(object, unknown);
  return Ok{};
}

Done ApiServerImpl::check_namespace(const Draft& draft) const {
  if (!draft.type->namespaced) return Ok{};
  const std::string& ns = draft.request.ns;
  const EntryRef entry = store_->get(store_->resource("/namespaces"), "", ns);
  if (!entry) {
    Error error = Error::make(Reason::NotFound, "namespaces " + base::quote(ns) + " not found");
    error.subject = {ns, "", "namespaces", ""};
    return error;
  }
  const auto phase = entry->attributes().field("status.phase");
  if (phase && *phase == "Terminating") {
    Error error = forbidden(*draft.type, metadata_text(draft.object, "name"),
                            "unable to create new content in namespace " + ns + " because it is being terminated");
    error.causes.push_back({"NamespaceTerminating", "namespace " + ns + " is being terminated", "metadata.namespace"});
    return error;
  }
  return Ok{};
}

AdmissionRequest ApiServerImpl::admission_of(const Draft& draft, Operation operation, const json::Value& named) {
  return {operation,
          *draft.type,
          draft.request.ns,
          std::string(metadata_text(named, "name")),
          draft.request.subresource,
          draft.context.user,
          draft.request.dry_run,
          draft.old,
          {},
          draft.context.audit.get()};
}

bool ApiServerImpl::has_hooks_for(const Draft& draft, Operation operation) const {
  const AdmissionRequest request = admission_of(draft, operation, draft.object);
  return std::ranges::any_of(hooks_, [&](const auto& hook) { return hook->handles(request); });
}

Done ApiServerImpl::run_mutating_hooks(Draft& draft, Operation operation) {
  AdmissionRequest request = admission_of(draft, operation, draft.object);
  for (const auto& hook : hooks_) {
    if (hook->handles(request)) BASALT_TRY_DONE(hook->mutate(request, draft.object));
  }
  for (std::string& warning : request.warnings) draft.warnings.push_back(std::move(warning));
  return Ok{};
}

Done ApiServerImpl::run_validating_hooks(Draft& draft, Operation operation, const json::Value* object) {
  AdmissionRequest request = admission_of(draft, operation, object != nullptr ? *object : *draft.old);
  for (const auto& hook : hooks_) {
    if (hook->handles(request)) BASALT_TRY_DONE(hook->validate(request, object));
  }
  for (std::string& warning : request.warnings) draft.warnings.push_back(std::move(warning));
  return Ok{};
}

Done ApiServerImpl::with_write(WriteKind kind, const ResourceType& type, const json::Value& object, std::string_view ns,
                               std::string_view name, Revision expected, const std::function<void(const Write&)>& use) {
  const SplitText text(object);
  AttributesWriter attributes;
  index_object(type, object, attributes);
  Write write;
  write.kind = kind;
  write.resource = store_->resource(type.storage_id());
  write.ns = ns;
  write.name = name;
  write.expected = expected;
  write.object = text.parts();
  write.attributes = attributes.packed();
  if (write.object.before.size() + write.object.after.size() > options_.object_bytes_max) {
    return Error::make(Reason::RequestEntityTooLarge, "the object would be larger than the limit of " +
                                                          std::to_string(options_.object_bytes_max) + " bytes");
  }
  use(write);
  return Ok{};
}

Result<EntryRef> ApiServerImpl::commit(WriteKind kind, const ResourceType& type, const json::Value& object,
                                       std::string_view ns, std::string_view name, Revision expected) {
  Result<EntryRef> result = EntryRef();
  BASALT_TRY_DONE(
      with_write(kind, type, object, ns, name, expected, [&](const Write& write) { result = store_->write(write); }));
  return result;
}

Result<std::optional<kube::Response>> ApiServerImpl::prepare_create(const TypeRef& type, const kube::Request& request,
                                                                    const RequestContext& context, Creation& creation) {
  if (type->namespaced && request.ns.empty()) return method_not_allowed(*type, "create");
  Draft draft{type, request, context, {}, nullptr, WritePart::Main, {}, nullptr, false};
  BASALT_TRY(draft.object, decode_body(*type, request, draft.warnings));

  json::Object& metadata = metadata_of(draft.object);
  if (!metadata_text(draft.object, "resourceVersion").empty()) {
    // Kubernetes answers 500 here, and clients have come to know it.
    return Error::make(Reason::Unknown, "resourceVersion should not be set on objects to be created");
  }
  if (type->namespaced) {
    const std::string_view given = metadata_text(draft.object, "namespace");
    if (!given.empty() && given != request.ns) {
      return bad_request("the namespace of the provided object does not match the namespace sent on the request");
    }
    metadata.set("namespace", request.ns);
  } else {
    metadata.erase("namespace");
  }
  const bool draws_name =
      metadata_text(draft.object, "name").empty() && !metadata_text(draft.object, "generateName").empty();
  if (draws_name) {
    creation.prefix = metadata_text(draft.object, "generateName");
    metadata.set("name", generated_name(runtime_, creation.prefix));
  }
  for (const std::string_view key :
       {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "resourceVersion"}) {
    metadata.erase(key);
  }
  metadata.set("uid", new_uid());
  metadata.set("creationTimestamp", timestamp());

  type->strategy->apply_defaults(draft.object);
  BASALT_TRY_DONE(check_namespace(draft));
  BASALT_TRY_DONE(track_fields(draft));
  BASALT_TRY_DONE(run_mutating_hooks(draft, Operation::Create));
  type->strategy->prepare_for_create(draft.object);  // last: it derives from what the hooks may change
  metadata_of(draft.object).set("generation", std::int64_t{1});
  if (!type->has_generation) metadata_of(draft.object).erase("generation");

  Causes causes;
  validate_metadata(*type, draft.object, causes);
  type->strategy->validate_create(draft.object, causes);
  if (!causes.empty())
    return invalid(*type, metadata_text(draft.object, draws_name ? "generateName" : "name"), std::move(causes));
  BASALT_TRY_DONE(run_validating_hooks(draft, Operation::Create, &draft.object));

  if (request.dry_run) {
    return std::optional(kube::Response{201, kube::make_bytes(draft.object.to_text()), std::move(draft.warnings)});
  }
  BASALT_TRY_DONE(to_storage(*type, draft.object));
  creation.type = type;
  creation.ns = request.ns;
  creation.name = metadata_text(draft.object, "name");
  creation.object = std::move(draft.object);
  creation.warnings = std::move(draft.warnings);
  return std::optional<kube::Response>();
}

void ApiServerImpl::draw_name(Creation& creation) {
  ++creation.draws;
  creation.name = generated_name(runtime_, creation.prefix);
  metadata_of(creation.object).set("name", creation.name);
}

bool ApiServerImpl::may_draw_again(const Creation& creation, const Error& error) {
  return !creation.prefix.empty() && error.is(Reason::AlreadyExists) && creation.draws < kNameDrawsMax;
}

Result<kube::Response> ApiServerImpl::create(const TypeRef& type, const kube::Request& request,
                                             const RequestContext& context) {
  Creation creation;
  BASALT_TRY(auto answer, prepare_create(type, request, context, creation));
  if (answer) return std::move(*answer);
  for (;; draw_name(creation)) {
    auto written = commit(WriteKind::Create, *type, creation.object, creation.ns, creation.name, 0);
    if (written.ok()) {
      refresh_after_write(*type, creation.name);
      return respond(201, *type, **written, std::move(creation.warnings));
    }
    if (!may_draw_again(creation, written.error())) return write_error(written.error(), *type, creation.name);
  }
}

void ApiServerImpl::call_later(const kube::Request& request, const RequestContext& context, LaterCalls::Told told) {
  if (later_ == nullptr || request.verb != kube::Verb::Create || !request.subresource.empty()) {
    return told(call(request, context));
  }
  auto type = resolve(request.resource);
  // Whoever tells of the write must not wait for a webhook.
  if (!type.ok() || (*type)->is_virtual || needs_refresh(**type) || (*type)->converter)
    return told(call(request, context));
  if (Done scope = check_scope(**type, request.ns, request.name, false); !scope.ok()) return told(scope.error());
  auto creation = std::make_shared<Creation>();
  auto answer = prepare_create(*type, request, context, *creation);
  if (!answer.ok()) return told(answer.error());
  if (*answer) return told(std::move(**answer));
  write_creation(creation, std::move(told));
}

void ApiServerImpl::write_creation(const std::shared_ptr<Creation>& creation, LaterCalls::Told told) {
  // Kept only if it may be written once more; otherwise it ends on this thread, which made it.
  json::Value object;
  const bool is_last = creation->prefix.empty();
  if (is_last) object = std::move(creation->object);
  const auto on_written = [this, creation, told](Result<EntryRef> written) {
    if (written.ok()) return told(respond(201, *creation->type, **written, std::move(creation->warnings)));
    if (!may_draw_again(*creation, written.error())) {
      return told(write_error(written.error(), *creation->type, creation->name));
    }
    draw_name(*creation);
    write_creation(creation, told);
  };
  const Done made = with_write(WriteKind::Create, *creation->type, is_last ? object : creation->object, creation->ns,
                               creation->name, 0, [&](const Write& write) { later_->write_later(write, on_written); });
  if (!made.ok()) told(made.error());
}

Result<kube::Response> ApiServerImpl::update(const TypeRef& type, const kube::Request& request,
                                             const RequestContext& context) {
  std::vector<std::string> warnings;
  BASALT_TRY(json::Value sent, decode_body(*type, request, warnings));
  if (const std::string_view name = metadata_text(sent, "name"); name != request.name) {
    if (!name.empty()) {
      return bad_request("the name of the object (" + std::string(name) + ") does not match the name on the URL (" +
                         request.name + ")");
    }
    metadata_of(sent).set("name", request.name);
  }
  if (type->namespaced) {
    const std::string_view ns = metadata_text(sent, "namespace");
    if (!ns.empty() && ns != request.ns) {
      return bad_request("the namespace of the object (" + std::string(ns) +
                         ") does not match the namespace on the request (" + request.ns + ")");
    }
    metadata_of(sent).set("namespace", request.ns);
  }
  const std::string_view version = metadata_text(sent, "resourceVersion");
  if (version.empty() && !type->unconditional_update) {
    // As Kubernetes words it: by the resource, not the kind.
    ResourceType by_plural = *type;
    by_plural.kind = type->plural;
    return invalid(by_plural, request.name,
                   {invalid_value("metadata.resourceVersion", "0", "must be specified for an update")});
  }
  if (type->create_on_update && version.empty() && request.subresource.empty() &&
      store_->get(store_->resource(type->storage_id()), request.ns, request.name) == nullptr) {
    return create(type, request, context);
  }
  auto response =
      change_stored(type, request, context, [&](const json::Value&) -> Result<json::Value> { return sent; });
  if (response.ok()) {
    for (std::string& warning : warnings) response->warnings.push_back(std::move(warning));
  }
  return response;
}

Result<kube::Response> ApiServerImpl::change_stored(const TypeRef& type, const kube::Request& request,
                                                    const RequestContext& context, const Change& change,
                                                    const ManagedFields* applied) {
  for (int attempt = 1;; ++attempt) {
    const EntryRef stored = store_->get(store_->resource(type->storage_id()), request.ns, request.name);
    if (!stored) return not_found(*type, request.name);
    BASALT_TRY(json::Value old, from_storage(*type, *stored));
    BASALT_TRY(json::Value changed, change(old));
    const std::string version(metadata_text(changed, "resourceVersion"));
    if (!version.empty() && version != metadata_text(old, "resourceVersion")) {
      return modified_conflict(*type, request.name);
    }
    if (const std::string_view uid = metadata_text(changed, "uid"); !uid.empty() && uid != metadata_text(old, "uid")) {
      return conflict(*type, request.name,
                      "Precondition failed: UID in precondition: " + std::string(uid) +
                          ", UID in object meta: " + std::string(metadata_text(old, "uid")));
    }
    Draft draft{type, request, context, std::move(changed), &old, part_of(request.subresource), {}, applied, false};
    auto response = store_update(draft, stored);
    // A patch reads the version it was computed from, so only a version that the client sent itself is binding.
    const bool binding = request.verb == kube::Verb::Update && !version.empty();
    if (response.ok() || !response.error().is(Reason::Conflict) || binding || attempt >= kUnconditionalTriesMax) {
      return response;
    }
  }
}

Result<kube::Response> ApiServerImpl::store_update(Draft& draft, const EntryRef& stored) {
  const ResourceType& type = *draft.type;
  const std::string& name = draft.request.name;
  draft.forgets_managers = asks_to_forget_managers(draft.object);
  keep_system_metadata(draft.object, *draft.old);
  type.strategy->apply_defaults(draft.object);
  type.strategy->prepare_for_update(draft.object, *draft.old, draft.part);
  BASALT_TRY_DONE(track_fields(draft));
  BASALT_TRY_DONE(run_mutating_hooks(draft, Operation::Update));
  if (draft.part == WritePart::Main && type.strategy->raises_generation(draft.object, *draft.old)) {
    const json::Value* generation = draft.old->find_path({"metadata", "generation"});
    metadata_of(draft.object)
        .set("generation", (generation != nullptr && generation->is_int() ? generation->as_int() : 0) + 1);
  }
  Causes causes;
  validate_metadata_update(type, draft.object, *draft.old, causes);
  type.strategy->validate_update(draft.object, *draft.old, draft.part, causes);
  if (!causes.empty()) return invalid(type, name, std::move(causes));
  BASALT_TRY_DONE(run_validating_hooks(draft, Operation::Update, &draft.object));

  metadata_of(draft.object).set("resourceVersion", std::to_string(stored->mod_revision()));
  if (draft.request.dry_run) {
    return kube::Response{200, kube::make_bytes(draft.object.to_text()), std::move(draft.warnings)};
  }
  // The last finalizer of an object that is being deleted takes the object with it.
  if (is_being_deleted(draft.object) && !has_finalizers(draft.object) && !type.strategy->holds_deletion(draft.object)) {
    Write write;
    write.kind = WriteKind::Delete;
    write.resource = store_->resource(type.storage_id());
    write.ns = draft.request.ns;
    write.name = name;
    write.expected = stored->mod_revision();
    auto removed = store_->write(write);
    if (!removed.ok()) return write_error(removed.error(), type, name);
    refresh_after_write(type, name);
    return kube::Response{200, kube::make_bytes(draft.object.to_text()), std::move(draft.warnings)};
  }
  // A write that changes nothing is not one: no new version, no event.
  if (draft.object == *draft.old) return respond(200, type, *stored, std::move(draft.warnings));
  BASALT_TRY_DONE(to_storage(type, draft.object));
  auto written = commit(WriteKind::Update, type, draft.object, draft.request.ns, name, stored->mod_revision());
  if (!written.ok()) return write_error(written.error(), type, name);
  refresh_after_write(type, name);
  return respond(200, type, **written, std::move(draft.warnings));
}

}  // namespace basalt::apiserver
