#include "cli/queue/queue_commands.h"

#include <gtest/gtest.h>

#include "cli/client/host_test_support.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

namespace resources = sim::resources;

Ran vcctl(TestHost& host, std::vector<std::string> arguments) {
  return run_line(host, queue_group(), "vcctl queue", std::move(arguments));
}

TEST(QueueCommands, CreateOperateDelete) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    Ran ran = vcctl(host, {"create", "-n", "q", "-w", "3", "--capability", "cpu=4,memory=1Gi", "--reclaimable=false"});
    EXPECT_EQ(ran.exit, 0) << ran.out;
    EXPECT_EQ(ran.out, "");
    auto queue = cluster.get(resources::kQueues, "", "q");
    ASSERT_TRUE(queue);
    EXPECT_EQ(queue->find_path({"spec", "weight"})->as_int(), 3);
    EXPECT_EQ(queue->string_at({"spec", "capability", "memory"}), "1Gi");
    EXPECT_FALSE(queue->find_path({"spec", "reclaimable"})->as_bool());

    ran = vcctl(host, {"operate", "-a", "update", "-n", "q"});
    EXPECT_EQ(ran.out,
              "Failed to operate queue: when update queue q, weight must be specified, the value must be greater than "
              "0\n");
    EXPECT_EQ(ran.exit, 255);
    EXPECT_EQ(vcctl(host, {"operate", "-a", "update", "-n", "q", "-w", "5"}).exit, 0);
    EXPECT_EQ(cluster.get(resources::kQueues, "", "q")->find_path({"spec", "weight"})->as_int(), 5);

    EXPECT_EQ(vcctl(host, {"operate", "-n", "q"}).out, "Failed to operate queue: action can not be null\n");
    EXPECT_EQ(vcctl(host, {"operate", "-n", "q", "-a", "foo"}).out,
              "Failed to operate queue: action foo invalid, valid actions are open, close and update\n");
    EXPECT_EQ(vcctl(host, {"operate"}).out, "Failed to operate queue: queue name must be specified\n");
    EXPECT_EQ(vcctl(host, {"operate", "-n", "q", "-a", "close"}).exit, 0);
    const auto commands = cluster.list(resources::kCommands, "default");
    ASSERT_EQ(commands.size(), 1u);
    EXPECT_EQ(commands[0].string_at({"metadata", "generateName"}), "q-closequeue-");
    EXPECT_EQ(commands[0].string_at({"action"}), "CloseQueue");
    EXPECT_EQ(commands[0].string_at({"target", "kind"}), "Queue");
    EXPECT_EQ(vcctl(host, {"delete", "-n", "q"}).exit, 0);
    EXPECT_FALSE(cluster.get(resources::kQueues, "", "q"));
    EXPECT_EQ(vcctl(host, {"delete"}).out, "Failed to delete queue: queue name must be specified\n");
    EXPECT_EQ(vcctl(host, {"get"}).out, "Failed to get queue: name is mandatory to get the particular queue details\n");
    EXPECT_EQ(vcctl(host, {"get", "-n", "q"}).out,
              "Failed to get queue: queues.scheduling.volcano.sh \"q\" not found\n");
  });
}

TEST(QueueCommands, TablesCountPodGroups) {
  on_cluster([](sim::Cluster& cluster, TestHost& host) {
    for (const char* name : {"a", "b", "c"}) {
      cluster.apply("{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: " +
                    std::string(name) + "}, spec: {minMember: 1, queue: default}}");
    }
    cluster.set_pod_group_phase("default", "a", "Running");
    cluster.set_pod_group_phase("default", "b", "Pending");
    cluster.set_pod_group_phase("default", "c", "Pending");
    cluster.patch(resources::kQueues, "", "default", R"({"spec":{"weight":1,"parent":"root"}})");
    EXPECT_EQ(vcctl(host, {"get", "-n", "default"}).out,
              "Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed\n"
              "default                  1       Open    root    0       2       1       0       0       \n");
    EXPECT_EQ(run_line(host, vqueues_command(), "vqueues", {"-n", "default"}).out,
              "Name                     Weight  State   Inqueue Pending Running Unknown \n"
              "default                  1       Open    0       2       1       0       \n");
    const Ran list = vcctl(host, {"list", "-o", "name"});
    EXPECT_EQ(list.out, "queue.scheduling.volcano.sh/default\nqueue.scheduling.volcano.sh/root\n");
  });
}

}  // namespace
}  // namespace basalt::cli
