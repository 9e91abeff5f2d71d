#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apiserver/registry/resource_type.h"
#include "base/result.h"
#include "json/value.h"

namespace basalt::apiserver {

// Checks a CustomResourceDefinition as Kubernetes does (structural schemas, names, versions, columns, defaults that
// validate, limits on size and depth). Every complaint has its field path.
void validate_crd(const json::Value& crd, const json::Value* old, Causes& causes);
// Fills in what a CRD may leave out: singular, listKind, served columns (Age).
void default_crd(json::Value& crd);
// The resources that an accepted CRD serves: one per served version, with their strategies (compiled schemas).
// `converter` turns their versions into each other, unless they differ in apiVersion alone.
[[nodiscard]] Result<std::vector<std::shared_ptr<const ResourceType>>> types_of_crd(
    const json::Value& crd, const std::shared_ptr<const VersionConverter>& converter = nullptr);

}  // namespace basalt::apiserver
