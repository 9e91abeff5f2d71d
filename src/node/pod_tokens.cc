#include "node/pod_tokens.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "api/time.h"
#include "json/value.h"

namespace basalt::node {
namespace {

constexpr rt::Duration kRenewAfterMax = std::chrono::hours(24);

// A server that does not let us, or that does not know tokens, will not do so at the next try either: the pod says so.
Error shown(const Error& error) {
  const bool is_for_good = error.is(Reason::Forbidden) || error.is(Reason::MethodNotAllowed) ||
                           error.is(Reason::Invalid) || error.is(Reason::BadRequest);
  return (is_for_good ? Error::invalid_input(error.message) : error).with_context("token of the service account");
}

std::string request_body(const api::core::Pod& pod, const TokenWish& wish) {
  json::Object spec{
      {"expirationSeconds", wish.seconds},
      {"boundObjectRef",
       json::Object{{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", pod.metadata.name}, {"uid", pod.metadata.uid}}}};
  spec.set("audiences", wish.audience.empty() ? json::Array() : json::Array{json::Value(wish.audience)});
  return json::Value(json::Object{{"apiVersion", "authentication.k8s.io/v1"},
                                  {"kind", "TokenRequest"},
                                  {"spec", std::move(spec)}})
      .to_text();
}

}  // namespace

Result<std::string> PodTokens::get(rt::Runtime& runtime, kube::Client& client, const api::core::Pod& pod,
                                   const TokenWish& wish, const rt::StopToken& stop) {
  const auto held = held_.find(wish);
  if (held != held_.end() && runtime.now() < held->second.renew_at) return held->second.text;
  const std::string& account = pod.spec.service_account_name;
  if (account.empty()) return Error::invalid_input("the pod has no service account to have a token of");
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = {"", "v1", "serviceaccounts"};
  request.ns = pod.metadata.namespace_;
  request.name = account;
  request.subresource = "token";
  request.body = request_body(pod, wish);
  const auto made = client.call(request, stop);
  if (!made.ok()) {
    if (held != held_.end() && runtime.now() < held->second.over_at) return held->second.text;
    return shown(made.error());
  }
  BASALT_TRY(const json::Value answer, json::Value::parse(*made->body));
  const std::string text(answer.string_at({"status", "token"}));
  const auto expires = api::Time::parse(answer.string_at({"status", "expirationTimestamp"}));
  if (text.empty() || !expires.ok())
    return Error::make(Reason::InternalError, "the API server's answer to a request for a token has none");
  const std::int64_t left = expires->unix_seconds() - api::Time::from(runtime.wall_now()).unix_seconds();
  const rt::Duration life = std::chrono::seconds(std::max<std::int64_t>(left, 1));
  held_[wish] = {text, runtime.now() + std::min(life * 4 / 5, kRenewAfterMax), runtime.now() + life};
  return text;
}

rt::Instant PodTokens::renew_at() const {
  rt::Instant first = rt::kNever;
  for (const auto& [wish, one] : held_) first = std::min(first, one.renew_at);
  return first;
}

Environment service_environment(const std::string& host, std::uint16_t port) {
  const std::string number = std::to_string(port);
  const std::string url = "tcp://" + (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + number;
  return {{"KUBERNETES_SERVICE_HOST", host},         {"KUBERNETES_SERVICE_PORT", number},
          {"KUBERNETES_SERVICE_PORT_HTTPS", number}, {"KUBERNETES_PORT", url},
          {"KUBERNETES_PORT_443_TCP", url},          {"KUBERNETES_PORT_443_TCP_PROTO", "tcp"},
          {"KUBERNETES_PORT_443_TCP_PORT", number},  {"KUBERNETES_PORT_443_TCP_ADDR", host}};
}

std::string account_kubeconfig(const Environment& env, const std::string& folder, const std::string& ns) {
  const std::string* host = find_variable(env, "KUBERNETES_SERVICE_HOST");
  const std::string* port = find_variable(env, "KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr) return "";
  const std::string server =
      "https://" + (host->find(':') == std::string::npos ? *host : "[" + *host + "]") + ":" + *port;
  const auto named = [](std::string_view kind, json::Object value) {
    return json::Array{json::Object{{"name", "pod"}, {kind, std::move(value)}}};
  };
  // JSON is YAML.
  return json::Value(
             json::Object{
                 {"apiVersion", "v1"},
                 {"kind", "Config"},
                 {"current-context", "pod"},
                 {"clusters", named("cluster", {{"server", server}, {"certificate-authority", folder + "/ca.crt"}})},
                 {"contexts", named("context", {{"cluster", "pod"}, {"user", "pod"}, {"namespace", ns}})},
                 {"users", named("user", {{"tokenFile", folder + "/token"}})}})
             .to_pretty_text() +
         "\n";
}

}  // namespace basalt::node
