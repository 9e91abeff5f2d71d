#include "webhooks/template_probes.h"

#include "base/encoding.h"
#include "base/hash.h"
#include "webhooks/fields.h"

namespace basalt::webhooks {

std::optional<Done> AnswerCache::find(const std::string& key) {
  const rt::MutexLock lock(mutex_);
  const Entry& entry = entries_.get_or_add(key, [] { return Entry(); });
  if (!entry.answer || runtime_.now() >= entry.expires) return std::nullopt;
  return entry.answer;
}

void AnswerCache::put(const std::string& key, Done answer) {
  const rt::MutexLock lock(mutex_);
  Entry& entry = entries_.get_or_add(key, [] { return Entry(); });
  entry.answer = std::move(answer);
  entry.expires = runtime_.now() + lifetime_;
}

DryRunProbe::DryRunProbe(rt::Runtime& runtime, kube::Client& client, Logger log, ProbeOptions options)
    : client_(client),
      log_(std::move(log)),
      options_(options),
      cache_(runtime, options.cached_max, options.cached_for) {}

Done DryRunProbe::check(const ReviewUser&, const std::string& ns, const json::Value& pod_template) {
  json::Value pod = json::Object{{"apiVersion", "v1"}, {"kind", "Pod"}};
  for (const std::string_view name : {"labels", "annotations"}) {
    if (const json::Value* value = pod_template.find_path({"metadata", name})) {
      pod.ensure_path({"metadata", name}) = *value;
    }
  }
  if (const json::Value* spec = member(pod_template, "spec")) pod.as_object().set("spec", *spec);
  const std::string hash = base::sha256_hex(ns + "\n" + pod.to_text());
  if (auto known = cache_.find(hash)) return std::move(*known);

  pod.ensure_path({"metadata", "name"}) = "admission-check-" + hash.substr(0, 16);
  pod.ensure_path({"metadata", "namespace"}) = ns;
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = {"", "v1", "pods"};
  request.ns = ns;
  request.body = pod.to_text();
  request.dry_run = true;
  request.field_manager = "vc-webhook-manager";
  request.timeout = options_.timeout;
  const auto response = client_.call(request, {});
  Done answer = Ok{};
  if (!response.ok()) {
    const Error& error = response.error();
    const bool breaks_pod_security =
        error.is(Reason::Forbidden) && error.message.find("violates PodSecurity") != std::string::npos;
    if (error.is(Reason::Invalid) || error.is(Reason::BadRequest) || breaks_pod_security) {
      answer = Done(error.with_context("the API server would refuse its pods"));
    } else {
      log_.warn("a template could not be tried with a dry run", {{"namespace", ns}, {"error", error}});
      return Ok{};  // not remembered
    }
  }
  cache_.put(hash, answer);
  return answer;
}

AccessProbe::AccessProbe(rt::Runtime& runtime, kube::Client& client, ProbeOptions options)
    : client_(client), options_(options), cache_(runtime, options.cached_max, options.cached_for) {}

Done AccessProbe::check(const ReviewUser& user, const std::string& ns, const json::Value& pod_template) {
  BASALT_TRY_DONE(ask(user, ns, {"create", "pods", ""}));
  const json::Value* spec = member(pod_template, "spec");
  const std::string_view account = spec == nullptr ? std::string_view() : text_at(*spec, "serviceAccountName");
  if (account.empty() || account == "default") return Ok{};
  return ask(user, ns, {"use", "serviceaccounts", account});
}

Done AccessProbe::ask(const ReviewUser& user, const std::string& ns, const Access& access) {
  json::Object attributes{{"namespace", ns}, {"verb", access.verb}, {"resource", access.resource}};
  if (!access.name.empty()) attributes.set("name", access.name);
  json::Array groups;
  for (const std::string& group : user.groups) groups.emplace_back(group);
  json::Value spec = json::Object{{"user", user.name}, {"groups", std::move(groups)}};
  if (!user.uid.empty()) spec.as_object().set("uid", user.uid);
  if (user.extra != nullptr) spec.as_object().set("extra", *user.extra);
  spec.as_object().set("resourceAttributes", std::move(attributes));
  const std::string key = base::sha256_hex(spec.to_text());
  if (auto known = cache_.find(key)) return std::move(*known);

  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = {"authorization.k8s.io", "v1", "subjectaccessreviews"};
  request.body = json::Value(json::Object{{"apiVersion", "authorization.k8s.io/v1"},
                                          {"kind", "SubjectAccessReview"},
                                          {"spec", std::move(spec)}})
                     .to_text();
  request.timeout = options_.timeout;
  const auto response = client_.call(request, {});
  if (!response.ok()) {
    Error error = Error::make(Reason::ServiceUnavailable, "the rights of user " + shown(user.name) +
                                                              " could not be checked: " + response.error().message);
    return error;
  }
  const auto answer = json::Value::parse(*response->body);
  const json::Value* allowed = answer.ok() ? answer->find_path({"status", "allowed"}) : nullptr;
  Done done = Ok{};
  if (allowed == nullptr || !allowed->is_bool() || !allowed->as_bool()) {
    std::string what =
        "user " + shown(user.name) + " may not " + std::string(access.verb) + " " + std::string(access.resource);
    if (!access.name.empty()) what += " " + shown(access.name);
    const std::string_view reason = answer.ok() ? answer->string_at({"status", "reason"}) : std::string_view();
    done = Done(Error::make(Reason::Forbidden,
                            what + " in namespace " + shown(ns) + (reason.empty() ? "" : ": " + std::string(reason))));
  }
  cache_.put(key, done);
  return done;
}

}  // namespace basalt::webhooks
