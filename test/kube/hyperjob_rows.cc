#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "sim/scenario_rows.h"
#include "test/kube/hyperjob_place.h"
#include "test/kube/scenario_program.h"

// The program of all hyper job tests on real API servers: the scenarios that lie beside the code (see CMakeLists.txt),
// on the host, and those of hyperjob_real_test.cc, on host and member.

namespace basalt::test {
namespace {

using sim::expect_covered;
using sim::LeftOutTest;
using sim::RowElsewhere;

constexpr LeftOutTest kLeftOut[] = {
    {"HyperJobStatus.Rows41And42_*", "needs a hook inside the embedded API server; HyperJobReal has it by a policy"},
};

constexpr std::string_view kPartsTest = "src/controllers/hyperjob/parts_test.cc";
constexpr RowElsewhere kElsewhere[] = {
    {48, "a pure function of the text", kPartsTest, "an empty object means something"},
    {49, "a pure function of the text", kPartsTest, "Order of keys does not matter"},
    {50, "a pure function of the text", kPartsTest, "TEST(HyperJobHash, Rows48To50_CheckValues)"},
};

TEST(HyperJobRows, EveryRowIsCoveredOrHasItsReason) {
  expect_covered("on real API servers", controllers::hyperjob::kRows, kLeftOut, kElsewhere);
}

std::unique_ptr<sim::Place> open_host(std::string& error) {
  auto place = std::make_unique<HyperJobPlace>();
  error = place->error();
  HyperJobPlace::current() = place.get();
  return place;
}

}  // namespace
}  // namespace basalt::test

int main(int count, char** arguments) {
  return basalt::test::run_scenarios(count, arguments,
                                     {.open = basalt::test::open_host,
                                      .close = [] { basalt::test::HyperJobPlace::current() = nullptr; },
                                      .filter = basalt::sim::filter_without(basalt::test::kLeftOut)});
}
