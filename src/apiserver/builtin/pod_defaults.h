#pragma once

#include <string_view>

#include "json/value.h"

// What Kubernetes fills in for pods and for the templates of pods (pkg/apis/core/v1/defaults.go, v1.36). Members of
// wrong types are left alone.

namespace basalt::apiserver {

// Of a pod: those of its specification, and what only pods get (requests from limits, host ports, service links).
void default_pod(json::Value& pod);
// Of a specification, wherever it stands.
void default_pod_spec(json::Value& spec);
// Of the member "template" of an object, made if absent.
void default_pod_template(json::Value& holder);

// spec of a claim, also within a pod or a stateful set.
void default_claim_spec(json::Value& spec);

// "Always" for the tag latest, which is also what an image without tag and digest has; "IfNotPresent" otherwise.
[[nodiscard]] std::string_view default_pull_policy(std::string_view image);

// Guaranteed, Burstable or BestEffort, by the requests and limits of cpu and memory.
[[nodiscard]] std::string_view qos_class(const json::Value& pod);

}  // namespace basalt::apiserver
