#include "controllers/jobflow/flow_writes.h"

#include "api/gen/names.h"
#include "controllers/jobflow/flow_planner.h"
#include "json/writer.h"
#include "kube/typed.h"

namespace basalt::controllers::jobflow {
namespace {

constexpr std::string_view kTtl = "ttlSecondsAfterFinished";

void member(json::Writer& writer, std::string_view key, std::string_view value) {
  writer.key(key);
  writer.string(value);
}

void write_owner(json::Writer& writer, const api::flow::JobFlow& flow) {
  writer.key("ownerReferences");
  writer.begin_array();
  writer.begin_object();
  member(writer, "apiVersion", kFlowApiVersion);
  member(writer, "kind", api::flow::JobFlow::kind_info().kind);
  member(writer, "name", flow.metadata.name);
  member(writer, "uid", flow.metadata.uid);
  writer.key("controller");
  writer.boolean(true);
  writer.key("blockOwnerDeletion");
  writer.boolean(true);
  writer.end_object();
  writer.end_array();
}

}  // namespace

std::string job_body(const api::flow::JobFlow& flow, const api::flow::JobTemplate& job_template) {
  const auto& meta = flow.metadata;
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  member(writer, "apiVersion", "batch.volcano.sh/v1alpha1");
  member(writer, "kind", "Job");
  writer.key("metadata");
  writer.begin_object();
  member(writer, "name", job_name_of(meta.name, job_template.metadata.name));
  member(writer, "namespace", meta.namespace_);
  for (const char* map : {"labels", "annotations"}) {
    writer.key(map);
    writer.begin_object();
    member(writer, api::keys::kCreatedByJobTemplate, meta.namespace_ + "." + job_template.metadata.name);
    member(writer, api::keys::kCreatedByJobFlow, meta.namespace_ + "." + meta.name);
    writer.end_object();
  }
  write_owner(writer, flow);
  writer.end_object();
  if (!job_template.spec.empty()) {
    writer.key("spec");
    writer.raw(job_template.spec.text());
  }
  writer.end_object();
  return body;
}

kube::Request status_update(const api::flow::JobFlow& flow, const api::flow::JobFlowStatus& status) {
  api::flow::JobFlow changed = flow;
  changed.status = status;
  return {.verb = kube::Verb::Update,
          .resource = kube::resource_of<api::flow::JobFlow>(),
          .ns = flow.metadata.namespace_,
          .name = flow.metadata.name,
          .subresource = "status",
          .body = json::to_text(changed),
          .field_manager = std::string(api::components::kControllerManager)};
}

kube::Request users_patch(const api::flow::JobTemplate& job_template, const std::vector<std::string>& jobs) {
  std::string body;
  json::Writer writer(body);
  writer.begin_object();
  writer.key("metadata");
  writer.begin_object();
  member(writer, "uid", job_template.metadata.uid);
  writer.end_object();
  writer.key("status");
  writer.begin_object();
  writer.key("jobDependsOnList");
  writer.begin_array();
  for (const std::string& job : jobs) writer.string(job);
  writer.end_array();
  writer.end_object();
  writer.end_object();
  return {.verb = kube::Verb::Patch,
          .resource = kube::resource_of<api::flow::JobTemplate>(),
          .ns = job_template.metadata.namespace_,
          .name = job_template.metadata.name,
          .subresource = "status",
          .body = std::move(body),
          .patch_type = kube::PatchType::Merge,
          .field_manager = std::string(api::components::kControllerManager)};
}

kube::ObjectReference reference_of(const api::flow::JobFlow& flow) {
  return {.api_version = std::string(kFlowApiVersion),
          .kind = std::string(api::flow::JobFlow::kind_info().kind),
          .ns = flow.metadata.namespace_,
          .name = flow.metadata.name,
          .uid = flow.metadata.uid,
          .resource_version = flow.metadata.resource_version};
}

bool makes_expiring_jobs(const api::flow::JobTemplate& job_template) {
  // Most have none, and reading a specification costs more than looking for a word.
  if (job_template.spec.text().find(kTtl) == std::string_view::npos) return false;
  const json::Value spec = job_template.spec.value();
  const json::Value* ttl = spec.is_object() ? spec.find_path({kTtl}) : nullptr;
  return ttl != nullptr && ttl->is_int();
}

}  // namespace basalt::controllers::jobflow
