// The sharding controller: one hundred nodes end to end on the embedded API server and on a real one, the decision at
// 1,000 to 1,000,000 nodes (full, one event, bytes), events from the text of a watch, how many nodes a small change
// moves, the memory of a million nodes with ten million pods, thirty million pods in the table, a cold start, and a
// minute of 20,000 pods a second. Compared with: the 200 ms of Volcano's design document for one hundred nodes, and the
// pauses that its controller makes. Exits with 1 if a bar is missed.
//
//   sharding_bench [soak]    soak: ten minutes of 20,000 pods a second, and nothing else

#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/heap_bytes.h"
#include "bench/sharding_end_to_end.h"
#include "controllers/sharding/cluster_state.h"
#include "controllers/sharding/configuration.h"
#include "controllers/sharding/full_assignment.h"
#include "controllers/sharding/shard_plan.h"
#include "rt/random.h"

namespace basalt::controllers::sharding {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Time that this thread computes: what the decision costs, whoever else is on the machine.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::uint64_t counter = 0;
std::uint64_t random_number() { return rt::mix64(++counter * rt::kGoldenGamma); }
std::uint64_t random_below(std::uint64_t bound) { return random_number() % bound; }

constexpr std::string_view kDocument = R"(schedulerConfigs:
- name: agent-scheduler
  partitions: auto
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.7, maxCPUUtil: 1.0}}
  - {name: warmup, weight: 5}
- name: volcano
  partitions: auto
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.0, maxCPUUtil: 0.6}}
  - {name: node-limit, arguments: {maxPercent: 50}}
- name: spare
  partitions: auto
  policies:
  - {name: allocation-rate, arguments: {minCPUUtil: 0.0, maxCPUUtil: 0.9}}
)";

std::shared_ptr<const RuleSet> rules_of(std::string_view document) {
  Result<Configuration> read = read_document(document);
  BASALT_CHECK_MSG(read.ok(), read.ok() ? "" : read.error().message);
  return read->rules;
}

std::string node_name(std::size_t i) {
  char text[32];
  std::snprintf(text, sizeof text, "node-%018zu", i);  // 23 characters, as clouds name them
  return text;
}

void add_nodes(ClusterState& state, std::size_t nodes) {
  for (std::size_t i = 0; i < nodes; ++i) {
    NodeReading node;
    node.name = node_name(i);
    node.capacity = {64'000, std::int64_t{256} << 30, {}};
    node.label_bits = random_below(4) == 0 ? 1 : 0;
    state.put_node(node);
  }
}

PodReading pod_of(std::uint64_t number, std::size_t node, std::int64_t cpu) {
  PodReading pod;
  pod.uid = {number, rt::mix64(number)};
  pod.node = node_name(node);
  pod.counts = true;
  pod.requests = {cpu, cpu * 4'000'000, {}};
  return pod;
}

std::int64_t random_cpu() { return static_cast<std::int64_t>(1 + random_below(64)) * 100; }

void fill(ClusterState& state, std::size_t nodes, std::size_t pods) {
  add_nodes(state, nodes);
  for (std::size_t i = 0; i < pods; ++i) state.put_pod(pod_of(i, i % nodes, random_cpu()));
}

struct Figures {
  double build_ms = 0;
  double full_ms = 0;
  double event_us = 0;
  double node_bytes = 0;
};

// Ten pods a node; then one pod after another changes by so much that its node's bucket does.
Figures measure(std::size_t nodes) {
  Figures figures;
  const auto rules = rules_of(kDocument);
  ClusterState state(rules->catalog);
  fill(state, nodes, nodes * 10);
  ShardPlan plan(rules, state);
  double begin = cpu_seconds();
  plan.rebuild({}, 0);
  figures.build_ms = (cpu_seconds() - begin) * 1000;
  begin = cpu_seconds();
  BASALT_CHECK(plan.disagreements() == 0);
  figures.full_ms = (cpu_seconds() - begin) * 1000;
  constexpr std::size_t kEvents = 200'000;
  std::vector<PodReading> events;
  for (std::size_t i = 0; i < kEvents; ++i) {
    const std::uint64_t pod = random_below(nodes * 10);
    events.push_back(pod_of(pod, pod % nodes, random_cpu()));
  }
  begin = cpu_seconds();
  for (const PodReading& event : events) {
    state.put_pod(event);
    plan.absorb(16, 0);
  }
  figures.event_us = (cpu_seconds() - begin) * 1e6 / kEvents;
  BASALT_CHECK(plan.disagreements() == 0);
  figures.node_bytes = static_cast<double>(state.memory_bytes() + plan.memory_bytes()) / static_cast<double>(nodes);
  return figures;
}

// What Volcano's controller spends at least, by its source (1.15): it pauses 10 ms after each 50 nodes.
double volcano_ms(std::size_t nodes) { return static_cast<double>((nodes + 49) / 50) * 10; }

void growth() {
  std::printf(
      "decision in CPU time, 3 schedulers, 10 pods a node; the full calculation includes gathering its inputs:\n");
  for (const std::size_t nodes : {1'000UL, 5'000UL, 10'000UL, 100'000UL, 1'000'000UL}) {
    const Figures figures = measure(nodes);
    std::printf(
        "  %8zu nodes: first build %8.2f ms, full %8.2f ms (Volcano's pauses alone: %6.0f ms), one event %.3f us, "
        "%4.0f bytes a node with its pods\n",
        nodes, figures.build_ms, figures.full_ms, volcano_ms(nodes), figures.event_us, figures.node_bytes);
    if (nodes == 10'000) show("full assignment of 10,000 nodes", figures.full_ms, "ms", 20);
    if (nodes == 1'000'000) show("one event at 1,000,000 nodes", figures.event_us, "us", 5);
  }
}

void memory() {
  malloc_trim(0);
  const std::size_t before = base::heap_bytes();
  const auto rules = rules_of(kDocument);
  ClusterState state(rules->catalog);
  const auto begin = Clock::now();
  fill(state, 1'000'000, 10'000'000);
  ShardPlan plan(rules, state);
  plan.rebuild({}, 0);
  const std::size_t after = base::heap_bytes();
  const double gib = static_cast<double>(after - before) / (1024.0 * 1024 * 1024);
  std::printf("1,000,000 nodes with 10,000,000 pods, filled in %.1f s\n", seconds_since(begin));
  show("1,000,000 nodes with 10,000,000 pods, heap", gib, "GiB", 3);
}

std::string uid_text(std::uint64_t number) {
  char uid[64];
  std::snprintf(uid, sizeof uid, "%08x-0000-4000-8000-%012llx", static_cast<unsigned>(number),
                static_cast<unsigned long long>(number));
  return uid;
}

std::string pod_text(std::uint64_t number, std::size_t node, std::int64_t cpu, std::uint64_t revision) {
  const std::string uid = uid_text(number);
  std::string text =
      R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":"sandbox-)" + std::to_string(number) +
      R"(","namespace":"tenant","uid":")" + uid + R"(","resourceVersion":")" + std::to_string(revision) +
      R"(","labels":{"app":"sandbox","tier":"agent"},"annotations":{"note":")" + std::string(300, 'x') +
      R"("}},"spec":{"nodeName":")" + node_name(node) +
      R"(","containers":[{"name":"main","image":"registry/agent:1","env":[{"name":"A","value":")" +
      std::string(600, 'y') + R"("}],"resources":{"requests":{"cpu":")" + std::to_string(cpu) +
      R"(m","memory":"512Mi"}}}]},"status":{"phase":"Running","conditions":[{"type":"Ready","message":")" +
      std::string(500, 'z') + R"("}]}})";
  return text;
}

// From the text of a watch event to the new owner, on one thread.
void events_from_text() {
  constexpr std::size_t kNodes = 100'000;
  const auto rules = rules_of(kDocument);
  ClusterState state(rules->catalog);
  fill(state, kNodes, 0);
  ShardPlan plan(rules, state);
  plan.rebuild({}, 0);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 20'000; ++i) texts.push_back(pod_text(i, random_below(kNodes), random_cpu(), i + 1));
  const double begin = cpu_seconds();
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    for (const std::string& text : texts) {
      Result<PodReading> pod = read_pod(text, rules->catalog);
      BASALT_CHECK(pod.ok());
      pod->requests.cpu += round * 700;
      state.put_pod(*pod);
      plan.absorb(16, 0);
    }
  }
  const double rate = kRounds * static_cast<double>(texts.size()) / (cpu_seconds() - begin);
  show("events from the text of pods (" + std::to_string(texts[0].size()) +
           " bytes each) to the owner, one thread, 100,000 nodes",
       rate, "a second", 200'000, false);
}

// Every node's utilisation changes by up to one point; then one node in a hundred by any amount.
void churn() {
  for (const char* hysteresis : {"0", "0.02"}) {
    constexpr std::size_t kNodes = 100'000;
    const auto rules = rules_of(std::string(kDocument) + "hysteresis: " + hysteresis + "\n");
    ClusterState state(rules->catalog);
    add_nodes(state, kNodes);
    std::vector<std::int64_t> load(kNodes);
    for (std::size_t i = 0; i < kNodes; ++i) {
      load[i] = static_cast<std::int64_t>(random_below(64'000));
      state.put_pod(pod_of(i, i, load[i]));
    }
    ShardPlan plan(rules, state);
    plan.rebuild({}, 0);
    const auto settle = [&] {
      while (plan.absorb(4096, 0)) {}
      plan.mark_all();
      const ShardPlan::Lists lists = plan.lists({}, 1'200'000);
      std::set<std::string, std::less<>> all;
      for (const DesiredShard& desired : lists.desired) all.insert(desired.name);
      std::size_t moved = 0;
      for (const auto& [move, count] : plan.settle(lists, all)) moved += count;
      return 100.0 * static_cast<double>(moved) / kNodes;
    };
    settle();
    for (std::size_t i = 0; i < kNodes; ++i) {
      load[i] = std::max<std::int64_t>(0, load[i] + static_cast<std::int64_t>(random_below(1281)) - 640);
      state.put_pod(pod_of(i, i, load[i]));
    }
    const double all_a_little = settle();
    for (std::size_t n = 0; n < kNodes / 100; ++n) {
      const std::size_t i = random_below(kNodes);
      state.put_pod(pod_of(i, i, static_cast<std::int64_t>(random_below(64'000))));
    }
    const double few_a_lot = settle();
    const std::string name = std::string("churn, hysteresis ") + hysteresis;
    show(name + ", all nodes change by up to a point: moved", all_a_little, "% of the nodes", 2);
    show(name + ", one node in a hundred changes by any amount: moved", few_a_lot, "% of the nodes", 2);
  }
}

// Every event of twenty thousand pods a second that are created, bound, and deleted half a minute later, one scheduler
// in sixteen parts, a publication a second. Events arrive evenly; one thread reads the text, decides and makes the
// lists, so an event waits for those before it and for a publication. Checked: no node in two lists, ever.
void soak(int seconds_of_load) {
  constexpr std::size_t kNodes = 100'000;
  constexpr std::size_t kPodsASecond = 20'000;
  constexpr std::size_t kLives = 30;    // seconds
  constexpr std::size_t kSlices = 100;  // of a second
  const auto rules = rules_of(R"(schedulerConfigs:
- name: agent-scheduler
  partitions: 16
  policies: [{name: allocation-rate, arguments: {minCPUUtil: 0.30, maxCPUUtil: 1.0}}]
- name: volcano
  partitions: 4
  policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.29}}]
)");
  ClusterState state(rules->catalog);
  add_nodes(state, kNodes);
  ShardPlan plan(rules, state);
  plan.rebuild({}, 0);
  StoredShards stored;
  std::vector<double> lags;
  std::size_t published = 0, twice = 0, warm_bytes = 0;
  double busy = 0;
  double busy_until = 0;  // of the one thread, in seconds of the load's time
  std::vector<std::string> texts(kPodsASecond / kSlices);
  const auto publish = [&] {
    const ShardPlan::Lists lists = plan.lists(stored, 1'200'000);
    std::set<std::string, std::less<>> all;
    for (const DesiredShard& desired : lists.desired) {
      auto object = std::make_shared<api::shard::NodeShard>();
      object->metadata.name = desired.name;
      object->spec.nodes_desired = desired.nodes;
      stored[desired.name] = object;
      all.insert(desired.name);
    }
    static_cast<void>(plan.settle(lists, all));
    ++published;
  };
  for (int second = 0; second < seconds_of_load; ++second) {
    for (std::size_t slice = 0; slice < kSlices; ++slice) {
      const std::size_t first = (static_cast<std::size_t>(second) * kSlices + slice) * texts.size();
      for (std::size_t i = 0; i < texts.size(); ++i)
        texts[i] = pod_text(first + i, random_below(kNodes), random_cpu(), first + i + 1);
      const double arrival = second + static_cast<double>(slice) / kSlices;
      const double begin = cpu_seconds();
      for (std::size_t i = 0; i < texts.size(); ++i) {
        for (int event = 0; event < 2; ++event) {  // bound, then running: the text comes twice
          const Result<PodReading> pod = read_pod(texts[i], rules->catalog);
          BASALT_CHECK(pod.ok());
          state.put_pod(*pod);
        }
        if (first + i >= kLives * kPodsASecond) {  // the text of a deletion is as long as the others
          const Result<PodReading> gone = read_pod(texts[i], rules->catalog);
          BASALT_CHECK(gone.ok());
          state.remove_pod(pod_uid(uid_text(first + i - kLives * kPodsASecond)));
        }
        plan.absorb(16, 0);
      }
      if (slice == kSlices - 1 && plan.is_dirty()) publish();
      const double took = cpu_seconds() - begin;
      busy += took;
      busy_until = std::max(busy_until, arrival) + took;
      lags.push_back(busy_until - arrival);
    }
    if (second + 1 == seconds_of_load * 2 / 3) warm_bytes = base::heap_bytes();
    if (second % 10 != 9) continue;
    std::set<std::string_view> seen;
    for (const auto& [name, shard] : stored) {
      for (const std::string& node : shard->spec.nodes_desired) twice += seen.insert(node).second ? 0 : 1;
    }
  }
  std::sort(lags.begin(), lags.end());
  std::printf("%d s of 20,000 pods a second on 100,000 nodes, 20 objects, %zu publications, busy %.0f %% of the time\n",
              seconds_of_load, published, 100 * busy / seconds_of_load);
  show("  lag from the watch frame to the new owner, p99", 1000 * lags[lags.size() * 99 / 100], "ms", 1000);
  show("  nodes in two lists", static_cast<double>(twice), "nodes", 0);
  const double growth = 100 * (static_cast<double>(base::heap_bytes()) / static_cast<double>(warm_bytes) - 1);
  if (seconds_of_load >= 600) {
    show("  growth of the heap over the last third", growth, "%", 2);
  } else {  // the table of pods still takes its last step
    std::printf("  growth of the heap over the last third: %.2f %% (bar of the long run, `soak`: 2 %%)\n", growth);
  }
}

// Thirty million pods in the table, and how long one is looked for.
void pod_table() {
  constexpr std::uint64_t kPods = 30'000'000;
  malloc_trim(0);
  const std::size_t before = base::heap_bytes();
  PodTable table;
  for (std::uint64_t i = 0; i < kPods; ++i)
    table.insert({i, rt::mix64(i)}, static_cast<NodeId>(i % 1'000'000), {random_cpu(), std::int64_t{512} << 20, {}});
  show("30,000,000 pods in the table, bytes each", static_cast<double>(base::heap_bytes() - before) / kPods, "bytes",
       96);
  constexpr std::size_t kLookups = 2'000'000;
  std::vector<PodUid> wanted;
  for (std::size_t i = 0; i < kLookups; ++i) {
    const std::uint64_t pod = random_below(kPods);
    wanted.push_back({pod, rt::mix64(pod)});
  }
  const double begin = cpu_seconds();
  std::size_t found = 0;
  for (const PodUid& uid : wanted) found += table.find(uid) != nullptr ? 1 : 0;
  const double nanoseconds = (cpu_seconds() - begin) * 1e9 / kLookups;
  BASALT_CHECK(found == kLookups);
  show("30,000,000 pods in the table, one lookup", nanoseconds, "ns", 300);
}

}  // namespace
}  // namespace basalt::controllers::sharding

int main(int argc, char** argv) {
  using namespace basalt::controllers::sharding;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool is_soak = argc > 1 && std::string_view(argv[1]) == "soak";
  if (!is_soak) {
    measure_embedded();
    measure_real_server();
    growth();
    events_from_text();
    churn();
    memory();
    pod_table();
    measure_cold_start();
  }
  soak(is_soak ? 600 : 60);
  if (missed() > 0) std::printf("%d bars MISSED\n", missed());
  return missed() == 0 ? 0 : 1;
}
