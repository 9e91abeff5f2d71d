#include "api/conditions.h"

#include <gtest/gtest.h>

#include "api/gen/meta.h"
#include "json/reader.h"

namespace basalt::api {
namespace {

meta::Condition condition(const char* type, const char* status, const char* reason = "") {
  meta::Condition result;
  result.type = type;
  result.status = status;
  result.reason = reason;
  return result;
}

TEST(Conditions, TheTransitionTimeMovesWithTheStatus) {
  std::vector<meta::Condition> conditions;
  EXPECT_TRUE(set_condition(conditions, condition("Ready", "False", "Waiting"), Time::from_unix(100)));
  EXPECT_EQ(conditions[0].last_transition_time, Time::from_unix(100));

  EXPECT_FALSE(set_condition(conditions, condition("Ready", "False", "Waiting"), Time::from_unix(200)))
      << "nothing new: nothing to write";
  EXPECT_TRUE(set_condition(conditions, condition("Ready", "False", "Starting"), Time::from_unix(300)));
  EXPECT_EQ(conditions[0].last_transition_time, Time::from_unix(100)) << "the status is the same";
  EXPECT_EQ(conditions[0].reason, "Starting");

  EXPECT_TRUE(set_condition(conditions, condition("Ready", "True"), Time::from_unix(400)));
  EXPECT_EQ(conditions[0].last_transition_time, Time::from_unix(400));

  meta::Condition dated = condition("Ready", "False");
  dated.last_transition_time = Time::from_unix(450);
  EXPECT_TRUE(set_condition(conditions, dated, Time::from_unix(500)));
  EXPECT_EQ(conditions[0].last_transition_time, Time::from_unix(450)) << "a given time is taken";
  EXPECT_EQ(conditions.size(), 1);
}

TEST(Conditions, FindAndRemove) {
  std::vector<meta::Condition> conditions = {condition("A", "True"), condition("B", "False")};
  EXPECT_TRUE(is_condition_true(conditions, "A"));
  EXPECT_FALSE(is_condition_true(conditions, "B"));
  EXPECT_TRUE(is_condition_false(conditions, "B"));
  EXPECT_FALSE(is_condition_false(conditions, "C"));
  EXPECT_EQ(find_condition(conditions, "B")->status, "False");
  EXPECT_EQ(find_condition(conditions, "C"), nullptr);
  EXPECT_TRUE(remove_condition(conditions, "A"));
  EXPECT_FALSE(remove_condition(conditions, "A"));
  EXPECT_EQ(conditions.size(), 1);
}

TEST(Conditions, WhatOthersAddedStays) {
  std::vector<meta::Condition> conditions = {
      json::from_text<meta::Condition>(
          R"({"type":"A","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z","extra":1})")
          .value()};
  EXPECT_FALSE(set_condition(conditions, condition("A", "True"), Time::from_unix(5)));
  EXPECT_TRUE(set_condition(conditions, condition("A", "False"), Time::from_unix(5)));
  EXPECT_FALSE(conditions[0].unknown.empty());
}

}  // namespace
}  // namespace basalt::api
