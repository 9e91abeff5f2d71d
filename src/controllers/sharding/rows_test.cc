#include "controllers/sharding/testing/rows.h"

#include <gtest/gtest.h>

#include "sim/scenario_rows.h"

// Which scenario is played where, of those that this program does not play itself.

namespace basalt::controllers::sharding::testing {
namespace {

constexpr std::string_view kReal = "test/kube/sharding_real_test.cc";
constexpr std::string_view kSchedulers = "test/scenario/sharding_schedulers_test.cc";
constexpr std::string_view kBench = "bench/sharding_bench.cc";
constexpr sim::RowElsewhere kElsewhere[] = {
    {1, "what kubectl shows: in the kube lane", kReal, "Rows01And03And06_"},
    {20, "a container is resized: pods that grow are here, the subresource is in the kube lane", kReal, "Row20_"},
    {45, "the flag of the manager", "src/controllers/manager/options_test.cc", "-sharding-controller"},
    {73, "two managers", kSchedulers, "Row73_"},
    {77, "with schedulers", kSchedulers, "Row77_"},
    {78, "with schedulers", kSchedulers, "Row78_"},
    {79, "with schedulers", kSchedulers, "Row79_"},
    {80, "with schedulers", kSchedulers, "Row80_"},
    {81, "with schedulers", kSchedulers, "Row81_"},
    {83, "with schedulers", kSchedulers, "Row83_"},
    {84, "the end-to-end suites of Volcano: they need its program, its images and kind", "", ""},
    {85, "the time until 100 nodes are stored: in the kube lane and in the bench", kReal, "Row85_"},
    {87, "300,000 pods: the bench measures the cold start", "bench/sharding_end_to_end.cc",
     "void measure_cold_start()"},
    {89, "30 million pods in the table: the bench", kBench, "void pod_table()"},
    {90, "ten minutes of 20,000 pods a second: `sharding_bench soak`", kBench, "void soak("},
    {91, "beside Volcano's controller: it needs its program", "", ""},
};

TEST(ShardingRows, EveryRowIsPlayedOrHasItsReason) {
  sim::expect_covered("on the simulated cluster", kRows, {}, kElsewhere);
}

TEST(ShardingRows, NamesAreUnderstood) {
  EXPECT_EQ(sim::rows_in("Row07_A"), (std::set<int>{7}));
  EXPECT_EQ(sim::rows_in("Rows07And09And11_A"), (std::set<int>{7, 9, 11}));
  EXPECT_EQ(sim::rows_in("Rows07To10And12_A"), (std::set<int>{7, 8, 9, 10, 12}));
  EXPECT_EQ(sim::rows_in("Rowing"), (std::set<int>{}));
  EXPECT_EQ(sim::rows_in("ARow7"), (std::set<int>{}));
}

}  // namespace
}  // namespace basalt::controllers::sharding::testing
