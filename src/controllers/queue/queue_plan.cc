#include "controllers/queue/queue_plan.h"

#include <array>

#include "api/gen/bus.h"
#include "api/gen/names.h"
#include "api/gen/scheduling_queue.h"

namespace basalt::controllers::queue {
namespace {

using A = QueueAction;
using S = QueueState;

// Rows: states. Columns: Sync, Open, Close.
constexpr std::array<std::array<QueueTransition, kQueueActions>, kQueueStates> kTransitions{{
    // Empty
    {{{A::Sync, S::Open, S::Open}, {A::Sync, S::Open, S::Open}, {A::Close, S::Closed, S::Closing}}},
    // Open
    {{{A::Sync, S::Open, S::Open}, {A::Sync, S::Open, S::Open}, {A::Close, S::Closed, S::Closing}}},
    // Closing
    {{{A::Sync, S::Closed, S::Closing}, {A::Open, S::Open, S::Open}, {A::Sync, S::Closed, S::Closing}}},
    // Closed: stays so even if a pod group came in a race.
    {{{A::Sync, S::Closed, S::Closed}, {A::Open, S::Open, S::Open}, {A::Sync, S::Closed, S::Closed}}},
    // Unknown: set from outside only, and left only by a command.
    {{{A::Sync, S::Unknown, S::Unknown}, {A::Open, S::Open, S::Open}, {A::Close, S::Closed, S::Closing}}},
}};

constexpr std::string_view kTrue = "true";
constexpr std::string_view kFalse = "false";

Refusal refusal_of(const ObservedQueue& queue, std::string_view command) {
  const QueueAction action = queue_action_of(command);
  if (action == A::Sync) return Refusal::UnknownAction;
  if (queue.is_being_deleted) return Refusal::BeingDeleted;
  const bool is_root = queue.name == api::queues::kRoot;
  if (action == A::Close) return is_root ? Refusal::RootStaysOpen : Refusal::None;
  // The children of root may always be opened: root itself cannot be closed by a command.
  if (queue.state == S::Open || is_root || queue.parent.empty() || queue.parent == api::queues::kRoot)
    return Refusal::None;
  if (!queue.parent_state) return Refusal::ParentIsMissing;
  return is_shut(*queue.parent_state) ? Refusal::ParentIsShut : Refusal::None;
}

// What the queue above demands.
QueueAction inherited_action(const ObservedQueue& queue) {
  if (queue.name == api::queues::kRoot || queue.is_in_cycle || !queue.parent_state) return A::Sync;
  if (is_shut(*queue.parent_state) && !is_shut(queue.state)) return A::Close;
  if (*queue.parent_state == S::Open && is_shut(queue.state) && queue.closed_by_parent == kTrue) return A::Open;
  return A::Sync;
}

}  // namespace

QueueAction queue_action_of(std::string_view word) {
  if (word == api::bus::action::kOpenQueue) return A::Open;
  if (word == api::bus::action::kCloseQueue) return A::Close;
  return A::Sync;
}

QueueState queue_state_of(std::string_view word) {
  namespace words = api::scheduling::queue_state;
  if (word.empty()) return S::Empty;
  if (word == words::kOpen) return S::Open;
  if (word == words::kClosing) return S::Closing;
  if (word == words::kClosed) return S::Closed;
  return S::Unknown;
}

std::string_view to_string(QueueState state) {
  namespace words = api::scheduling::queue_state;
  switch (state) {
    case S::Empty:
      return "";
    case S::Open:
      return words::kOpen;
    case S::Closing:
      return words::kClosing;
    case S::Closed:
      return words::kClosed;
    case S::Unknown:
      break;
  }
  return words::kUnknown;
}

const QueueTransition& queue_transition(QueueState state, QueueAction action) {
  return kTransitions.at(static_cast<std::size_t>(state)).at(static_cast<std::size_t>(action));
}

QueuePlan plan_queue(const ObservedQueue& queue, std::optional<std::string_view> command) {
  QueuePlan plan;
  if (command) plan.refusal = refusal_of(queue, *command);
  if (plan.refusal != Refusal::None || queue.is_being_deleted) return plan;

  const bool is_root = queue.name == api::queues::kRoot;
  plan.set_parent = !is_root && queue.parent.empty();

  const QueueAction inherited = inherited_action(queue);
  const QueueAction action = command ? queue_action_of(*command) : inherited;
  const QueueTransition& transition = queue_transition(queue.state, action);
  const QueueState next = queue.pod_groups > 0 ? transition.with_groups : transition.without_groups;

  if (next != queue.state) plan.state = next;
  plan.announce_close = transition.procedure == A::Close && plan.state.has_value();
  const bool is_marked = queue.closed_by_parent == kTrue;
  const bool parent_is_shut = queue.parent_state && is_shut(*queue.parent_state);
  if (command && action == A::Close) {
    // A mark from an earlier time would open the queue again. While the parent is shut it stays: then it is true.
    if (is_marked && !parent_is_shut) plan.mark_before = false;
  } else if (action == A::Close) {
    if (!is_marked) plan.mark_before = true;
  } else if (transition.procedure == A::Open) {
    plan.clear_mark_after = queue.closed_by_parent != kFalse;
  } else if (is_marked && next == S::Open && !parent_is_shut && (is_root || queue.parent_state)) {
    plan.clear_mark_after = true;  // what a crash right after opening left behind
  }
  return plan;
}

}  // namespace basalt::controllers::queue
