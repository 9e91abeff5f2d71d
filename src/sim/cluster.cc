#include "sim/cluster.h"

#include <utility>

#include "base/check.h"
#include "crds/crds.h"

namespace basalt::sim {
namespace {

constexpr std::string_view kQueues = R"(
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: root}
spec: {weight: 1}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: default}
spec: {weight: 1, parent: root}
)";

std::string text_of(std::string_view view) { return std::string(view); }

void must(const Error& error, std::string_view what) {
  BASALT_CHECK_MSG(false, (text_of(what) + ": " + error.to_string()).c_str());
}

}  // namespace

Cluster::Cluster(rt::Runtime& runtime) : Cluster(runtime, Options()) {}

Cluster::Cluster(rt::Runtime& runtime, Options options) : Driver(runtime) {
  auto opened = apiserver::ApiServer::open(runtime, options.log, std::move(options.server));
  if (!opened.ok()) must(opened.error(), "open the API server");
  server_ = std::move(*opened);
  for (auto& hook : options.hooks) server_->add_admission_hook(std::move(hook));
  if (Done started = server_->start(); !started.ok()) must(started.error(), "start the API server");
  client_ = make_client("kubernetes-admin", {"system:masters"});
  drive(client_.get());
  const Done installed =
      options.crds.empty() ? crds::install(runtime, *client_, {}) : crds::install_some(runtime, *client_, options.crds);
  if (!installed.ok()) must(installed.error(), "install CRDs");
  if (options.with_default_queue) {
    apply(kQueues);
    for (const std::string_view queue : {"root", "default"})
      patch(resources::kQueues, "", queue, R"({"status":{"state":"Open"}})", "status");
  }
}

Cluster::~Cluster() { stop(); }

void Cluster::stop() {
  if (!server_) return;
  client_.reset();
  server_->stop();
  server_.reset();
}

std::unique_ptr<kube::Client> Cluster::make_client(std::string user, std::vector<std::string> groups) {
  return apiserver::make_direct_client(runtime(), *server_,
                                       apiserver::RequestContext{{std::move(user), "", std::move(groups)}, "sim"});
}

std::optional<Driver::Kind> Cluster::find_kind(std::string_view group, std::string_view version,
                                               std::string_view kind) const {
  const auto types = server_->types();
  const auto type = types->find_kind(group, version, kind);
  if (!type) return std::nullopt;
  return Kind{{text_of(group), text_of(version), type->plural}, type->namespaced};
}

}  // namespace basalt::sim
