#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "sim/scenario_rows.h"
#include "test/kube/hyperjob_place.h"

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

// One host for all of them, or the reason why there is none.
class TheHost : public ::testing::Environment {
 public:
  void SetUp() override {
    if (!RealKube::why_skip().empty()) GTEST_SKIP() << RealKube::why_skip();
    place_ = std::make_unique<HyperJobPlace>();
    ASSERT_EQ(place_->error(), "");
    HyperJobPlace::current() = place_.get();
    sim::chosen_place() = place_.get();
  }
  void TearDown() override {
    sim::chosen_place() = nullptr;
    HyperJobPlace::current() = nullptr;
    place_.reset();
  }

 private:
  std::unique_ptr<HyperJobPlace> place_;
};

}  // namespace
}  // namespace basalt::test

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, basalt::sim::filter_without(basalt::test::kLeftOut));
  ::testing::AddGlobalTestEnvironment(new basalt::test::TheHost);
  return RUN_ALL_TESTS();
}
