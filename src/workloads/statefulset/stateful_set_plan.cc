#include "workloads/statefulset/stateful_set_plan.h"

#include <algorithm>

#include "base/strings.h"

namespace basalt::workloads {
namespace {

constexpr std::size_t kPodsAtOnce = 500;

// One pass in the making.
struct Planner {
  const Object& set;
  const StatefulRevisions& revisions;
  rt::WallTime now;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t partition = 0;
  std::int64_t min_ready = 0;
  bool is_ordered = true;
  bool rolls = true;
  std::map<std::int64_t, PodPtr> wanted;     // by ordinal
  std::map<std::int64_t, PodPtr> condemned;  // beyond the range
  StatefulSetPlan plan;

  [[nodiscard]] bool is_fine(const Pod& pod) const { return is_available(pod, min_ready, now); }
  [[nodiscard]] bool is_full() const { return plan.creates.size() + plan.deletes.size() >= kPodsAtOnce; }
  // Each returns whether the pass goes on.
  bool fill();
  bool fill(std::int64_t ordinal);
  bool shrink();
  void update();
  void count(const std::vector<PodPtr>& pods);
};

bool Planner::fill(std::int64_t ordinal) {
  const auto found = wanted.find(ordinal);
  if (found == wanted.end()) {
    const bool is_old = rolls && ordinal < start + partition && revisions.current != revisions.update;
    plan.creates.push_back({ordinal, !is_old});
    return !is_ordered;
  }
  const Pod& pod = *found->second;
  if (pod.is_being_deleted()) return !is_ordered;
  if (pod.is_finished()) {
    plan.deletes.push_back(found->second);
    return !is_ordered;
  }
  return !is_ordered || is_fine(pod);
}

bool Planner::fill() {
  for (std::int64_t ordinal = start; ordinal < end; ++ordinal) {
    if (is_full() || !fill(ordinal)) return false;
  }
  return true;
}

// From the highest ordinal down. An ordered set does not go on past a pod that is not well, but that one itself goes.
bool Planner::shrink() {
  const Pod* first_unwell = nullptr;
  for (const auto& [ordinal, pod] : condemned) {
    if (first_unwell == nullptr && (!pod->counts_as_ready() || pod->is_being_deleted())) first_unwell = pod.get();
  }
  for (auto entry = condemned.rbegin(); entry != condemned.rend(); ++entry) {
    const PodPtr& pod = entry->second;
    if (is_full()) return false;
    if (pod->is_being_deleted()) {
      if (is_ordered) return false;
      continue;
    }
    if (is_ordered && !is_fine(*pod) && pod.get() != first_unwell) return false;
    plan.deletes.push_back(pod);
    plan.scaled_away.push_back(pod);
    if (is_ordered) return false;
  }
  return true;
}

void Planner::update() {
  for (std::int64_t ordinal = end - 1; ordinal >= start + partition; --ordinal) {
    const auto found = wanted.find(ordinal);
    if (found == wanted.end()) return;
    const Pod& pod = *found->second;
    const bool is_new = pod.metadata.labels.get(stateful_keys::kRevision) == revisions.update;
    if (!is_new && !pod.is_being_deleted()) {
      plan.deletes.push_back(found->second);
      return;
    }
    if (!is_fine(pod)) return;
  }
}

void Planner::count(const std::vector<PodPtr>& pods) {
  std::int64_t ready = 0;
  std::int64_t available = 0;
  std::int64_t current = 0;
  std::int64_t updated = 0;
  for (const PodPtr& pod : pods) {
    ready += pod->counts_as_ready() ? 1 : 0;
    available += is_available(*pod, min_ready, now) ? 1 : 0;
    if (pod->is_being_deleted()) continue;
    const std::string_view revision = pod->metadata.labels.get(stateful_keys::kRevision);
    current += revision == revisions.current ? 1 : 0;
    updated += revision == revisions.update ? 1 : 0;
  }
  std::string current_name = revisions.current;
  const auto all = static_cast<std::int64_t>(pods.size());
  if (rolls && updated == all && ready == all && updated == end - start) {
    current_name = revisions.update;  // the update is over
    current = updated;
  }
  json::Value status = object_at(set.json, {"status"});
  const auto put = [&](std::string_view name, std::int64_t number) {
    if (number > 0) {
      status.as_object().set(name, number);
    } else {
      status.as_object().erase(name);
    }
  };
  put("observedGeneration", set.metadata.generation);
  put("readyReplicas", ready);
  put("currentReplicas", current);
  put("updatedReplicas", updated);
  status.as_object().set("replicas", all);
  status.as_object().set("availableReplicas", available);
  status.as_object().set("currentRevision", current_name);
  status.as_object().set("updateRevision", revisions.update);
  if (status.find("collisionCount") == nullptr) status.as_object().set("collisionCount", 0);
  plan.status = std::move(status);
}

}  // namespace

std::optional<std::int64_t> ordinal_of(std::string_view set, std::string_view pod) {
  const auto rest = base::strip_prefix(pod, set);
  if (!rest || rest->size() < 2 || rest->front() != '-') return std::nullopt;
  const std::string_view digits = rest->substr(1);
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  const auto number = base::parse_uint64(digits);
  if (!number || *number > 2'147'483'647) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

StatefulSetPlan plan_stateful_set(const Object& set, const std::vector<PodPtr>& pods,
                                  const StatefulRevisions& revisions, rt::WallTime now) {
  const json::Value& spec = object_at(set.json, {"spec"});
  Planner planner{.set = set, .revisions = revisions, .now = now};
  planner.start = int_at(spec, {"ordinals", "start"});
  planner.end = planner.start + int_at(spec, {"replicas"}, 1);
  planner.partition = int_at(spec, {"updateStrategy", "rollingUpdate", "partition"});
  planner.min_ready = int_at(spec, {"minReadySeconds"});
  planner.is_ordered = spec.string_at({"podManagementPolicy"}) != "Parallel";
  planner.rolls = spec.string_at({"updateStrategy", "type"}) != "OnDelete";
  std::vector<PodPtr> ours;
  for (const PodPtr& pod : pods) {
    const auto ordinal = ordinal_of(set.metadata.name, pod->metadata.name);
    if (!ordinal) continue;
    ours.push_back(pod);
    const bool is_wanted = *ordinal >= planner.start && *ordinal < planner.end;
    (is_wanted ? planner.wanted : planner.condemned)[*ordinal] = pod;
  }
  planner.count(ours);
  planner.plan.look_again = next_available_in(ours, planner.min_ready, now);
  if (!set.metadata.is_being_deleted && planner.fill() && planner.shrink() && planner.rolls) planner.update();
  return std::move(planner.plan);
}

}  // namespace basalt::workloads
