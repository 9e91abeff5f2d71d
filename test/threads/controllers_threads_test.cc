#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rt/real_runtime.h"
#include "sim/cluster.h"
#include "sim/scenario_rows.h"
#include "sim/stage.h"
#include "test/kube/activity.h"
#include "test/kube/left_out.h"

// The scenarios that lie beside the controllers (see CMakeLists.txt for the files), on real threads. The API server is
// the one in memory.

namespace basalt::test {
namespace {

// Half a minute or more of events, and nothing that others do not have.
constexpr std::string_view kLong[] = {"ShardingFaults.HundredEventsASecondForAMinute", "Publishing.Row54_*",
                                      "ShardingWatch.Row86_*", "TtlScenario.T5*"};

class ThreadsCluster final : public sim::Cluster {
 public:
  ThreadsCluster(rt::Runtime& runtime, Options options, Activity& activity)
      : Cluster(runtime, std::move(options)), active_(make_client("kubernetes-admin", {"system:masters"}), activity) {
    drive(&active_);
  }

 private:
  ActiveClient active_;
};

class ThreadsPlace final : public sim::Place {
 public:
  [[nodiscard]] rt::Runtime& runtime() override { return *runtime_; }
  [[nodiscard]] std::unique_ptr<sim::Driver> open(const sim::Cluster::Options& options) override {
    return std::make_unique<ThreadsCluster>(*runtime_, options, activity_);
  }
  void let_pass(rt::Duration time) override { activity_.let_pass(time); }

 private:
  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  Activity activity_{*runtime_, std::chrono::milliseconds(300)};
};

std::string filter() {
  std::string filter = sim::filter_without(kLeftOutInRealTime);
  for (const std::string_view pattern : kLong) filter.append(pattern).append(":");
  return filter;
}

}  // namespace
}  // namespace basalt::test

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, basalt::test::filter());
  basalt::test::ThreadsPlace place;
  basalt::sim::chosen_place() = &place;
  const int result = RUN_ALL_TESTS();
  basalt::sim::chosen_place() = nullptr;
  return result;
}
