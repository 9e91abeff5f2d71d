// Whether a job may be created, or changed so.

#include <algorithm>

#include "base/strings.h"
#include "webhooks/rules/job_spec.h"
#include "webhooks/rules/queue_rules.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

void check_queue(const ClusterView& cluster, const json::Value& spec, Problems& problems) {
  std::string_view name = text_at(spec, "queue");
  if (name.empty()) name = "default";
  QueuePtr queue = cluster.queue(name);
  if (!queue || queue->status.state != "Open") queue = cluster.fresh_queue(name);
  if (!queue) {
    problems.add("spec.queue", "unable to find job queue: " + queue_not_found(cluster, name), "FieldValueNotFound");
    return;
  }
  if (queue->status.state != "Open") {
    const std::string state = queue->status.state.empty() ? "not set yet" : queue->status.state;
    problems.add("spec.queue", "can only submit job to queue with state `Open`, queue `" + queue->metadata.name +
                                   "` status is `" + state + "`");
  }
  if (name == kRootQueue) {
    problems.add("spec.queue", "can not submit job to root queue: it only holds the other queues");
  } else if (const auto children = cluster.children_of(name); !children.empty()) {
    problems.add("spec.queue", "can only submit job to leaf queue, queue `" + std::string(name) + "` has " +
                                   std::to_string(children.size()) + " child queues, such as `" +
                                   children.front()->metadata.name + "`");
  }
}

// Not an error: the class may come later.
void warn_of_priority_class(const ClusterView& cluster, const json::Value& spec, ReviewAnswer& answer) {
  const std::string_view name = text_at(spec, "priorityClassName");
  if (name.empty()) return;
  const auto known = cluster.priority_classes();
  if (!known || std::find(known->begin(), known->end(), name) != known->end()) return;
  const std::vector<std::string_view> candidates(known->begin(), known->end());
  answer.warnings.push_back("spec.priorityClassName: there is no PriorityClass " + shown(name) +
                            base::did_you_mean(name, candidates) + "; pods are refused until there is");
}

void ask_probes(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  const json::Array& tasks = list_at(spec_of(*request.object), "tasks");
  for (TemplateProbe* probe : context.template_probes) {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const json::Value* pod_template = member(tasks[i], "template");
      if (pod_template == nullptr) continue;
      const Done done = probe->check(request.user, request.ns, *pod_template);
      if (done.ok()) continue;
      if (done.error().is_transient() || done.error().code == 0) {
        answer.refuse_for_now(done.error());
      } else {
        answer.deny("spec.task[" + std::to_string(i) + "].template: " + done.error().message);
      }
      return;
    }
  }
}

void validate_create(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  Problems problems;
  const json::Value& spec = spec_of(*request.object);
  check_job_spec(context.options, name_of(*request.object), spec, problems);
  if (!list_at(spec, "tasks").empty()) check_queue(context.cluster, spec, problems);
  problems.deny_if_any(answer);
  if (!answer.allowed) return;
  warn_of_priority_class(context.cluster, spec, answer);
  ask_probes(context, request, answer);
}

// Only the first violation is reported.
void check_update(const RuleOptions& options, const json::Value& before, const json::Value& after, Problems& problems) {
  const json::Array& tasks = list_at(after, "tasks");
  if (tasks.size() > options.tasks_max && tasks.size() != list_at(before, "tasks").size()) {
    return problems.too_many("spec.tasks", tasks.size(), options.tasks_max);
  }
  const Path list("spec.tasks");
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tasks.size() && problems.empty(); ++i) {
    const Path path = list.index(i);
    const std::string in_task = " in task: " + std::string(text_at(tasks[i], "name"));
    const std::int64_t replicas = int_at(tasks[i], "replicas").value_or(0);
    const auto minimum = int_at(tasks[i], "minAvailable");
    if (replicas < 0) {
      return problems.add(path.text("replicas"), "'replicas' must be >= 0" + in_task);
    }
    if (minimum && *minimum < 0) {
      return problems.add(path.text("minAvailable"), "'minAvailable' must be >= 0" + in_task);
    }
    if (minimum && *minimum > replicas) {
      return problems.add(path.text("minAvailable"), "'minAvailable' must be <= 'replicas'" + in_task + " (" +
                                                         std::to_string(*minimum) + " > " + std::to_string(replicas) +
                                                         "); when you scale a task down, lower its minAvailable, too");
    }
    total += replicas;
    check_partition_policy(tasks[i], text_at(tasks[i], "name"), path, problems);
  }
  if (!problems.empty()) return;
  const std::int64_t minimum = int_at(after, "minAvailable").value_or(0);
  if (minimum > total) {
    return problems.add("spec.minAvailable", "job 'minAvailable' must not be greater than total replicas (" +
                                                 std::to_string(minimum) + " > " + std::to_string(total) + ")");
  }
  if (minimum < 0) return problems.add("spec.minAvailable", "job 'minAvailable' must be >= 0");
  const Path spec_path("spec");
  check_topology(after, spec_path, problems);
  if (!problems.empty()) return;
  if (tasks.size() != list_at(before, "tasks").size()) {
    return problems.add("spec.tasks", "job updates may not add or remove tasks (there are " +
                                          std::to_string(list_at(before, "tasks").size()) + ", not " +
                                          std::to_string(tasks.size()) + ")");
  }
  if (const auto change = find_forbidden_change(before, after, "spec")) {
    problems.add("",
                 "job updates may not change fields other than `minAvailable`, `tasks[*].replicas`, "
                 "`tasks[*].minAvailable` and `priorityClassName` under spec: " +
                     *change);
  }
}

}  // namespace

void validate_job(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  switch (request.operation) {
    case Operation::Create:
      validate_create(context, request, answer);
      return;
    case Operation::Update: {
      if (request.old_object == nullptr) return answer.deny("the review of an UPDATE carries no old object");
      Problems problems;
      check_update(context.options, spec_of(*request.old_object), spec_of(*request.object), problems);
      problems.deny_if_any(answer);
      return;
    }
    case Operation::Delete:
    case Operation::Connect:
      answer.deny("expect operation to be 'CREATE' or 'UPDATE', found '" + std::string(to_string(request.operation)) +
                  "'");
  }
}

}  // namespace basalt::webhooks
