#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "json/value.h"

// Kubernetes' strategic merge patch: a merge patch that knows which lists are keyed. Behaviour as apimachinery v0.36
// (pkg/util/strategicpatch). Pure functions; any thread.
namespace basalt::json {

// How the value of one field is patched.
struct FieldStrategy {
  enum class Kind : std::uint8_t {
    Default,          // an object is merged, a list or scalar replaced
    Replace,          // an object is replaced, too
    MergeByKey,       // a list of objects, matched by the member merge_key
    MergePrimitives,  // a list of scalars, treated as a set
  };
  Kind kind = Kind::Default;
  std::string_view merge_key;
  // Whoever makes a patch sends $retainKeys with it: of several ways to say the value only one may stay. Applying a
  // patch follows the directive, not this flag.
  bool retain_keys = false;
};

// What is known about the fields of one kind.
class StrategicSchema {
 public:
  virtual ~StrategicSchema() = default;
  // `path` is a list of field names from the root; elements of a list have the path of the list.
  [[nodiscard]] virtual FieldStrategy strategy_of(std::span<const std::string_view> path) const = 0;
};

// Merges `patch` into `live`. Directives: `$patch: replace | delete | merge` in an object (of a list, too),
// `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`. Null removes a member.
// A malformed patch, or a list that cannot be merged, is BadRequest with the field's path.
//
// A merged list is ordered by $setElementOrder, then by the patch, then by the live list, as kube-apiserver orders it.
//
// Differs: `$patch: merge` is accepted and means what it says (kube-apiserver refuses it); an object with
// `$patch: replace` is set also where the live value has none (kube-apiserver drops it).
[[nodiscard]] Result<Value> apply_strategic_merge(Value live, const Value& patch, const StrategicSchema& schema);

}  // namespace basalt::json
