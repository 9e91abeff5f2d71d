// Defaults of a new job.

#include <algorithm>

#include "webhooks/rules/job_spec.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

constexpr std::int64_t kRetryDefault = 3;

// The gang size of a task that names none.
std::int64_t task_minimum(const json::Value& task) {
  if (const auto minimum = int_at(task, "minAvailable")) return *minimum;
  if (const json::Value* partitions = member(task, "partitionPolicy")) {
    const std::int64_t count = int_at(*partitions, "minPartitions").value_or(0);
    // Bounded before they are multiplied: the schema has not been asked yet.
    const std::int64_t size = int_at(*partitions, "partitionSize").value_or(0);
    constexpr std::int64_t kInt32Max = 2'147'483'647;
    if (count > 0 && count <= kInt32Max && size >= 0 && size <= kInt32Max) return std::min(count * size, kInt32Max);
  }
  return int_at(task, "replicas").value_or(0);
}

// Absent, null or zero. A value of the wrong type is not ours to replace: the schema refuses it.
bool is_unset(const json::Value& object, std::string_view key) {
  const json::Value* value = member(object, key);
  return value == nullptr || value->is_null() || (value->is_int() && value->as_int() == 0);
}

void add_task_defaults(const json::Value& task, std::size_t index, const std::string& pointer, json::Array& patch) {
  if (!task.is_object()) return;
  if (text_at(task, "name").empty()) {
    patch.push_back(add_operation(pointer + "/name", "default" + std::to_string(index)));
  }
  const json::Value* pod = task.find_path({"template", "spec"});
  if (pod != nullptr && flag_at(*pod, "hostNetwork") && text_at(*pod, "dnsPolicy").empty()) {
    patch.push_back(add_operation(pointer + "/template/spec/dnsPolicy", "ClusterFirstWithHostNet"));
  }
  if (member(task, "minAvailable") == nullptr) {
    patch.push_back(add_operation(pointer + "/minAvailable", task_minimum(task)));
  }
  if (is_unset(task, "maxRetry")) {
    patch.push_back(add_operation(pointer + "/maxRetry", kRetryDefault));
  }
}

void add_plugin_dependencies(const json::Value& spec, const std::string& pointer, json::Array& patch) {
  const json::Object& plugins = map_at(spec, "plugins");
  const auto has = [&plugins](std::string_view name) { return plugins.contains(name); };
  if ((has("tensorflow") || has("mpi") || has("pytorch") || has("ray")) && !has("svc")) {
    patch.push_back(add_operation(pointer + "/plugins/svc", json::Array()));
  }
  if (has("mpi") && !has("ssh")) patch.push_back(add_operation(pointer + "/plugins/ssh", json::Array()));
}

}  // namespace

void add_job_defaults(const RuleOptions& options, const json::Value& spec, const std::string& pointer,
                      json::Array& patch) {
  if (text_at(spec, "queue").empty()) patch.push_back(add_operation(pointer + "/queue", "default"));
  if (text_at(spec, "schedulerName").empty()) {
    patch.push_back(add_operation(pointer + "/schedulerName",
                                  options.scheduler_names.empty() ? "volcano" : options.scheduler_names.front()));
  }
  if (is_unset(spec, "maxRetry")) patch.push_back(add_operation(pointer + "/maxRetry", kRetryDefault));
  const json::Array& tasks = list_at(spec, "tasks");
  // What is over the limit is refused by validation; here it only must not cost.
  const std::size_t count = std::min(tasks.size(), options.tasks_max);
  std::int64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    add_task_defaults(tasks[i], i, pointer + "/tasks/" + std::to_string(i), patch);
    total += task_minimum(tasks[i]);
  }
  if (is_unset(spec, "minAvailable")) {
    patch.push_back(add_operation(pointer + "/minAvailable", total));
  }
  add_plugin_dependencies(spec, pointer, patch);
}

void mutate_job(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create) {
    answer.deny("expect operation to be 'CREATE', found '" + std::string(to_string(request.operation)) + "'");
    return;
  }
  const json::Value* spec = member(*request.object, "spec");
  if (spec != nullptr && !spec->is_object()) return;  // the schema refuses it
  ensure_object(*request.object, "spec", answer.patch);
  add_job_defaults(context.options, spec_of(*request.object), "/spec", answer.patch);
}

}  // namespace basalt::webhooks
