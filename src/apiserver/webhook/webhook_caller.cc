#include "apiserver/webhook/webhook_caller.h"

#include <utility>

#include "base/encoding.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kAnswerBytesMax = 3u << 20;
constexpr std::size_t kClientsMax = 32;

json::Value user_of(const UserInfo& user) {
  json::Array groups(user.groups.begin(), user.groups.end());
  json::Object object{{"username", user.name}, {"groups", std::move(groups)}};
  if (!user.uid.empty()) object.set("uid", user.uid);
  return object;
}

std::string review_text(const AdmissionRequest& request, const json::Value* object, const std::string& uid) {
  json::Object body = review_request(request);
  body.set("uid", uid);
  body.set("object", object == nullptr ? json::Value() : *object);
  body.set("oldObject", request.old_object == nullptr ? json::Value() : *request.old_object);
  return json::Value(json::Object{{"apiVersion", "admission.k8s.io/v1"},
                                  {"kind", "AdmissionReview"},
                                  {"request", std::move(body)}})
      .to_text();
}

Result<WebhookAnswer> answer_of(std::string_view text, const std::string& uid) {
  BASALT_TRY(const json::Value review, json::Value::parse(text));
  const json::Value* response = review.find("response");
  if (response == nullptr || !response->is_object())
    return Error::make(Reason::InternalError, "the webhook's answer has no response");
  if (response->string_at({"uid"}) != uid)
    return Error::make(Reason::InternalError, "expected response.uid=" + base::quote(uid) + ", got " +
                                                  base::quote(response->string_at({"uid"})));
  WebhookAnswer answer;
  const json::Value* allowed = response->find("allowed");
  answer.allowed = allowed != nullptr && allowed->is_bool() && allowed->as_bool();
  if (const json::Value* code = response->find_path({"status", "code"}); code != nullptr && code->is_int())
    answer.code = static_cast<int>(code->as_int());
  answer.reason = std::string(response->string_at({"status", "reason"}));
  answer.message = std::string(response->string_at({"status", "message"}));
  if (const json::Value* warnings = response->find("warnings"); warnings != nullptr && warnings->is_array()) {
    for (const json::Value& warning : warnings->as_array()) {
      if (warning.is_string()) answer.warnings.push_back(warning.as_string());
    }
  }
  const std::string_view patch = response->string_at({"patch"});
  if (patch.empty()) return answer;
  if (response->string_at({"patchType"}) != "JSONPatch")
    return Error::make(Reason::InternalError, "invalid response.patchType: it must be JSONPatch");
  const auto decoded = base::base64_decode(patch);
  if (!decoded) return Error::make(Reason::InternalError, "response.patch is not base64");
  BASALT_TRY(json::Value operations, json::Value::parse(*decoded));
  if (!operations.is_array()) return Error::make(Reason::InternalError, "response.patch is not a JSON patch");
  answer.patch = std::move(operations.as_array());
  return answer;
}

bool is_ready(const json::Value& pod) {
  const json::Value* conditions = pod.find_path({"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return false;
  for (const json::Value& condition : conditions->as_array()) {
    if (condition.string_at({"type"}) == "Ready") return condition.string_at({"status"}) == "True";
  }
  return false;
}

// The number of the port on the pod that the service's port leads to.
std::int64_t target_port(const json::Value& service, std::int32_t wanted, const json::Value& pod) {
  const json::Value* ports = service.find_path({"spec", "ports"});
  if (ports == nullptr || !ports->is_array()) return wanted;
  for (const json::Value& port : ports->as_array()) {
    const json::Value* number = port.find("port");
    if (number == nullptr || !number->is_int() || number->as_int() != wanted) continue;
    const json::Value* target = port.find("targetPort");
    if (target == nullptr) return wanted;
    if (target->is_int()) return target->as_int();
    const json::Value* containers = pod.find_path({"spec", "containers"});
    if (!target->is_string() || containers == nullptr || !containers->is_array()) return wanted;
    for (const json::Value& container : containers->as_array()) {
      const json::Value* offered = container.find("ports");
      if (offered == nullptr || !offered->is_array()) continue;
      for (const json::Value& one : offered->as_array()) {
        const json::Value* of_pod = one.find("containerPort");
        if (one.string_at({"name"}) == target->as_string() && of_pod != nullptr && of_pod->is_int())
          return of_pod->as_int();
      }
    }
  }
  return wanted;
}

}  // namespace

json::Object review_request(const AdmissionRequest& request) {
  const ResourceType& type = request.type;
  const json::Value kind = json::Object{{"group", type.group},
                                        {"version", type.version},
                                        {"kind", request.object_kind.empty() ? type.kind : request.object_kind}};
  const json::Value resource =
      json::Object{{"group", type.group}, {"version", type.version}, {"resource", type.plural}};
  json::Object body{{"kind", kind},
                    {"resource", resource},
                    {"requestKind", kind},
                    {"requestResource", resource},
                    {"operation", admission_name(request.operation)},
                    {"userInfo", user_of(request.user)},
                    {"dryRun", request.dry_run},
                    {"options", json::Value()}};
  if (!request.name.empty()) body.set("name", request.name);
  if (!request.ns.empty()) body.set("namespace", request.ns);
  if (!request.subresource.empty()) {
    body.set("subResource", request.subresource);
    body.set("requestSubResource", request.subresource);
  }
  return body;
}

WebhookCaller::WebhookCaller(rt::Runtime& runtime, ApiServer& server) : runtime_(runtime), server_(server) {}

Result<json::Value> WebhookCaller::stored(std::string_view plural, const std::string& ns, const std::string& name) {
  Store& store = server_.store();
  const EntryRef entry = store.get(store.resource("/" + std::string(plural)), ns, name);
  if (!entry) return Error::make(Reason::NotFound, std::string(plural) + " " + base::quote(name) + " not found");
  return json::Value::parse(*entry->object());
}

Result<std::string> WebhookCaller::pod_address(const json::Value& service, const WebhookEndpoint::Service& wanted) {
  std::string selector;
  if (const json::Value* labels = service.find_path({"spec", "selector"}); labels != nullptr && labels->is_object()) {
    for (const json::Member& member : labels->as_object()) {
      if (member.value.is_string())
        selector += (selector.empty() ? "" : ",") + member.key + "=" + member.value.as_string();
    }
  }
  const Error nobody =
      Error::make(Reason::ServiceUnavailable, "no endpoints available for service " + base::quote(wanted.name));
  if (selector.empty()) return nobody;
  kube::ListRequest list;
  list.resource = {"", "v1", "pods"};
  list.ns = wanted.ns;
  list.label_selector = selector;
  BASALT_TRY(const kube::ListPage page,
             server_.list(list, RequestContext{{"system:apiserver", "", {"system:masters"}}, "", false}));
  for (const bool needs_ready : {true, false}) {
    for (const kube::Bytes& bytes : page.items) {
      BASALT_TRY(const json::Value pod, json::Value::parse(*bytes));
      const std::string_view address = pod.string_at({"status", "podIP"});
      if (address.empty() || pod.string_at({"status", "phase"}) != "Running" || (needs_ready && !is_ready(pod)))
        continue;
      return std::string(address) + ":" + std::to_string(target_port(service, wanted.port, pod));
    }
  }
  return nobody;
}

Result<WebhookCaller::Target> WebhookCaller::target_of(const WebhookEndpoint& endpoint) {
  if (!endpoint.url.empty()) return Target{endpoint.url, ""};
  const WebhookEndpoint::Service& wanted = endpoint.service;
  BASALT_TRY(const json::Value service, stored("services", wanted.ns, wanted.name));
  std::string address;
  if (service.string_at({"spec", "type"}) == "ExternalName") {
    address = std::string(service.string_at({"spec", "externalName"})) + ":" + std::to_string(wanted.port);
  } else {
    BASALT_TRY(address, pod_address(service, wanted));
  }
  const std::string path = wanted.path.starts_with("/") ? wanted.path : "/" + wanted.path;
  return Target{"https://" + address + path, wanted.name + "." + wanted.ns + ".svc"};
}

Result<std::shared_ptr<net::HttpClient>> WebhookCaller::client_for(const WebhookEndpoint& endpoint,
                                                                   const std::string& name) {
  const std::string key = name + "\n" + endpoint.ca_pem;
  {
    rt::MutexLock lock(mutex_);
    if (const auto found = clients_.find(key); found != clients_.end()) return found->second;
  }
  net::HttpClientOptions options;
  options.tls.ca_pem = endpoint.ca_pem;
  options.tls.server_name = name;
  options.user_agent = "kube-apiserver-admission";
  BASALT_TRY(std::unique_ptr<net::HttpClient> made, net::make_http_client(runtime_, options));
  std::shared_ptr<net::HttpClient> client = std::move(made);
  std::map<std::string, std::shared_ptr<net::HttpClient>> dropped;
  rt::MutexLock lock(mutex_);
  if (clients_.size() >= kClientsMax) dropped.swap(clients_);  // authorities that come and go: begin anew
  // Another thread may have been faster; ours goes then, after the lock.
  return clients_.try_emplace(key, client).first->second;
}

Result<WebhookAnswer> WebhookCaller::ask(const Webhook& webhook, const AdmissionRequest& request,
                                         const json::Value* object, const std::string& uid) {
  const std::string body = review_text(request, object, uid);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(webhook.timeout).count();
  BASALT_TRY(const std::string answer,
             post(webhook, {"timeout=" + std::to_string(seconds) + "s", body, webhook.timeout, kAnswerBytesMax, {}}));
  return answer_of(answer, uid);
}

Result<std::string> WebhookCaller::post(const WebhookEndpoint& endpoint, const Question& question) {
  BASALT_TRY(const Target target, target_of(endpoint));
  BASALT_TRY(const std::shared_ptr<net::HttpClient> client, client_for(endpoint, target.server_name));
  net::HttpRequest call;
  call.method = "POST";
  call.url = target.url;
  if (!question.query.empty()) call.url += (target.url.find('?') == std::string::npos ? "?" : "&") + question.query;
  call.headers = {{"Content-Type", "application/json"}, {"Accept", "application/json"}};
  call.body = question.body;
  call.timeout = question.timeout;
  call.response_bytes_max = question.answer_bytes_max;
  auto answered = client->call(call, question.stop);
  // In Go's words, which clients look for.
  if (!answered.ok() && answered.error().is(Reason::DeadlineExceeded))
    return Error::make(Reason::DeadlineExceeded, "Post " + base::quote(call.url) + ": context deadline exceeded");
  BASALT_TRY(const net::HttpResponse response, std::move(answered));
  if (response.status >= 300)
    return Error::make(Reason::InternalError,
                       "the server answered " + std::to_string(response.status) + ": " + response.body.substr(0, 500));
  return response.body;
}

}  // namespace basalt::apiserver
