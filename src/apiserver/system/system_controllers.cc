#include <utility>

#include "apiserver/registry/api_server.h"
#include "apiserver/system/garbage_collector.h"
#include "apiserver/system/namespaces.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

class SystemControllersImpl final : public SystemControllers {
 public:
  SystemControllersImpl(rt::Runtime& runtime, const Logger& log, ApiServer& server, const ApiServer::Options& options)
      : garbage_(runtime, log.with({{"controller", "garbage-collector"}}), server, options.store.history_age_max),
        namespaces_(runtime, log.with({{"controller", "namespace"}}), server, options.cluster_ca_pem) {}
  ~SystemControllersImpl() override { stop(); }
  void stop() override {
    namespaces_.stop();
    garbage_.stop();
  }

 private:
  GarbageCollector garbage_;
  NamespaceKeeper namespaces_;
};

Done create_if_absent(kube::Client& client, const kube::Resource& resource, const std::string& ns, json::Value object) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = resource;
  request.ns = ns;
  request.body = object.to_text();
  auto created = client.call(request, rt::StopToken());
  if (!created.ok() && !created.error().is(Reason::AlreadyExists)) return std::move(created).error();
  return Ok{};
}

// What every cluster has from its first moment.
Done create_system_objects(kube::Client& client) {
  const auto named = [](std::string_view name) { return json::Object{{"metadata", json::Object{{"name", name}}}}; };
  for (const std::string_view name : {"default", "kube-system", "kube-public", "kube-node-lease"}) {
    BASALT_TRY_DONE(create_if_absent(client, {"", "v1", "namespaces"}, "", named(name)));
  }
  constexpr std::pair<std::string_view, std::int64_t> kPriorities[] = {{"system-cluster-critical", 2000000000},
                                                                       {"system-node-critical", 2000001000}};
  for (const auto& [name, value] : kPriorities) {
    json::Object priority = named(name);
    priority.set("value", value);
    priority.set("preemptionPolicy", "PreemptLowerPriority");
    BASALT_TRY_DONE(create_if_absent(client, {"scheduling.k8s.io", "v1", "priorityclasses"}, "", std::move(priority)));
  }
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<SystemControllers>> start_system_controllers(rt::Runtime& runtime, Logger log, ApiServer& server,
                                                                    const ApiServer::Options& options) {
  auto client =
      make_direct_client(runtime, server, RequestContext{{"system:apiserver", "", {"system:masters"}}, "bootstrap"});
  BASALT_TRY_DONE(create_system_objects(*client));
  return std::unique_ptr<SystemControllers>(std::make_unique<SystemControllersImpl>(runtime, log, server, options));
}

}  // namespace basalt::apiserver
