#include "webhooks/review.h"

#include "base/strings.h"
#include "webhooks/rules/rules.h"

namespace basalt::webhooks {
namespace {

constexpr std::uint8_t kCreate = static_cast<std::uint8_t>(Operation::Create);
constexpr std::uint8_t kUpdate = static_cast<std::uint8_t>(Operation::Update);
constexpr std::uint8_t kDelete = static_cast<std::uint8_t>(Operation::Delete);

constexpr std::string_view kBatch = "batch.volcano.sh";
constexpr std::string_view kScheduling = "scheduling.volcano.sh";
constexpr std::string_view kData = "datadependency.volcano.sh";

constexpr Hook kHooks[] = {
    {"/jobs/mutate", true, kBatch, "v1alpha1", "jobs", kCreate, "mutatejob.volcano.sh", mutate_job},
    {"/jobs/validate", false, kBatch, "v1alpha1", "jobs", kCreate | kUpdate, "validatejob.volcano.sh", validate_job},
    {"/queues/mutate", true, kScheduling, "v1beta1", "queues", kCreate, "mutatequeue.volcano.sh", mutate_queue},
    {"/queues/validate", false, kScheduling, "v1beta1", "queues", kCreate | kUpdate | kDelete,
     "validatequeue.volcano.sh", validate_queue},
    {"/podgroups/mutate", true, kScheduling, "v1beta1", "podgroups", kCreate, "mutatepodgroup.volcano.sh",
     mutate_pod_group},
    {"/podgroups/validate", false, kScheduling, "v1beta1", "podgroups", kCreate, "validatepodgroup.volcano.sh",
     validate_pod_group},
    {"/pods/mutate", true, "", "v1", "pods", kCreate, "mutatepod.volcano.sh", mutate_pod},
    {"/pods/validate", false, "", "v1", "pods", kCreate, "validatepod.volcano.sh", validate_pod},
    {"/cronjobs/validate", false, kBatch, "v1alpha1", "cronjobs", kCreate | kUpdate, "validatecronjob.volcano.sh",
     validate_cron_job},
    {"/jobflows/validate", false, "flow.volcano.sh", "v1alpha1", "jobflows", kCreate | kUpdate,
     "validatejobflow.volcano.sh", validate_job_flow},
    {"/hypernodes/validate", false, "topology.volcano.sh", "v1alpha1", "hypernodes", kCreate | kUpdate,
     "validatehypernodes.volcano.sh", validate_hyper_node},
    {"/hyperjobs/validate", false, "training.volcano.sh", "v1alpha1", "hyperjobs", kCreate | kUpdate,
     "validatehyperjob.volcano.sh", validate_hyper_job},
    {"/datasources/validate", false, kData, "v1alpha1", "datasources", kCreate | kUpdate,
     "validatedatasource.volcano.sh", validate_data_source},
    {"/datasourceclaims/validate", false, kData, "v1alpha1", "datasourceclaims", kCreate | kUpdate,
     "validatedatasourceclaim.volcano.sh", validate_data_source_claim},
    {"/resourcebindings/mutate", true, "work.karmada.io", "v1alpha2", "resourcebindings", kCreate | kUpdate,
     "mutateresourcebinding.volcano.sh", mutate_binding},
};

}  // namespace

std::string_view to_string(Operation operation) {
  switch (operation) {
    case Operation::Create:
      return "CREATE";
    case Operation::Update:
      return "UPDATE";
    case Operation::Delete:
      return "DELETE";
    case Operation::Connect:
      return "CONNECT";
  }
  return "";
}

void ReviewAnswer::deny(std::string why) {
  allowed = false;
  message = std::move(why);
  code = 400;
  reason.clear();
  patch.clear();
}

void ReviewAnswer::refuse_for_now(const Error& error) {
  deny(error.message);
  code = error.code >= 400 ? error.code : 503;
  reason = error.code >= 400 ? std::string(basalt::to_string(error.reason)) : "ServiceUnavailable";
}

std::string Hook::configuration_name() const { return "volcano-admission-service" + base::replace_all(path, "/", "-"); }

std::span<const Hook> all_hooks() { return kHooks; }

const Hook* find_hook(std::string_view path) {
  for (const Hook& hook : kHooks) {
    if (hook.path == path) return &hook;
  }
  return nullptr;
}

const Hook* find_hook(std::string_view group, std::string_view resource, bool is_mutating) {
  for (const Hook& hook : kHooks) {
    if (hook.group == group && hook.resource == resource && hook.is_mutating == is_mutating) return &hook;
  }
  return nullptr;
}

ReviewAnswer review(const Hook& hook, const RuleContext& context, const ReviewRequest& request) {
  ReviewAnswer answer;
  if (request.group != hook.group || request.version != hook.version || request.resource != hook.resource) {
    const auto name = [](std::string_view group, std::string_view version, std::string_view resource) {
      return std::string(group) + (group.empty() ? "" : "/") + std::string(version) + ", resource " +
             std::string(resource);
    };
    answer.deny("expect resource to be " + name(hook.group, hook.version, hook.resource) + ", found " +
                name(request.group, request.version, request.resource) + ": the webhook configuration sends " +
                std::string(hook.path) + " what it has no rules for");
    return answer;
  }
  if (request.operation != Operation::Delete && (request.object == nullptr || !request.object->is_object())) {
    answer.deny("the review of a " + std::string(to_string(request.operation)) + " carries no object");
    return answer;
  }
  hook.rule(context, request, answer);
  return answer;
}

}  // namespace basalt::webhooks
