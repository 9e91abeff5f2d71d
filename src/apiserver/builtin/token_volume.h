#pragma once

#include <memory>

#include "apiserver/registry/admission.h"
#include "apiserver/store/store.h"
#include "json/value.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// Where programs of pods look for the token, the authority and the namespace.
inline constexpr std::string_view kAccountMountPath = "/var/run/secrets/kubernetes.io/serviceaccount";

// A pod that stands for one of a node's own files: it has no account.
[[nodiscard]] bool is_mirror_pod(const json::Value& pod);

// Gives new pods the volume `kube-api-access-xxxxx`, from which their containers speak to this API as the pod's service
// account, as Kubernetes' ServiceAccount admission does (plugin/pkg/admission/serviceaccount, 1.33): unless the pod, or
// else its account, says automountServiceAccountToken: false; a container that mounts something there keeps that. After
// pod_admission, which names the account. Only for servers that make tokens.
[[nodiscard]] std::shared_ptr<AdmissionHook> token_volume_admission(rt::Runtime& runtime, Store& store);

}  // namespace basalt::apiserver
