#pragma once

#include <span>
#include <string>

#include "api/gen/batch_job.h"
#include "api/gen/scheduling_podgroup.h"
#include "cli/client/command.h"
#include "cli/client/objects.h"
#include "json/value.h"

// What vcctl lacks: why, what, where and when, for people and for scripts.

namespace basalt::cli {

[[nodiscard]] const ClientCommand& explain_command();
[[nodiscard]] const ClientCommand& logs_command();
[[nodiscard]] const ClientCommand& wait_command();
[[nodiscard]] const ClientCommand& watch_command();
[[nodiscard]] const ClientCommand& top_command();
[[nodiscard]] const ClientCommand& tree_command();
[[nodiscard]] const ClientCommand& events_command();
[[nodiscard]] const ClientCommand& doctor_command();

int run_explain(Invocation& invocation);
int run_logs(Invocation& invocation);
int run_wait(Invocation& invocation);
int run_watch(Invocation& invocation);
int run_top(Invocation& invocation);
int run_tree(Invocation& invocation);
int run_events(Invocation& invocation);
int run_doctor(Invocation& invocation);

// What these commands share.
inline constexpr std::string_view kNoName = "the name of a job is missing";
[[nodiscard]] Result<api::ObjectKey> job_key(const GoFlags& flags, const std::string& name, const std::string& ns,
                                             const Session& session);
// json or yaml of something that is no Kubernetes object.
void print_value(std::ostream& out, std::string_view output, const json::Value& value);
// -o json|yaml, for what has no names.
void add_value_output_flag(GoFlags& flags, std::string& output);
// The pod group of a job: by its name, else by its owner. None if there is none.
[[nodiscard]] Result<std::optional<Listed<api::scheduling::PodGroup>>> find_pod_group(Session& session,
                                                                                      const api::batch::Job& job);

}  // namespace basalt::cli
