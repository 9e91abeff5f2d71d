#pragma once

#include "apiserver/builtin/builtin_types.h"
#include "apiserver/builtin/fields.h"

namespace basalt::apiserver {

// Persistent volumes, claims to them, and storage classes.
[[nodiscard]] TypeList volume_types();
[[nodiscard]] std::shared_ptr<const ResourceType> storage_class_type();

// spec of a claim, also within pods and stateful sets.
void validate_claim_spec(const json::Value& spec, const FieldPath& path, Causes& causes);

}  // namespace basalt::apiserver
