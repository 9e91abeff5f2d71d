#include "crds/crds.h"

#include <string>
#include <utility>
#include <vector>

#include "json/value.h"
#include "yaml/reader.h"

namespace basalt::crds {
namespace {

const kube::Resource kCrds{"apiextensions.k8s.io", "v1", "customresourcedefinitions"};
constexpr rt::Duration kPollPeriod = std::chrono::milliseconds(20);
constexpr int kUpdateAttemptsMax = 5;

kube::Request request_for(kube::Verb verb, std::string name, std::string body = {}) {
  kube::Request request;
  request.verb = verb;
  request.resource = kCrds;
  request.name = std::move(name);
  request.body = std::move(body);
  return request;
}

bool is_established(const json::Value& crd) {
  const json::Value* conditions = crd.find_path({"status", "conditions"});
  if (conditions == nullptr || !conditions->is_array()) return false;
  for (const json::Value& condition : conditions->as_array()) {
    if (condition.string_at({"type"}) == "Established") return condition.string_at({"status"}) == "True";
  }
  return false;
}

// Whether everything that `wanted` says is in `found` as well; the server may have added defaults.
bool contains(const json::Value& found, const json::Value& wanted) {
  if (wanted.is_object()) {
    if (!found.is_object()) return false;
    for (const auto& [key, value] : wanted.as_object()) {
      const json::Value* other = found.find(key);
      if (other == nullptr || !contains(*other, value)) return false;
    }
    return true;
  }
  if (wanted.is_array()) {
    if (!found.is_array() || found.as_array().size() != wanted.as_array().size()) return false;
    for (std::size_t i = 0; i < wanted.as_array().size(); ++i) {
      if (!contains(found.as_array()[i], wanted.as_array()[i])) return false;
    }
    return true;
  }
  return found == wanted;
}

// Creates the CRD or brings an older one up to date.
Done put(kube::Client& client, const json::Value& wanted, const rt::StopToken& stop) {
  const std::string name(wanted.string_at({"metadata", "name"}));
  for (int attempt = 0;; ++attempt) {
    auto created = client.call(request_for(kube::Verb::Create, "", wanted.to_text()), stop);
    if (created.ok()) return Ok{};
    if (created.error().reason != Reason::AlreadyExists) return std::move(created).error();
    BASALT_TRY(kube::Response response, client.call(request_for(kube::Verb::Get, name), stop));
    BASALT_TRY(json::Value found, json::Value::parse(*response.body));
    const json::Value* spec = wanted.find("spec");
    const json::Value* found_spec = found.find("spec");
    if (spec == nullptr || (found_spec != nullptr && contains(*found_spec, *spec))) return Ok{};
    found.as_object().set("spec", *spec);
    auto updated = client.call(request_for(kube::Verb::Update, name, found.to_text()), stop);
    if (updated.ok()) return Ok{};
    const Reason reason = updated.error().reason;
    if ((reason != Reason::Conflict && reason != Reason::NotFound) || attempt >= kUpdateAttemptsMax)
      return std::move(updated).error();
  }
}

Done wait_established(rt::Runtime& runtime, kube::Client& client, const std::string& name, rt::Instant deadline,
                      const rt::StopToken& stop) {
  while (true) {
    BASALT_TRY(kube::Response response, client.call(request_for(kube::Verb::Get, name), stop));
    BASALT_TRY(const json::Value crd, json::Value::parse(*response.body));
    if (is_established(crd)) return Ok{};
    if (runtime.now() >= deadline)
      return Error::make(Reason::Timeout,
                         "customresourcedefinition " + name +
                             " is not established: look at its status.conditions for conflicting names");
    if (stop.wait_for(runtime, kPollPeriod)) return Error::make(Reason::Cancelled, "stopped while CRDs were installed");
  }
}

Done install_all(std::span<const std::string_view> texts, rt::Runtime& runtime, kube::Client& client,
                 const rt::StopToken& stop, rt::Duration timeout) {
  const rt::Instant deadline = rt::saturating_add(runtime.now(), timeout);
  std::vector<std::string> names;
  for (const std::string_view manifest : texts) {
    BASALT_TRY(const json::Value crd, yaml::read(manifest));
    names.emplace_back(crd.string_at({"metadata", "name"}));
    BASALT_TRY_DONE(put(client, crd, stop));
  }
  for (const std::string& name : names) BASALT_TRY_DONE(wait_established(runtime, client, name, deadline, stop));
  return Ok{};
}

}  // namespace

Done install(rt::Runtime& runtime, kube::Client& client, const rt::StopToken& stop, rt::Duration timeout) {
  return install_all(manifests(), runtime, client, stop, timeout);
}

Done install_some(rt::Runtime& runtime, kube::Client& client, const std::vector<std::string>& plurals) {
  std::vector<std::string_view> texts;
  for (const std::string_view manifest : manifests()) {
    for (const std::string& plural : plurals) {
      if (manifest.find("name: " + plural + ".") != std::string_view::npos) texts.push_back(manifest);
    }
  }
  return install_all(texts, runtime, client, {}, std::chrono::seconds(30));
}

Done install_karmada(rt::Runtime& runtime, kube::Client& client, const rt::StopToken& stop, rt::Duration timeout) {
  return install_all(karmada_manifests(), runtime, client, stop, timeout);
}

}  // namespace basalt::crds
