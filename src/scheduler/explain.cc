#include "scheduler/explain.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "api/conditions.h"
#include "json/value.h"
#include "json/writer.h"

namespace basalt::scheduler {

namespace scheduling = api::scheduling;

namespace {

std::string number_text(std::int64_t number) { return std::to_string(number); }

std::string lacking_text(const PendingReason& reason) {
  std::string text;
  for (const ResourceShortage& shortage : reason.shortages)
    text += (text.empty() ? "" : ", ") + shortage.lacking + " of " + shortage.name;
  return text;
}

std::int32_t count_at(const json::Value& value, std::string_view key) {
  const json::Value* member = value.find(key);
  if (member == nullptr || !member->is_int()) return 0;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(member->as_int(), 0, INT32_MAX));
}

// The kind that another scheduler's word means.
PendingKind kind_of_condition(std::string_view word) {
  namespace reasons = scheduling::pod_group_condition_reason;
  if (word == reasons::kNotEnoughResources) return PendingKind::NoRoom;
  if (word == reasons::kNotEnoughTasks) return PendingKind::NotEnoughPods;
  if (word == reasons::kNotEnoughPodsOfTask) return PendingKind::NotEnoughPodsOfTask;
  const PendingKind kind = pending_kind_of(word);
  return kind == PendingKind::None ? PendingKind::NoRoom : kind;
}

bool is_waiting(const scheduling::PodGroup& group) {
  const std::string& phase = group.status.phase;
  return phase.empty() || phase == scheduling::pod_group_phase::kPending ||
         phase == scheduling::pod_group_phase::kInqueue || phase == scheduling::pod_group_phase::kUnknown;
}

std::string queue_of(const scheduling::PodGroup& group) {
  return group.spec.queue.empty() ? "default" : group.spec.queue;
}

std::string name_of(const scheduling::PodGroup& group) { return group.metadata.namespace_ + "/" + group.metadata.name; }

// The place in the queue as it is now, in the scheduler's order: priority, age, name.
void find_position(const scheduling::PodGroup& group, const ExplainFacts& facts, PendingReason& reason) {
  const auto rank = [&](const scheduling::PodGroup& of) {
    const std::int32_t priority =
        facts.priority_of && !of.spec.priority_class_name.empty() ? facts.priority_of(of.spec.priority_class_name) : 0;
    return std::tuple(-static_cast<std::int64_t>(priority), of.metadata.creation_timestamp.unix_seconds(),
                      std::string_view(of.metadata.namespace_), std::string_view(of.metadata.name));
  };
  const auto own = rank(group);
  const std::string queue = queue_of(group);
  reason.position = 1;
  reason.waiting = 1;
  reason.ahead.clear();
  const scheduling::PodGroup* before = nullptr;
  for (const scheduling::PodGroup& other : facts.groups) {
    if (!is_waiting(other) || queue_of(other) != queue || other.metadata.uid == group.metadata.uid) continue;
    ++reason.waiting;
    if (rank(other) >= own) continue;
    ++reason.position;
    if (before == nullptr || rank(*before) < rank(other)) before = &other;
  }
  if (before != nullptr) reason.ahead = name_of(*before);
}

bool is_closed(const scheduling::Queue& queue) {
  return queue.status.state == scheduling::queue_state::kClosed ||
         queue.status.state == scheduling::queue_state::kClosing;
}

// Nobody has said anything: what the objects themselves tell.
void explain_from_objects(const scheduling::PodGroup& group, const ExplainFacts& facts, PendingReason& reason) {
  const std::string queue = queue_of(group);
  const bool is_admitted = group.status.phase == scheduling::pod_group_phase::kInqueue ||
                           group.status.phase == scheduling::pod_group_phase::kUnknown;
  if (facts.queue_is_known_missing) {
    reason.kind = PendingKind::QueueMissing;
    reason.text = "the queue \"" + queue + "\" does not exist";
  } else if (facts.queue != nullptr && is_closed(*facts.queue) && !is_admitted) {
    reason.kind = PendingKind::QueueClosed;
    reason.text = "the queue \"" + queue + "\" is " + facts.queue->status.state;
  } else if (is_admitted) {
    reason.kind = PendingKind::NoRoom;
    reason.text = "the queue has admitted the gang; its " + number_text(group.spec.min_member) +
                  " pods are not placed yet, and the scheduler has not said why";
  } else {
    reason.kind = PendingKind::ClusterFull;
    reason.text = "the queue \"" + queue + "\" has not admitted the gang yet, and no scheduler has said why";
  }
}

}  // namespace

std::string encode_reason(const PendingReason& reason) {
  std::string text;
  json::Writer writer(text);
  const auto member = [&](std::string_view key, std::string_view value) {
    if (value.empty()) return;
    writer.key(key);
    writer.string(value);
  };
  const auto count = [&](std::string_view key, std::int64_t value) {
    if (value <= 0) return;
    writer.key(key);
    writer.integer(value);
  };
  writer.begin_object();
  member("kind", to_string(reason.kind));
  member("text", reason.text);
  member("queue", reason.queue);
  count("needed", reason.needed);
  count("fitted", reason.fitted);
  count("position", static_cast<std::int64_t>(reason.position));
  count("waiting", static_cast<std::int64_t>(reason.waiting));
  member("ahead", reason.ahead);
  member("holder", reason.holder);
  member("unblock", reason.unblock);
  if (!reason.shortages.empty()) {
    writer.key("short");
    writer.begin_array();
    for (const ResourceShortage& shortage : reason.shortages) {
      writer.begin_object();
      member("resource", shortage.name);
      member("requested", shortage.requested);
      member("free", shortage.free);
      member("lacking", shortage.lacking);
      writer.end_object();
    }
    writer.end_array();
  }
  writer.end_object();
  return text;
}

std::optional<PendingReason> decode_reason(std::string_view text) {
  if (text.empty() || text.size() > kPendingBytesMax) return std::nullopt;
  const auto parsed = json::Value::parse(text);
  if (!parsed.ok() || !parsed->is_object()) return std::nullopt;
  const auto word = [&](const json::Value& value, std::string_view key) { return std::string(value.string_at({key})); };
  PendingReason reason;
  reason.kind = pending_kind_of(word(*parsed, "kind"));
  if (reason.kind == PendingKind::None) return std::nullopt;
  reason.text = word(*parsed, "text");
  reason.queue = word(*parsed, "queue");
  reason.needed = count_at(*parsed, "needed");
  reason.fitted = count_at(*parsed, "fitted");
  reason.position = static_cast<std::size_t>(count_at(*parsed, "position"));
  reason.waiting = static_cast<std::size_t>(count_at(*parsed, "waiting"));
  reason.ahead = word(*parsed, "ahead");
  reason.holder = word(*parsed, "holder");
  reason.unblock = word(*parsed, "unblock");
  if (const json::Value* shortages = parsed->find("short"); shortages != nullptr && shortages->is_array()) {
    for (const json::Value& shortage : shortages->as_array())
      reason.shortages.push_back(
          {word(shortage, "resource"), word(shortage, "requested"), word(shortage, "free"), word(shortage, "lacking")});
  }
  return reason;
}

Explanation explain_group(const scheduling::PodGroup& group, const ExplainFacts& facts) {
  Explanation explanation;
  explanation.phase =
      group.status.phase.empty() ? std::string(scheduling::pod_group_phase::kPending) : group.status.phase;
  const auto* condition =
      api::find_condition(group.status.conditions, scheduling::pod_group_condition_type::kUnschedulable);
  const bool is_stuck = condition != nullptr && condition->status == "True";
  if (!is_waiting(group)) return explanation;
  if (is_stuck) explanation.since = condition->last_transition_time;
  PendingReason& reason = explanation.reason;
  const auto annotation = group.metadata.annotations.find(kPendingAnnotation);
  auto numbered = annotation ? decode_reason(*annotation) : std::nullopt;
  if (numbered) {
    reason = std::move(*numbered);
    explanation.said_by = "annotation";
    explanation.is_numbered = true;
  } else if (is_stuck) {
    reason.kind = kind_of_condition(condition->reason);
    reason.text = condition->message.empty() ? condition->reason : condition->message;
    explanation.said_by = "condition";
  } else {
    explain_from_objects(group, facts, reason);
    explanation.said_by = "objects";
  }
  reason.queue = queue_of(group);
  if (reason.needed == 0) reason.needed = group.spec.min_member;
  if (!facts.groups.empty()) find_position(group, facts, reason);
  if (reason.unblock.empty()) reason.unblock = unblock_text(reason);
  return explanation;
}

std::string unblock_text(const PendingReason& reason) {
  const std::string lacking = lacking_text(reason);
  const std::string from_holder = reason.holder.empty() ? "" : "; most of it is held by " + reason.holder;
  switch (reason.kind) {
    case PendingKind::None:
      return "";
    case PendingKind::GroupMissing:
      return "create the pod group that the pods name";
    case PendingKind::QueueMissing:
      return "create the queue \"" + reason.queue + "\", or submit to one that exists";
    case PendingKind::QueueClosed:
      return "open the queue \"" + reason.queue + "\", or submit to another one";
    case PendingKind::QueueCapability:
      return (lacking.empty() ? "a higher capability of the queue"
                              : lacking + " given back in the queue, or a capability that much higher") +
             from_holder;
    case PendingKind::ReservedForOthers:
      return "free room beyond what is guaranteed to other queues";
    case PendingKind::ClusterTooSmall:
      return "it can never fit as it is: add nodes" + (lacking.empty() ? "" : " with " + lacking) + ", or ask for less";
    case PendingKind::ClusterFull:
      return (lacking.empty() ? "room on the nodes" : lacking + " becoming free on the nodes") + from_holder;
    case PendingKind::NotEnoughPods:
      return "more pods of the gang; its controller has to create them";
    case PendingKind::NotEnoughPodsOfTask:
      return "more pods of that task; the job's controller has to create them";
    case PendingKind::NotEnoughSubGroups:
      return "more complete sub-groups; check subGroupSize and the pods' labels";
    case PendingKind::Gated:
      return "the removal of the pods' scheduling gates";
    case PendingKind::NoRoom:
      return (lacking.empty() ? "nodes that match the pods and have room"
                              : lacking + " becoming free on nodes that match") +
             from_holder;
    case PendingKind::MakingRoom:
      return "nothing: the room is being made";
    case PendingKind::QueueBlocked:
      return "the start of " + (reason.ahead.empty() ? std::string("the job ahead") : reason.ahead) +
             ", or the dequeueStrategy \"traverse\" of the queue";
    case PendingKind::Refused:
      return "the removal of what the API server names; it is tried again every few seconds";
  }
  return "";
}

}  // namespace basalt::scheduler
