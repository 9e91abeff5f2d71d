#pragma once

#include <cstddef>
#include <string_view>

#include "api/fwd.h"
#include "api/quantity.h"
#include "api/resource_list.h"
#include "api/string_map.h"

namespace basalt::api {

// A resource list for caches: eight bytes, and one block for names and amounts as text. Amounts are parsed when asked
// for, so whoever computes takes `to_list` once. Every amount is valid: decoding refuses others. Immutable; copies
// share the block.
class PackedResources {
 public:
  PackedResources() = default;
  explicit PackedResources(const ResourceList& list);

  [[nodiscard]] bool empty() const { return text_.empty(); }
  [[nodiscard]] std::size_t size() const { return text_.size(); }
  [[nodiscard]] bool contains(std::string_view name) const { return text_.contains(name); }
  [[nodiscard]] Quantity get(std::string_view name) const;  // zero if absent
  [[nodiscard]] ResourceList to_list() const;

  // By text: {cpu: 1} and {cpu: 1000m} differ. It answers "has the object changed", not "is it the same amount".
  bool operator==(const PackedResources&) const = default;

  [[nodiscard]] std::size_t memory_bytes() const { return text_.memory_bytes(); }

 private:
  friend void decode(json::Reader& reader, PackedResources& resources);
  StringMap text_;
};

void decode(json::Reader& reader, PackedResources& resources);

}  // namespace basalt::api
