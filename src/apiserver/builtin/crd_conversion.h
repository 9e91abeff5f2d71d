#pragma once

#include "apiserver/registry/resource_type.h"
#include "json/value.h"

// spec.conversion of a CRD: how objects of one version become those of another.

namespace basalt::apiserver {

void default_crd_conversion(json::Value& crd);
void validate_crd_conversion(const json::Value& crd, Causes& causes);

}  // namespace basalt::apiserver
