#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/apply/merge_shape.h"
#include "base/result.h"
#include "json/value.h"

namespace basalt::apiserver {

// The items of a set or of a list with keys, told apart by their path elements.
struct ListItems {
  ListMerge kind = ListMerge::Atomic;
  std::vector<std::string> elements;  // one an item, in its order

  [[nodiscard]] std::optional<std::size_t> place_of(std::string_view element) const;

  // `shape` stands at the list, which is not atomic. Invalid if an item lacks a key or comes twice.
  [[nodiscard]] static Result<ListItems> of(const json::Array& list, const MergeShape& shape, const std::string& path);

 private:
  std::map<std::string, std::size_t, std::less<>> places_;
};

[[nodiscard]] inline bool shape_is_set(const ListItems& items) { return items.kind == ListMerge::Set; }

}  // namespace basalt::apiserver
