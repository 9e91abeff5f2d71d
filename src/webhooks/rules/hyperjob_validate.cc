// Whether the jobs of a hyper job could be made in their clusters.

#include <algorithm>
#include <map>

#include "api/names.h"
#include "base/strings.h"
#include "webhooks/fields.h"
#include "webhooks/rules/job_spec.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

std::int64_t replicas_of(const json::Value& entry) { return int_at(entry, "replicas").value_or(1); }

// The rules of the job webhook, told where the template stands.
void check_template(const RuleOptions& options, const std::string& child, const json::Value& job_spec,
                    const std::string& path, Problems& problems) {
  Problems found;
  check_job_spec(options, child, job_spec, found);
  for (const Cause& cause : found.causes()) {
    std::string field = cause.field;
    // A name is the fault of the hyper job's or the entry's name: the field that can be changed is named.
    if (field == "metadata.name") {
      field = path + ".name";
    } else if (const auto rest = base::strip_prefix(field, "spec")) {
      field = path + ".templateSpec" + std::string(*rest);
    }
    problems.add(std::move(field), cause.message, cause.type);
  }
  const json::Array& tasks = list_at(job_spec, "tasks");
  if (!tasks.empty() && int_at(tasks[0], "replicas").value_or(0) < 1) {
    problems.invalid(path + ".templateSpec.tasks[0].replicas", std::to_string(int_at(tasks[0], "replicas").value_or(0)),
                     "the first task needs at least one replica: the federation counts a job by it");
  }
}

void check_entry(const RuleOptions& options, const json::Value& hyper_job, const json::Value& entry, std::size_t index,
                 Problems& problems) {
  const std::string path = "spec.replicatedJobs[" + std::to_string(index) + "]";
  const std::string_view name = text_at(entry, "name");
  const std::int64_t replicas = replicas_of(entry);
  if (name.empty()) {
    problems.required(path + ".name");
  } else if (!api::is_dns1123_label(name)) {
    problems.invalid(path + ".name", name, api::dns1123_label_complaints(name));
  }
  if (replicas < 0) {
    problems.invalid(path + ".replicas", std::to_string(replicas), "must be greater than or equal to 0");
  }
  const json::Value* job_spec = member(entry, "templateSpec");
  if (job_spec == nullptr || !job_spec->is_object()) return problems.required(path + ".templateSpec");
  const std::string child =
      name_of(hyper_job) + "-" + std::string(name) + "-" + std::to_string(std::max<std::int64_t>(replicas - 1, 0));
  check_template(options, child, *job_spec, path, problems);
}

void check_changes(const json::Value& before, const json::Value& after, Problems& problems) {
  std::map<std::string_view, const json::Value*> old_entries;
  for (const json::Value& entry : list_at(before, "replicatedJobs"))
    old_entries.emplace(text_at(entry, "name"), &entry);
  const json::Array& entries = list_at(after, "replicatedJobs");
  for (std::size_t i = 0; i < entries.size() && !problems.is_full(); ++i) {
    const auto found = old_entries.find(text_at(entries[i], "name"));
    if (found == old_entries.end() || replicas_of(*found->second) == 0) continue;  // no job was made of it
    const json::Value* old_spec = member(*found->second, "templateSpec");
    const json::Value* new_spec = member(entries[i], "templateSpec");
    if (old_spec == nullptr || new_spec == nullptr || !old_spec->is_object() || !new_spec->is_object()) continue;
    const std::string path = "spec.replicatedJobs[" + std::to_string(i) + "].templateSpec";
    if (list_at(*old_spec, "tasks").size() != list_at(*new_spec, "tasks").size()) {
      problems.forbidden(path + ".tasks", "tasks may not be added or removed: jobs were made of this template");
    } else if (const auto change = find_forbidden_change(*old_spec, *new_spec, path)) {
      problems.forbidden(path,
                         "only minAvailable, priorityClassName, tasks[*].replicas and tasks[*].minAvailable may "
                         "change while jobs of this template exist: " +
                             *change + "; set replicas of the entry to 0 first");
    }
  }
}

}  // namespace

void validate_hyper_job(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create && request.operation != Operation::Update) {
    answer.deny("expect operation to be 'CREATE' or 'UPDATE'");
    return;
  }
  const json::Value& spec = spec_of(*request.object);
  const bool is_update = request.operation == Operation::Update && request.old_object != nullptr;
  if (is_update && spec == spec_of(*request.old_object)) return;
  Problems problems;
  const std::string name = name_of(*request.object);
  if (!is_update && !api::is_label_value(name)) {
    problems.invalid("metadata.name", name, api::label_value_complaints(name));
  }
  const json::Array& entries = list_at(spec, "replicatedJobs");
  if (entries.size() > context.options.flows_max) {
    problems.too_many("spec.replicatedJobs", entries.size(), context.options.flows_max);
    return problems.deny_if_any(answer);
  }
  std::map<std::string_view, std::size_t> seen;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    total += std::max<std::int64_t>(replicas_of(entries[i]), 0);
    if (problems.is_full()) continue;
    check_entry(context.options, *request.object, entries[i], i, problems);
    const std::string_view entry_name = text_at(entries[i], "name");
    if (!entry_name.empty() && !seen.emplace(entry_name, i).second) {
      problems.duplicate("spec.replicatedJobs[" + std::to_string(i) + "].name", entry_name);
    }
  }
  if (const auto minimum = int_at(spec, "minAvailable"); minimum && (*minimum < 0 || *minimum > total)) {
    problems.invalid("spec.minAvailable", std::to_string(*minimum),
                     "must be between 0 and the number of jobs, which is " + std::to_string(total));
  }
  if (is_update) check_changes(spec_of(*request.old_object), spec, problems);
  problems.deny_if_any(answer);
}

}  // namespace basalt::webhooks
