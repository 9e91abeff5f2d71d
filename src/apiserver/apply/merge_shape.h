#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/crd/schema.h"
#include "apiserver/registry/resource_type.h"
#include "json/strategic_merge.h"
#include "json/value.h"

namespace basalt::apiserver {

enum class ListMerge : std::uint8_t { Atomic, Set, Map };

// The members by which the items of a list of a built-in kind are told apart, by the name of its field and the key that
// strategic merge patches know it by; for some of them that is not enough.
[[nodiscard]] std::vector<std::string> list_map_keys(std::string_view field, std::string_view merge_key);

// What is known of the lists and maps of one kind, seen from a place in an object that moves along with its reader.
// A built-in kind is known by its paths, a custom one by its schema; what neither knows is merged member by member, and
// its lists are taken as a whole.
class MergeShape {
 public:
  explicit MergeShape(const ResourceType& type);

  // Of the value at this place, if it is a list.
  [[nodiscard]] ListMerge list() const;
  [[nodiscard]] std::vector<std::string> list_keys() const;
  // What an item that lacks the key counts as having.
  [[nodiscard]] std::optional<json::Value> key_default(std::string_view key) const;
  // Of the value at this place, if it is an object: whether it has one owner as a whole.
  [[nodiscard]] bool is_atomic_object() const;
  // Whether the members of the object here are of the user's choosing.
  [[nodiscard]] bool is_free_map() const;

  // The names of the fields that lead here.
  [[nodiscard]] const std::vector<std::string_view>& path() const { return path_; }

  void enter_field(std::string_view name);
  void leave_field();
  void enter_item();
  void leave_item();

 private:
  [[nodiscard]] bool is_by_path() const { return schema_root_ == nullptr || is_metadata(); }
  [[nodiscard]] bool is_metadata() const { return !path_.empty() && path_.front() == "metadata"; }

  const json::StrategicSchema* core_;
  const Schema* schema_root_;
  std::vector<std::string_view> path_;
  std::vector<const Schema*> schemas_;  // the last is of this place; null where nothing is known
};

}  // namespace basalt::apiserver
