// Prints the gang scheduler's figures: pods placed a second by the planner alone, and end to end on an embedded API
// server with simulated nodes (created, admitted, bound, run, Completed); how the last thousand pods compare with the
// first; and the same with gangs that wait in a full cluster.
//
//   scheduler_bench [planner|end-to-end|all] [PODS NODES]

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/gen/core_node.h"
#include "api/gen/scheduling_podgroup.h"
#include "api/gen/scheduling_queue.h"
#include "base/log.h"
#include "kube/event_recorder.h"
#include "kube/informer.h"
#include "kube/typed.h"
#include "node/simulated_nodes.h"
#include "rt/real_runtime.h"
#include "scheduler/plan.h"
#include "scheduler/scheduler.h"
#include "scheduler/snapshot.h"
#include "sim/cluster.h"

namespace basalt::scheduler {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kGang = 10;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// What an API server adds; not part of what is sent to one (`serial` 0).
std::string identity(const std::string& name, int serial) {
  if (serial == 0) return "";
  return R"(,"uid":")" + name + R"(","resourceVersion":")" + std::to_string(serial) +
         R"(","creationTimestamp":"2026-01-01T00:00:00Z")";
}

std::string group_json(int group, int serial) {
  const std::string name = "g" + std::to_string(group);
  return R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"PodGroup","metadata":{"name":")" + name +
         R"(","namespace":"default")" + identity(name, serial) +
         R"(},"spec":{"minMember":10,"queue":"default","minResources":{"cpu":"1","memory":"1Gi"}}})";
}

std::string pod_json(int group, int index, int serial) {
  const std::string name = "g" + std::to_string(group) + "-" + std::to_string(index);
  return R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name + R"(","namespace":"default")" +
         identity(name, serial) +
         R"(,"labels":{"volcano.sh/job-name":"bench"},"annotations":{"scheduling.k8s.io/group-name":"g)" +
         std::to_string(group) +
         R"(","basalt.volcano.sh/run-time":"10ms"}},"spec":{"schedulerName":"volcano","restartPolicy":"Never","containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"100m","memory":"100Mi"}}}]}})";
}

template <class T>
std::shared_ptr<const T> read(const std::string& text) {
  auto object = json::from_text<T>(text, {.keep_unknown = false});
  if (!object.ok()) {
    std::printf("%s\n", object.error().to_string().c_str());
    std::exit(1);
  }
  return std::make_shared<const T>(std::move(*object));
}

void print_thousands(const std::vector<double>& seconds) {
  if (seconds.size() < 2) return;
  // One thousand is a few milliseconds, so the first and the last tenth of them are compared as well.
  const std::size_t tenth = std::max<std::size_t>(seconds.size() / 10, 1);
  const auto mean = [&](std::size_t from) {
    double sum = 0;
    for (std::size_t i = from; i < from + tenth; ++i) sum += seconds[i];
    return sum / static_cast<double>(tenth) * 1e3;
  };
  std::printf(
      "  first thousand %.2f ms, last %.2f ms; mean of the first tenth %.2f ms, of the last %.2f ms (%+.0f %%)\n",
      seconds.front() * 1e3, seconds.back() * 1e3, mean(0), mean(seconds.size() - tenth),
      100 * (mean(seconds.size() - tenth) / mean(0) - 1));
}

// The planner alone. `cpus`: of each node; with too few of them part of the gangs waits.
void planner(int pods, int nodes, int cpus, Strategy strategy) {
  Snapshot snapshot({});
  PlannerOptions options;
  options.placements_max = 1000;
  options.strategy = strategy;
  Planner planner(snapshot, options);
  const rt::Instant now = rt::Instant() + std::chrono::hours(1);
  const auto begin_read = Clock::now();
  for (const char* name : {"root", "default"})
    snapshot.set_queue(name, read<api::scheduling::Queue>(std::string(R"({"metadata":{"name":")") + name +
                                                          R"("},"spec":{"weight":1}})"));
  for (int n = 0; n < nodes; ++n) {
    const std::string name = "n" + std::to_string(n);
    snapshot.set_node(
        name, read<api::core::NodeProjection>(
                  R"({"metadata":{"name":")" + name + R"("},"status":{"allocatable":{"cpu":")" + std::to_string(cpus) +
                  R"(","memory":"128Gi","pods":"110"},"conditions":[{"type":"Ready","status":"True"}]}})"));
  }
  int serial = 0;
  for (int g = 0; g < pods / kGang; ++g) {
    snapshot.set_group({"default", "g" + std::to_string(g)}, read<api::scheduling::PodGroup>(group_json(g, ++serial)),
                       now);
    for (int i = 0; i < kGang; ++i) {
      auto pod = read<SchedulablePod>(pod_json(g, i, ++serial));
      snapshot.set_pod({"default", pod->metadata.name.str()}, pod, now);
    }
  }
  const double reading = seconds_since(begin_read);
  std::vector<double> thousands;
  std::size_t placed = 0;
  const auto begin = Clock::now();
  for (;;) {
    const auto begin_cycle = Clock::now();
    const Plan plan = planner.run(now + std::chrono::milliseconds(thousands.size()), api::Time(), "s");
    placed += plan.binds.size();
    if (plan.binds.empty()) break;
    thousands.push_back(seconds_since(begin_cycle));
  }
  const double total = seconds_since(begin);
  std::printf(
      "planner, %s: %zu of %d pods in gangs of %d placed on %d nodes: %.0f pods/s (%.2f s; objects read in %.2f s)\n",
      strategy == Strategy::Pack ? "pack" : "spread", placed, pods, kGang, nodes, static_cast<double>(placed) / total,
      total, reading);
  print_thousands(thousands);
}

// Gangs that are done, and when each thousand of pods was.
struct Progress {
  std::atomic<int> completed{0};
  std::vector<double> thousand_at;  // written by one thread: the cache's
};

// So many pods exist that have not ended, at most: what is measured is the whole way of a pod, each part of it at work,
// from the first thousand to the last, and not how fast they can be created ahead of everything else.
constexpr int kUnfinishedMax = 10'000;

void end_to_end(int pods, int nodes) {
  const auto runtime = rt::make_real_runtime();
  sim::Cluster cluster(*runtime);
  const auto client = cluster.make_client("system:admin", {"system:masters"});
  kube::EventRecorder events(*runtime, *client, Logger(), {.component = "volcano"});
  events.start();
  node::SimulatedNodesOptions node_options;
  node_options.count = nodes;
  node_options.fate.start_delay = std::chrono::milliseconds(1);
  node_options.fate.run_time = std::chrono::milliseconds(10);
  node::SimulatedNodes simulated(*runtime, *client, Logger(), node_options);
  simulated.start();
  rt::StopSource stop(*runtime);
  if (!simulated.wait_registered(stop.token())) return;
  Scheduler scheduler(*runtime, *client, Logger(), events, {});
  scheduler.start();
  Progress progress;
  const auto begin = Clock::now();
  kube::InformerOptions<api::scheduling::PodGroup> group_options;
  group_options.reflector.resource = kube::resource_of<api::scheduling::PodGroup>();
  kube::Informer<api::scheduling::PodGroup> seen_groups(*runtime, *client, Logger(), group_options);
  seen_groups.add_handler([&](const kube::Change<api::scheduling::PodGroup>& change) {
    if (!change.after || change.after->status.phase != "Completed") return;
    if (change.before && change.before->status.phase == "Completed") return;
    if (++progress.completed % (1000 / kGang) == 0) progress.thousand_at.push_back(seconds_since(begin));
  });
  seen_groups.start();
  const auto create = [](const kube::Resource& resource, std::string body) {
    kube::Request request;
    request.verb = kube::Verb::Create;
    request.resource = resource;
    request.ns = "default";
    request.body = std::move(body);
    return request;
  };
  const kube::Resource pods_resource = kube::resource_of<SchedulablePod>();
  const kube::Resource groups_resource = kube::resource_of<api::scheduling::PodGroup>();
  std::vector<kube::Request> requests;
  const auto send = [&] {
    for (const auto& result : client->call_all(requests, {}, stop.token())) {
      if (result.ok()) continue;
      std::printf("%s\n", result.error().to_string().c_str());
      std::exit(1);
    }
    requests.clear();
  };
  for (int g = 0; g < pods / kGang; ++g) {
    requests.push_back(create(groups_resource, group_json(g, 0)));
    for (int i = 0; i < kGang; ++i) requests.push_back(create(pods_resource, pod_json(g, i, 0)));
    if (requests.size() < 1000) continue;
    send();
    while ((g - progress.completed) * kGang > kUnfinishedMax) runtime->sleep_for(std::chrono::milliseconds(1));
  }
  send();
  const double created = seconds_since(begin);
  while (progress.completed < pods / kGang && seconds_since(begin) < 600)
    runtime->sleep_for(std::chrono::milliseconds(5));
  const double total = seconds_since(begin);
  const Scheduler::Counts counts = scheduler.counts();
  std::printf(
      "end to end: %d pods in gangs of %d on %d nodes, %d gangs Completed: %.0f pods/s (%.2f s; created after %.2f "
      "s)\n",
      pods, kGang, nodes, progress.completed.load(), pods / total, total, created);
  std::printf("  scheduler: %llu cycles, planning %.2f s, calling %.2f s, %llu status writes, %llu failed binds\n",
              static_cast<unsigned long long>(counts.cycles), std::chrono::duration<double>(counts.planning).count(),
              std::chrono::duration<double>(counts.calling).count(),
              static_cast<unsigned long long>(counts.status_writes),
              static_cast<unsigned long long>(counts.bind_failures));
  std::vector<double> thousands;
  // The first one has the start of everything in it, too.
  for (std::size_t i = 1; i < progress.thousand_at.size(); ++i)
    thousands.push_back(progress.thousand_at[i] - progress.thousand_at[i - 1]);
  print_thousands(thousands);
  seen_groups.stop();
  scheduler.stop();
  simulated.stop();
  events.stop();
  cluster.stop();
}

}  // namespace
}  // namespace basalt::scheduler

int main(int argc, char** argv) {
  using basalt::scheduler::Strategy;
  const std::string_view what = argc > 1 ? argv[1] : "all";
  const int pods = argc > 2 ? std::atoi(argv[2]) : 0;
  const int nodes = argc > 3 ? std::atoi(argv[3]) : 5000;
  if (what == "planner" || what == "all") {
    if (pods > 0) {
      basalt::scheduler::planner(pods, nodes, 32, Strategy::Pack);
    } else {
      basalt::scheduler::planner(50'000, 5'000, 32, Strategy::Pack);
      basalt::scheduler::planner(50'000, 5'000, 32, Strategy::Spread);
      basalt::scheduler::planner(100'000, 10'000, 32, Strategy::Pack);
      basalt::scheduler::planner(100'000, 5'000, 1, Strategy::Pack);
    }
  }
  if (what == "end-to-end" || what == "all") {
    if (pods > 0) {
      basalt::scheduler::end_to_end(pods, nodes);
    } else {
      basalt::scheduler::end_to_end(50'000, 5'000);
      basalt::scheduler::end_to_end(100'000, 10'000);
    }
  }
  return 0;
}
