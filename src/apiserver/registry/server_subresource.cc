// Subresources with their own objects: scale, binding, eviction.

#include <utility>

#include "api/time.h"
#include "apiserver/registry/disruption_budgets.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "apiserver/registry/server_impl.h"
#include "base/strings.h"
#include "json/strategic_core.h"

namespace basalt::apiserver {
namespace {

std::string eviction_mark(api::Time now) {
  const json::Value condition = json::Object{{"type", "DisruptionTarget"},
                                             {"status", "True"},
                                             {"reason", "EvictionByEvictionAPI"},
                                             {"message", "Eviction API: evicting"},
                                             {"lastTransitionTime", now.to_string()}};
  return json::Value(json::Object{{"status", json::Object{{"conditions", json::Array{condition}}}}}).to_text();
}

// ".spec.replicas" -> the value there, null if there is none. Paths of scale have no brackets.
const json::Value* at_path(const json::Value& object, std::string_view path) {
  const json::Value* at = &object;
  for (const std::string_view key : base::split(path, '.')) {
    if (key.empty()) continue;
    at = at->find(key);
    if (at == nullptr) return nullptr;
  }
  return at;
}

json::Value& ensure_at(json::Value& object, std::string_view path) {
  json::Value* at = &object;
  for (const std::string_view key : base::split(path, '.')) {
    if (key.empty()) continue;
    if (!at->is_object()) *at = json::Object();
    at = &at->as_object()[key];
  }
  return *at;
}

std::int64_t count_at(const json::Value& object, std::string_view path) {
  const json::Value* value = at_path(object, path);
  return value != nullptr && value->is_int() ? value->as_int() : 0;
}

// spec.selector of a workload, or a selector in text form, as Scale shows it: "a=b,c=d".
std::string selector_text(const json::Value& object, const ScalePaths& paths) {
  const json::Value* value =
      paths.label_selector.empty() ? object.find_path({"spec", "selector"}) : at_path(object, paths.label_selector);
  if (value == nullptr) return "";
  if (value->is_string()) return value->as_string();
  const json::Value* labels = value->find("matchLabels");
  std::string text;
  if (labels == nullptr || !labels->is_object()) return text;
  for (const json::Member& label : labels->as_object()) {
    if (!label.value.is_string()) continue;
    text += (text.empty() ? "" : ",") + label.key + "=" + label.value.as_string();
  }
  return text;
}

json::Value scale_of(const json::Value& object, const ScalePaths& paths) {
  json::Object metadata;
  for (const std::string_view key : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
    if (const json::Value* value = object.find_path({"metadata", key})) metadata.set(key, *value);
  }
  json::Object status{{"replicas", count_at(object, paths.status_replicas)}};
  if (std::string selector = selector_text(object, paths); !selector.empty()) status.set("selector", selector);
  return json::Object{{"apiVersion", "autoscaling/v1"},
                      {"kind", "Scale"},
                      {"metadata", std::move(metadata)},
                      {"spec", json::Object{{"replicas", count_at(object, paths.spec_replicas)}}},
                      {"status", std::move(status)}};
}

Result<json::Value> parsed_object(Result<kube::Response> response) {
  BASALT_TRY(const kube::Response answer, std::move(response));
  return json::Value::parse(*answer.body);
}

Result<kube::Response> as_scale(Result<kube::Response> response, const ScalePaths& paths) {
  if (!response.ok()) return response;
  BASALT_TRY(const json::Value object, json::Value::parse(*response->body));
  response->body = kube::make_bytes(scale_of(object, paths).to_text());
  return response;
}

Result<std::int64_t> wanted_replicas(const ResourceType& type, std::string_view name, const json::Value& scale) {
  const json::Value* replicas = scale.find_path({"spec", "replicas"});
  if (replicas == nullptr) return std::int64_t{0};
  if (!replicas->is_int() || replicas->as_int() < 0) {
    return invalid(type, name,
                   {invalid_value("spec.replicas", shown(*replicas), "must be greater than or equal to 0")});
  }
  return replicas->as_int();
}

}  // namespace

Result<kube::Response> ApiServerImpl::scale(const TypeRef& type, const kube::Request& request,
                                            const RequestContext& context) {
  const ScalePaths& paths = *type->scale;
  kube::Request main = request;
  main.subresource.clear();
  if (request.verb == kube::Verb::Get) return as_scale(get(type, main), paths);
  if (request.verb != kube::Verb::Update && request.verb != kube::Verb::Patch)
    return method_not_allowed(*type, "scale");
  // The same path for both: a PUT replaces the scale, a patch changes the one that stands for the object.
  return as_scale(change_stored(type, main, context,
                                [&](const json::Value& old) -> Result<json::Value> {
                                  auto sent = json::Value::parse(request.body);
                                  if (!sent.ok()) return bad_request("the scale is not JSON: " + sent.error().message);
                                  json::Value scale = std::move(*sent);
                                  if (request.verb == kube::Verb::Patch) {
                                    BASALT_TRY(scale, patched(scale_of(old, paths), scale, request.patch_type,
                                                              json::core_strategic_schema("autoscaling", "Scale")));
                                  }
                                  BASALT_TRY(const std::int64_t replicas, wanted_replicas(*type, request.name, scale));
                                  json::Value changed = old;
                                  ensure_at(changed, paths.spec_replicas) = replicas;
                                  const std::string_view version = metadata_text(scale, "resourceVersion");
                                  if (!version.empty()) {
                                    changed.as_object()["metadata"].as_object().set("resourceVersion", version);
                                  }
                                  return changed;
                                }),
                  paths);
}

Result<kube::Response> ApiServerImpl::bind(const TypeRef& type, const kube::Request& request,
                                           const RequestContext& context) {
  if (request.verb != kube::Verb::Create) return method_not_allowed(*type, "binding");
  auto parsed = json::Value::parse(request.body);
  if (!parsed.ok()) return bad_request("the binding is not JSON: " + parsed.error().message);
  const std::string node(parsed->string_at({"target", "name"}));
  if (node.empty()) return invalid(*type, request.name, {required("target.name")});
  const std::string uid(metadata_text(*parsed, "uid"));
  kube::Request main = request;
  main.verb = kube::Verb::Patch;  // the object's version is not the client's business
  main.subresource = "binding";
  auto changed = change_stored(type, main, context, [&](const json::Value& old) -> Result<json::Value> {
    if (!uid.empty() && uid != metadata_text(old, "uid")) {
      return conflict(*type, request.name,
                      "Precondition failed: UID in precondition: " + uid +
                          ", UID in object meta: " + std::string(metadata_text(old, "uid")));
    }
    if (is_being_deleted(old)) {
      return conflict(*type, request.name, "pod " + request.name + " is being deleted, cannot be assigned to a host");
    }
    if (const std::string_view assigned = old.string_at({"spec", "nodeName"}); !assigned.empty()) {
      return conflict(*type, request.name,
                      "pod " + request.name + " is already assigned to node " + base::quote(assigned));
    }
    json::Value bound = old;
    bound.ensure_path({"spec", "nodeName"}) = node;
    if (const json::Value* annotations = parsed->find_path({"metadata", "annotations"});
        annotations != nullptr && annotations->is_object()) {
      json::Value& target = bound.ensure_path({"metadata", "annotations"});
      if (!target.is_object()) target = json::Object();
      for (const json::Member& annotation : annotations->as_object()) {
        target.as_object().set(annotation.key, annotation.value);
      }
    }
    json::Value& conditions = bound.ensure_path({"status", "conditions"});
    if (!conditions.is_array()) conditions = json::Array();
    std::erase_if(conditions.as_array(),
                  [](const json::Value& condition) { return condition.string_at({"type"}) == "PodScheduled"; });
    conditions.as_array().emplace_back(json::Object{
        {"lastProbeTime", nullptr}, {"lastTransitionTime", timestamp()}, {"status", "True"}, {"type", "PodScheduled"}});
    return bound;
  });
  if (!changed.ok()) return changed;
  return kube::Response{
      201, kube::make_bytes(R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201})"), {}};
}

Result<json::Value> ApiServerImpl::admit_connection(const kube::Request& request, json::Value options,
                                                    const RequestContext& context) {
  BASALT_TRY(const TypeRef type, resolve(request.resource));
  BASALT_TRY_DONE(check_scope(*type, request.ns, request.name, true));
  BASALT_TRY(json::Value object, parsed_object(get(type, request)));
  AdmissionRequest admission{Operation::Connect,
                             *type,
                             request.ns,
                             request.name,
                             request.subresource,
                             context.user,
                             false,
                             nullptr,
                             {},
                             context.audit.get(),
                             std::string(options.string_at({"kind"}))};
  for (const auto& hook : hooks_) {
    if (hook->handles(admission)) BASALT_TRY_DONE(hook->mutate(admission, options));
  }
  for (const auto& hook : hooks_) {
    if (hook->handles(admission)) BASALT_TRY_DONE(hook->validate(admission, &options));
  }
  return object;
}

Result<kube::Response> ApiServerImpl::evict(const TypeRef& type, const kube::Request& request,
                                            const RequestContext& context) {
  if (request.verb != kube::Verb::Create) return method_not_allowed(*type, "eviction");
  auto parsed = json::Value::parse(request.body);
  if (!parsed.ok()) return bad_request("the eviction is not JSON: " + parsed.error().message);
  kube::Request removal;
  removal.verb = kube::Verb::Delete;
  removal.resource = request.resource;
  removal.ns = request.ns;
  removal.name = request.name;
  removal.dry_run = request.dry_run;
  if (const json::Value* options = parsed->find("deleteOptions"); options != nullptr && options->is_object()) {
    if (const json::Value* grace = options->find("gracePeriodSeconds"); grace != nullptr && grace->is_int()) {
      removal.grace_period_seconds = grace->as_int();
    }
    removal.precondition_uid = std::string(options->string_at({"preconditions", "uid"}));
    removal.precondition_resource_version = std::string(options->string_at({"preconditions", "resourceVersion"}));
    const json::Value* dry_run = options->find("dryRun");
    removal.dry_run = removal.dry_run || (dry_run != nullptr && dry_run->is_array() && !dry_run->as_array().empty());
  }
  const EntryRef stored = store_->get(store_->resource(type->storage_id()), request.ns, request.name);
  if (!stored) return not_found(*type, request.name);
  const bool is_meant = removal.precondition_uid.empty() || stored->attributes().uid() == removal.precondition_uid;
  const api::Time now = api::Time::from(runtime_.wall_now());
  if (is_meant) {
    BASALT_TRY(const json::Value pod, from_storage(*type, *stored));
    BASALT_TRY_DONE(spend_disruption(*this, pod, removal.dry_run, context, now));
  }
  // Whoever made the pod can tell then that it did not fail by itself. A version that was asked for would be another.
  if (is_meant && !removal.dry_run && removal.precondition_resource_version.empty()) {
    kube::Request mark = removal;
    mark.verb = kube::Verb::Patch;
    mark.subresource = "status";
    mark.patch_type = kube::PatchType::StrategicMerge;
    mark.precondition_uid.clear();
    mark.grace_period_seconds.reset();
    mark.body = eviction_mark(now);
    if (auto marked = call(mark, context); !marked.ok()) return marked;
  }
  auto removed = remove(type, removal, context);
  if (!removed.ok()) return removed;
  return kube::Response{
      201, kube::make_bytes(R"({"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201})"), {}};
}

}  // namespace basalt::apiserver
