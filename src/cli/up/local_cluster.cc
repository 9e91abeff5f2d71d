#include "cli/up/local_cluster.h"

#include <chrono>
#include <filesystem>
#include <map>
#include <utility>

#include "admission/embedded_admission.h"
#include "api/gen/names.h"
#include "apiserver/builtin/service_admission.h"
#include "apiserver/http/audit_log.h"
#include "apiserver/http/cluster_files.h"
#include "apiserver/http/front.h"
#include "apiserver/http/kubernetes_service.h"
#include "apiserver/registry/api_server.h"
#include "apiserver/store/store.h"
#include "cli/up/data_folder.h"
#include "cli/up/pod_exec_handler.h"
#include "cli/up/pod_log_handler.h"
#include "cli/up/pod_port_forward_handler.h"
#include "cli/up/pod_proxy_handler.h"
#include "cli/up/port_holder.h"
#include "controllers/datadependency/claim_caches.h"
#include "controllers/manager/controller_manager.h"
#include "crds/crds.h"
#include "federation/federation.h"
#include "kube/event_recorder.h"
#include "kube/metrics.h"
#include "node/pod_tokens.h"
#include "node/process_host.h"
#include "node/process_node.h"
#include "node/simulated_nodes.h"
#include "scheduler/scheduler.h"
#include "workloads/manager.h"

namespace basalt::cli {
namespace {

constexpr std::int64_t kPodsOfNode = 110;
constexpr rt::Duration kNodesTimeout = std::chrono::seconds(10);
constexpr rt::Duration kNodesPause = std::chrono::milliseconds(5);

apiserver::Durability to_durability(const std::string& name) {
  if (name == "memory") return apiserver::Durability::Memory;
  return name == "fast" ? apiserver::Durability::Fast : apiserver::Durability::Full;
}

// Everything in this process acts as the administrator; the agent's name says which part it was.
std::unique_ptr<kube::Client> client_of(rt::Runtime& runtime, apiserver::ApiServer& server, std::string agent) {
  apiserver::RequestContext context;
  context.user = apiserver::UserInfo{"system:admin", "", {"system:masters", "system:authenticated"}};
  context.user_agent = std::move(agent);
  return apiserver::make_direct_client(runtime, server, std::move(context));
}

std::unique_ptr<kube::EventRecorder> recorder_of(rt::Runtime& runtime, kube::Client& client, const Logger& log,
                                                 std::string_view component) {
  kube::EventRecorder::Options options;
  options.component = component;
  auto recorder = std::make_unique<kube::EventRecorder>(runtime, client, log, options);
  recorder->start();
  return recorder;
}

Error cannot_listen(const std::string& address, std::uint16_t port, const Error& error) {
  if (port == 0) return Error::make(Reason::Forbidden, error.message + " Choose another address by --address.");
  // The address is named already.
  const auto colon = error.message.rfind(": ");
  const std::string cause = colon == std::string::npos ? error.message : error.message.substr(colon + 2);
  const std::string holder = port_holder(port);
  return Error::make(Reason::Conflict, "port " + std::to_string(port) + " of " + address + " cannot be taken: " +
                                           cause + (holder.empty() ? "" : " It is held by " + holder + ".") +
                                           " Choose another one by --port, or none (--port 0) for any that is free.");
}

}  // namespace

// In the order in which they are made; they end in the opposite one.
struct LocalCluster::Parts {
  explicit Parts(rt::Runtime& runtime) : stop(runtime) {}

  rt::StopSource stop;  // for what waits inside the parts
  kube::Metrics metrics;
  apiserver::ClusterFiles files;
  std::string url;
  std::unique_ptr<apiserver::ApiServer> server;
  std::unique_ptr<kube::Client> admin;

  std::unique_ptr<controllers::datadependency::ClaimCaches> claims;  // of a control plane: its admission asks them
  std::vector<std::pair<std::string, std::unique_ptr<LocalCluster>>> members;
  std::unique_ptr<kube::Client> federation_client;
  std::unique_ptr<federation::Federation> federation;

  std::unique_ptr<kube::Client> node_client;
  std::unique_ptr<kube::EventRecorder> node_events;
  std::unique_ptr<node::ProcessHost> host;
  std::vector<std::unique_ptr<node::Node>> nodes;

  std::unique_ptr<kube::Client> scheduler_client;
  std::unique_ptr<kube::EventRecorder> scheduler_events;
  std::unique_ptr<scheduler::Scheduler> scheduler;

  std::unique_ptr<kube::Client> controllers_client;
  std::unique_ptr<controllers::ControllerManager> controllers;
  rt::Thread controllers_starter;

  std::unique_ptr<kube::Client> workloads_client;
  std::unique_ptr<workloads::WorkloadManager> workloads;

  std::unique_ptr<PodLogHandler> logs;
  std::unique_ptr<PodExecHandler> commands;
  std::unique_ptr<PodProxyHandler> proxies;
  std::unique_ptr<PodPortForwardHandler> forwards;
  std::unique_ptr<apiserver::Front> front;
};

LocalCluster::LocalCluster(rt::Runtime& runtime, Logger log, LocalClusterOptions options)
    : runtime_(runtime), log_(std::move(log)), options_(std::move(options)), parts_(std::make_unique<Parts>(runtime)) {}

LocalCluster::~LocalCluster() { stop(); }

const std::string& LocalCluster::url() const { return parts_->url; }

std::string LocalCluster::kubeconfig_path() const {
  return std::filesystem::absolute(parts_->files.kubeconfig_path()).lexically_normal().string();
}

kube::Client& LocalCluster::client() { return *parts_->admin; }

Done LocalCluster::start(const rt::StopToken& stop) {
  Done started = start_parts(stop);
  if (!started.ok()) this->stop();
  return started;
}

Done LocalCluster::start_parts(const rt::StopToken& stop) {
  Parts& parts = *parts_;
  BASALT_TRY(parts.files, apiserver::open_cluster_files(runtime_, options_.data_dir, options_.address));
  apiserver::ApiServer::Options options;
  options.store.durability = to_durability(options_.durability);
  options.store.history_age_max = options_.history.value;
  options.store.directory = std::filesystem::path(options_.data_dir) / "store";
  options.cluster_ca_pem = parts.files.authority.certificate_pem;
  options.rbac = true;
  options.token_key = parts.files.service_token_key;
  BASALT_TRY(parts.server, apiserver::ApiServer::open(runtime_, log_, std::move(options)));
  parts.admin = client_of(runtime_, *parts.server, "basalt");
  if (!options_.api_only) add_admission();
  BASALT_TRY_DONE(parts.server->start());
  if (options_.api_only) {
    BASALT_TRY_DONE(listen());
    return publish(stop);
  }
  BASALT_TRY_DONE(crds::install(runtime_, *parts.admin, stop));
  if (options_.members > 0) {
    BASALT_TRY_DONE(start_members(stop));
    start_controllers();
    BASALT_TRY_DONE(listen());
    return publish(stop);
  }
  BASALT_TRY_DONE(make_nodes());
  // Before the nodes: the pods' programs are told where the API is, and pods of an earlier run begin at once.
  BASALT_TRY_DONE(listen());
  for (const auto& node : parts.nodes) node->start();
  wait_for_nodes(stop);
  start_scheduler();
  if (options_.runs_workloads) start_workloads();
  start_controllers();
  return publish(stop);
}

void LocalCluster::add_admission() {
  Parts& parts = *parts_;
  webhooks::RuleOptions rules;
  if (options_.members > 0) {
    parts.claims = std::make_unique<controllers::datadependency::ClaimCaches>(runtime_, *parts.admin, log_);
    rules.binding_patch = [&claims = *parts.claims](const json::Value& binding, const json::Value* before) {
      return claims.patch_for(binding, before);
    };
  }
  parts.server->add_admission_hook(admission::make_admission_hook(runtime_, *parts.server, std::move(rules)));
}

Done LocalCluster::start_members(const rt::StopToken& stop) {
  Parts& parts = *parts_;
  BASALT_TRY_DONE(crds::install_karmada(runtime_, *parts.admin, stop));
  parts.claims->start();
  std::map<std::string, kube::Client*> clients;
  for (std::int32_t i = 0; i < options_.members; ++i) {
    const std::string name = "member" + std::to_string(i + 1);
    LocalClusterOptions options = options_;
    options.members = 0;
    options.port = 0;
    options.audit_log.clear();  // it is about the control plane
    options.data_dir = (std::filesystem::path(options_.data_dir) / name).string();
    options.pod_addresses = "127." + std::to_string(64 + 4 * i) + ".0.0/14";  // each its own, they share the machine
    auto member = std::make_unique<LocalCluster>(runtime_, log_.with({{"cluster", name}}), std::move(options));
    BASALT_TRY_DONE(member->start(stop));
    clients.emplace(name, &member->client());
    parts.members.emplace_back(name, std::move(member));
  }
  parts.federation_client = client_of(runtime_, *parts.server, "basalt-federation");
  parts.federation = std::make_unique<federation::Federation>(runtime_, *parts.federation_client, clients, log_);
  parts.federation->start();
  return Ok{};
}

std::vector<std::pair<std::string, std::string>> LocalCluster::members() const {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [name, member] : parts_->members) found.emplace_back(name, member->kubeconfig_path());
  return found;
}

Done LocalCluster::make_nodes() {
  Parts& parts = *parts_;
  parts.node_client = client_of(runtime_, *parts.server, "basalt-node");
  parts.node_events = recorder_of(runtime_, *parts.node_client, log_, "basalt-node");
  if (options_.nodes > 0) {
    node::ProcessHostOptions host;
    host.root = (std::filesystem::path(options_.data_dir) / "nodes").string();
    host.address_range = options_.pod_addresses;
    BASALT_TRY(parts.host, node::ProcessHost::open(runtime_, *parts.node_client, log_, std::move(host)));
    parts.host->start();
    for (std::int32_t i = 0; i < options_.nodes; ++i) {
      node::ProcessNodeOptions node;
      node.node.name = "local-" + std::to_string(i);
      node.node.capacity = node::machine_capacity(kPodsOfNode);
      for (const auto& [name, quantity] : options_.node_capacity) node.node.capacity.set(name, quantity);
      node.pods_max = kPodsOfNode;
      node.events = parts.node_events.get();
      node.images = options_.images;
      node.cluster_environment = [this] {
        return node::service_environment(apiserver::reachable_address(options_.address), parts_->front->port());
      };
      parts.nodes.push_back(
          std::make_unique<node::ProcessNode>(runtime_, *parts.node_client, log_, *parts.host, std::move(node)));
    }
  }
  // Made even for none: it removes the nodes of an earlier run.
  node::SimulatedNodesOptions simulated;
  simulated.count = options_.simulated_nodes;
  simulated.node.capacity = options_.simulated_capacity;
  parts.nodes.push_back(
      std::make_unique<node::SimulatedNodes>(runtime_, *parts.node_client, log_, std::move(simulated)));
  return Ok{};
}

// So that what is submitted right after the start is not told that there are no nodes. Not for ever: nodes that cannot
// be registered now are registered later.
void LocalCluster::wait_for_nodes(const rt::StopToken& stop) {
  const std::int64_t wanted = static_cast<std::int64_t>(options_.nodes) + options_.simulated_nodes;
  const rt::Instant deadline = runtime_.now() + kNodesTimeout;
  kube::ListRequest request;
  request.resource = {"", "v1", "nodes"};
  while (runtime_.now() < deadline && !stop.stop_requested()) {
    const auto page = parts_->admin->list(request, stop);
    if (page.ok() && static_cast<std::int64_t>(page->items.size()) >= wanted) return;
    if (stop.wait_for(runtime_, kNodesPause)) return;
  }
}

void LocalCluster::start_scheduler() {
  Parts& parts = *parts_;
  parts.scheduler_client = client_of(runtime_, *parts.server, "basalt-scheduler");
  parts.scheduler_events = recorder_of(runtime_, *parts.scheduler_client, log_, "volcano");
  scheduler::SchedulerOptions options;
  // There is no other scheduler here: plain pods are bound one by one.
  options.names = {"volcano", "default-scheduler"};
  if (options_.spreads) options.planner.strategy = scheduler::Strategy::Spread;
  if (options_.shard_mode == "soft") options.planner.shard_mode = scheduler::ShardMode::Soft;
  if (options_.shard_mode == "hard") options.planner.shard_mode = scheduler::ShardMode::Hard;
  parts.scheduler = std::make_unique<scheduler::Scheduler>(runtime_, *parts.scheduler_client, log_,
                                                           *parts.scheduler_events, std::move(options));
  parts.scheduler->start();
}

void LocalCluster::start_controllers() {
  Parts& parts = *parts_;
  parts.controllers_client = client_of(runtime_, *parts.server, "vc-controller-manager");
  controllers::ManagerOptions options;
  options.controllers = options_.controllers;
  // A control plane runs no jobs: it spreads them.
  if (options_.members > 0)
    options.controllers = {"queue-controller", "hyperjob-controller", "datadependency-controller"};
  // Its configuration and its report are there. Whatever comes of it: the controller says what it misses.
  if (controllers::is_selected(options.controllers, api::controllers::kSharding)) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = {"", "v1", "namespaces"};
    request.body = R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":")" +
                   std::string(api::components::kSystemNamespace) + "\"}}";
    static_cast<void>(parts.admin->call(request, parts.stop.token()));
  }
  parts.controllers = std::make_unique<controllers::ControllerManager>(runtime_, *parts.controllers_client, log_,
                                                                       parts.metrics, std::move(options));
  // Its start waits for the caches, which nobody else needs to wait for.
  parts.controllers_starter = rt::Thread(
      runtime_, "start-controllers", [this] { static_cast<void>(parts_->controllers->start(parts_->stop.token())); });
}

void LocalCluster::start_workloads() {
  Parts& parts = *parts_;
  parts.workloads_client = client_of(runtime_, *parts.server, "basalt-workloads");
  parts.workloads =
      std::make_unique<workloads::WorkloadManager>(runtime_, *parts.workloads_client, log_, parts.metrics);
  parts.workloads->start();
}

Done LocalCluster::listen() {
  Parts& parts = *parts_;
  apiserver::FrontOptions options;
  options.server.address = options_.address;
  options.server.port = options_.port != 0 ? options_.port : parts.files.port;
  options.server.tls.emplace();
  options.server.tls->certificate_pem = parts.files.server.certificate_pem;
  options.server.tls->key_pem = parts.files.server.key_pem;
  options.server.tls->client_ca_pem = parts.files.authority.certificate_pem;
  options.tokens[parts.files.admin_token] = apiserver::UserInfo{"kubernetes-admin", "", {"system:masters"}};
  if (!options_.api_only) {
    parts.logs = std::make_unique<PodLogHandler>(runtime_, parts.nodes);
    parts.commands = std::make_unique<PodExecHandler>(runtime_, parts.nodes);
    BASALT_TRY(parts.proxies, PodProxyHandler::make(runtime_, *parts.admin));
    parts.forwards = std::make_unique<PodPortForwardHandler>(runtime_, *parts.admin, net::make_tcp_dialer(runtime_));
    options.connect = [logs = parts.logs->handler(), commands = parts.commands->handler(),
                       proxies = parts.proxies->handler(), forwards = parts.forwards->handler()](
                          const apiserver::ConnectRequest& request, const std::shared_ptr<net::Responder>& responder) {
      return logs(request, responder) || commands(request, responder) || proxies(request, responder) ||
             forwards(request, responder);
    };
  }
  if (options_.durability != "memory") {
    options.problem = [this]() -> std::optional<std::string> {
      if (parts_->server->store().stats().is_read_only)
        return "the store in " + options_.data_dir +
               " takes no more writes after an error of the disk; end the cluster and start it again";
      return disk_problem(options_.data_dir);
    };
  }
  if (!options_.audit_log.empty()) {
    apiserver::AuditLog::Options audit;
    audit.path = options_.audit_log;
    BASALT_TRY(options.audit, apiserver::AuditLog::open(runtime_, log_, std::move(audit)));
  }
  auto front = apiserver::Front::start(runtime_, log_, *parts.server, options);
  if (!front.ok() && options_.port == 0 && options.server.port != 0) {
    // Somebody else has the port of last time; any other will do.
    options.server.port = 0;
    front = apiserver::Front::start(runtime_, log_, *parts.server, options);
  }
  if (!front.ok()) return cannot_listen(options.server.address, options.server.port, front.error());
  parts.front = std::move(*front);
  parts.url = "https://" + options_.address + ":" + std::to_string(parts.front->port());
  return Ok{};
}

// Tells everybody where the cluster is.
Done LocalCluster::publish(const rt::StopToken& stop) {
  Parts& parts = *parts_;
  const auto range = apiserver::parse_ip_range(apiserver::ApiServer::Options().service_ip_range);
  const Done published = apiserver::publish_kubernetes_service(*parts.admin, options_.address, parts.front->port(),
                                                               range ? apiserver::format_ipv4(range->first) : "", stop);
  // Only a name for what is there: no reason to have no cluster.
  if (!published.ok()) log_.warn("cannot write the service default/kubernetes", {{"error", published.error()}});
  return apiserver::write_kubeconfig(parts.files, parts.url, parts.front->port());
}

void LocalCluster::stop() {
  Parts& parts = *parts_;
  parts.stop.request_stop();
  // Nothing new comes in; then whoever makes work, then whoever does it.
  if (parts.logs) parts.logs->stop();
  if (parts.commands) parts.commands->stop();
  if (parts.proxies) parts.proxies->stop();
  if (parts.forwards) parts.forwards->stop();
  if (parts.front) parts.front->stop();
  parts.front.reset();
  if (parts.controllers_starter.joinable()) parts.controllers_starter.join();
  if (parts.controllers) parts.controllers->stop();
  parts.controllers.reset();
  if (parts.workloads) parts.workloads->stop();
  parts.workloads.reset();
  if (parts.federation) parts.federation->stop();
  parts.federation.reset();
  for (const auto& [name, member] : parts.members) member->stop();
  parts.members.clear();
  if (parts.scheduler) parts.scheduler->stop();
  parts.scheduler.reset();
  for (const auto& node : parts.nodes) node->stop();
  if (parts.host) parts.host->stop();
  parts.logs.reset();
  parts.commands.reset();
  parts.proxies.reset();
  parts.forwards.reset();
  parts.nodes.clear();
  parts.host.reset();
  for (auto* recorder : {&parts.scheduler_events, &parts.node_events}) {
    if (*recorder) (*recorder)->stop();
    recorder->reset();
  }
  if (parts.claims) parts.claims->stop();
  if (parts.server) parts.server->stop();
  parts.claims.reset();
  parts.admin.reset();
  parts.federation_client.reset();
  parts.node_client.reset();
  parts.scheduler_client.reset();
  parts.controllers_client.reset();
  parts.workloads_client.reset();
  parts.server.reset();
}

}  // namespace basalt::cli
