#include "workloads/daemonset/daemon_set_plan.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "api/int_or_string.h"
#include "json/reader.h"
#include "workloads/replicaset/replica_set_plan.h"

namespace basalt::workloads {
namespace {

using Rounding = api::IntOrString::Rounding;

// A node with the pods of the set that are there and not on their way out, oldest first.
struct Place {
  NodeChoice::Verdict verdict;
  bool exists = false;
  std::vector<PodPtr> pods;  // that run or will
  bool has_going = false;    // one that is being deleted, or has ended
};

// One pass in the making.
struct Planner {
  const Object& set;
  std::string_view hash;
  rt::WallTime now;
  std::int64_t min_ready = 0;
  std::int64_t surge_max = 0;
  std::int64_t unavailable_max = 1;
  std::map<std::string, Place, std::less<>> places;
  DaemonSetPlan plan;

  [[nodiscard]] bool is_new(const Pod& pod) const { return pod.metadata.labels.get(kDaemonHashLabel) == hash; }
  [[nodiscard]] bool is_fine(const Pod& pod) const { return is_available(pod, min_ready, now); }
  // The oldest pod of the present template, or of another.
  [[nodiscard]] PodPtr first(const Place& place, bool of_new) const;
  void read_bounds();
  void manage(const std::string& node, Place& place);
  void keep_one(Place& place);
  void roll_by_deletion();
  void roll_by_surge();
  void count();
};

std::int64_t resolved(const json::Value& spec, std::string_view name, std::int64_t total, std::int64_t fallback) {
  const json::Value* value = spec.find_path({"updateStrategy", "rollingUpdate", name});
  if (value == nullptr) return fallback;
  const auto parsed = json::from_text<api::IntOrString>(value->to_text());
  if (!parsed.ok()) return fallback;
  const auto number = parsed->resolve(total, Rounding::Up);
  return number.ok() ? *number : fallback;
}

void Planner::read_bounds() {
  const json::Value& spec = object_at(set.json, {"spec"});
  std::int64_t wanted = 0;
  for (const auto& [node, place] : places) wanted += place.verdict.is_wanted ? 1 : 0;
  min_ready = int_at(spec, {"minReadySeconds"});
  surge_max = resolved(spec, "maxSurge", wanted, 0);
  unavailable_max = resolved(spec, "maxUnavailable", wanted, 1);
  if (surge_max == 0 && unavailable_max == 0) unavailable_max = 1;
}

PodPtr Planner::first(const Place& place, bool of_new) const {
  for (const PodPtr& pod : place.pods) {
    if (is_new(*pod) == of_new) return pod;
  }
  return nullptr;
}

// More than one pod for a node: the oldest stays; during an update by surge, one of each template.
void Planner::keep_one(Place& place) {
  const PodPtr newer = surge_max > 0 ? first(place, true) : nullptr;
  const PodPtr older = surge_max > 0 ? first(place, false) : nullptr;
  std::vector<PodPtr> kept;
  for (const PodPtr& pod : place.pods) {
    const bool stays = surge_max > 0 ? pod == newer || pod == older : pod == place.pods.front();
    if (stays) {
      kept.push_back(pod);
    } else {
      plan.deletes.push_back(pod);
    }
  }
  if (newer && older && (!older->counts_as_ready() || is_fine(*newer))) {
    plan.deletes.push_back(older);
    std::erase(kept, older);
  }
  place.pods = std::move(kept);
}

void Planner::manage(const std::string& node, Place& place) {
  if (node.empty()) return;  // adopted, and nobody knows where it will run
  if (!place.verdict.may_stay) {
    plan.deletes.insert(plan.deletes.end(), place.pods.begin(), place.pods.end());
    place.pods.clear();
    return;
  }
  if (place.pods.size() > 1) keep_one(place);
  if (place.verdict.is_wanted && place.pods.empty() && !place.has_going) plan.creates.push_back(node);
}

// Old pods go, as many as may be away; those that do not work anyway go at once.
void Planner::roll_by_deletion() {
  std::int64_t unavailable = 0;
  std::vector<PodPtr> candidates;
  for (const auto& [node, place] : places) {
    if (!place.verdict.is_wanted) continue;
    const PodPtr newer = first(place, true);
    const PodPtr older = first(place, false);
    if ((newer == nullptr) == (older == nullptr)) {
      ++unavailable;
    } else if (newer) {
      unavailable += is_fine(*newer) ? 0 : 1;
    } else if (!is_fine(*older)) {
      plan.deletes.push_back(older);
      ++unavailable;
    } else {
      candidates.push_back(older);
    }
  }
  const std::int64_t room = std::clamp<std::int64_t>(unavailable_max - unavailable, 0, std::ssize(candidates));
  plan.deletes.insert(plan.deletes.end(), candidates.begin(), candidates.begin() + room);
}

// New pods come beside the old ones, which go when the new ones work (keep_one).
void Planner::roll_by_surge() {
  std::int64_t surge = 0;
  std::vector<std::string> candidates;
  for (const auto& [node, place] : places) {
    if (!place.verdict.is_wanted) continue;
    const PodPtr newer = first(place, true);
    const PodPtr older = first(place, false);
    if (older == nullptr) continue;
    if (newer) {
      ++surge;
    } else if (!is_fine(*older)) {
      plan.creates.push_back(node);
    } else {
      candidates.push_back(node);
    }
  }
  const std::int64_t room = std::clamp<std::int64_t>(surge_max - surge, 0, std::ssize(candidates));
  plan.creates.insert(plan.creates.end(), candidates.begin(), candidates.begin() + room);
}

// As it is before this pass changes anything.
void Planner::count() {
  std::int64_t wanted = 0;
  std::int64_t scheduled = 0;
  std::int64_t misplaced = 0;
  std::int64_t ready = 0;
  std::int64_t available = 0;
  std::int64_t updated = 0;
  for (const auto& [node, place] : places) {
    if (!place.exists) continue;
    if (!place.verdict.is_wanted) {
      misplaced += place.pods.empty() ? 0 : 1;
      continue;
    }
    ++wanted;
    if (place.pods.empty()) continue;
    ++scheduled;
    const bool is_ready =
        std::any_of(place.pods.begin(), place.pods.end(), [](const PodPtr& p) { return p->counts_as_ready(); });
    const bool fine = std::any_of(place.pods.begin(), place.pods.end(), [&](const PodPtr& p) { return is_fine(*p); });
    ready += is_ready ? 1 : 0;
    available += fine ? 1 : 0;
    updated += first(place, true) ? 1 : 0;
  }
  json::Value status = object_at(set.json, {"status"});
  const auto put = [&](std::string_view name, std::int64_t number) {
    if (number > 0) {
      status.as_object().set(name, number);
    } else {
      status.as_object().erase(name);
    }
  };
  status.as_object().set("desiredNumberScheduled", wanted);
  status.as_object().set("currentNumberScheduled", scheduled);
  status.as_object().set("numberMisscheduled", misplaced);
  status.as_object().set("numberReady", ready);
  put("numberAvailable", available);
  put("numberUnavailable", wanted - available);
  put("updatedNumberScheduled", updated);
  put("observedGeneration", set.metadata.generation);
  plan.status = std::move(status);
}

}  // namespace

std::string_view node_of(const Pod& pod) { return pod.node_name.empty() ? pod.pinned_node : pod.node_name; }

DaemonSetPlan plan_daemon_set(const Object& set, const std::vector<PodPtr>& pods, const std::vector<NodePtr>& nodes,
                              const NodeChoice& choice, std::string_view hash, rt::WallTime now) {
  Planner planner{.set = set, .hash = hash, .now = now};
  for (const NodePtr& node : nodes) {
    Place& place = planner.places[node->metadata.name.str()];
    place.verdict = choice.judge(*node);
    place.exists = true;
  }
  std::vector<PodPtr> running;
  for (const PodPtr& pod : pods) {
    Place& place = planner.places[std::string(node_of(*pod))];
    if (pod->is_active()) {
      place.pods.push_back(pod);
      running.push_back(pod);
      continue;
    }
    place.has_going = true;
    if (pod->is_finished() && !pod->is_being_deleted()) planner.plan.ended.push_back(pod);
  }
  for (auto& [node, place] : planner.places) {
    const auto age = [](const PodPtr& p) {
      return std::tuple(p->metadata.creation, std::string_view(p->metadata.name));
    };
    std::sort(place.pods.begin(), place.pods.end(), [&](const PodPtr& a, const PodPtr& b) { return age(a) < age(b); });
  }
  planner.read_bounds();
  planner.count();
  planner.plan.look_again = next_available_in(running, planner.min_ready, now);
  if (set.metadata.is_being_deleted) {
    planner.plan.ended.clear();
    return std::move(planner.plan);
  }
  for (auto& [node, place] : planner.places) planner.manage(node, place);
  if (set.json.string_at({"spec", "updateStrategy", "type"}) != "OnDelete") {
    if (planner.surge_max > 0) {
      planner.roll_by_surge();
    } else {
      planner.roll_by_deletion();
    }
  }
  // The others follow when the caches show these.
  constexpr auto kAtOnce = static_cast<std::size_t>(kPodsAtOnceMax);
  if (planner.plan.deletes.size() > kAtOnce) planner.plan.deletes.resize(kAtOnce);
  if (planner.plan.creates.size() > kAtOnce) planner.plan.creates.resize(kAtOnce);
  return std::move(planner.plan);
}

}  // namespace basalt::workloads
