// The part of SimulatedNodes that makes the Node objects and keeps their leases.
#include <algorithm>

#include "api/gen/core_node.h"
#include "base/strings.h"
#include "kube/typed.h"
#include "node/simulated_nodes.h"
#include "rt/backoff.h"

namespace basalt::node {
namespace {

constexpr std::int32_t kBatch = 500;       // requests of one call_all; bounds what is in memory at once
constexpr std::int32_t kLeaseSlices = 64;  // of a period; a few thousand leases at once would be a storm
constexpr std::string_view kLeaseNamespace = "kube-node-lease";

kube::Resource leases() { return {"coordination.k8s.io", "v1", "leases"}; }

}  // namespace

json::Value SimulatedNodes::make_node(std::int32_t index) const {
  NodeDescription description = options_.node;
  description.name = node_name(index);
  if (options_.zones > 0)
    description.labels.set("topology.kubernetes.io/zone", "zone-" + std::to_string(index % options_.zones));
  return node_object(description, wall(), ready_since_);
}

std::map<std::size_t, Error> SimulatedNodes::send(const std::vector<kube::Request>& requests,
                                                  const rt::StopToken& stop) {
  std::map<std::size_t, Error> failed;
  if (requests.empty()) return failed;
  const auto answers = client_.call_all(requests, {.in_flight_max = options_.in_flight_max}, stop);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok()) failed.emplace(i, answers[i].error());
  }
  return failed;
}

// Nodes that an earlier run made and that are no longer wanted, page by page.
Done SimulatedNodes::remove_unwanted(const rt::StopToken& stop) {
  kube::ListRequest request{.resource = kube::resource_of<api::core::Node>(),
                            .label_selector = "basalt.volcano.sh/node=simulated",
                            .limit = kBatch};
  do {
    BASALT_TRY(const kube::ListPage page, client_.list(request, stop));
    std::vector<kube::Request> requests;
    for (const kube::Bytes& item : page.items) {
      BASALT_TRY(const kube::Identity identity, kube::identity_of(*item));
      if (!identity.name.starts_with(options_.prefix) || is_mine(identity.name)) continue;
      if (!base::parse_uint64(std::string_view(identity.name).substr(options_.prefix.size()))) continue;
      requests.push_back(
          {.verb = kube::Verb::Delete, .resource = request.resource, .name = std::string(identity.name)});
    }
    for (const auto& [index, error] : send(requests, stop)) {
      if (!error.is(Reason::NotFound)) return error;
    }
    request.continue_token = page.continue_token;
  } while (!request.continue_token.empty());
  return Ok{};
}

bool SimulatedNodes::remove_all_unwanted(const rt::StopToken& stop) {
  rt::Backoff backoff(runtime_, {.base = std::chrono::milliseconds(100), .cap = std::chrono::seconds(10)});
  while (true) {
    const Done removed = remove_unwanted(stop);
    if (removed.ok()) return true;
    if (backoff.failures() == 0 && !removed.error().is(Reason::Cancelled))
      log_.warn("cannot remove simulated nodes of an earlier run, trying again", {{"error", removed.error()}});
    if (stop.wait_for(runtime_, backoff.next())) return false;
  }
}

// What one node of the batch shows is true of all: taints of new nodes come from the server.
Done SimulatedNodes::untaint(const std::vector<json::Value>& nodes, const rt::StopToken& stop) {
  const auto shown_of = [&](const json::Value& node) -> Result<json::Value> {
    BASALT_TRY(const auto answer, client_.call({.verb = kube::Verb::Get,
                                                .resource = kube::Resource{"", "v1", "nodes"},
                                                .name = std::string(node.string_at({"metadata", "name"}))},
                                               stop));
    return json::Value::parse(*answer.body);
  };
  BASALT_TRY(const json::Value first, shown_of(nodes.front()));
  if (!untaint_request(first, options_.node.taints)) return Ok{};
  std::vector<kube::Request> requests;
  for (const json::Value& node : nodes) {
    BASALT_TRY(const json::Value shown, shown_of(node));
    if (auto request = untaint_request(shown, options_.node.taints)) requests.push_back(std::move(*request));
  }
  for (const auto& [index, error] : send(requests, stop)) return error;
  return Ok{};
}

bool SimulatedNodes::register_all(const rt::StopToken& stop) {
  rt::Backoff backoff(runtime_, {.base = std::chrono::milliseconds(100), .cap = std::chrono::seconds(10)});
  const auto pause = [&](const Error& error) {
    if (!error.is(Reason::Cancelled) && backoff.failures() == 0)
      log_.warn("cannot register simulated nodes, trying again", {{"error", error}});
    return stop.wait_for(runtime_, backoff.next());
  };
  std::int32_t begin = 0;
  while (begin < options_.count && !stop.stop_requested()) {
    const std::int32_t end = std::min(begin + kBatch, options_.count);
    std::vector<json::Value> nodes;
    std::vector<kube::Request> creates;
    for (std::int32_t i = begin; i < end; ++i) {
      nodes.push_back(make_node(i));
      creates.push_back(create_node_request(nodes.back()));
    }
    std::vector<kube::Request> updates;
    std::optional<Error> problem;
    for (const auto& [index, error] : send(creates, stop)) {
      if (error.is(Reason::AlreadyExists)) {
        updates.push_back(update_node_request(nodes[index]));
        updates.push_back(update_node_status_request(nodes[index]));
      } else {
        problem = error;
      }
    }
    for (const auto& [index, error] : send(updates, stop)) problem = error;
    if (!problem) {
      if (const Done lifted = untaint(nodes, stop); !lifted.ok()) problem = lifted.error();
    }
    if (problem && pause(*problem)) return false;
    if (problem) continue;
    backoff.reset();
    begin = end;
  }
  return !stop.stop_requested();
}

void SimulatedNodes::register_and_renew() {
  const rt::StopToken stop = stop_.token();
  ready_since_ = wall();
  if (!remove_all_unwanted(stop) || !register_all(stop)) return;
  {
    rt::MutexLock lock(mutex_);
    is_registered_ = true;
    registered_changed_.notify_all();
  }
  if (options_.lease_period <= rt::Duration::zero() || options_.count == 0) return;
  const std::int32_t slices = std::min(kLeaseSlices, options_.count);
  while (true) {
    bool was_silent = false;
    for (std::int32_t i = 0; i < slices; ++i) {
      const auto edge = [&](std::int32_t slice) {
        return static_cast<std::int32_t>(std::int64_t{options_.count} * slice / slices);
      };
      if (!renew_leases(edge(i), edge(i + 1), stop)) was_silent = true;
      if (stop.wait_for(runtime_, options_.lease_period / slices)) return;
    }
    // A cluster takes nodes for lost that were silent; only they themselves can say that they are ready again.
    if (was_silent && !register_all(stop)) return;
  }
}

bool SimulatedNodes::renew_leases(std::int32_t begin, std::int32_t end, const rt::StopToken& stop) {
  const std::string now =
      api::MicroTime::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(runtime_.wall_now()))
          .to_string();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.lease_period * 4).count();
  const auto spec_of = [&](const std::string& name) {
    return json::Object{{"holderIdentity", name},
                        {"leaseDurationSeconds", std::int64_t{std::max<std::int64_t>(seconds, 1)}},
                        {"renewTime", now}};
  };
  std::vector<kube::Request> requests;
  for (std::int32_t i = begin; i < end; ++i) {
    requests.push_back({.verb = kube::Verb::Patch,
                        .resource = leases(),
                        .ns = std::string(kLeaseNamespace),
                        .name = node_name(i),
                        .body = json::Value(json::Object{{"spec", spec_of(node_name(i))}}).to_text()});
  }
  std::vector<kube::Request> creates;
  std::optional<Error> problem;
  for (const auto& [index, error] : send(requests, stop)) {
    if (!error.is(Reason::NotFound)) {
      problem = error;
      continue;
    }
    const std::string& name = requests[index].name;
    json::Object lease{{"apiVersion", "coordination.k8s.io/v1"},
                       {"kind", "Lease"},
                       {"metadata", json::Object{{"name", name}, {"namespace", kLeaseNamespace}}},
                       {"spec", spec_of(name)}};
    creates.push_back({.verb = kube::Verb::Create,
                       .resource = leases(),
                       .ns = std::string(kLeaseNamespace),
                       .body = json::Value(std::move(lease)).to_text()});
  }
  for (const auto& [index, error] : send(creates, stop)) problem = error;
  if (problem && !problem->is(Reason::Cancelled))
    log_.warn("leases of simulated nodes were not renewed, trying again at their next turn", {{"error", *problem}});
  return !problem;
}

bool SimulatedNodes::wait_registered(const rt::StopToken& stop) {
  const auto registration = stop.on_stop([this] { registered_changed_.notify_all(); });
  rt::MutexLock lock(mutex_);
  // A stop that comes between the test and the wait is seen at the deadline.
  while (!is_registered_ && !stop.stop_requested())
    registered_changed_.wait_until(mutex_, runtime_.now() + std::chrono::seconds(1));
  return is_registered_;
}

}  // namespace basalt::node
