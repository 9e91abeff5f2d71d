#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace basalt::controllers::queue {

// What is to be done to a queue. Whatever word is neither of the commands means Sync.
enum class QueueAction : std::uint8_t { Sync, Open, Close };
inline constexpr int kQueueActions = 3;
[[nodiscard]] QueueAction queue_action_of(std::string_view word);

// `status.state`. Empty is the state of a queue that nobody has looked at yet; a word that is none of the states counts
// as Unknown.
enum class QueueState : std::uint8_t { Empty, Open, Closing, Closed, Unknown };
inline constexpr int kQueueStates = 5;
[[nodiscard]] QueueState queue_state_of(std::string_view word);
[[nodiscard]] std::string_view to_string(QueueState state);
[[nodiscard]] constexpr bool is_shut(QueueState state) {
  return state == QueueState::Closing || state == QueueState::Closed;
}

// One cell of the state machine.
struct QueueTransition {
  QueueAction procedure = QueueAction::Sync;  // whose duties (events, annotation) go with the change
  QueueState without_groups = QueueState::Empty;
  QueueState with_groups = QueueState::Empty;  // the queue holds pod groups, in whatever phase
  bool operator==(const QueueTransition&) const = default;
};
// The whole state machine, for every state and action (volcano pkg/controllers/queue/state, main after 1.15).
[[nodiscard]] const QueueTransition& queue_transition(QueueState state, QueueAction action);

// What is known of a queue and of the one above it, from the caches or from a fresh read.
struct ObservedQueue {
  std::string name;
  std::string parent;            // spec.parent, "" if absent
  std::string closed_by_parent;  // the annotation, "" if absent
  QueueState state = QueueState::Empty;
  bool is_being_deleted = false;
  bool is_in_cycle = false;  // following the parents leads back here
  std::int64_t pod_groups = 0;
  std::optional<QueueState> parent_state;  // of `parent` (of root if `parent` is empty); nothing if it does not exist
};

// Why a command is not carried out now.
enum class Refusal : std::uint8_t {
  None,
  RootStaysOpen,   // for good
  BeingDeleted,    // for good
  UnknownAction,   // for good
  ParentIsShut,    // waits: the parent may be opening right now
  ParentIsMissing  // waits: it may be about to be made
};
[[nodiscard]] constexpr bool may_pass(Refusal refusal) {
  return refusal == Refusal::ParentIsShut || refusal == Refusal::ParentIsMissing;
}

// The writes that a queue needs, in this order; nothing set means that all is well.
struct QueuePlan {
  Refusal refusal = Refusal::None;  // of the command; nothing else is set then
  bool set_parent = false;          // spec.parent becomes root
  // The annotation closed-by-parent, before the state is written: true if the parent closes the queue, so that a crash
  // in between loses nothing; false if a command does, so that the parent does not open it again.
  std::optional<bool> mark_before;
  std::optional<QueueState> state;  // status.state
  bool announce_close = false;      // the event "Close queue succeed" goes with it
  bool clear_mark_after = false;    // the annotation becomes false; a crash before it leaves it to a later pass
  bool operator==(const QueuePlan&) const = default;
  [[nodiscard]] bool is_empty() const { return *this == QueuePlan{}; }
};

// `command` is the word of the command to carry out, if there is one. Pure.
[[nodiscard]] QueuePlan plan_queue(const ObservedQueue& queue, std::optional<std::string_view> command);

}  // namespace basalt::controllers::queue
