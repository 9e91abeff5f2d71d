#include "cli/up/pod_port_forward_handler.h"

#include <utility>

#include "cli/up/pod_proxy_handler.h"

namespace basalt::cli {

PodPortForwardHandler::PodPortForwardHandler(rt::Runtime& runtime, kube::Client& client,
                                             std::unique_ptr<net::TcpDialer> dialer)
    : runtime_(runtime),
      client_(client),
      dialer_(std::move(dialer)),
      clients_(runtime, {"port-forward", kClientsMax, "too many clients forward ports at once; try again later"}) {}

apiserver::ConnectHandler PodPortForwardHandler::handler() {
  return [this](const apiserver::ConnectRequest& request, const std::shared_ptr<net::Responder>& responder) {
    const apiserver::ApiPath& path = request.path;
    if (!path.group.empty() || path.plural != "pods" || path.subresource != "portforward") return false;
    if (const Done begun = accept(request, responder); !begun.ok()) respond_with_error(*responder, begun.error());
    return true;
  };
}

void PodPortForwardHandler::stop() {
  clients_.stop();
  dialer_->stop();
}

Done PodPortForwardHandler::accept(const apiserver::ConnectRequest& request,
                                   const std::shared_ptr<net::Responder>& responder) {
  BASALT_TRY(PortForwardClient::Upgrade upgrade, PortForwardClient::upgrade_of(request.http, request.query));
  BASALT_TRY(Pod pod, pod_of(request.path));
  return clients_.start([this, pod = std::move(pod), upgrade = std::move(upgrade), responder] {
    const auto client = std::make_shared<PortForwardClient>(
        runtime_, responder, *dialer_, PortForwardClient::Target{.pod = pod.text(), .address = pod.address},
        clients_.token());
    client->open(upgrade);
    while (!client->gone().wait_for(runtime_, kLookPeriod)) {
      client->ping();
      if (const auto why = end_of(pod)) return client->finish(*why);
    }
    client->finish("the cluster is stopping");  // or the client has gone, and does not hear it
  });
}

Result<PodPortForwardHandler::Pod> PodPortForwardHandler::pod_of(const apiserver::ApiPath& path) {
  BASALT_TRY(const json::Value object, read(path.ns, path.name));
  Pod pod{path.ns, path.name, std::string(object.string_at({"metadata", "uid"})),
          std::string(object.string_at({"status", "podIP"}))};
  const std::string_view phase = object.string_at({"status", "phase"});
  if (phase != "Running" || pod.address.empty()) {
    return Error::make(Reason::BadRequest, "pod " + pod.text() + " is not running: its phase is " +
                                               std::string(phase.empty() ? "Pending" : phase));
  }
  if (is_pod_address(pod.address)) return pod;
  return Error::make(Reason::BadRequest, "pod " + pod.text() + " has the address " + pod.address +
                                             ", at which no process node has a pod: it has no ports to forward");
}

Result<json::Value> PodPortForwardHandler::read(const std::string& ns, const std::string& name) {
  BASALT_TRY(const kube::Response response,
             client_.call({.verb = kube::Verb::Get, .resource = {"", "v1", "pods"}, .ns = ns, .name = name},
                          clients_.token()));
  return json::Value::parse(*response.body);
}

std::optional<std::string> PodPortForwardHandler::end_of(const Pod& pod) {
  const auto object = read(pod.ns, pod.name);
  if (!object.ok()) {
    if (object.error().is(Reason::NotFound)) return "pod " + pod.text() + " is gone";
    return std::nullopt;
  }
  if (object->string_at({"metadata", "uid"}) != pod.uid) return "pod " + pod.text() + " is gone; another has its name";
  const std::string_view phase = object->string_at({"status", "phase"});
  if (phase == "Succeeded" || phase == "Failed")
    return "pod " + pod.text() + " is over: its phase is " + std::string(phase);
  return std::nullopt;
}

}  // namespace basalt::cli
