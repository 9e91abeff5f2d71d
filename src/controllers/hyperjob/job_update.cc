#include "controllers/hyperjob/job_update.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "controllers/hyperjob/children.h"

namespace basalt::controllers::hyperjob {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

std::int64_t int_or(const json::Value& object, std::string_view key, std::int64_t otherwise) {
  const json::Value* value = object.find(key);
  return value != nullptr && value->is_int() ? value->as_int() : otherwise;
}

const json::Array& list_of(const json::Value& object, std::string_view key) {
  static const json::Array kNone;
  const json::Value* value = object.find(key);
  return value != nullptr && value->is_array() ? value->as_array() : kNone;
}

void take_if_absent(json::Object& object, const json::Value& from, std::string_view key) {
  if (object.contains(key)) return;
  if (const json::Value* value = from.find(key); value != nullptr) object.set(key, *value);
}

// As the webhook counts: partitions that must fit times their size, else all replicas.
std::int64_t task_minimum(const json::Value& task) {
  if (const json::Value* partitions = task.find("partitionPolicy"); partitions != nullptr) {
    const std::int64_t count = int_or(*partitions, "minPartitions", 0);
    const std::int64_t size = int_or(*partitions, "partitionSize", 0);
    if (count > 0 && count <= kInt32Max && size >= 0 && size <= kInt32Max) return std::min(count * size, kInt32Max);
  }
  return int_or(task, "replicas", 0);
}

void complete_task(json::Value& task, const json::Value& live) {
  if (!task.is_object()) return;
  json::Object& members = task.as_object();
  take_if_absent(members, live, "name");
  take_if_absent(members, live, "maxRetry");
  json::Value* pod = task.find_path({"template", "spec"});
  const json::Value* live_pod = live.find_path({"template", "spec"});
  if (pod != nullptr && pod->is_object() && live_pod != nullptr)
    take_if_absent(pod->as_object(), *live_pod, "dnsPolicy");
  if (!members.contains("minAvailable")) members.set("minAvailable", task_minimum(task));
}

// The webhook adds these two, empty, because other plugins need them.
void complete_plugins(json::Object& spec, const json::Value& live) {
  json::Value* plugins = spec.find("plugins");
  const json::Value* live_plugins = live.find("plugins");
  if (plugins == nullptr || !plugins->is_object() || live_plugins == nullptr) return;
  for (const std::string_view added : {"svc", "ssh"}) take_if_absent(plugins->as_object(), *live_plugins, added);
}

// The job controller writes the names of the claims that it made.
void complete_volumes(json::Object& spec, const json::Value& live) {
  json::Value* volumes = spec.find("volumes");
  const json::Array& live_volumes = list_of(live, "volumes");
  if (volumes == nullptr || !volumes->is_array() || volumes->as_array().size() != live_volumes.size()) return;
  for (std::size_t i = 0; i < live_volumes.size(); ++i) {
    json::Value& volume = volumes->as_array()[i];
    if (volume.is_object() && volume.find("volumeClaim") != nullptr)
      take_if_absent(volume.as_object(), live_volumes[i], "volumeClaimName");
  }
}

// The path of the first difference, in the order of keys; nothing if there is none. Depth is bounded by the reader.
std::optional<std::string> difference(const json::Value& a, const json::Value& b, const std::string& path) {
  if (a == b) return std::nullopt;
  if (a.is_object() && b.is_object()) {
    for (const auto& [key, value] : a.as_object()) {
      const std::string below = path + "." + key;
      const json::Value* other = b.find(key);
      if (other == nullptr) return below;
      if (auto found = difference(value, *other, below)) return found;
    }
    for (const auto& [key, value] : b.as_object()) {
      if (a.find(key) == nullptr) return path + "." + key;
    }
    return path;
  }
  if (a.is_array() && b.is_array() && a.as_array().size() == b.as_array().size()) {
    for (std::size_t i = 0; i < a.as_array().size(); ++i) {
      if (auto found = difference(a.as_array()[i], b.as_array()[i], path + "[" + std::to_string(i) + "]")) return found;
    }
  }
  return path;
}

// Takes what may change out of a specification.
json::Value without_changeable(const json::Value& spec) {
  json::Value rest = spec;
  json::Object& members = rest.as_object();
  members.erase("minAvailable");
  members.erase("priorityClassName");
  if (json::Value* tasks = members.find("tasks"); tasks != nullptr && tasks->is_array()) {
    for (json::Value& task : tasks->as_array()) {
      if (!task.is_object()) continue;
      task.as_object().erase("replicas");
      task.as_object().erase("minAvailable");
    }
  }
  return rest;
}

// The live tasks with the wanted numbers, so that nothing else in them is touched.
json::Value tasks_with_numbers(const json::Value& live_spec, const json::Value& wanted) {
  json::Array tasks = list_of(live_spec, "tasks");
  const json::Array& wanted_tasks = list_of(wanted, "tasks");
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    for (const std::string_view key : {"replicas", "minAvailable"}) {
      const json::Value* number = wanted_tasks[i].find(key);
      tasks[i].as_object().set(key, number != nullptr ? *number : json::Value(0));
    }
  }
  return tasks;
}

}  // namespace

json::Value wanted_spec(const json::Value& template_spec, const json::Value& live_spec) {
  json::Value spec = job_spec_of_template(template_spec);
  json::Object& members = spec.as_object();
  for (const std::string_view key : {"queue", "schedulerName", "maxRetry"}) take_if_absent(members, live_spec, key);
  complete_plugins(members, live_spec);
  complete_volumes(members, live_spec);
  std::int64_t total = 0;
  const json::Array& live_tasks = list_of(live_spec, "tasks");
  if (json::Value* tasks = members.find("tasks"); tasks != nullptr && tasks->is_array()) {
    static const json::Value kNone;
    for (std::size_t i = 0; i < tasks->as_array().size(); ++i) {
      json::Value& task = tasks->as_array()[i];
      complete_task(task, i < live_tasks.size() ? live_tasks[i] : kNone);
      total += int_or(task, "minAvailable", 0);
    }
  }
  if (!members.contains("minAvailable") && total > 0) members.set("minAvailable", std::min(total, kInt32Max));
  return spec;
}

JobUpdate plan_job_update(const json::Value& template_spec, const json::Value& live_spec) {
  JobUpdate update;
  json::Value live = job_spec_of_template(live_spec);
  const json::Value wanted = wanted_spec(template_spec, live);
  // A server without the webhook keeps gang sizes open; they are then what the webhook would have made of them.
  live = wanted_spec(live, live);
  if (live == wanted) return update;
  if (auto path = difference(without_changeable(live), without_changeable(wanted), "spec")) {
    update.kind = JobUpdate::Kind::Refused;
    update.path = std::move(*path);
    return update;
  }
  update.kind = JobUpdate::Kind::Allowed;
  json::Object patch;
  for (const std::string_view key : {"minAvailable", "priorityClassName"}) {
    const json::Value* value = wanted.find(key);
    const json::Value* before = live.find(key);
    if (value == nullptr && before != nullptr) patch.set(key, nullptr);
    if (value != nullptr && (before == nullptr || *before != *value)) patch.set(key, *value);
  }
  if (list_of(live, "tasks") != list_of(wanted, "tasks")) patch.set("tasks", tasks_with_numbers(live_spec, wanted));
  update.patch = std::move(patch);
  return update;
}

}  // namespace basalt::controllers::hyperjob
