#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/gen/core_objects.h"
#include "api/object_key.h"
#include "api/resource_list.h"
#include "base/result.h"
#include "cli/client/host.h"
#include "json/value.h"

// What the job commands do, over a session: shared by `basalt job ...`, vcctl and the stand-alone names.

namespace basalt::cli {

// `job run` without a file, and `vsub`.
struct JobFromFlags {
  std::string image = "busybox";
  std::string ns;
  std::string name;
  std::int32_t min = 1;
  std::int32_t replicas = 1;
  std::string requests = "cpu=1000m,memory=100Mi";
  std::string limits = "cpu=1000m,memory=100Mi";
  std::string scheduler = "volcano";
  std::string file;
  bool ns_was_given = false;
  std::vector<std::string> command;
};
// "cpu=1,memory=2Gi"; "" is no resources.
[[nodiscard]] Result<api::ResourceList> parse_resources(std::string_view text);
[[nodiscard]] json::Value job_of(const JobFromFlags& flags, const api::ResourceList& requests,
                                 const api::ResourceList& limits);
[[nodiscard]] Result<int> run_job_from_flags(Session& session, JobFromFlags flags);
// Splits as a shell does: quotes, backslashes and comments, no expansion.
[[nodiscard]] Result<std::vector<std::string>> split_command(std::string_view text);

struct JobFilter {
  std::string ns;
  std::string queue;
  std::string scheduler;
  std::string selector;  // part of the name
  std::string phase;
  std::string flow;  // name of a JobFlow
  std::string labels;
  bool all_namespaces = false;
  std::string output;
  bool header_without_rows = false;  // vjobs: the filters apply to rows only
};
[[nodiscard]] Result<int> list_jobs(Session& session, const JobFilter& filter);

struct ViewOptions {
  std::string output;
  bool with_conditions = true;  // vjobs leaves them out
};
[[nodiscard]] Result<int> view_job(Session& session, const api::ObjectKey& key, const ViewOptions& options);

// Creates a Command: AbortJob or ResumeJob. Prints nothing.
[[nodiscard]] Result<int> command_job(Session& session, const api::ObjectKey& key, std::string_view action);
// `done` is the verb of the success line: "delete", "cancel".
[[nodiscard]] Result<int> delete_job(Session& session, const api::ObjectKey& key, std::string_view done);

// The Command object for a target; used for queues as well.
[[nodiscard]] json::Value command_object(std::string_view ns, std::string_view action, const json::Object& target);
[[nodiscard]] Done send_command(Session& session, std::string_view ns, std::string_view action,
                                const api::KindInfo& kind, const api::meta::ObjectMeta& target);

}  // namespace basalt::cli
