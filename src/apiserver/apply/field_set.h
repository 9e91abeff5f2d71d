#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace basalt::apiserver {

// A set of field paths, as a tree. An element of a path is written as fieldsV1 has it: "f:name" (a member of an
// object), `k:{"name":"a"}` (an item of a list with keys), `v:"x"` (an item of a set), "i:0" (an item by its place).
struct FieldSet {
  bool is_member = false;  // the path that leads here is in the set
  std::map<std::string, FieldSet, std::less<>> children;

  [[nodiscard]] bool empty() const { return !is_member && children.empty(); }
  [[nodiscard]] const FieldSet* find(std::string_view element) const;

  void add(const FieldSet& other);
  void add(FieldSet&& other);
  void subtract(const FieldSet& other);  // removes the paths that are in both
  [[nodiscard]] FieldSet intersection(const FieldSet& other) const;
  // The paths as people read them: `.spec.containers[name="a"].image`.
  [[nodiscard]] std::vector<std::string> paths() const;

  bool operator==(const FieldSet& other) const = default;

  [[nodiscard]] json::Value encode() const;
  // InvalidInput if it is no fieldsV1; depth is bounded by the reader that made the value.
  [[nodiscard]] static Result<FieldSet> decode(const json::Value& fields);
};

}  // namespace basalt::apiserver
