#include "controllers/queue/queue_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "controllers/queue/pod_group_counts.h"
#include "controllers/queue/queue_controller.h"
#include "controllers/queue/queue_writes.h"

namespace basalt::controllers::queue {
namespace {

using S = QueueState;
constexpr std::array<S, kQueueStates> kAllStates = {S::Empty, S::Open, S::Closing, S::Closed, S::Unknown};
constexpr std::array<QueueAction, kQueueActions> kAllActions = {QueueAction::Sync, QueueAction::Open,
                                                                QueueAction::Close};

// Section 2.7 of the fact sheet, written a second time, by words.
S expected_state(S state, QueueAction action, bool has_groups) {
  const S closed = has_groups ? S::Closing : S::Closed;
  if (action == QueueAction::Open) return S::Open;
  if (action == QueueAction::Close) return state == S::Closed ? S::Closed : closed;
  if (state == S::Empty || state == S::Open) return S::Open;
  if (state == S::Closing) return closed;
  return state;
}

TEST(QueuePlan, EveryStateActionAndCountGoesWhereTheTableSays) {
  int cells = 0;
  for (const S state : kAllStates) {
    for (const QueueAction action : kAllActions) {
      const QueueTransition& transition = queue_transition(state, action);
      EXPECT_EQ(transition.without_groups, expected_state(state, action, false));
      EXPECT_EQ(transition.with_groups, expected_state(state, action, true));
      ++cells;
    }
  }
  EXPECT_EQ(cells, 15);
}

ObservedQueue observed(S state) { return {.name = "q", .parent = "root", .state = state, .parent_state = S::Open}; }

// Everything that can be observed, with every command: whatever happens, it ends.
TEST(QueuePlan, EveryObservationSettlesAndNothingIsWrittenWithoutChange) {
  const std::array<std::string, 3> marks = {"", "true", "false"};
  const std::array<std::optional<std::string_view>, 4> commands = {std::nullopt, "OpenQueue", "CloseQueue", "Foo"};
  int observations = 0;
  for (const S state : kAllStates) {
    for (const std::string& mark : marks) {
      for (int parent = -1; parent < kQueueStates; ++parent) {
        for (const char* parent_name : {"", "root", "p"}) {
          for (const std::int64_t groups : {0, 2}) {
            for (const bool is_root : {false, true}) {
              for (const auto& command : commands) {
                ++observations;
                ObservedQueue queue{.name = is_root ? "root" : "q",
                                    .parent = is_root ? "" : parent_name,
                                    .closed_by_parent = mark,
                                    .state = state,
                                    .pod_groups = groups};
                if (parent >= 0) queue.parent_state = kAllStates.at(static_cast<std::size_t>(parent));
                const auto carry_out = [&queue](const QueuePlan& plan) {
                  if (plan.set_parent) queue.parent = "root";
                  if (plan.mark_before) queue.closed_by_parent = *plan.mark_before ? "true" : "false";
                  if (plan.state) queue.state = *plan.state;
                  if (plan.clear_mark_after) queue.closed_by_parent = "false";
                };
                const QueuePlan first = plan_queue(queue, command);
                if (first.refusal != Refusal::None) {
                  EXPECT_EQ(first, (QueuePlan{.refusal = first.refusal}));
                  continue;
                }
                EXPECT_TRUE(!first.state || *first.state != state);
                EXPECT_TRUE(!first.announce_close || (first.state && is_shut(*first.state)));
                EXPECT_FALSE(is_root && (first.set_parent || (command == "CloseQueue")));
                carry_out(first);
                if (command) {
                  // Carried out again, as after a crash before the command was deleted: nothing more changes.
                  EXPECT_FALSE(plan_queue(queue, command).state) << "command " << *command;
                }
                carry_out(plan_queue(queue, std::nullopt));
                EXPECT_TRUE(plan_queue(queue, std::nullopt).is_empty());
              }
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(observations, 5 * 3 * 6 * 3 * 2 * 2 * 4);
}

TEST(QueuePlan, ACrashBetweenTwoWritesOfACloseIsMadeGood) {
  // The parent closes the queue; the mark is written, then a crash.
  ObservedQueue queue = observed(S::Open);
  queue.parent = "p";
  queue.parent_state = S::Closed;
  const QueuePlan plan = plan_queue(queue, std::nullopt);
  EXPECT_EQ(plan, (QueuePlan{.mark_before = true, .state = S::Closed, .announce_close = true}));
  queue.closed_by_parent = "true";
  EXPECT_EQ(plan_queue(queue, std::nullopt).state, S::Closed);
  // It opened with its parent; the crash came before the mark was cleared.
  queue.parent_state = S::Open;
  queue.state = S::Open;
  EXPECT_EQ(plan_queue(queue, std::nullopt), (QueuePlan{.clear_mark_after = true}));
  // The user closes it while the old mark is there: it must not open again by itself.
  EXPECT_EQ(plan_queue(queue, "CloseQueue"),
            (QueuePlan{.mark_before = false, .state = S::Closed, .announce_close = true}));
}

TEST(QueuePlan, AChildThatTheUserClosedStaysClosed) {
  ObservedQueue queue = observed(S::Closed);
  EXPECT_TRUE(plan_queue(queue, std::nullopt).is_empty());
  queue.closed_by_parent = "true";
  EXPECT_EQ(plan_queue(queue, std::nullopt), (QueuePlan{.state = S::Open, .clear_mark_after = true}));
  queue.parent_state = S::Closing;
  EXPECT_TRUE(plan_queue(queue, std::nullopt).is_empty());
  // Closed again by the user while the parent is closed: the mark stays, as upstream.
  EXPECT_TRUE(plan_queue(queue, "CloseQueue").is_empty());
}

TEST(QueuePlan, RefusalsSayWhy) {
  ObservedQueue root{.name = "root", .state = S::Open};
  EXPECT_EQ(plan_queue(root, "CloseQueue").refusal, Refusal::RootStaysOpen);
  ObservedQueue child = observed(S::Closed);
  child.parent = "p";
  child.parent_state = S::Closing;
  EXPECT_EQ(plan_queue(child, "OpenQueue").refusal, Refusal::ParentIsShut);
  child.parent_state.reset();
  EXPECT_EQ(plan_queue(child, "OpenQueue").refusal, Refusal::ParentIsMissing);
  EXPECT_EQ(plan_queue(child, "Foo").refusal, Refusal::UnknownAction);
  child.is_being_deleted = true;
  EXPECT_EQ(plan_queue(child, "CloseQueue").refusal, Refusal::BeingDeleted);
  EXPECT_TRUE(plan_queue(child, std::nullopt).is_empty());
}

TEST(QueuePlan, QueuesThatAreEachOthersParentsDoNotSwing) {
  ObservedQueue queue = observed(S::Open);
  queue.parent_state = S::Closed;
  queue.is_in_cycle = true;
  EXPECT_TRUE(plan_queue(queue, std::nullopt).is_empty());
}

TEST(QueueWrites, AreWhatTheFactSheetSays) {
  EXPECT_EQ(well_known_queue_body("root"),
            R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"root"},)"
            R"("spec":{"reclaimable":false,"weight":1}})");
  EXPECT_EQ(well_known_queue_body("default"),
            R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue","metadata":{"name":"default"},)"
            R"("spec":{"parent":"root","reclaimable":true,"weight":1}})");
  api::scheduling::Queue queue;
  queue.metadata.name = "q";
  queue.metadata.uid = "u";
  queue.metadata.resource_version = "7";
  const kube::Request state = state_patch(queue, S::Closed, "8");
  EXPECT_EQ(state.body, R"({"apiVersion":"scheduling.volcano.sh/v1beta1","kind":"Queue",)"
                        R"("metadata":{"name":"q","resourceVersion":"8"},"status":{"state":"Closed"}})");
  EXPECT_EQ(state.field_manager, "queue-controller");
  EXPECT_EQ(state.subresource, "status");
  EXPECT_TRUE(state.force);
  EXPECT_EQ(state_patch(queue, S::Closed, "8", StateWrite::Merge).body,
            R"({"metadata":{"resourceVersion":"8"},"status":{"state":"Closed"}})");
  EXPECT_EQ(metadata_patch(queue, {.mark = true}).body,
            R"({"metadata":{"uid":"u","annotations":{"volcano.sh/closed-by-parent":"true"}}})");
  EXPECT_EQ(metadata_patch(queue, {.set_parent = true}).body,
            R"({"metadata":{"uid":"u","resourceVersion":"7"},"spec":{"parent":"root"}})");
}

TEST(PodGroupCounts, FollowsGroupsFromPhaseToPhaseAndQueueToQueue) {
  PodGroupCounts counts;
  counts.add("a", "Pending");
  counts.add("a", "");
  EXPECT_EQ(counts.of("a"), (GroupCounts{.by_phase = {1, 0, 0, 0, 0}, .total = 2}));
  counts.add("a", "Running");
  counts.remove("a", "Pending");
  EXPECT_EQ(counts.of("a"), (GroupCounts{.by_phase = {0, 1, 0, 0, 0}, .total = 2}));
  counts.add("b", "Running");
  counts.remove("a", "Running");
  counts.remove("a", "");
  EXPECT_EQ(counts.of("a"), GroupCounts{});
  EXPECT_EQ(counts.queues(), 1u);
}

TEST(QueueController, WaitsAsLongAsTheRetriesOfTheFlagTook) {
  EXPECT_EQ(command_wait_max(15), std::chrono::milliseconds(163'835));
  EXPECT_EQ(command_wait_max(0), std::chrono::milliseconds(0));
  EXPECT_EQ(command_wait_max(-1), rt::Duration::max());
}

}  // namespace
}  // namespace basalt::controllers::queue
