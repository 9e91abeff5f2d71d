#include <algorithm>
#include <cstdio>

#include "controllers/sharding/testing/tampering_client.h"
#include "sim/federation_test_support.h"

// What users of other federations suffer from, and a queue that is closed in every member. The numbers in the names are
// those of the list of complaints and of the scenario table.
namespace basalt::federation {
namespace {

using namespace std::chrono_literals;
using controllers::hyperjob::Bench;
using controllers::sharding::testing::TamperingClient;

// The control plane takes the job, because its queue says Open; every member refuses it.
TEST(Federation, Row57_AQueueThatIsClosedInEveryMemberIsToldOnTheHyperJob) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    World world(runtime, 2);
    world.stop_federation();
    std::map<std::string, std::unique_ptr<TamperingClient>> doors;
    world.wrap = [&](const std::string& member, kube::Client& client) -> kube::Client* {
      if (member.empty()) return &client;
      auto& door = doors[member];
      door = std::make_unique<TamperingClient>(client);
      door->refuse_call = [](const kube::Request& request) -> std::optional<Error> {
        if (request.verb != kube::Verb::Create || request.resource.plural != "jobs") return std::nullopt;
        return Error::make(Reason::Forbidden,
                           "can only submit job to queue with state `Open`, queue `default` is `Closed`");
      };
      return door.get();
    };
    world.start_federation();
    world.bench.cluster.apply(Bench::yaml("h", {"a:2"}));
    ASSERT_TRUE(world.bench.wait_condition("Stalled", "MemberRefused"));
    EXPECT_TRUE(world.bench.wait([&] {
      const auto stalled = world.bench.condition("Stalled");
      return stalled && stalled->string_at({"message"}).find("queue `default` is `Closed`") != std::string_view::npos;
    }));
    EXPECT_EQ(world.bench.phase_of("a", "h-a-0"), "");
    for (auto& [name, door] : doors) door->refuse_call = nullptr;
    EXPECT_TRUE(world.bench.wait_condition("Completed"));
    EXPECT_FALSE(world.bench.condition("Stalled"));
    world.stop_federation();
  });
}

// karmada#3108, #7062: of many jobs at once, some appeared after a quarter of an hour and some never.
TEST(Federation, UsersG3_UsersG4_EveryOneOfManyJobsArrivesSoon) {
  with_world(
      3,
      [](World& world) {
        world.fate_of_all.run_for = rt::Duration::max();
        constexpr int kHyperJobs = 40;
        const rt::Instant begin = world.runtime().now();
        for (int i = 0; i < kHyperJobs; ++i)
          world.bench.cluster.apply(Bench::yaml("h" + std::to_string(i), {"a:3"}, "i", 1));
        const auto arrived = [&] {
          std::size_t count = 0;
          for (const auto& [name, member] : world.members)
            count += member->cluster.list(resources::kJobs, "default").size();
          return count;
        };
        EXPECT_TRUE(world.bench.wait([&] { return arrived() == 3 * kHyperJobs; })) << arrived();
        const double seconds = std::chrono::duration<double>(world.runtime().now() - begin).count();
        EXPECT_LT(seconds, 10);
        EXPECT_EQ(world.bench.names(resources::kBindings).size(), 3u * kHyperJobs);
        std::printf("%d jobs over 3 clusters: all there after %.2f s of virtual time\n", 3 * kHyperJobs, seconds);
      },
      1);
}

// karmada#4549: an object for every pair of job and cluster. Here the host has a job, its policy and its binding,
// however many clusters there are.
TEST(Federation, UsersG6_TheHostKeepsThreeObjectsAJobHoweverManyClusters) {
  for (const int members : {1, 4}) {
    with_world(
        members,
        [](World& world) {
          const std::size_t before = world.bench.cluster.list(resources::kSecrets).size() +
                                     world.bench.cluster.list(resources::kConfigMaps).size();
          world.bench.cluster.apply(Bench::yaml("h", {"a:4"}));
          ASSERT_TRUE(world.bench.wait_condition("Completed"));
          EXPECT_EQ(world.bench.names(resources::kJobs).size(), 4u);
          EXPECT_EQ(world.bench.names(resources::kPolicies).size(), 4u);
          EXPECT_EQ(world.bench.names(resources::kBindings).size(), 4u);
          EXPECT_EQ(world.bench.cluster.list(resources::kSecrets).size() +
                        world.bench.cluster.list(resources::kConfigMaps).size(),
                    before);
        },
        1);
  }
}

// karmada#1858: a control plane that caches the nodes and pods of its members dies of a large one.
TEST(Federation, UsersG7_PodsAndNodesOfAMemberAreNotWatched) {
  with_world(
      2,
      [](World& world) {
        world.bench.cluster.apply(Bench::yaml("h", {"a:4"}));
        ASSERT_TRUE(world.bench.wait_condition("Completed"));
        world.runtime().sleep_for(60s);
        for (const auto& [name, member] : world.members) {
          bool saw_jobs = false;
          for (const auto& [point, count] : member->link.calls_by_point()) {
            saw_jobs |= point.verb == "Watch" && point.resource.starts_with("jobs");
            EXPECT_FALSE(point.resource.starts_with("pods")) << point.verb;
            EXPECT_FALSE(point.verb == "Watch" && point.resource.starts_with("nodes"));
          }
          EXPECT_TRUE(saw_jobs) << name;
        }
      },
      1);
}

// kueue#14963: what a worker says of a priority is not what the manager decided.
TEST(Federation, UsersG11_APriorityBelongsToTheHost) {
  with_world(1, [](World& world) {
    world.fate_of_all.run_for = rt::Duration::max();
    for (const char* name : {"low", "high", "higher"}) {
      const std::string yaml =
          std::string("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: ") + name +
          "}, value: 1}";
      world.bench.cluster.apply(yaml);
      world.members["c1"]->cluster.apply(yaml);
    }
    const auto with_priority = [](const std::string& priority) {
      std::string yaml = Bench::yaml("h", {"a:1"});
      const std::string before = "templateSpec:\n";
      return yaml.insert(yaml.find(before) + before.size(), "      priorityClassName: " + priority + "\n");
    };
    const auto in_member = [&] {
      const auto job = world.members["c1"]->cluster.get(resources::kJobs, "default", "h-a-0");
      return job ? std::string(job->string_at({"spec", "priorityClassName"})) : "";
    };
    world.bench.cluster.apply(with_priority("high"));
    ASSERT_TRUE(world.bench.wait([&] { return in_member() == "high"; }));
    world.members["c1"]->cluster.patch(resources::kJobs, "default", "h-a-0", R"({"spec":{"priorityClassName":"low"}})");
    world.bench.settle();
    EXPECT_EQ(world.bench.job("h-a-0")->string_at({"spec", "priorityClassName"}), "high");
    world.bench.cluster.apply(with_priority("higher"));
    EXPECT_TRUE(world.bench.wait([&] { return in_member() == "higher"; })) << in_member();
    EXPECT_EQ(world.bench.job("h-a-0")->string_at({"spec", "priorityClassName"}), "higher");
  });
}

}  // namespace
}  // namespace basalt::federation
