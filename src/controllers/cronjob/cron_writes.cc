#include "controllers/cronjob/cron_writes.h"

#include <utility>

#include "api/gen/names.h"
#include "controllers/cronjob/cron_plan.h"
#include "json/value.h"
#include "kube/typed.h"

namespace basalt::controllers::cronjob {

using api::batch::CronJob;

std::string job_body(const CronJob& cron_job, api::Time scheduled) {
  const auto& meta = cron_job.metadata;
  json::Object metadata{{"name", job_name_at(meta.name, scheduled)},
                        {"namespace", meta.namespace_},
                        {"ownerReferences", json::Array{json::Object{{"apiVersion", kBatchApiVersion},
                                                                     {"kind", CronJob::kind_info().kind},
                                                                     {"name", meta.name},
                                                                     {"uid", meta.uid},
                                                                     {"controller", true},
                                                                     {"blockOwnerDeletion", true}}}}};
  const json::Value pattern = cron_job.spec.job_template.metadata.value();
  for (const std::string_view map : {"labels", "annotations"}) {
    const json::Value* values = pattern.is_object() ? pattern.find(map) : nullptr;
    if (values != nullptr && values->is_object()) metadata.set(map, *values);
  }
  json::Value job = json::Object{{"apiVersion", kBatchApiVersion},
                                 {"kind", api::batch::Job::kind_info().kind},
                                 {"metadata", std::move(metadata)},
                                 {"spec", cron_job.spec.job_template.spec.value()}};
  // A cron job whose zone cannot be found makes no jobs.
  const auto zone = kube::TimeZone::find(cron_job.spec.time_zone.value_or(""));
  job.ensure_path({"metadata", "annotations", api::keys::kCronJobScheduledTimestamp}) =
      zone.ok() ? zone->format(scheduled) : scheduled.to_string();
  return job.to_text();
}

kube::Request status_update(const CronJob& cron_job, const api::batch::CronJobStatus& status) {
  CronJob changed = cron_job;
  changed.status = status;
  return {.verb = kube::Verb::Update,
          .resource = kube::resource_of<CronJob>(),
          .ns = cron_job.metadata.namespace_,
          .name = cron_job.metadata.name,
          .subresource = "status",
          .body = json::to_text(changed),
          .field_manager = std::string(api::components::kControllerManager)};
}

kube::ObjectReference reference_of(const CronJob& cron_job) {
  return {.api_version = std::string(kBatchApiVersion),
          .kind = std::string(CronJob::kind_info().kind),
          .ns = cron_job.metadata.namespace_,
          .name = cron_job.metadata.name,
          .uid = cron_job.metadata.uid,
          .resource_version = cron_job.metadata.resource_version};
}

}  // namespace basalt::controllers::cronjob
