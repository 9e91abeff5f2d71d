#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "controllers/datadependency/scenario_rows.h"

namespace basalt::controllers::datadependency {
namespace {

std::set<std::string> tests_of_this_program() {
  std::set<std::string> names;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j)
      names.insert(std::string(suite.name()) + "." + suite.GetTestInfo(j)->name());
  }
  return names;
}

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(BASALT_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The sheet has rows 1 to 73 with gaps: 62 of them.
TEST(DataRows, EveryRowHasATestThatIsThere) {
  const std::set<std::string> here = tests_of_this_program();
  const std::string integration = text_of("test/integration/data_test.py");
  const std::string kube = text_of("test/kube/data_scenarios_real_test.cc");
  int last = 0;
  std::size_t tests = 0;
  for (const ScenarioRow& row : scenario_rows()) {
    EXPECT_GT(row.number, last) << "in order, each once";
    last = row.number;
    EXPECT_FALSE(row.tests.empty()) << row.number;
    for (const std::string_view test : row.tests) {
      ++tests;
      if (test.starts_with("integration:")) {
        EXPECT_NE(integration.find("def " + std::string(test.substr(12)) + "("), std::string::npos) << test;
      } else if (test.starts_with("kube:")) {
        EXPECT_NE(kube.find(test.substr(test.find('.') + 1)), std::string::npos) << test;
      } else {
        EXPECT_TRUE(here.contains(std::string(test))) << "row " << row.number << ": there is no " << test;
      }
    }
  }
  EXPECT_EQ(scenario_rows().size(), 62U);
  EXPECT_EQ(last, 73);
  std::printf("rows: %zu, played by %zu tests named\n", scenario_rows().size(), tests);
}

}  // namespace
}  // namespace basalt::controllers::datadependency
