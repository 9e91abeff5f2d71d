#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "apiserver/builtin/fields.h"

// Whether a pod, or the specification of one, can be accepted: the rules, paths and words of Kubernetes
// (pkg/apis/core/validation/validation.go, v1.36) for all that is common; volume types of single vendors, Windows
// options and dynamic resource allocation are taken as they are.

namespace basalt::apiserver {

struct PodSpecContext {
  bool is_pod = false;        // else a template
  std::string_view pod_name;  // "" if not known
};

// The parts of a specification that containers refer to.
struct PodParts {
  std::vector<std::string_view> volumes;           // names of those that are valid
  std::vector<const json::Value*> volume_sources;  // in the same order
  std::vector<std::string_view> claims;            // spec.resourceClaims
  std::string_view restart_policy;
  std::int64_t grace_seconds = 30;
  bool is_pod = false;
  bool names_os = false;
};

void validate_pod_spec(const json::Value& spec, const PodSpecContext& context, const FieldPath& path, Causes& causes);
// A whole pod, as created.
void validate_pod_create(const json::Value& pod, Causes& causes);
// What may change in an accepted pod.
void validate_pod_update(const json::Value& pod, const json::Value& old, Causes& causes);
void validate_pod_status(const json::Value& pod, const json::Value& old, Causes& causes);
// metadata and specification of a template.
void validate_pod_template(const json::Value& pod_template, const FieldPath& path, Causes& causes);

// container_validation.cc
void validate_containers(const json::Value& spec, const PodParts& parts, const FieldPath& path, Causes& causes);
// volume_validation.cc; fills in the volumes of `parts`.
void validate_volumes(const json::Array& volumes, std::string_view pod_name, const FieldPath& path, PodParts& parts,
                      Causes& causes);
void check_relative_path(std::string_view value, const FieldPath& path, Causes& causes);
void check_no_backsteps(std::string_view value, const FieldPath& path, Causes& causes);
// "metadata.name", "metadata.labels['x']": what the downward API may show.
void check_field_ref(const json::Value& reference, std::span<const std::string_view> allowed, const FieldPath& path,
                     Causes& causes);
void check_resource_field_ref(const json::Value& reference, bool in_volume, const FieldPath& path, Causes& causes);
// scheduling_validation.cc
void validate_affinity(const json::Value& affinity, const FieldPath& path, Causes& causes);
void validate_tolerations(const json::Array& tolerations, const FieldPath& path, Causes& causes);
void validate_topology_spread(const json::Array& constraints, const FieldPath& path, Causes& causes);
void validate_taints(const json::Array& taints, const FieldPath& path, Causes& causes);
void validate_node_selector(const json::Value& selector, const FieldPath& path, Causes& causes);
// security_validation.cc
void validate_pod_security(const json::Value& spec, const FieldPath& spec_path, Causes& causes);
void validate_container_security(const json::Value& container, const FieldPath& path, Causes& causes);

}  // namespace basalt::apiserver
