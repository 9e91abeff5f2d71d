#pragma once

#include <cstddef>

#include "base/result.h"
#include "json/value.h"

// JSON patch (RFC 6902). Pure functions; any thread.
namespace basalt::json {

// What a tenant's patch may cost.
struct PatchLimits {
  std::size_t operations_max = 10'000;   // as kube-apiserver
  std::size_t copy_bytes_max = 3 << 20;  // all that `copy` makes, as kube-apiserver: else copies of copies explode
  std::size_t shifts_max = 20'000'000;   // elements moved aside by insertions and removals in the middle: 0.2 s
  int depth_max = 256;                   // of the result: as json::Reader
};

// Applies the operations in order; all or none. Errors name the index of the operation, its kind and path. Reasons:
// BadRequest for a malformed patch, RequestEntityTooLarge for one over the limits, Invalid for one that does not fit
// the document (a failed test, too).
//
// Differs: kube-apiserver also takes negative array indices, and a test for null passes where nothing is.
[[nodiscard]] Result<Value> apply_json_patch(Value document, const Value& patch, const PatchLimits& limits = {});

// A patch (an array) that turns `before` into `after`, as admission webhooks answer. Not minimal, but it touches only
// what differs.
[[nodiscard]] Value make_json_patch(const Value& before, const Value& after);

}  // namespace basalt::json
