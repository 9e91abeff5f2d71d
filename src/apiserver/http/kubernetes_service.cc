#include "apiserver/http/kubernetes_service.h"

#include <initializer_list>
#include <utility>

#include "json/merge_patch.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kName = "kubernetes";
constexpr std::string_view kNamespace = "default";
constexpr std::int64_t kServicePort = 443;

struct Wanted {
  kube::Resource resource;
  json::Value object;  // what a new one has beside
  json::Value patch;   // what must be as this says
};

Result<kube::Response> create(kube::Client& client, const Wanted& wanted, const rt::StopToken& stop) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = wanted.resource;
  request.ns = kNamespace;
  request.body = json::apply_merge_patch(wanted.object, wanted.patch).to_text();
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
  if (json::apply_merge_patch(old, wanted.patch) == old) return Ok{};
  kube::Request patch = std::move(get);
  patch.verb = kube::Verb::Patch;
  patch.patch_type = kube::PatchType::Merge;
  patch.body = wanted.patch.to_text();
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
  json::Value service = json::Object{{"metadata", metadata({{"component", "apiserver"}, {"provider", "kubernetes"}})},
                                     {"spec", json::Object{{"clusterIP", service_ip}, {"type", "ClusterIP"}}}};
  const json::Value service_ports = json::Object{
      {"spec",
       json::Object{
           {"ports", json::Array{json::Object{
                         {"name", "https"}, {"port", kServicePort}, {"protocol", "TCP"}, {"targetPort", number}}}}}}};
  Done made = ensure(client, {{"", "v1", "services"}, service, service_ports}, stop);
  if (!made.ok() && made.error().is(Reason::Invalid)) {  // somebody has the address
    service.find("spec")->as_object().erase("clusterIP");
    made = ensure(client, {{"", "v1", "services"}, service, service_ports}, stop);
  }
  BASALT_TRY_DONE(std::move(made));

  const json::Array ports{json::Object{{"name", "https"}, {"port", number}, {"protocol", "TCP"}}};
  BASALT_TRY_DONE(
      ensure(client,
             {{"", "v1", "endpoints"},
              json::Object{{"metadata", metadata({{"endpointslice.kubernetes.io/skip-mirror", "true"}})}},
              json::Object{{"subsets", json::Array{json::Object{{"addresses", json::Array{json::Object{{"ip", ip}}}},
                                                                {"ports", ports}}}}}},
             stop));
  const json::Array endpoints{
      json::Object{{"addresses", json::Array{json::Value(ip)}}, {"conditions", json::Object{{"ready", true}}}}};
  return ensure(client,
                {{"discovery.k8s.io", "v1", "endpointslices"},
                 json::Object{{"metadata", metadata({{"kubernetes.io/service-name", kName}})},
                              {"addressType", ip.find(':') == std::string::npos ? "IPv4" : "IPv6"}},
                 json::Object{{"endpoints", endpoints}, {"ports", ports}}},
                stop);
}

}  // namespace basalt::apiserver
