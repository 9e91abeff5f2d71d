#include "scheduler/explain.h"

#include <gtest/gtest.h>

#include <vector>

#include "json/reader.h"

namespace basalt::scheduler {
namespace {

using api::scheduling::PodGroup;

PodGroup group_of(std::string_view json) {
  auto group = json::from_text<PodGroup>(json);
  EXPECT_TRUE(group.ok());
  return std::move(*group);
}

TEST(Explain, AReasonSurvivesItsAnnotation) {
  for (int i = 1; i <= static_cast<int>(PendingKind::Refused); ++i) {
    PendingReason reason;
    reason.kind = static_cast<PendingKind>(i);
    reason.text = "two \"words\"";
    reason.queue = "q";
    reason.needed = 5;
    reason.fitted = 3;
    reason.position = 2;
    reason.waiting = 9;
    reason.ahead = "ns/other";
    reason.holder = "ns/big";
    reason.shortages = {{"cpu", "5", "3", "2"}, {"example.com/gpu", "1", "0", "1"}};
    reason.unblock = unblock_text(reason);
    EXPECT_FALSE(reason.unblock.empty()) << to_string(reason.kind);
    EXPECT_NE(to_string(reason.kind), "");
    EXPECT_FALSE(condition_reason_of(reason.kind).empty());
    const auto read = decode_reason(encode_reason(reason));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(*read, reason);
  }
}

TEST(Explain, WhatIsNotOursIsNotBelieved) {
  for (const char* text : {"", "[]", "{", "null", R"({"kind":"None"})", R"({"kind":"Weather"})", R"({"text":"x"})"})
    EXPECT_FALSE(decode_reason(text).has_value()) << text;
  EXPECT_FALSE(decode_reason(R"({"kind":"NoRoom","text":")" + std::string(kPendingBytesMax, 'x') + "\"}").has_value());
  const auto odd =
      decode_reason(R"({"kind":"NoRoom","needed":-4,"fitted":"three","short":[3,{"resource":7}],"position":1e99})");
  ASSERT_TRUE(odd.has_value());
  EXPECT_EQ(odd->needed, 0);
  EXPECT_EQ(odd->fitted, 0);
  EXPECT_EQ(odd->shortages.size(), 2u);
}

TEST(Explain, TheConditionOfAnotherSchedulerIsReadToo) {
  const PodGroup group =
      group_of(R"({"metadata":{"name":"g","namespace":"n","uid":"1"},"spec":{"minMember":3},"status":{
      "phase":"Pending","conditions":[{"type":"Unschedulable","status":"True","reason":"NotEnoughResources",
      "lastTransitionTime":"2026-01-01T00:00:00Z","message":"3/3 tasks in gang unschedulable"}]}})");
  const Explanation explanation = explain_group(group);
  EXPECT_EQ(explanation.said_by, "condition");
  EXPECT_EQ(explanation.reason.kind, PendingKind::NoRoom);
  EXPECT_EQ(explanation.reason.text, "3/3 tasks in gang unschedulable");
  EXPECT_EQ(explanation.reason.needed, 3);
  EXPECT_FALSE(explanation.is_numbered);
  EXPECT_FALSE(explanation.since.is_zero());
  EXPECT_FALSE(explanation.reason.unblock.empty());
}

TEST(Explain, WithoutAWordFromASchedulerTheObjectsSpeak) {
  const PodGroup group =
      group_of(R"({"metadata":{"name":"g","namespace":"n","uid":"1"},"spec":{"minMember":3,"queue":"q"}})");
  EXPECT_EQ(explain_group(group).said_by, "objects");
  EXPECT_EQ(explain_group(group, {.queue_is_known_missing = true}).reason.kind, PendingKind::QueueMissing);
  api::scheduling::Queue queue;
  queue.status.state = "Closed";
  EXPECT_EQ(explain_group(group, {.queue = &queue}).reason.kind, PendingKind::QueueClosed);
  PodGroup runs = group;
  runs.status.phase = "Running";
  EXPECT_EQ(explain_group(runs).reason.kind, PendingKind::None);
}

TEST(Explain, PositionIsThatOfTheSchedulersOrder) {
  std::vector<PodGroup> groups;
  const auto add = [&](const std::string& name, const std::string& queue, const std::string& priority, int minute,
                       const std::string& phase) {
    groups.push_back(group_of(R"({"metadata":{"name":")" + name + R"(","namespace":"n","uid":")" + name +
                              R"(","creationTimestamp":"2026-01-01T00:0)" + std::to_string(minute) +
                              R"(:00Z"},"spec":{"queue":")" + queue + R"(","priorityClassName":")" + priority +
                              R"("},"status":{"phase":")" + phase + R"("}})"));
  };
  add("own", "q", "", 5, "Pending");
  add("older", "q", "", 3, "Inqueue");
  add("oldest", "q", "", 1, "Pending");
  add("younger", "q", "", 7, "Pending");
  add("important", "q", "high", 9, "Pending");
  add("runs", "q", "", 0, "Running");
  add("elsewhere", "other", "", 0, "Pending");
  ExplainFacts facts;
  facts.groups = groups;
  facts.priority_of = [](std::string_view name) { return name == "high" ? 100 : 0; };
  const PendingReason reason = explain_group(groups.front(), facts).reason;
  EXPECT_EQ(reason.position, 4u);
  EXPECT_EQ(reason.waiting, 5u);
  EXPECT_EQ(reason.ahead, "n/older");
}

}  // namespace
}  // namespace basalt::scheduler
