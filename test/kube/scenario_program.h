#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "sim/stage.h"
#include "test/kube/kube_fixture.h"

// The program of the scenarios that lie beside the code, at a real place, which is opened before the first test.

namespace basalt::test {

// `open` gives the place, or says why there is none; `close` takes back what else it has set. Both are called once.
struct ScenarioProgram {
  std::function<std::unique_ptr<sim::Place>(std::string& error)> open;
  std::function<void()> close = [] {};
  std::string filter;  // of the tests, if the command line has none
};

class TheRealPlace : public ::testing::Environment {
 public:
  explicit TheRealPlace(ScenarioProgram program) : program_(std::move(program)) {}
  void SetUp() override {
    if (!RealKube::why_skip().empty()) GTEST_SKIP() << RealKube::why_skip();
    std::string error;
    place_ = program_.open(error);
    ASSERT_EQ(error, "");
    ASSERT_NE(place_, nullptr);
    sim::chosen_place() = place_.get();
  }
  void TearDown() override {
    sim::chosen_place() = nullptr;
    program_.close();
    place_.reset();
  }

 private:
  const ScenarioProgram program_;
  std::unique_ptr<sim::Place> place_;
};

inline int run_scenarios(int count, char** arguments, ScenarioProgram program) {
  ::testing::InitGoogleTest(&count, arguments);
  if (GTEST_FLAG_GET(filter) == "*") GTEST_FLAG_SET(filter, program.filter);
  ::testing::AddGlobalTestEnvironment(new TheRealPlace(std::move(program)));
  return RUN_ALL_TESTS();
}

}  // namespace basalt::test
