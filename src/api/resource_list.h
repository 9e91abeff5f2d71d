#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/quantity.h"

namespace basalt::api {

// Resource name -> amount, sorted by name. A name that is absent counts as zero in arithmetic and comparison of
// amounts, yet presence is kept: {cpu: 0} and {} encode differently and are not ==.
class ResourceList {
 public:
  using Entry = std::pair<std::string, Quantity>;

  ResourceList() = default;
  ResourceList(std::initializer_list<Entry> entries);  // a later entry of the same name wins

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }

  [[nodiscard]] const Quantity* find(std::string_view name) const;  // null if absent
  [[nodiscard]] Quantity get(std::string_view name) const;          // zero if absent
  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  Quantity& operator[](std::string_view name);  // inserts zero if absent
  void set(std::string_view name, const Quantity& quantity) { (*this)[name] = quantity; }
  bool erase(std::string_view name);
  void clear() { entries_.clear(); }

  ResourceList& operator+=(const ResourceList& other);
  ResourceList& operator-=(const ResourceList& other);  // may become negative
  ResourceList& operator*=(std::int64_t factor);
  friend ResourceList operator+(ResourceList a, const ResourceList& b) { return a += b; }
  friend ResourceList operator-(ResourceList a, const ResourceList& b) { return a -= b; }
  friend ResourceList operator*(ResourceList a, std::int64_t factor) { return a *= factor; }
  // Each amount becomes the larger of the two; names of either.
  void raise_to(const ResourceList& other);
  // Each amount becomes the smaller of the two where `other` has the name; no names are added.
  void lower_to(const ResourceList& other);
  // Removes the names whose amount is zero.
  void drop_zeros();

  // Whether every amount here is at most the one in `capacity`; a name that capacity lacks offers nothing. Amounts of
  // zero or less always fit.
  [[nodiscard]] bool fits(const ResourceList& capacity) const { return first_misfit(capacity).empty(); }
  // The first name, in order, that does not fit; "" if all do. A view into this list.
  [[nodiscard]] std::string_view first_misfit(const ResourceList& capacity) const;
  [[nodiscard]] bool has_negative() const;
  // True if there is no amount but zero.
  [[nodiscard]] bool is_zero() const;

  bool operator==(const ResourceList& other) const = default;

  [[nodiscard]] std::string to_string() const;  // "cpu=2,memory=1Gi", for messages

 private:
  friend void decode(json::Reader& reader, ResourceList& list);
  template <class Combine>
  void merge(const ResourceList& other, Combine combine);

  std::vector<Entry> entries_;  // sorted, names unique
};

void decode(json::Reader& reader, ResourceList& list);
void encode(json::Writer& writer, const ResourceList& list);

}  // namespace basalt::api
