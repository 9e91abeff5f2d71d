#include "federation/member.h"

#include <utility>

#include "api/conditions.h"
#include "api/gen/core_node.h"
#include "api/gen/names.h"
#include "json/writer.h"
#include "kube/typed.h"

namespace basalt::federation {
namespace {

using api::batch::Job;
using api::karmada::Cluster;
using api::karmada::ClusterResourceSummary;

constexpr std::int64_t kNodesPerPage = 500;

kube::InformerOptions<Job> informer_options() {
  kube::InformerOptions<Job> options;
  options.reflector.resource = kube::resource_of<Job>();
  options.reflector.label_selector = std::string(api::keys::kKarmadaManaged) + "=true";
  options.reflector.backoff_max = std::chrono::seconds(4);
  return options;
}

}  // namespace

Member::Member(rt::Runtime& runtime, kube::Client& host, std::string name, kube::Client& client, const Logger& log,
               const MemberOptions& options, Changed changed, std::function<void(const api::ObjectKey&)> ready)
    : runtime_(runtime),
      host_(host),
      name_(std::move(name)),
      client_(client),
      log_(log.with({{"cluster", name_}})),
      options_(options),
      jobs_(runtime, client, log_, informer_options()),
      expectations_(runtime, {.expiry = std::chrono::seconds(30), .name = "federation-" + name_}, std::move(ready)),
      stop_(runtime) {
  expectations_.connect(jobs_.core());
  jobs_.add_handler(std::move(changed));
}

void Member::start() {
  jobs_.start();
  thread_ = rt::Thread(runtime_, "cluster-" + name_.substr(0, 7), [this] { run(stop_.token()); });
}

void Member::stop() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
  jobs_.stop();
}

Result<kube::Response> Member::call(kube::Request request, const rt::StopToken& stop) {
  request.timeout = options_.call_timeout;
  return client_.call(request, stop);
}

void Member::run(const rt::StopToken& stop) {
  int failures = 0;
  std::uint64_t rounds = 0;
  while (!stop.stop_requested()) {
    Done probed = probe(stop);
    // Whoever hears that the cluster is ready finds its cache filled.
    if (probed.ok() && !jobs_.wait_synced(stop, rt::saturating_add(runtime_.now(), options_.probe_period)))
      probed = Error::make(Reason::ServiceUnavailable, "its jobs cannot be watched");
    failures = probed.ok() ? 0 : failures + 1;
    is_reachable_.store(probed.ok());
    if (probed.ok() && (!summary_ || rounds % static_cast<std::uint64_t>(options_.summary_every) == 0)) {
      if (auto fresh = summary(stop)) summary_ = std::move(fresh);
    }
    ++rounds;
    // A cluster that was never reached is not ready at once; one that was is given some time.
    if (probed.ok() || failures >= options_.failures_max || rounds == 1) {
      const Done reported = report(probed.ok(), probed.ok() ? std::string() : probed.error().message, stop);
      if (!reported.ok() && !reported.error().is(Reason::Cancelled))
        log_.debug("the state of the cluster could not be written", {{"error", reported.error()}});
    }
    if (stop.wait_for(runtime_, runtime_.jitter(options_.probe_period, 0.1))) return;
  }
}

Done Member::probe(const rt::StopToken& stop) {
  kube::Request request{.verb = kube::Verb::Get, .resource = {"", "v1", "namespaces"}, .name = "default"};
  request.timeout = options_.call_timeout;
  const auto answer = client_.call(request, stop);
  if (answer.ok() || answer.error().is(Reason::NotFound) || answer.error().is(Reason::Forbidden)) return Ok{};
  return answer.error();
}

std::optional<ClusterResourceSummary> Member::summary(const rt::StopToken& stop) {
  ClusterResourceSummary sum;
  kube::ListRequest request{.resource = {"", "v1", "nodes"}, .limit = kNodesPerPage};
  do {
    const auto page = client_.list(request, stop);
    if (!page.ok()) return std::nullopt;
    for (const kube::Bytes& text : page->items) {
      const auto node = json::from_text<api::core::Node>(*text);
      if (node.ok() && !node->spec.unschedulable) sum.allocatable += node->status.allocatable;
    }
    request.continue_token = page->continue_token;
  } while (!request.continue_token.empty());
  return sum;
}

// Only once: a Cluster object that somebody deletes takes the cluster out of the federation, until somebody makes it
// again.
Done Member::join(const rt::StopToken& stop) {
  if (has_joined_) return Ok{};
  const json::Value body = json::Object{{"apiVersion", "cluster.karmada.io/v1alpha1"},
                                        {"kind", "Cluster"},
                                        {"metadata", json::Object{{"name", name_}}},
                                        {"spec", json::Object{{"id", name_}, {"syncMode", "Push"}}}};
  const auto made =
      host_.call({.verb = kube::Verb::Create, .resource = kube::resource_of<Cluster>(), .body = body.to_text()}, stop);
  if (!made.ok() && !made.error().is(Reason::AlreadyExists)) return made.error();
  has_joined_ = true;
  return Ok{};
}

Done Member::report(bool is_ready, const std::string& why, const rt::StopToken& stop) {
  BASALT_TRY_DONE(join(stop));
  auto cluster = kube::get_object<Cluster>(host_, {"", name_}, stop);
  if (!cluster.ok()) return cluster.error().is(Reason::NotFound) ? Done(Ok{}) : Done(cluster.error());
  api::karmada::ClusterStatus status = cluster->status;
  api::meta::Condition condition;
  condition.type = api::condition_types::kReady;
  condition.status = is_ready ? "True" : "False";
  condition.reason = is_ready ? "ClusterReady" : "ClusterNotReachable";
  condition.message =
      is_ready ? "cluster is healthy and ready to accept workloads" : "cluster is not reachable: " + why;
  api::set_condition(status.conditions, condition, api::Time::from(runtime_.wall_now()));
  if (summary_) status.resource_summary = summary_;
  if (status == cluster->status) return Ok{};
  const auto written = kube::patch_status(host_, kube::resource_of<Cluster>(), {"", name_}, json::to_text(status),
                                          cluster->metadata.resource_version, stop);
  return written.ok() ? Done(Ok{}) : Done(written.error());
}

}  // namespace basalt::federation
