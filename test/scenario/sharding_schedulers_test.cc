#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controllers/manager/run.h"
#include "controllers/sharding/testing/sharding_fixture.h"
#include "kube/event_recorder.h"
#include "kube/fault_client.h"
#include "scheduler/scheduler.h"
#include "scheduler/testing/objects.h"

// The sharding controller together with the schedulers that follow its shards, and two controllers that follow one
// lease. The numbers in the names are the rows of the scenario table.

namespace basalt::controllers::sharding::testing {
namespace {

using scheduler::ShardMode;
using scheduler::testing::gang_yaml;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kSeeds = 3;

// Node a is the batch scheduler's, because it is warm and its shard holds one node; the rest is the agents'.
constexpr std::string_view kOneEach = R"(schedulerConfigs:
- name: volcano
  policies:
  - {name: warmup}
  - {name: node-limit, arguments: {maxNodes: 1}}
- name: agent-scheduler
  policies: [{name: warmup}]
)";

// A scheduler as a process of its own: what it reads and writes goes through a client that can be cut off.
class SchedulerProcess {
 public:
  SchedulerProcess(rt::Runtime& runtime, sim::Driver& cluster, const std::string& name, ShardMode mode)
      : faults(runtime, cluster.client()),
        events_(runtime, faults, Logger(), {.component = "scheduler"}),
        scheduler_(runtime, faults, Logger(), events_, options(name, mode)) {
    events_.start();
    scheduler_.start();
  }
  ~SchedulerProcess() { stop(); }
  SchedulerProcess(const SchedulerProcess&) = delete;
  SchedulerProcess& operator=(const SchedulerProcess&) = delete;
  void stop() {
    if (std::exchange(is_stopped_, true)) return;
    scheduler_.stop();
    events_.stop();
  }

  kube::FaultClient faults;

 private:
  static scheduler::SchedulerOptions options(const std::string& name, ShardMode mode) {
    scheduler::SchedulerOptions options;
    options.names = {name};
    options.shard_name = name;
    options.planner.shard_mode = mode;
    return options;
  }
  kube::EventRecorder events_;
  scheduler::Scheduler scheduler_;
  bool is_stopped_ = false;
};

// Sees every version of every NodeShard and notes each moment at which two schedulers say that they use the same node.
class UseWatch {
 public:
  using NodeShard = api::shard::NodeShard;
  UseWatch(rt::Runtime& runtime, kube::Client& client)
      : shards_(runtime, client, Logger(), {.reflector = {.resource = kube::resource_of<NodeShard>()}, .indexes = {}}) {
    shards_.add_handler([this](const kube::Change<NodeShard>& change) {
      ++versions_;
      auto& own = used_[change.object().metadata.name];
      own.clear();
      if (change.after) own = {change.after->status.nodes_in_use.begin(), change.after->status.nodes_in_use.end()};
      std::map<std::string, std::string> user;
      for (const auto& [shard, nodes] : used_) {
        for (const std::string& node : nodes) {
          const auto [place, is_new] = user.emplace(node, shard);
          if (!is_new) violations_.push_back(node + " is used by " + place->second + " and " + shard);
        }
      }
    });
    shards_.start();
  }
  ~UseWatch() {
    shards_.stop();
    EXPECT_EQ(violations_, std::vector<std::string>());
    EXPECT_GT(versions_, 0u);
  }

 private:
  kube::Informer<NodeShard> shards_;
  std::map<std::string, Names> used_;
  std::vector<std::string> violations_;
  std::size_t versions_ = 0;
};

void usable_node(ShardingFixture& f, const std::string& name, bool is_warm) {
  f.node(name, is_warm ? "node.volcano.sh/warmup: \"true\"" : "", "8",
         ", allocatable: {cpu: \"8\", memory: 32Gi, pods: \"110\"}, conditions: [{type: Ready, status: \"True\"}]");
  // A server takes every new node for one that is not ready; who takes the taint away is not here.
  f.cluster.patch(resources::kNodes, "", name, R"({"spec":{"taints":null}})");
}

void submit(ShardingFixture& f, const std::string& name, int pods, const std::string& cpu,
            const std::string& scheduler = "volcano") {
  std::string yaml = gang_yaml(name, {.min_member = pods, .pods = pods, .cpu = cpu});
  const std::string usual = "schedulerName: volcano";
  for (std::size_t place = yaml.find(usual); place != std::string::npos; place = yaml.find(usual, place + 1))
    yaml.replace(place, usual.size(), "schedulerName: " + scheduler);
  f.cluster.apply(yaml);
}

std::multiset<std::string> nodes_of(ShardingFixture& f, const std::string& gang) {
  std::multiset<std::string> nodes;
  for (const json::Value& pod : f.cluster.list(resources::kPods, "default", "gang=" + gang)) {
    if (!pod.string_at({"spec", "nodeName"}).empty()) nodes.insert(std::string(pod.string_at({"spec", "nodeName"})));
  }
  return nodes;
}
using Placed = std::multiset<std::string>;

// Two nodes, the controller, and the batch scheduler in this mode, which has taken over its shard {a}.
void with_scheduler(ShardMode mode, const std::function<void(ShardingFixture&)>& body) {
  sim::play(1, kSeeds, [&](rt::Runtime& runtime) {
    ShardingFixture f(runtime);
    f.configure(kOneEach);
    usable_node(f, "a", true);
    usable_node(f, "b", false);
    f.start();
    f.becomes({{"volcano", {"a"}}, {"agent-scheduler", {"b"}}});
    SchedulerProcess volcano(runtime, f.cluster, "volcano", mode);
    f.settle();
    if (mode != ShardMode::None) f.soon([&] { return f.names_at("volcano", {"status", "nodesInUse"}) == Names{"a"}; });
    body(f);
    volcano.stop();
  });
}

TEST(ShardingSchedulers, Row77_HardKeepsToItsShardAndSaysWhyAJobWaits) {
  with_scheduler(ShardMode::Hard, [](ShardingFixture& f) {
    submit(f, "first", 2, "4");
    EXPECT_TRUE(f.cluster.wait_until([&] { return nodes_of(f, "first") == Placed({"a", "a"}); }, seconds(10)));
    submit(f, "second", 1, "1");
    const auto message = [&] {
      const auto pod = f.cluster.get(resources::kPods, "default", "second-0");
      const json::Value* conditions = pod->find_path({"status", "conditions"});
      if (conditions == nullptr || conditions->as_array().empty()) return std::string();
      return std::string(conditions->as_array()[0].string_at({"message"}));
    };
    EXPECT_TRUE(f.cluster.wait_until(
        [&] { return message().find("node isn't in scheduler node shard") != std::string::npos; }, seconds(30)))
        << message();
    f.rest(minutes(2));
    EXPECT_EQ(nodes_of(f, "second"), Placed());
    // The shard gets the other node: now it runs.
    f.configure(R"(schedulerConfigs: [{name: volcano, policies: [{name: warmup}]}])");
    EXPECT_TRUE(f.cluster.wait_until([&] { return nodes_of(f, "second") == Placed({"b"}); }, seconds(30)));
  });
}

TEST(ShardingSchedulers, Row78_SoftPrefersItsShard) {
  with_scheduler(ShardMode::Soft, [](ShardingFixture& f) {
    for (int i = 0; i < 4; ++i) {
      submit(f, "job" + std::to_string(i), 1, "1");
      EXPECT_TRUE(
          f.cluster.wait_until([&] { return nodes_of(f, "job" + std::to_string(i)) == Placed({"a"}); }, seconds(10)));
    }
  });
}

TEST(ShardingSchedulers, Row79_SoftGoesOutsideWhenItsShardIsFull) {
  with_scheduler(ShardMode::Soft, [](ShardingFixture& f) {
    submit(f, "first", 2, "4");
    EXPECT_TRUE(f.cluster.wait_until([&] { return nodes_of(f, "first") == Placed({"a", "a"}); }, seconds(10)));
    submit(f, "second", 1, "1");
    EXPECT_TRUE(f.cluster.wait_until([&] { return nodes_of(f, "second") == Placed({"b"}); }, seconds(10)));
  });
}

TEST(ShardingSchedulers, Row80_NoneKnowsNoShards) {
  with_scheduler(ShardMode::None, [](ShardingFixture& f) {
    submit(f, "both", 4, "4");
    EXPECT_TRUE(f.cluster.wait_until([&] { return nodes_of(f, "both") == Placed({"a", "a", "b", "b"}); }, seconds(10)));
    EXPECT_EQ(f.names_at("volcano", {"status", "nodesInUse"}), Names());  // it says nothing either
  });
}

// Both schedulers run and have work. The configuration swaps their nodes, several times.
TEST(ShardingSchedulers, Row81_ANodeChangesHandsAndIsNeverUsedByTwo) {
  sim::play(1, 10, [&](rt::Runtime& runtime) {
    ShardingFixture f(runtime);
    UseWatch use(runtime, f.cluster.client());
    f.configure(kOneEach);
    usable_node(f, "a", true);
    usable_node(f, "b", false);
    usable_node(f, "c", false);
    f.start();
    SchedulerProcess volcano(runtime, f.cluster, "volcano", ShardMode::Hard);
    SchedulerProcess agent(runtime, f.cluster, "agent-scheduler", ShardMode::Hard);
    f.settle();
    const auto settled = [&](const Names& batch, const Names& agents) {
      f.becomes_within({}, {{"volcano", batch}, {"agent-scheduler", agents}});
      const auto uses = [&](const char* shard, const Names& nodes) {
        return f.names_at(shard, {"status", "nodesInUse"}) == nodes &&
               f.names_at(shard, {"status", "nodesToAdd"}).empty() &&
               f.names_at(shard, {"status", "nodesToRemove"}).empty();
      };
      f.soon([&] { return uses("volcano", batch); });
      f.soon([&] { return uses("agent-scheduler", agents); });
    };
    settled({"a"}, {"b", "c"});
    for (int round = 0; round < 4; ++round) {
      const std::string number = std::to_string(round);
      submit(f, "batch" + number, 1, "500m");
      submit(f, "agent" + number, 2, "500m", "agent-scheduler");
      f.configure(round % 2 == 0 ? R"(schedulerConfigs:
- {name: agent-scheduler, policies: [{name: warmup}, {name: node-limit, arguments: {maxNodes: 1}}]}
- {name: volcano, policies: [{name: warmup}]}
)"
                                 : kOneEach);
      f.rest(seconds(8));
      if (round % 2 == 0) {
        settled({"b", "c"}, {"a"});
      } else {
        settled({"a"}, {"b", "c"});
      }
      f.soon([&] { return nodes_of(f, "batch" + number).size() == 1; });
      f.soon([&] { return nodes_of(f, "agent" + number).size() == 2; });
    }
    volcano.stop();
    agent.stop();
  });
}

// The batch scheduler dies while its node is to move. With the grace the other one gets it; without, it waits for ever.
TEST(ShardingSchedulers, Row83_TheNodesOfADeadSchedulerPassOnAfterTheGrace) {
  for (const bool has_grace : {true, false}) {
    sim::play(1, kSeeds, [&](rt::Runtime& runtime) {
      ShardingFixture f(runtime);
      UseWatch use(runtime, f.cluster.client());
      const rt::Duration grace_time = f.is_simulated() ? seconds(120) : seconds(5);
      const std::string grace =
          has_grace
              ? "handoverGrace: " + std::to_string(std::chrono::duration_cast<seconds>(grace_time).count()) + "s\n"
              : "";
      f.configure(std::string(kOneEach) + grace);
      for (const char* name : {"a", "b", "c"}) usable_node(f, name, *name == 'a');
      f.start();
      f.becomes({{"volcano", {"a"}}, {"agent-scheduler", {"b", "c"}}});
      SchedulerProcess volcano(runtime, f.cluster, "volcano", ShardMode::Hard);
      SchedulerProcess agent(runtime, f.cluster, "agent-scheduler", ShardMode::Hard);
      f.settle();
      f.soon([&] { return f.names_at("volcano", {"status", "nodesInUse"}) == Names{"a"}; });
      f.soon([&] { return f.names_at("agent-scheduler", {"status", "nodesInUse"}) == Names{"b", "c"}; });
      volcano.faults.crash_after(0);
      f.rest(seconds(1));
      const rt::Instant begin = f.now();
      f.configure(
          "schedulerConfigs:\n- {name: agent-scheduler, policies: [{name: warmup}]}\n- {name: volcano, "
          "policies: [{name: node-limit, arguments: {maxNodes: 1}}]}\n" +
          grace);
      f.becomes_within(seconds(100), {{"agent-scheduler", {"a", "b", "c"}}});
      const Names of_agents = f.names_at("agent-scheduler", {"status", "nodesInUse"});
      const Names of_batch = f.names_at("volcano", {"status", "nodesInUse"});
      const int overdue = f.events("HandoverOverdue");
      if (!has_grace || f.now() - begin < grace_time) {
        EXPECT_EQ(of_agents, (Names{"b", "c"}));
        EXPECT_EQ(of_batch, (Names{"a"}));
        EXPECT_EQ(overdue, 0);
      }
      submit(f, "big", 3, "8", "agent-scheduler");  // needs all three nodes
      f.rest(seconds(60));
      if (has_grace) {
        f.soon([&] { return nodes_of(f, "big").size() == 3; });
        f.soon([&] { return f.events("HandoverOverdue") == 1; });
      } else {
        EXPECT_EQ(nodes_of(f, "big").size(), 0u);
        EXPECT_EQ(f.events("HandoverOverdue"), 0);
        f.rest(minutes(30));
        EXPECT_EQ(nodes_of(f, "big").size(), 0u);
        EXPECT_EQ(f.names_at("volcano", {"status", "nodesToRemove"}), (Names{"a"}));
      }
      volcano.stop();
      agent.stop();
    });
  }
}

// A controller manager with its lease.
class Replica {
 public:
  Replica(rt::Runtime& runtime, sim::Driver& cluster, std::string host)
      : client(runtime, cluster.client()), elections(runtime, cluster.client()), runtime_(runtime), stop_(runtime) {
    options_.host = std::move(host);
    options_.manager.controllers = {"sharding-controller"};
    if (!runtime.is_simulated()) {
      options_.election.lease_duration = seconds(5);
      options_.election.renew_deadline = seconds(3);
      options_.election.retry_period = seconds(1);
    }
    thread_ = rt::Thread(runtime_, "replica", [this] {
      static_cast<void>(run_controllers(runtime_, client, elections, Logger(), metrics_, options_, stop_.token()));
    });
  }
  ~Replica() { join(); }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;
  void join() {
    if (!thread_.joinable()) return;
    stop_.request_stop();
    thread_.join();
  }
  [[nodiscard]] std::uint64_t writes() const {
    std::uint64_t sum = 0;
    for (const auto& [point, count] : client.calls_by_point()) {
      if (point.resource.starts_with("nodeshards") && point.verb != "List" && point.verb != "Watch" &&
          point.verb != "Get")
        sum += count;
    }
    return sum;
  }

  kube::FaultClient client;
  kube::FaultClient elections;

 private:
  rt::Runtime& runtime_;
  kube::Metrics metrics_;
  RunOptions options_;
  rt::StopSource stop_;
  rt::Thread thread_;
};

enum class End : std::uint8_t { Stopped, Killed, CutOffFromTheLease };

// Two controllers, one lease. Only the holder writes; whoever takes over finds everything in order and writes nothing.
TEST(ShardingSchedulers, Row73_AmongTwoControllersOneWritesAndATakeOverMovesNothing) {
  for (const End end : {End::Stopped, End::Killed, End::CutOffFromTheLease}) {
    // A real server cannot tell the last two apart.
    if (end == End::CutOffFromTheLease && sim::chosen_place() != nullptr) continue;
    sim::play(1, kSeeds, [&](rt::Runtime& runtime) {
      ShardingFixture f(runtime);
      f.configure(kUsualDocument);
      f.nodes("n", 20);
      for (int i = 0; i < 8; ++i) f.pod("p" + std::to_string(i), "n" + std::to_string(i), "7");
      Replica first(runtime, f.cluster, "first");
      EXPECT_TRUE(f.cluster.wait_until([&] { return f.desired("volcano").size() == 12; }, minutes(1)));
      Replica second(runtime, f.cluster, "second");
      f.rest(minutes(1));
      f.drop_pod("p7");
      if (f.is_simulated()) f.rest(seconds(10));
      f.becomes_of_size("volcano", 13);
      f.status_is_written("volcano");
      f.status_is_written("agent-scheduler");
      EXPECT_EQ(second.writes(), 0u);
      const std::uint64_t by_first = first.writes();
      EXPECT_GT(by_first, 0u);
      const std::string batch = f.version("volcano");
      const std::string agents = f.version("agent-scheduler");
      if (end == End::Stopped) first.join();
      if (end != End::Stopped) first.elections.crash_after(0);
      if (end == End::Killed) first.client.crash_after(0);
      f.rest(minutes(3));
      f.soon([&] {
        const auto lease =
            f.cluster.get({"coordination.k8s.io", "v1", "leases"}, "volcano-system", "vc-controller-manager");
        return lease && lease->string_at({"spec", "holderIdentity"}).starts_with("second");
      });
      f.settle();
      EXPECT_EQ(f.version("volcano"), batch);  // no churn
      EXPECT_EQ(f.version("agent-scheduler"), agents);
      EXPECT_EQ(second.writes(), 0u);
      f.drop_pod("p6");
      if (f.is_simulated()) f.rest(seconds(10));
      f.becomes_of_size("volcano", 14);
      EXPECT_EQ(f.desired("agent-scheduler").size(), 6u);
      EXPECT_GT(second.writes(), 0u);
      EXPECT_EQ(first.writes(), by_first);
      second.join();
      first.join();
    });
  }
}

}  // namespace
}  // namespace basalt::controllers::sharding::testing
