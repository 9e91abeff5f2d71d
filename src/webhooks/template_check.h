#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.h"
#include "webhooks/fields.h"

// Whether pods of a template could be created at all: the mistakes that people make, in Kubernetes' own words
// (k8s.io/kubernetes pkg/apis/core/validation, v1.36). Absent members count as their defaults. What is not looked at
// here (volume sources of single vendors, Windows options, resource claims) the API server refuses when the pod is
// created; the dry-run probe (template_probes.h) asks it beforehand.

namespace basalt::webhooks {

// Lists longer than this are refused with a sentence: each element is looked at.
inline constexpr std::size_t kTemplateListMax = 2'000;

// `holder` has the member `template`; `path` names it.
void check_pod_template(const json::Value& holder, const std::string& path, Problems& problems);

// The parts of a pod that containers refer to.
struct PodParts {
  std::vector<std::string_view> volumes;  // names
  std::vector<std::string_view> claims;   // spec.resourceClaims
  std::string_view restart_policy;
};
// template_containers.cc
void check_containers(const json::Value& spec, const PodParts& parts, const Path& path, Problems& problems);
void check_resources(const json::Value& resources, const PodParts& parts, const Path& path, Problems& problems);
void check_security_context(const json::Value& holder, bool is_container, const Path& path, Problems& problems);

}  // namespace basalt::webhooks
