// Objects that are never stored: questions about access and identity, and bindings.

#include <utility>

#include "apiserver/access/bootstrap_roles.h"
#include "apiserver/access/rbac.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "apiserver/registry/server_impl.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

std::string text_at(const json::Value* object, std::string_view key) {
  return object == nullptr ? std::string() : std::string(object->string_at({key}));
}

std::vector<std::string> texts_at(const json::Value* object, std::string_view key) {
  std::vector<std::string> out;
  const json::Value* list = object == nullptr ? nullptr : object->find(key);
  if (list == nullptr || !list->is_array()) return out;
  for (const json::Value& one : list->as_array()) {
    if (one.is_string()) out.push_back(one.as_string());
  }
  return out;
}

json::Array to_list(const std::vector<std::string>& words) { return json::Array(words.begin(), words.end()); }

AccessRequest access_request(const json::Value& spec, const UserInfo& user) {
  AccessRequest request;
  request.user = user;
  if (const json::Value* resource = spec.find("resourceAttributes")) {
    request.verb = text_at(resource, "verb");
    request.group = text_at(resource, "group");
    request.version = text_at(resource, "version");
    request.resource = text_at(resource, "resource");
    request.subresource = text_at(resource, "subresource");
    request.ns = text_at(resource, "namespace");
    request.name = text_at(resource, "name");
  } else if (const json::Value* other = spec.find("nonResourceAttributes")) {
    request.verb = text_at(other, "verb");
    request.path = text_at(other, "path");
  }
  return request;
}

json::Value status_of(const AccessDecision& decision) {
  json::Object status{{"allowed", decision.allowed}};
  if (!decision.reason.empty()) status.set("reason", decision.reason);
  return status;
}

json::Value user_of(const UserInfo& user) {
  json::Object object{{"username", user.name}, {"groups", to_list(user.groups)}};
  if (!user.uid.empty()) object.set("uid", user.uid);
  return object;
}

json::Value rules_status(const std::vector<PolicyRule>& rules) {
  json::Array resources;
  json::Array others;
  for (const PolicyRule& rule : rules) {
    if (!rule.urls.empty()) {
      others.emplace_back(json::Object{{"verbs", to_list(rule.verbs)}, {"nonResourceURLs", to_list(rule.urls)}});
      continue;
    }
    json::Object shown{
        {"verbs", to_list(rule.verbs)}, {"apiGroups", to_list(rule.groups)}, {"resources", to_list(rule.resources)}};
    if (!rule.names.empty()) shown.set("resourceNames", to_list(rule.names));
    resources.emplace_back(std::move(shown));
  }
  return json::Object{
      {"resourceRules", std::move(resources)}, {"nonResourceRules", std::move(others)}, {"incomplete", false}};
}

kube::Response created(const json::Value& object) {
  return kube::Response{201, kube::make_bytes(object.to_text()), {}};
}

}  // namespace

AccessDecision ApiServerImpl::authorize(const AccessRequest& request) const {
  if (!access_) return {true, ""};
  return access_->decide(request);
}

Done ApiServerImpl::create_bootstrap_roles() {
  const RequestContext context{{"system:apiserver", "", {"system:masters"}}, "kube-apiserver", false};
  for (const auto& [plural, object] : bootstrap_roles()) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = {"rbac.authorization.k8s.io", "v1", plural};
    request.body = object.to_text();
    const auto made = call(request, context);
    if (!made.ok() && !made.error().is(Reason::AlreadyExists)) return made.error();
  }
  return Ok{};
}

Result<kube::Response> ApiServerImpl::answer_review(const TypeRef& type, const kube::Request& request,
                                                    const RequestContext& context) {
  if (request.verb != kube::Verb::Create) return method_not_allowed(*type, "get");
  std::vector<std::string> warnings;
  BASALT_TRY(json::Value review, decode_body(*type, request, warnings));
  if (type->plural == "bindings") {
    kube::Request bound = request;
    bound.resource = {"", "v1", "pods"};
    bound.name = std::string(metadata_text(review, "name"));
    bound.subresource = "binding";
    return call(bound, context);
  }
  static const json::Value kNothing = json::Object();
  const json::Value* given = review.find("spec");
  const json::Value& spec = given != nullptr && given->is_object() ? *given : kNothing;
  json::Value status;
  if (type->plural == "selfsubjectaccessreviews") {
    status = status_of(authorize(access_request(spec, context.user)));
  } else if (type->plural == "subjectaccessreviews" || type->plural == "localsubjectaccessreviews") {
    const UserInfo user{text_at(&spec, "user"), text_at(&spec, "uid"), texts_at(&spec, "groups")};
    if (user.name.empty() && user.groups.empty())
      return invalid(*type, "", {required("spec.user", "at least one of user or group must be specified")});
    AccessRequest asked = access_request(spec, user);
    if (type->plural == "localsubjectaccessreviews" && asked.ns != request.ns)
      return bad_request("spec.resourceAttributes.namespace must be the namespace of the review, " + request.ns);
    status = status_of(authorize(asked));
  } else if (type->plural == "selfsubjectrulesreviews") {
    const std::string ns = text_at(&spec, "namespace");
    status = rules_status(access_ ? access_->rules_for(context.user, ns)
                                  : std::vector<PolicyRule>{{{"*"}, {"*"}, {"*"}, {}, {}}});
  } else if (type->plural == "selfsubjectreviews") {
    status = json::Object{{"userInfo", user_of(context.user)}};
  } else {  // tokenreviews
    auto holder = authenticate_for(text_at(&spec, "token"), texts_at(&spec, "audiences"));
    if (holder.ok()) {
      json::Value user = user_of(holder->user);
      if (!holder->extra.empty()) user.as_object().set("extra", std::move(holder->extra));
      status =
          json::Object{{"authenticated", true}, {"user", std::move(user)}, {"audiences", to_list(holder->audiences)}};
    } else {
      status = json::Object{{"authenticated", false}, {"error", "the token is not one of this cluster"}};
    }
  }
  review.as_object().set("status", std::move(status));
  review.as_object()["metadata"].as_object().set("creationTimestamp", json::Value());
  return created(review);
}

}  // namespace basalt::apiserver
