#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "api/gen/karmada_binding.h"
#include "api/resource_list.h"
#include "json/value.h"

namespace basalt::federation {

// What the stand-in understands of a job: the same as deploy/karmada/job-interpreter.yaml teaches a real Karmada. Pure.

// The first task's replicas; absent or 0 counts as 1.
[[nodiscard]] std::int32_t replicas_of(const api::batch::JobSpec& spec);
// What the hungriest pod of all tasks asks for.
[[nodiscard]] api::ResourceList request_of(const api::batch::JobSpec& spec);

struct Dependency {
  std::string kind;  // ConfigMap, Secret, PersistentVolumeClaim, ServiceAccount
  std::string name;
  auto operator<=>(const Dependency&) const = default;
};
// What the pods of all tasks mention, sorted, each once.
[[nodiscard]] std::vector<Dependency> dependencies_of(const api::batch::JobSpec& spec);

inline constexpr std::string_view kTemplateUid = "resourcetemplate.karmada.io/uid";
inline constexpr std::string_view kTemplateGeneration = "resourcetemplate.karmada.io/generation";
inline constexpr std::string_view kBindingName = "resourcebinding.karmada.io/name";
inline constexpr std::string_view kBindingNamespace = "resourcebinding.karmada.io/namespace";

// The job for a member: without owners, finalizers, UID, status and ttl; with marks that tell whose it is. `replicas`
// is what this cluster gets of the first task.
[[nodiscard]] json::Value member_job(const json::Value& template_job, std::string_view binding, std::int32_t replicas);
// A merge patch that brings a member's job up to date; null if there is nothing to do. What the member filled in (gang
// sizes, retries, claim names) stays.
[[nodiscard]] json::Value member_patch(const json::Value& live, const json::Value& wanted);

// One job's status from those in its clusters: a single one is copied; of several the counters are summed, and it has
// failed if it failed anywhere.
[[nodiscard]] api::batch::JobStatus aggregate(const std::vector<api::batch::JobStatus>& members);
[[nodiscard]] std::string_view health_of(const api::batch::JobStatus& status);

}  // namespace basalt::federation
