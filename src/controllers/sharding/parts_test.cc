#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "controllers/sharding/breaker.h"
#include "controllers/sharding/configuration.h"
#include "controllers/sharding/decode.h"
#include "controllers/sharding/partition.h"
#include "controllers/sharding/policies/forecast.h"
#include "controllers/sharding/publish_clock.h"
#include "controllers/sharding/status_report.h"

namespace basalt::controllers::sharding {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

rt::Instant at(double time) {
  return rt::Instant(std::chrono::duration_cast<rt::Duration>(std::chrono::duration<double>(time)));
}

TEST(PublishClock, TheFirstTriggerStartsTheWaitAndOthersJoin) {
  PublishClock clock;
  clock.set_period(at(0), seconds(60), 0.5);
  EXPECT_EQ(clock.next(), at(60));
  clock.trigger(at(10));
  clock.trigger(at(10.1));
  EXPECT_EQ(clock.next(), at(10.2));
  EXPECT_EQ(clock.due(at(10.1)), PublishClock::Due::Nothing);
  EXPECT_EQ(clock.due(at(10.2)), PublishClock::Due::Changes);
  clock.done(at(10.3), {.wrote = true, .random_unit = 0.5});
  clock.trigger(at(10.4));
  EXPECT_EQ(clock.next(), at(11.3));  // not sooner than a second after the last
  clock.done(at(11.3), {.wrote = true, .interval = seconds(5), .random_unit = 0.5});
  clock.trigger(at(11.4));
  EXPECT_EQ(clock.next(), at(16.3));
}

TEST(PublishClock, ThePeriodWithItsFallbackAndSpread) {
  PublishClock clock;
  clock.set_period(at(0), seconds(0), 0.5);
  EXPECT_EQ(clock.period(), seconds(120));
  clock.set_period(at(0), seconds(-3), 0);
  EXPECT_EQ(clock.next(), at(114));
  clock.set_period(at(5), seconds(10), 0.5);
  EXPECT_EQ(clock.due(at(15)), PublishClock::Due::Sync);
  clock.done(at(15), {.is_sync = true, .random_unit = 0.5});
  EXPECT_EQ(clock.next(), at(25));
  clock.request_sync(at(16));
  EXPECT_EQ(clock.due(at(16)), PublishClock::Due::Sync);
}

TEST(PublishClock, FailuresWaitLongerAndLongerButHoldUpNoTrigger) {
  PublishClock clock;
  clock.set_period(at(0), seconds(1000), 0.5);
  double now = 1;
  rt::Duration longest{};
  for (int i = 0; i < 20; ++i) {
    clock.done(at(now), {.is_complete = false, .random_unit = 0.999});
    longest = std::max(longest, clock.next() - at(now));
    EXPECT_GE(clock.next() - at(now), seconds(1));
    now = std::chrono::duration<double>(clock.next().time_since_epoch()).count();
    if (now > 900) break;
  }
  EXPECT_GT(longest, seconds(55));
  EXPECT_LE(longest, seconds(60));
  clock.done(at(now), {.is_complete = false, .random_unit = 0.999});
  clock.trigger(at(now));
  EXPECT_EQ(clock.next(), at(now) + seconds(1));
  clock.done(at(now + 1), {.is_complete = false, .not_before = at(now + 40), .random_unit = 0});
  clock.trigger(at(now + 2));
  EXPECT_EQ(clock.next(), at(now + 40));  // but what the server asks for does
}

TEST(CircuitBreaker, OpensAtHalfAndClosesAfterOneSuccess) {
  CircuitBreaker breaker;
  for (int i = 0; i < 9; ++i) breaker.record(at(i), false);
  EXPECT_EQ(breaker.state(), CircuitBreaker::State::Closed);  // too few to conclude anything
  breaker.record(at(9), true);
  EXPECT_EQ(breaker.state(), CircuitBreaker::State::Open);
  EXPECT_EQ(breaker.allowance(at(10)), 0u);
  EXPECT_EQ(breaker.allowance(at(14.1)), 1u);
  breaker.record(at(14.2), false);
  EXPECT_EQ(breaker.allowance(at(20)), 0u);  // the pause has doubled
  EXPECT_EQ(breaker.allowance(at(24.3)), 1u);
  breaker.record(at(24.4), true);
  EXPECT_GT(breaker.allowance(at(24.5)), 1000u);
  for (int i = 0; i < 100; ++i) breaker.record(at(100 + i), i % 3 == 0 ? false : true);
  EXPECT_EQ(breaker.state(), CircuitBreaker::State::Closed);  // a third is not half
}

TEST(Partition, EqualPartsAndLittleMovement) {
  std::vector<PartMember> members;
  for (int i = 0; i < 10'000; ++i) members.push_back({"node-" + std::to_string(i), -1});
  const auto sizes = [](const std::vector<int>& owners, int parts) {
    std::vector<int> counts(static_cast<std::size_t>(parts), 0);
    for (const int owner : owners) ++counts[static_cast<std::size_t>(owner)];
    return counts;
  };
  const std::vector<int> ten = partition_members(members, 10);
  for (const int count : sizes(ten, 10)) EXPECT_LE(count, 1050);
  for (std::size_t i = 0; i < members.size(); ++i) members[i].part = ten[i];
  EXPECT_EQ(partition_members(members, 10), ten);
  const std::vector<int> eleven = partition_members(members, 11);
  int moved = 0;
  for (std::size_t i = 0; i < ten.size(); ++i) moved += ten[i] != eleven[i];
  EXPECT_LT(moved, 1200);  // at most about an eleventh
  EXPECT_GT(moved, 300);
  for (const int count : sizes(eleven, 11)) EXPECT_LE(count, 955);
  // A node goes: nobody else moves.
  members.erase(members.begin() + 77);
  std::vector<int> rest = ten;
  rest.erase(rest.begin() + 77);
  EXPECT_EQ(partition_members(members, 10), rest);
}

TEST(Partition, AsManyAsTheBytesNeed) {
  EXPECT_EQ(parts_needed(0, 1'200'000, 1), 1);
  EXPECT_EQ(parts_needed(27'000'000, 1'200'000, 1), 51);   // a million names of 24 bytes
  EXPECT_EQ(parts_needed(27'000'000, 1'200'000, 80), 80);  // enough and not wasteful
  EXPECT_EQ(parts_needed(27'000'000, 1'200'000, 200), 51);
}

TEST(Forecast, LearnsTheWeekAndIsTrustedOnlyWhileRight) {
  ForecastModel model;
  constexpr std::int64_t kHour = 3600;
  const auto load = [](std::int64_t hour) { return hour % 24 < 12 ? 50 : 55; };
  std::int16_t given = -1;
  for (std::int64_t hour = 0; hour < 3 * 168; ++hour) given = model.observe(0, load(hour), hour * kHour);
  EXPECT_TRUE(model.is_trusted());
  EXPECT_EQ(given, load(3 * 168));
  EXPECT_LT(model.error_points(), 2);
  for (std::int64_t hour = 504; hour < 700; ++hour) given = model.observe(0, hour % 2 == 0 ? 0 : 100, hour * kHour);
  EXPECT_FALSE(model.is_trusted());
  EXPECT_EQ(given, -1);
}

TEST(Decode, PodsByBothModels) {
  const std::string pod = R"({"metadata":{"uid":"u","resourceVersion":"5"},"spec":{"nodeName":"n",
    "initContainers":[{"resources":{"requests":{"cpu":"3"}}},{"restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}}],
    "containers":[{"resources":{"requests":{"cpu":"500m","memory":"1Gi","nvidia.com/gpu":"2"}}},{"resources":{"requests":{"cpu":"1e-1"}}}],
    "overhead":{"cpu":"100m"}},"status":{"phase":"Running"}})";
  Catalog catalog;
  catalog.resources = {"nvidia.com/gpu"};
  Result<PodReading> read = read_pod(pod, catalog);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(read->counts);
  EXPECT_EQ(read->revision, 5u);
  EXPECT_EQ(read->requests.cpu, 600);
  EXPECT_EQ(read->requests.memory, std::int64_t{1} << 30);
  EXPECT_EQ(read->requests.extra[0], 2);
  catalog.request_model = RequestModel::Effective;
  read = read_pod(pod, catalog);
  EXPECT_EQ(read->requests.cpu, 3100);  // the first init container is the peak: 3 cores, and the overhead
  EXPECT_FALSE(read_pod("{\"spec\":", catalog).ok());
  EXPECT_FALSE(read_pod(R"({"spec":{"nodeName":"n"},"status":{"phase":"Failed"}})", catalog)->counts);
  EXPECT_FALSE(read_pod(R"({"spec":{}})", catalog)->counts);
}

TEST(Configuration, FlagsInVolcanosForm) {
  const std::vector<std::string> entries{"a:batch:-inf:0.5:false:1:10", "b:agent:0.5:Infinity:T:0:0"};
  const Result<Configuration> read = read_scheduler_flags(entries);
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->schedulers.size(), 2u);
  EXPECT_EQ(read->schedulers[0].policies.size(), 2u);  // with its limit
  EXPECT_EQ(read->schedulers[1].policies.size(), 1u);
  EXPECT_EQ(read->warnings.size(), 1u);  // the warm-up preference has no effect
  for (const char* bad : {"a:b:0:1:true:1", "a:b:x:1:true:1:2", "a:b:0:1:maybe:1:2", "a:b:0.9:0.1:true:1:2",
                          "a:b:0:1:true:5:2", ":b:0:1:true:1:2", "a:b:0:1.5:true:1:2"}) {
    EXPECT_FALSE(read_scheduler_flags(std::vector<std::string>{bad}).ok()) << bad;
  }
  EXPECT_EQ(built_in_configuration().schedulers[0].name, "volcano");
}

TEST(Configuration, ErrorsNameThePlaceAndTheRemedy) {
  const auto message = [](std::string_view document) {
    const Result<Configuration> read = read_document(document);
    return read.ok() ? std::string("accepted") : read.error().message;
  };
  EXPECT_NE(message("schedulerConfigs: [{name: a, policies: [{name: alocation-rate}]}]").find("allocation-rate"),
            std::string::npos);
  EXPECT_NE(message("schedulerConfigs: [{name: a, polices: []}]").find("policies"), std::string::npos);
  EXPECT_NE(message("schedulerConfigs: [{name: a, minNodes: 2}]").find("schedulerConfigs[0].maxNodes"),
            std::string::npos);
  EXPECT_NE(
      message("schedulerConfigs: [{name: a, policies: [{name: warmup, arguments: {maxNodes: 2}}]}]").find("node-limit"),
      std::string::npos);
  EXPECT_NE(message("schedulerConfigs: [{name: a, partitions: 3, policies: [{name: warmup}]}, {name: a-1, policies: "
                    "[{name: warmup}]}]")
                .find("partition"),
            std::string::npos);
  EXPECT_EQ(message("schedulerConfigs: [{name: 123, policies: [{name: warmup, weight: 0}]}]"), "accepted");
}

TEST(Status, SurvivesItsOwnForm) {
  ShardingStatus status;
  status.configuration = "ConfigMap a/b";
  status.configuration_problem = "a \"problem\"\n";
  status.document = "schedulerConfigs: []\n";
  status.flags = {"a:b"};
  status.breaker = "open";
  status.nodes = 12;
  status.unassigned = 1;
  status.shards = {{"s", 5, 2, 9, 1, 0, 3}};
  const Result<ShardingStatus> back = from_data(to_data(status));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, status);
}

}  // namespace
}  // namespace basalt::controllers::sharding
