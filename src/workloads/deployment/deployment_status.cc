#include <algorithm>
#include <string>

#include "workloads/deployment/deployment_plan.h"

namespace basalt::workloads {
namespace {

constexpr std::string_view kProgressing = "Progressing";
constexpr std::string_view kAvailable = "Available";
constexpr std::string_view kFailure = "ReplicaFailure";

void put(json::Value& status, std::string_view name, std::int64_t count) {
  if (count > 0) {
    status.as_object().set(name, count);
  } else {
    status.as_object().erase(name);
  }
}

// With the time of the last news, which deadlines are counted from.
void set_dated(json::Value& status, const Condition& condition, api::Time now) {
  set_condition(status, condition, now);
  for (json::Value& item : status.find("conditions")->as_array()) {
    if (item.string_at({"type"}) == condition.type) item.ensure_path({"lastUpdateTime"}) = now.to_string();
  }
}

bool says(const json::Value* condition, std::string_view status, std::string_view reason) {
  return condition != nullptr && condition->string_at({"status"}) == status &&
         condition->string_at({"reason"}) == reason;
}

void say_available(const DeploymentView& view, json::Value& status, api::Time now) {
  const std::int64_t least = view.replicas - view.unavailable;
  const bool enough = int_at(status, {"availableReplicas"}) >= least;
  const std::string_view reason = enough ? "MinimumReplicasAvailable" : "MinimumReplicasUnavailable";
  const std::string_view value = enough ? "True" : "False";
  if (says(find_condition(status, kAvailable), value, reason)) return;
  set_dated(status,
            {kAvailable, value, reason,
             enough ? "As many pods are available as are needed." : "Fewer pods are available than are needed."},
            now);
}

bool has_progressed(const json::Value& before, const json::Value& after) {
  const auto grew = [&](std::string_view name) { return int_at(after, {name}) > int_at(before, {name}); };
  const auto old_pods = [](const json::Value& status) {
    return int_at(status, {"replicas"}) - int_at(status, {"updatedReplicas"});
  };
  return grew("updatedReplicas") || grew("readyReplicas") || grew("availableReplicas") ||
         old_pods(after) < old_pods(before);
}

bool is_late(const DeploymentView& view, const json::Value& condition, api::Time now) {
  const std::string_view reason = condition.string_at({"reason"});
  if (reason == "NewReplicaSetAvailable") return false;
  if (reason == "ProgressDeadlineExceeded") return true;
  return time_at(condition, {"lastUpdateTime"}) + std::chrono::seconds(*view.deadline) < now;
}

std::string set_name(const DeploymentView& view) {
  return view.current ? "ReplicaSet \"" + view.current->object->metadata.name + "\""
                      : "Deployment \"" + view.object.metadata.name + "\"";
}

void say_paused(const DeploymentView& view, json::Value& status, api::Time now) {
  const json::Value* condition = find_condition(status, kProgressing);
  const bool said = says(condition, "Unknown", "DeploymentPaused");
  if (condition != nullptr && condition->string_at({"reason"}) == "ProgressDeadlineExceeded") return;
  if (view.is_paused && !said) {
    set_dated(status, {kProgressing, "Unknown", "DeploymentPaused", "The deployment is paused."}, now);
  } else if (!view.is_paused && said) {
    set_dated(status, {kProgressing, "Unknown", "DeploymentResumed", "The deployment goes on."}, now);
  }
}

void say_progress(const DeploymentView& view, bool created, json::Value& status, api::Time now) {
  say_paused(view, status, now);
  if (view.is_paused) return;
  const json::Value before = object_at(view.object.json, {"status"});
  if (created) {
    set_dated(status, {kProgressing, "True", "NewReplicaSetCreated", "A ReplicaSet of the new template is made."}, now);
    return;
  }
  const json::Value* condition = find_condition(status, kProgressing);
  if (condition == nullptr) {
    if (view.current)
      set_dated(status, {kProgressing, "True", "FoundNewReplicaSet", set_name(view) + " is there already."}, now);
    return;
  }
  const bool was_complete = condition->string_at({"reason"}) == "NewReplicaSetAvailable" &&
                            int_at(status, {"replicas"}) == int_at(status, {"updatedReplicas"});
  if (was_complete) return;
  if (is_complete(view, status)) {
    set_dated(status, {kProgressing, "True", "NewReplicaSetAvailable", set_name(view) + " is fully rolled out."}, now);
  } else if (has_progressed(before, status)) {
    set_dated(status, {kProgressing, "True", "ReplicaSetUpdated", set_name(view) + " is being rolled out."}, now);
  } else if (is_late(view, *condition, now) && !says(condition, "False", "ProgressDeadlineExceeded")) {
    set_dated(status,
              {kProgressing, "False", "ProgressDeadlineExceeded",
               set_name(view) + " has made no progress for " + std::to_string(*view.deadline) + " seconds."},
              now);
  }
}

// What keeps a set from making pods is said on the deployment, too.
void say_failure(const DeploymentView& view, json::Value& status) {
  remove_condition(status, kFailure);
  const json::Value* failure = nullptr;
  if (view.current) failure = find_condition(object_at(view.current->object->json, {"status"}), kFailure);
  for (const SetView& set : view.old) {
    if (failure == nullptr) failure = find_condition(object_at(set.object->json, {"status"}), kFailure);
  }
  if (failure == nullptr) return;
  json::Value copy = *failure;
  if (copy.find("lastUpdateTime") == nullptr)
    copy.ensure_path({"lastUpdateTime"}) = copy.string_at({"lastTransitionTime"});
  json::Value& list = status.ensure_path({"conditions"});
  if (!list.is_array()) list = json::Array();
  list.as_array().push_back(std::move(copy));
}

}  // namespace

bool is_complete(const DeploymentView& view, const json::Value& status) {
  return int_at(status, {"updatedReplicas"}) == view.replicas && int_at(status, {"replicas"}) == view.replicas &&
         int_at(status, {"availableReplicas"}) == view.replicas &&
         int_at(status, {"observedGeneration"}) >= view.object.metadata.generation;
}

json::Value deployment_status(const DeploymentView& view, bool created, api::Time now) {
  json::Value status = object_at(view.object.json, {"status"});
  std::int64_t actual = view.current ? view.current->actual : 0;
  std::int64_t ready = view.current ? view.current->ready : 0;
  for (const SetView& set : view.old) {
    actual += set.actual;
    ready += set.ready;
  }
  const std::int64_t available = view.all_available();
  put(status, "observedGeneration", view.object.metadata.generation);
  put(status, "replicas", actual);
  put(status, "updatedReplicas", view.current ? view.current->actual : 0);
  put(status, "readyReplicas", ready);
  put(status, "availableReplicas", available);
  put(status, "unavailableReplicas", std::max<std::int64_t>(0, view.all_replicas() - available));
  say_available(view, status, now);
  if (view.deadline) {
    say_progress(view, created, status, now);
  } else {
    remove_condition(status, kProgressing);
  }
  say_failure(view, status);
  return status;
}

std::optional<rt::Duration> deadline_in(const DeploymentView& view, const json::Value& status, rt::WallTime now) {
  if (!view.deadline || view.is_paused || is_complete(view, status)) return std::nullopt;
  const json::Value* condition = find_condition(status, kProgressing);
  if (condition == nullptr) return std::nullopt;
  const std::string_view reason = condition->string_at({"reason"});
  if (reason == "NewReplicaSetAvailable" || reason == "ProgressDeadlineExceeded") return std::nullopt;
  const api::Time due = time_at(*condition, {"lastUpdateTime"}) + std::chrono::seconds(*view.deadline + 1);
  const auto wait = std::chrono::duration_cast<rt::Duration>(rt::WallTime(due.to_time_point()) - now);
  return std::max<rt::Duration>(wait, std::chrono::seconds(1));
}

}  // namespace basalt::workloads
