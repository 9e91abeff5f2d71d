// Whether a cron job's schedule, zone and name can work.

#include "api/names.h"
#include "base/strings.h"
#include "json/patch.h"
#include "kube/cron_schedule.h"
#include "kube/time_zone.h"
#include "webhooks/fields.h"
#include "webhooks/rules/job_spec.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

constexpr std::size_t kNameMax = 52;  // the controller adds eleven characters to make a job's name
constexpr std::size_t kTemplateWarnings = 5;

void check_schedule(std::string_view schedule, Problems& problems) {
  if (schedule.empty()) return problems.add("spec.schedule", "schedule is required, but got empty");
  if (schedule.find("TZ") != std::string_view::npos) {
    return problems.add("spec.schedule",
                        "schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field");
  }
  if (const std::string complaint = kube::cron_complaint(schedule); !complaint.empty()) {
    problems.add("spec.schedule", "schedule is not a valid cron expression: " + shown(schedule) + ": " + complaint);
  }
}

void check_zone(const json::Value& spec, Problems& problems, ReviewAnswer& answer) {
  const json::Value* value = member(spec, "timeZone");
  if (value == nullptr || !value->is_string()) return;
  const std::string& zone = value->as_string();
  if (zone.empty()) {
    return problems.add("spec.timeZone", "timeZone must be nil or non-empty string, got empty string");
  }
  if (base::equals_ignore_case_ascii(zone, "local")) {
    return problems.add("spec.timeZone",
                        "timeZone can't be Local, and must be defined in https://www.iana.org/time-zones");
  }
  if (!kube::is_zone_name(zone)) {
    return problems.add("spec.timeZone", "unknown timeZone " + shown(zone) +
                                             ": write it as in https://www.iana.org/time-zones, such as Europe/Berlin");
  }
  const auto found = kube::TimeZone::find(zone);
  if (found.ok()) return;
  if (found.error().is(Reason::ServiceUnavailable)) {
    answer.warnings.push_back("spec.timeZone: " + shown(zone) +
                              " could not be checked: the admission server has no database of time zones");
  } else {
    problems.add("spec.timeZone", "invalid timeZone " + shown(zone) +
                                      ": the database of time zones has no such zone (names are written with "
                                      "their capital letters, such as America/New_York)");
  }
}

void check_name(const std::string& name, Problems& problems) {
  if (name.size() > kNameMax) {
    problems.add("metadata.name",
                 "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)");
  }
  if (const auto complaints = api::qualified_name_complaints(name); !complaints.empty()) {
    problems.add("metadata.name", "invalid cronJob name " + shown(name) + ": " + base::join(complaints, ", "));
  }
}

// The job webhook will refuse such jobs; saying so now saves a night. Not an error, because other versions of the
// webhook may not mind.
void warn_of_template(const RuleOptions& options, const json::Value& spec, ReviewAnswer& answer) {
  const json::Value* job_spec = spec.find_path({"jobTemplate", "spec"});
  if (job_spec == nullptr || !job_spec->is_object()) return;
  Problems problems;
  check_job_spec(options, "", *job_spec, problems);
  for (std::size_t i = 0; i < std::min(problems.causes().size(), kTemplateWarnings); ++i) {
    const Cause& cause = problems.causes()[i];
    answer.warnings.push_back("spec.jobTemplate: its jobs will be refused: " + cause.field +
                              (cause.field.empty() ? "" : ": ") + cause.message);
  }
}

}  // namespace

void validate_cron_job(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer) {
  if (request.operation != Operation::Create && request.operation != Operation::Update) {
    answer.deny("expect operation to be 'CREATE' or 'UPDATE'");
    return;
  }
  const json::Value& spec = spec_of(*request.object);
  const bool is_create = request.operation == Operation::Create;
  // What is stored already is not refused again: finalizers and labels must stay writable.
  if (!is_create && request.old_object != nullptr && spec == spec_of(*request.old_object)) return;
  Problems problems;
  check_schedule(text_at(spec, "schedule"), problems);
  check_zone(spec, problems, answer);
  if (is_create) check_name(name_of(*request.object), problems);
  problems.deny_if_any(answer);
  if (answer.allowed) warn_of_template(context.options, spec, answer);
}

}  // namespace basalt::webhooks
