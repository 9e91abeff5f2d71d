#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "controllers/sharding/testing/rows.h"
#include "sim/scenario_rows.h"
#include "test/kube/scenario_program.h"
#include "test/kube/sharding_place.h"

// The program of all sharding tests on a real API server: the scenarios that lie beside the code and in test/scenario
// (see CMakeLists.txt), and those of sharding_real_test.cc.

namespace basalt::test {
namespace {

using sim::expect_covered;
using sim::LeftOutTest;
using sim::RowElsewhere;

constexpr LeftOutTest kLeftOut[] = {
    {"ShardingWatch.Row69_*", "five minutes of silence; on the simulated cluster they cost nothing"},
    {"ShardingWatch.Row74_*",
     "several periods of a minute around a clock that the test sets; no server has a part in it"},
};

constexpr std::string_view kWatchTest = "src/controllers/sharding/sharding_watch_test.cc";
constexpr std::string_view kBench = "bench/sharding_bench.cc";
constexpr RowElsewhere kElsewhere[] = {
    {69, "minutes of silence of a watch: on the simulated cluster", kWatchTest, "Row69_"},
    {74, "the clock jumps by hours: on the simulated cluster", kWatchTest, "Row74_"},
    {84, "the end-to-end suites of Volcano: they need its program, its images and kind", "", ""},
    {87, "300,000 pods: the bench measures the cold start", "bench/sharding_end_to_end.cc",
     "void measure_cold_start()"},
    {89, "30 million pods in the table, no server has a part in it: the bench", kBench, "void pod_table()"},
    {90, "ten minutes of 20,000 pods a second: `sharding_bench soak`", kBench, "void soak("},
    {91, "beside Volcano's controller: it needs its program", "", ""},
};

TEST(ShardingRows, EveryRowIsCoveredOrHasItsReason) {
  expect_covered("on a real API server", controllers::sharding::testing::kRows, kLeftOut, kElsewhere);
}

std::unique_ptr<sim::Place> open_cluster(std::string& error) {
  auto started = RealKube::start({.apiserver_args = {"--delete-collection-workers=16"}});
  error = started.error;
  if (!started.kube) return nullptr;
  auto place = std::make_unique<ShardingPlace>(std::move(started.kube));
  error = place->prepare();
  ShardingPlace::current() = place.get();
  return place;
}

}  // namespace
}  // namespace basalt::test

int main(int count, char** arguments) {
  return basalt::test::run_scenarios(count, arguments,
                                     {.open = basalt::test::open_cluster,
                                      .close = [] { basalt::test::ShardingPlace::current() = nullptr; },
                                      .filter = basalt::sim::filter_without(basalt::test::kLeftOut)});
}
