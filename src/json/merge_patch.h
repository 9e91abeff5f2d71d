#pragma once

#include "json/value.h"

// JSON merge patch (RFC 7386). Pure functions; any thread; linear in the size of both values.
namespace basalt::json {

// Members of `patch` replace those of `target`, null removes, objects are merged. The result is no deeper than the
// deeper of the two.
[[nodiscard]] Value apply_merge_patch(Value target, const Value& patch);

// A patch that turns `before` into `after`; {} if they are equal objects. Merge patches cannot say "set to null": a
// null member of `after` is taken for an absent one.
[[nodiscard]] Value make_merge_patch(const Value& before, const Value& after);

}  // namespace basalt::json
