#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/resource_list.h"

namespace basalt::scheduler {

using ResourceIndex = std::uint16_t;

// Amounts by resource index, in whole numbers: millicores of cpu, units of everything else. Short vectors stand for
// zeros at the end.
using Amounts = std::vector<std::int64_t>;
// The same without the zeros, sorted by index: what a pod asks for.
using SparseAmounts = std::vector<std::pair<ResourceIndex, std::int64_t>>;

// An amount so large that it stands for "no limit"; sums of two of them do not overflow.
inline constexpr std::int64_t kUnlimited = std::int64_t{1} << 60;

// The names of resources, numbered as they are met. Limit: kNamesMax; what comes later shares the last number's slot
// "other", so a cluster with more kinds of resources than that schedules these by their sum.
class ResourceTable {
 public:
  static constexpr ResourceIndex kCpu = 0;
  static constexpr ResourceIndex kMemory = 1;
  static constexpr ResourceIndex kPods = 2;
  static constexpr std::size_t kNamesMax = 64;

  ResourceTable();
  [[nodiscard]] ResourceIndex index_of(std::string_view name);
  [[nodiscard]] std::size_t size() const { return names_.size(); }
  [[nodiscard]] const std::string& name(ResourceIndex index) const { return names_[index]; }

  [[nodiscard]] Amounts amounts_of(const api::ResourceList& list);
  // Amounts that are not named are `missing`.
  [[nodiscard]] Amounts limits_of(const api::ResourceList& list, std::int64_t missing);
  [[nodiscard]] api::ResourceList to_list(const Amounts& amounts) const;
  // "1500m", "64Gi": the shortest exact form.
  [[nodiscard]] std::string text_of(ResourceIndex index, std::int64_t amount) const;

 private:
  std::vector<std::string> names_;
};

[[nodiscard]] std::int64_t whole_amount(std::string_view name, const api::Quantity& quantity);

[[nodiscard]] inline std::int64_t at(const Amounts& amounts, std::size_t index) {
  return index < amounts.size() ? amounts[index] : 0;
}
void add_to(Amounts& sum, const Amounts& other, std::int64_t factor = 1);
void add_to(Amounts& sum, const SparseAmounts& other, std::int64_t factor = 1);
[[nodiscard]] SparseAmounts sparse_of(const Amounts& amounts);
[[nodiscard]] bool is_zero(const Amounts& amounts);

}  // namespace basalt::scheduler
