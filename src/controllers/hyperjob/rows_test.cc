#include "controllers/hyperjob/test_support.h"
#include "sim/scenario_rows.h"

// Which scenario is played where, of those that this program does not play itself.
namespace basalt::controllers::hyperjob {
namespace {

constexpr std::string_view kFederation = "src/sim/federation_test.cc";
constexpr sim::RowElsewhere kElsewhere[] = {
    {44, "with members", kFederation, "Row44_"}, {53, "with members", kFederation, "Row53_"},
    {55, "with members", kFederation, "Row55_"}, {57, "with members", "src/sim/federation_users_test.cc", "Row57_"},
    {58, "with members", kFederation, "Row58_"},
};

TEST(HyperJobRows, EveryRowIsPlayedOrHasItsReason) {
  sim::expect_covered("on the simulated cluster", kRows, {}, kElsewhere);
}

}  // namespace
}  // namespace basalt::controllers::hyperjob
