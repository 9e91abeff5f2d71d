#include "apiserver/http/kubernetes_service.h"

#include <initializer_list>
#include <utility>

#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kName = "kubernetes";
constexpr std::string_view kNamespace = "default";
constexpr std::int64_t kServicePort = 443;

struct Wanted {
  kube::Resource resource;
  json::Value object;
  // What must be as it is in the object, by its path.
  std::vector<std::vector<std::string_view>> paths;
};

const json::Value* at(const json::Value& object, const std::vector<std::string_view>& path) {
  const json::Value* value = &object;
  for (const std::string_view key : path) value = value != nullptr ? value->find(key) : nullptr;
  return value;
}

Result<kube::Response> create(kube::Client& client, const Wanted& wanted, const rt::StopToken& stop) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = wanted.resource;
  request.ns = kNamespace;
  request.body = wanted.object.to_text();
  return client.call(request, stop);
}

Done ensure(kube::Client& client, const Wanted& wanted, const rt::StopToken& stop) {
  kube::Request get;
  get.verb = kube::Verb::Get;
  get.resource = wanted.resource;
  get.ns = kNamespace;
  get.name = kName;
  const auto found = client.call(get, stop);
  if (!found.ok() && !found.error().is(Reason::NotFound)) return found.error();
  if (!found.ok()) {
    auto made = create(client, wanted, stop);
    if (made.ok() || made.error().is(Reason::AlreadyExists)) return Ok{};
    return std::move(made).error();
  }
  BASALT_TRY(const json::Value old, json::Value::parse(*found->body));
  json::Object change;
  for (const auto& path : wanted.paths) {
    const json::Value* before = at(old, path);
    const json::Value* after = at(wanted.object, path);
    if (before != nullptr && *before == *after) continue;
    // All paths of an object begin with the same member or are one.
    change.set(path.front(), path.size() == 1 ? *after : json::Value(json::Object{{path[1], *after}}));
  }
  if (change.empty()) return Ok{};
  kube::Request patch = std::move(get);
  patch.verb = kube::Verb::Patch;
  patch.patch_type = kube::PatchType::Merge;
  patch.body = json::Value(std::move(change)).to_text();
  auto patched = client.call(patch, stop);
  if (!patched.ok()) return std::move(patched).error();
  return Ok{};
}

json::Value metadata(json::Object labels) {
  return json::Object{{"name", kName}, {"namespace", kNamespace}, {"labels", std::move(labels)}};
}

}  // namespace

std::string reachable_address(const std::string& address) {
  if (address == "0.0.0.0" || address == "localhost" || address.empty()) return "127.0.0.1";
  return address == "::" ? "::1" : address;
}

Done publish_kubernetes_service(kube::Client& client, const std::string& address, std::uint16_t port,
                                const std::string& service_ip, const rt::StopToken& stop) {
  const std::string ip = reachable_address(address);
  const json::Value number = std::int64_t{port};
  const json::Array ports{json::Object{{"name", "https"}, {"port", number}, {"protocol", "TCP"}}};
  Wanted service{{"", "v1", "services"},
                 json::Object{{"metadata", metadata({{"component", "apiserver"}, {"provider", "kubernetes"}})},
                              {"spec", json::Object{{"clusterIP", service_ip},
                                                    {"type", "ClusterIP"},
                                                    {"ports", json::Array{json::Object{{"name", "https"},
                                                                                       {"port", kServicePort},
                                                                                       {"protocol", "TCP"},
                                                                                       {"targetPort", number}}}}}}},
                 {{"spec", "ports"}}};
  Done made = ensure(client, service, stop);
  if (!made.ok() && made.error().is(Reason::Invalid)) {
    service.object.find("spec")->as_object().erase("clusterIP");
    made = ensure(client, service, stop);
  }
  BASALT_TRY_DONE(std::move(made));
  BASALT_TRY_DONE(
      ensure(client,
             {{"", "v1", "endpoints"},
              json::Object{{"metadata", metadata({{"endpointslice.kubernetes.io/skip-mirror", "true"}})},
                           {"subsets", json::Array{json::Object{{"addresses", json::Array{json::Object{{"ip", ip}}}},
                                                                {"ports", ports}}}}},
              {{"subsets"}}},
             stop));
  return ensure(client,
                {{"discovery.k8s.io", "v1", "endpointslices"},
                 json::Object{{"metadata", metadata({{"kubernetes.io/service-name", kName}})},
                              {"addressType", ip.find(':') == std::string::npos ? "IPv4" : "IPv6"},
                              {"endpoints", json::Array{json::Object{{"addresses", json::Array{json::Value(ip)}},
                                                                     {"conditions", json::Object{{"ready", true}}}}}},
                              {"ports", ports}},
                 {{"endpoints"}, {"ports"}}},
                stop);
}

}  // namespace basalt::apiserver
