#include "controllers/cronjob/cron_writes.h"

#include "api/gen/names.h"
#include "api/owner.h"
#include "controllers/cronjob/cron_plan.h"
#include "json/writer.h"
#include "kube/typed.h"

namespace basalt::controllers::cronjob {

using api::batch::CronJob;

std::string job_body(const CronJob& cron_job, api::Time scheduled) {
  const auto& pattern = cron_job.spec.job_template;
  api::meta::ObjectMeta meta;
  meta.name = job_name_at(cron_job.metadata.name, scheduled);
  meta.namespace_ = cron_job.metadata.namespace_;
  meta.owner_references.push_back(api::controller_reference(CronJob::kind_info(), cron_job.metadata));
  // The API server has judged it by the schema; what is no metadata all the same is left out.
  if (const auto given = json::from_text<api::meta::ObjectMeta>(pattern.metadata.text()); given.ok()) {
    meta.labels = given->labels;
    meta.annotations = given->annotations;
  }
  // A cron job whose zone cannot be found makes no jobs.
  const auto zone = kube::TimeZone::find(cron_job.spec.time_zone.value_or(""));
  meta.annotations.set(api::keys::kCronJobScheduledTimestamp,
                       zone.ok() ? zone->format(scheduled) : scheduled.to_string());
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  writer.key("apiVersion");
  writer.string(kBatchApiVersion);
  writer.key("kind");
  writer.string(api::batch::Job::kind_info().kind);
  writer.key("metadata");
  encode(writer, meta);
  if (!pattern.spec.empty()) {
    writer.key("spec");
    writer.raw(pattern.spec.text());
  }
  writer.end_object();
  return body;
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
