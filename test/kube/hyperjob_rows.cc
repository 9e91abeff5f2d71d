#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "test/kube/hyperjob_place.h"
#include "test/kube/scenario_rows.h"

// The program of all hyper job tests on real API servers: the scenarios that lie beside the code (see CMakeLists.txt),
// on the host, and those of hyperjob_real_test.cc, on host and member.

namespace basalt::test {
namespace {

// The table of scenarios, by its numbers.
constexpr int kRows[] = {1,  2,  3,  5,  6,  7,  8,  9,  11, 12, 13, 14, 15, 17, 18, 19, 20,
                         21, 23, 24, 25, 26, 27, 29, 30, 31, 32, 33, 35, 36, 37, 38, 39, 41,
                         42, 43, 44, 45, 47, 48, 49, 50, 51, 53, 54, 55, 56, 57, 58};

constexpr LeftOutTest kLeftOut[] = {
    {"HyperJobStatus.Rows41And42_*", "needs a hook inside the embedded API server; HyperJobReal has it by a policy"},
};

constexpr std::string_view kPartsTest = "src/controllers/hyperjob/parts_test.cc";
constexpr RowElsewhere kElsewhere[] = {
    {48, "a pure function of the text", kPartsTest, "an empty object means something"},
    {49, "a pure function of the text", kPartsTest, "Order of keys does not matter"},
    {50, "a pure function of the text", kPartsTest, "TEST(HyperJobHash, Rows48To50_CheckValues)"},
};

TEST(HyperJobRows, EveryRowIsCoveredOrHasItsReason) { expect_covered(kRows, kLeftOut, kElsewhere); }

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
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, basalt::test::filter_without(basalt::test::kLeftOut));
  ::testing::AddGlobalTestEnvironment(new basalt::test::TheHost);
  return RUN_ALL_TESTS();
}
