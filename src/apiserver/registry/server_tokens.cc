// Tokens of service accounts: made on request, and checked.

#include <algorithm>
#include <utility>

#include "api/time.h"
#include "apiserver/access/service_tokens.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/metadata.h"
#include "apiserver/registry/server_impl.h"
#include "base/random_name.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::int64_t kTokenSecondsMin = 600;
constexpr std::int64_t kTokenSecondsDefault = 3600;
constexpr std::int64_t kTokenSecondsMax = 365LL * 24 * 3600;
// What the volume that every pod gets asks for (builtin/token_volume.cc). Programs that read their token only once are
// many: as in Kubernetes such a token lives for a year, while its pod does, and agents renew it as if it were an hour.
constexpr std::int64_t kTokenSecondsOfPods = 3607;

std::vector<std::string> texts_at(const json::Value& object, std::initializer_list<std::string_view> path) {
  std::vector<std::string> out;
  const json::Value* list = object.find_path(path);
  if (list == nullptr || !list->is_array()) return out;
  for (const json::Value& one : list->as_array()) {
    if (one.is_string()) out.push_back(one.as_string());
  }
  return out;
}

struct BindableKind {
  std::string_view kind;
  std::string_view storage;
  std::string_view claim;
  bool namespaced;
};
constexpr BindableKind kBindable[] = {
    {"Pod", "/pods", "pod", true}, {"Secret", "/secrets", "secret", true}, {"Node", "/nodes", "node", false}};

EntryRef find_bound(Store& store, const BindableKind& kind, const std::string& ns, std::string_view name) {
  return store.get(store.resource(kind.storage), kind.namespaced ? ns : "", name);
}

// Whether what the token is bound to is still there, and not another of the same name.
bool holds(Store& store, const ServiceToken& token) {
  if (token.bound.kind.empty()) return true;
  for (const BindableKind& kind : kBindable) {
    if (kind.claim != token.bound.kind) continue;
    const EntryRef entry = find_bound(store, kind, token.ns, token.bound.name);
    return entry && entry->attributes().uid() == token.bound.uid;
  }
  return false;
}

json::Object extra_of(const ServiceToken& token) {
  json::Object extra;
  const auto tell = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) extra.set("authentication.kubernetes.io/" + name, json::Array{json::Value(value)});
  };
  if (!token.id.empty()) tell("credential-id", "JTI=" + token.id);
  for (const ServiceToken::Bound& one : {token.bound, token.node}) {
    if (one.kind != "pod" && one.kind != "node") continue;
    tell(one.kind + "-name", one.name);
    tell(one.kind + "-uid", one.uid);
  }
  return extra;
}

Error no_such_object(const BindableKind& kind, std::string_view name) {
  ResourceType type;
  type.plural = kind.storage.substr(1);
  return not_found(type, name);
}

Done bind_token(Store& store, const json::Value& reference, ServiceToken& token) {
  const std::string kind_name(reference.string_at({"kind"}));
  const std::string name(reference.string_at({"name"}));
  const std::string version(reference.string_at({"apiVersion"}));
  const auto* kind = std::ranges::find(kBindable, kind_name, &BindableKind::kind);
  if (kind == std::end(kBindable) || version != "v1")
    return bad_request("spec.boundObjectRef names a " + version + "/" + kind_name +
                       "; a token can be bound to a Pod, a Secret or a Node of v1");
  const EntryRef entry = find_bound(store, *kind, token.ns, name);
  if (!entry) return no_such_object(*kind, name);
  const std::string uid(entry->attributes().uid());
  if (const std::string_view wanted = reference.string_at({"uid"}); !wanted.empty() && wanted != uid) {
    ResourceType type;
    type.plural = kind->storage.substr(1);
    return conflict(type, name,
                    "spec.boundObjectRef.uid is " + std::string(wanted) + ", but the object of this name has " + uid +
                        ": it was made again since");
  }
  token.bound = {std::string(kind->claim), name, uid};
  if (kind->kind != "Pod") return Ok{};
  BASALT_TRY(const json::Value pod, json::Value::parse(*entry->object()));
  if (pod.string_at({"spec", "serviceAccountName"}) != token.name) {
    return bad_request("the pod " + base::quote(name) + " does not run with the service account " +
                       base::quote(token.name) + ", so a token of that cannot be bound to it");
  }
  if (const std::string_view node = pod.string_at({"spec", "nodeName"}); !node.empty()) {
    token.node = {"node", std::string(node), ""};
    if (const EntryRef known = store.get(store.resource("/nodes"), "", node))
      token.node.uid = std::string(known->attributes().uid());
  }
  return Ok{};
}

Error too_short(std::int64_t seconds) {
  ResourceType type;
  type.group = "authentication.k8s.io";
  type.kind = "TokenRequest";
  return invalid(type, "",
                 {invalid_value("spec.expirationSeconds", std::to_string(seconds),
                                "may not specify a duration less than 10 minutes")});
}

}  // namespace

Result<UserInfo> ApiServerImpl::authenticate_token(std::string_view token) const {
  BASALT_TRY(TokenHolder holder, authenticate_for(token, {}));
  return std::move(holder.user);
}

Result<ApiServerImpl::TokenHolder> ApiServerImpl::authenticate_for(std::string_view token,
                                                                   std::vector<std::string> audiences) const {
  const Error refused = Error::make(Reason::Unauthorized, "Unauthorized");
  if (options_.token_key.empty()) return refused;
  const std::int64_t now = api::Time::from(runtime_.wall_now()).unix_seconds();
  BASALT_TRY(const ServiceToken known, check_token(token, options_.token_key, now));
  if (audiences.empty()) audiences.emplace_back(kTokenIssuer);
  std::erase_if(audiences, [&](const std::string& one) {
    return std::ranges::find(known.audiences, one) == known.audiences.end();
  });
  if (audiences.empty() || !holds(*store_, known)) return refused;
  const EntryRef account = store_->get(store_->resource("/serviceaccounts"), known.ns, known.name);
  if (!account || account->attributes().uid() != known.uid) return refused;
  return TokenHolder{{"system:serviceaccount:" + known.ns + ":" + known.name,
                      known.uid,
                      {"system:serviceaccounts", "system:serviceaccounts:" + known.ns, "system:authenticated"}},
                     std::move(audiences),
                     extra_of(known)};
}

Result<kube::Response> ApiServerImpl::request_token(const TypeRef& type, const kube::Request& request) {
  if (request.verb != kube::Verb::Create) return method_not_allowed(*type, "get");
  if (options_.token_key.empty())
    return Error::make(Reason::MethodNotAllowed, "this server makes no tokens for service accounts");
  const EntryRef entry = store_->get(store_->resource("/serviceaccounts"), request.ns, request.name);
  if (!entry) return not_found(*type, request.name);
  auto body = request.body.empty() ? Result<json::Value>(json::Object()) : json::Value::parse(request.body);
  if (!body.ok() || !body->is_object()) return bad_request("the body of the request is not a TokenRequest");
  json::Value& answer = *body;
  const json::Value* seconds = answer.find_path({"spec", "expirationSeconds"});
  std::int64_t lifetime = seconds != nullptr && seconds->is_int() ? seconds->as_int() : kTokenSecondsDefault;
  if (lifetime < kTokenSecondsMin) return too_short(lifetime);
  lifetime = std::min(lifetime, kTokenSecondsMax);
  ServiceToken token;
  token.ns = request.ns;
  token.name = request.name;
  token.uid = std::string(entry->attributes().uid());
  token.id = base::random_uuid([this] { return runtime_.random(); });
  token.audiences = texts_at(answer, {"spec", "audiences"});
  const bool is_for_us = token.audiences.empty();
  if (is_for_us) token.audiences = {std::string(kTokenIssuer)};
  if (const json::Value* reference = answer.find_path({"spec", "boundObjectRef"});
      reference != nullptr && reference->is_object()) {
    BASALT_TRY_DONE(bind_token(*store_, *reference, token));
  }
  token.issued = api::Time::from(runtime_.wall_now()).unix_seconds();
  token.expires = token.issued + lifetime;
  const std::string told = api::Time::from_unix(token.expires).to_string();
  if (is_for_us && lifetime == kTokenSecondsOfPods && token.bound.kind == "pod") {
    token.warn_after = token.expires;
    token.expires = token.issued + kTokenSecondsMax;
  }
  json::Object& members = answer.as_object();
  members.set("apiVersion", "authentication.k8s.io/v1");
  members.set("kind", "TokenRequest");
  answer.ensure_path({"spec", "expirationSeconds"}) = lifetime;
  answer.ensure_path({"spec", "audiences"}) = json::Array(token.audiences.begin(), token.audiences.end());
  members.set("metadata",
              json::Object{{"name", request.name}, {"namespace", request.ns}, {"creationTimestamp", timestamp()}});
  members.set("status", json::Object{{"token", sign_token(token, options_.token_key)}, {"expirationTimestamp", told}});
  return kube::Response{201, kube::make_bytes(answer.to_text()), {}};
}

}  // namespace basalt::apiserver
