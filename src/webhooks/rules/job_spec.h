#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "json/value.h"
#include "webhooks/fields.h"
#include "webhooks/rule_context.h"

// The specification of a job, wherever it stands: in a Job, a HyperJob's entry, a CronJob's template.

namespace basalt::webhooks {

// Adds the operations that write a job's defaults. `pointer` is where the specification stands ("/spec").
void add_job_defaults(const RuleOptions& options, const json::Value& spec, const std::string& pointer,
                      json::Array& patch);

// All rules of a new job but those about its queue. `job_name` may be empty where it is not known.
void check_job_spec(const RuleOptions& options, std::string_view job_name, const json::Value& spec, Problems& problems);

// One list of life cycle policies; stops at its first error.
void check_policies(const RuleOptions& options, const json::Value& holder, const Path& path, Problems& problems);

// The tests of a task's partition policy and of both topologies.
void check_partition_policy(const json::Value& task, std::string_view task_name, const Path& path, Problems& problems);
void check_topology(const json::Value& holder, const Path& path, Problems& problems);

// Where two specifications differ in what may not change, as a sentence; nothing if they do not. `path` names the
// specification. Absent, null, "", [] and {} are equal, quantities compare by value.
[[nodiscard]] std::optional<std::string> find_forbidden_change(const json::Value& before, const json::Value& after,
                                                               std::string_view path);

}  // namespace basalt::webhooks
