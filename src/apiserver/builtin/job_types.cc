// Jobs and cron jobs of batch/v1. Their controllers live elsewhere; Volcano's jobs are not these.

#include "api/duration.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/builtin/pod_defaults.h"
#include "apiserver/builtin/pod_validation.h"
#include "apiserver/builtin/workload_rules.h"
#include "apiserver/registry/generic_strategy.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"
#include "kube/cron_schedule.h"
#include "kube/time_zone.h"

namespace basalt::apiserver {
namespace {

constexpr std::int64_t kBackoffLimit = 6;
constexpr std::size_t kCronJobNameMax = 52;  // what a job's name adds still fits a label
constexpr std::int64_t kIndexedParallelismMax = 100000;
constexpr std::string_view kControllerUid = "batch.kubernetes.io/controller-uid";
constexpr std::string_view kJobName = "batch.kubernetes.io/job-name";

void default_job(json::Value& object) {
  json::Value* spec = ensure_spec(object);
  if (spec == nullptr) return;
  json::Object& members = spec->as_object();
  // Neither given: one pod. Parallelism alone means a work queue, which has no number of completions.
  if (member(*spec, "completions") == nullptr && member(*spec, "parallelism") == nullptr) {
    members.set("completions", 1);
    members.set("parallelism", 1);
  }
  set_default(members, "parallelism", 1);
  set_default(members, "backoffLimit",
              member(*spec, "backoffLimitPerIndex") != nullptr ? std::int64_t{2147483647} : kBackoffLimit);
  set_default(members, "completionMode", "NonIndexed");
  set_default(members, "suspend", false);
  set_default(members, "manualSelector", false);
  set_default(members, "podReplacementPolicy",
              member(*spec, "podFailurePolicy") != nullptr ? "Failed" : "TerminatingOrFailed");
  default_pod_template(*spec);
}

// The labels that tell a job's pods from all others.
void prepare_job(json::Value& object) {
  json::Value* spec = object.find("spec");
  if (spec == nullptr || !spec->is_object() || flag_at(*spec, "manualSelector")) return;
  const std::string uid(metadata_text(object, "uid"));
  const std::string name(metadata_text(object, "name"));
  const std::pair<std::string_view, std::string_view> labels[] = {
      {kControllerUid, uid}, {"controller-uid", uid}, {kJobName, name}, {"job-name", name}};
  json::Value& template_labels = spec->ensure_path({"template", "metadata", "labels"});
  if (!template_labels.is_object()) template_labels = json::Object();
  for (const auto& [key, value] : labels) template_labels.as_object().set(key, value);
  if (map_at(object, {"metadata", "labels"}).empty()) {
    const json::Value copy = *object.find_path({"spec", "template", "metadata", "labels"});
    object.ensure_path({"metadata", "labels"}) = copy;
  }
  json::Value& selector = object.ensure_path({"spec", "selector", "matchLabels"});
  if (!selector.is_object()) selector = json::Object();
  selector.as_object().set(kControllerUid, uid);
}

void check_success_policy(const json::Value& spec, const FieldPath& path, Causes& causes) {
  constexpr std::size_t kRulesMax = 20;
  const json::Value& policy = *member(spec, "successPolicy");
  if (text_at(spec, "completionMode") != "Indexed") {
    causes.push_back(invalid_value(path.text(), shown(policy), "requires indexed completion mode"));
    return;
  }
  const json::Array& rules = list_at(policy, "rules");
  const FieldPath rules_path = path.child("rules");
  if (rules.empty()) causes.push_back(required(rules_path.text(), "at least one rule is needed"));
  if (rules.size() > kRulesMax) causes.push_back(too_many(rules_path.text(), rules.size(), kRulesMax));
  for (std::size_t i = 0; i < rules.size() && i < kRulesMax; ++i) {
    const FieldPath rule_path = rules_path.index(i);
    const auto count = int_at(rules[i], "succeededCount");
    if (!count && member(rules[i], "succeededIndexes") == nullptr) {
      causes.push_back(
          required(rule_path.text(), "at least one of succeededCount or succeededIndexes must be specified"));
    }
    const auto completions = int_at(spec, "completions");
    if (count && (*count < 1 || (completions && *count > *completions))) {
      causes.push_back(invalid_value(rule_path.text("succeededCount"), std::to_string(*count),
                                     "must be between 1 and the number of completions"));
    }
  }
}

void check_job_spec(const json::Value& spec, const FieldPath& path, Causes& causes) {
  for (const std::string_view name : {"parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
                                      "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"}) {
    check_not_negative(spec, name, path, causes);
  }
  const std::string_view mode = text_at(spec, "completionMode");
  if (mode == "Indexed") {
    if (member(spec, "completions") == nullptr) {
      causes.push_back(required(path.text("completions"), "when completion mode is Indexed"));
    }
    if (const auto parallelism = int_at(spec, "parallelism"); parallelism && *parallelism > kIndexedParallelismMax) {
      causes.push_back(invalid_value(path.text("parallelism"), std::to_string(*parallelism),
                                     "must be less than or equal to 100000 when completion mode is Indexed"));
    }
  } else if (!mode.empty() && mode != "NonIndexed") {
    constexpr std::string_view kModes[] = {"NonIndexed", "Indexed"};
    causes.push_back(not_supported(path.text("completionMode"), base::quote(mode), kModes));
  }
  if (member(spec, "successPolicy") != nullptr) check_success_policy(spec, path.child("successPolicy"), causes);
  static const json::Value kNothing{json::Object()};
  const json::Value* pod_template = member(spec, "template");
  const FieldPath template_path = path.child("template");
  validate_pod_template(pod_template != nullptr ? *pod_template : kNothing, template_path, causes);
  const std::string_view policy = spec.string_at({"template", "spec", "restartPolicy"});
  const FieldPath pod_path = template_path.child("spec");
  constexpr std::string_view kPolicies[] = {"OnFailure", "Never"};
  if (policy == "Always") {
    causes.push_back(required(pod_path.text("restartPolicy"), "valid values: \"OnFailure\", \"Never\""));
  } else if (policy != "OnFailure" && policy != "Never" && !policy.empty()) {
    causes.push_back(not_supported(pod_path.text("restartPolicy"), base::quote(policy), kPolicies));
  }
}

void validate_job(const json::Value& object, Causes& causes) {
  const json::Value& spec = spec_or_nothing(object);
  const FieldPath path("spec");
  check_job_spec(spec, path, causes);
  const json::Value* selector = member(spec, "selector");
  if (selector == nullptr) {
    causes.push_back(required("spec.selector"));
    return;
  }
  check_label_selector(*selector, path.child("selector"), causes);
  check_template_labels(selector, spec, causes);
}

void validate_job_update(const json::Value& object, const json::Value& old, Causes& causes) {
  for (const std::string_view name :
       {"selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"}) {
    check_immutable(object, old, {"spec", name}, causes);
  }
  // A suspended job's pods can still be told where to run; of others nothing changes.
  const json::Value* suspended = old.find_path({"spec", "suspend"});
  const bool was_suspended = suspended != nullptr && *suspended == json::Value(true);
  if (!was_suspended) check_immutable(object, old, {"spec", "template"}, causes);
  if (text_at(spec_or_nothing(object), "completionMode") != "Indexed") {
    check_immutable(object, old, {"spec", "completions"}, causes);
  }
}

bool has_condition(const json::Value& object, std::string_view type) {
  for (const json::Value& condition : list_at(object, {"status", "conditions"})) {
    if (text_at(condition, "type") == type) return text_at(condition, "status") == "True";
  }
  return false;
}

std::string job_status_cell(const json::Value& object) {
  if (has_condition(object, "Complete")) return "Complete";
  if (has_condition(object, "Failed")) return "Failed";
  if (is_being_deleted(object)) return "Terminating";
  for (const std::string_view type : {"Suspended", "FailureTarget", "SuccessCriteriaMet"}) {
    if (has_condition(object, type)) return std::string(type);
  }
  return "Running";
}

std::string job_duration_cell(const json::Value& object, api::Time now) {
  const auto start = api::Time::parse(object.string_at({"status", "startTime"}));
  if (!start.ok()) return "";
  const auto end = api::Time::parse(object.string_at({"status", "completionTime"}));
  return api::human_duration((end.ok() ? *end : now) - *start);
}

json::Array job_cells(const json::Value& object, api::Time now) {
  std::string completions = std::to_string(int_at(object, {"status", "succeeded"})) + "/";
  if (object.find_path({"spec", "completions"}) != nullptr) {
    completions += std::to_string(int_at(object, {"spec", "completions"}));
  } else {
    completions += "1";
    if (const std::int64_t parallelism = int_at(object, {"spec", "parallelism"}); parallelism > 1) {
      completions += " of " + std::to_string(parallelism);
    }
  }
  return {metadata_text(object, "name"),
          job_status_cell(object),
          completions,
          job_duration_cell(object, now),
          age_of(object, now),
          container_names_cell(object),
          container_images_cell(object),
          selector_cell(object.find_path({"spec", "selector"}))};
}

void default_cron_job(json::Value& object) {
  json::Value* spec = ensure_spec(object);
  if (spec == nullptr) return;
  json::Object& members = spec->as_object();
  set_default_text(members, "concurrencyPolicy", "Allow");
  set_default(members, "suspend", false);
  set_default(members, "successfulJobsHistoryLimit", 3);
  set_default(members, "failedJobsHistoryLimit", 1);
  json::Object* job_template = ensure_map(members, "jobTemplate");
  if (job_template == nullptr) return;
  set_default(*job_template, "metadata", json::Object());
  if (ensure_map(*job_template, "spec") != nullptr) default_pod_template(*job_template->find("spec"));
}

void check_schedule(const json::Value& spec, Causes& causes) {
  const std::string_view schedule = text_at(spec, "schedule");
  if (schedule.empty()) {
    causes.push_back(required("spec.schedule"));
  } else if (schedule.find("TZ") != std::string_view::npos) {
    causes.push_back(invalid_value("spec.schedule", base::quote(schedule),
                                   "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
  } else if (const std::string complaint = kube::cron_complaint(schedule); !complaint.empty()) {
    causes.push_back(invalid_value("spec.schedule", base::quote(schedule), complaint));
  }
  const json::Value* value = member(spec, "timeZone");
  if (value == nullptr || !value->is_string()) return;
  const std::string& zone = value->as_string();
  if (zone.empty() || base::equals_ignore_case_ascii(zone, "local")) {
    causes.push_back(invalid_value("spec.timeZone", base::quote(zone),
                                   "must be an explicit time zone as defined in https://www.iana.org/time-zones"));
    return;
  }
  // Without a database nobody can tell; the controller says so when the time comes.
  const auto found = kube::TimeZone::find(zone);
  if (!found.ok() && !found.error().is(Reason::ServiceUnavailable))
    causes.push_back(invalid_value("spec.timeZone", base::quote(zone), "unknown time zone " + zone));
}

void validate_cron_job(const json::Value& object, Causes& causes) {
  const std::string_view name = metadata_text(object, "name");
  const json::Value& spec = spec_or_nothing(object);
  check_schedule(spec, causes);
  const FieldPath path("spec");
  for (const std::string_view count :
       {"startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"}) {
    check_not_negative(spec, count, path, causes);
  }
  constexpr std::string_view kPolicies[] = {"Allow", "Forbid", "Replace"};
  check_one_of(text_at(spec, "concurrencyPolicy"), path.child("concurrencyPolicy"), kPolicies, causes);
  const FieldPath job_template = path.child("jobTemplate");
  const json::Value* job = spec.find_path({"jobTemplate", "spec"});
  static const json::Value kNothing{json::Object()};
  check_job_spec(job != nullptr ? *job : kNothing, job_template.child("spec"), causes);
  if (name.size() > kCronJobNameMax) {
    causes.push_back(invalid_value("metadata.name", base::quote(name), "must be no more than 52 characters"));
  }
}

json::Array cron_job_cells(const json::Value& object, api::Time now) {
  const json::Value* suspend = object.find_path({"spec", "suspend"});
  const std::string_view last = object.string_at({"status", "lastScheduleTime"});
  const json::Array& containers = list_at(object, {"spec", "jobTemplate", "spec", "template", "spec", "containers"});
  std::string names;
  std::string images;
  for (const json::Value& container : containers) {
    names.append(names.empty() ? "" : ",").append(text_at(container, "name"));
    images.append(images.empty() ? "" : ",").append(text_at(container, "image"));
  }
  return {metadata_text(object, "name"),
          object.string_at({"spec", "schedule"}),
          or_none(object.string_at({"spec", "timeZone"})),
          suspend != nullptr && *suspend == json::Value(true) ? "True" : "False",
          static_cast<std::int64_t>(list_at(object, {"status", "active"}).size()),
          last.empty() ? json::Value("<none>") : age_cell(last, now),
          age_of(object, now),
          names,
          images,
          selector_cell(object.find_path({"spec", "jobTemplate", "spec", "selector"}))};
}

}  // namespace

TypeList job_types() {
  KindRules job_rules;
  job_rules.has_status = true;
  job_rules.has_generation = true;
  job_rules.defaults = default_job;
  job_rules.prepare_create = prepare_job;
  job_rules.validate = validate_job;
  job_rules.validate_update = validate_job_update;
  job_rules.cells = job_cells;
  ResourceType jobs = basic_type("batch", "v1", "jobs", "Job", true);
  jobs.categories = {"all"};
  jobs.has_status = true;
  jobs.has_generation = true;
  jobs.strategy = make_strategy(std::move(job_rules));
  jobs.columns =
      with_template_columns({name_column(), column("Status", "string", "How the job fares."),
                             column("Completions", "string", "Pods that succeeded, of those needed."),
                             column("Duration", "string", "How long the job took, or has taken."), age_column()},
                            true);

  KindRules cron_rules;
  cron_rules.has_status = true;
  cron_rules.has_generation = true;
  cron_rules.defaults = default_cron_job;
  cron_rules.validate = validate_cron_job;
  cron_rules.cells = cron_job_cells;
  ResourceType cron_jobs = basic_type("batch", "v1", "cronjobs", "CronJob", true);
  cron_jobs.short_names = {"cj"};
  cron_jobs.categories = {"all"};
  cron_jobs.has_status = true;
  cron_jobs.has_generation = true;
  cron_jobs.strategy = make_strategy(std::move(cron_rules));
  cron_jobs.columns = with_template_columns(
      {name_column(), column("Schedule", "string", "When jobs are made."),
       column("Timezone", "string", "The zone that the schedule is meant in."),
       column("Suspend", "boolean", "Whether it rests."), column("Active", "integer", "Jobs that run now."),
       column("Last Schedule", "string", "When a job was last made."), age_column()},
      true);
  return {std::make_shared<const ResourceType>(std::move(jobs)),
          std::make_shared<const ResourceType>(std::move(cron_jobs))};
}

}  // namespace basalt::apiserver
