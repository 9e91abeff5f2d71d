#pragma once

#include "apiserver/apply/field_set.h"
#include "apiserver/apply/merge_shape.h"
#include "base/result.h"
#include "json/value.h"

// Walks over objects along a shape that stands at their root. Depth is bounded by whoever parsed the objects.

namespace basalt::apiserver {

// Neither of the first two looks at what nobody owns: apiVersion, kind, and the metadata that the server writes or that
// names the object.

// Every field that the object sets. Invalid if an item of a list with keys lacks one, or comes twice; the message names
// the path.
[[nodiscard]] Result<FieldSet> fields_of(const json::Value& object, MergeShape& shape);

struct FieldChanges {
  FieldSet added;
  FieldSet modified;
  FieldSet removed;
  [[nodiscard]] bool empty() const { return added.empty() && modified.empty() && removed.empty(); }
};
// Lists whose items cannot be told apart are compared as a whole.
[[nodiscard]] FieldChanges changes_between(const json::Value& old, const json::Value& now, MergeShape& shape);

// What the configuration says over what is there: objects and lists with keys member by member, the rest as a whole.
[[nodiscard]] json::Value merge_configuration(const json::Value& live, const json::Value& configuration,
                                              MergeShape& shape);

// Removes the fields of `dropped` that are not in `owned`, and what is empty by that.
void remove_unowned(json::Value& object, const FieldSet& dropped, const FieldSet& owned, MergeShape& shape);

}  // namespace basalt::apiserver
