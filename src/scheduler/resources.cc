#include "scheduler/resources.h"

#include <algorithm>

namespace basalt::scheduler {

ResourceTable::ResourceTable() : names_{"cpu", "memory", "pods"} {}

ResourceIndex ResourceTable::index_of(std::string_view name) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return static_cast<ResourceIndex>(i);
  }
  if (names_.size() == kNamesMax) return static_cast<ResourceIndex>(kNamesMax - 1);
  names_.emplace_back(names_.size() + 1 == kNamesMax ? "other" : name);
  return static_cast<ResourceIndex>(names_.size() - 1);
}

std::int64_t whole_amount(std::string_view name, const api::Quantity& quantity) {
  const std::int64_t amount = name == "cpu" ? quantity.milli_value() : quantity.value();
  return std::clamp(amount, -kUnlimited, kUnlimited);
}

Amounts ResourceTable::amounts_of(const api::ResourceList& list) { return limits_of(list, 0); }

Amounts ResourceTable::limits_of(const api::ResourceList& list, std::int64_t missing) {
  for (const auto& [name, quantity] : list) static_cast<void>(index_of(name));
  Amounts amounts(names_.size(), missing);
  std::vector<bool> named(names_.size());
  for (const auto& [name, quantity] : list) {
    const ResourceIndex index = index_of(name);
    if (!named[index]) amounts[index] = 0;
    named[index] = true;
    amounts[index] += whole_amount(name, quantity);
  }
  return amounts;
}

api::ResourceList ResourceTable::to_list(const Amounts& amounts) const {
  api::ResourceList list;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    if (amounts[i] == 0) continue;
    list.set(names_[i], i == kCpu
                            ? api::Quantity::of_milli(amounts[i])
                            : api::Quantity::of(amounts[i], names_[i] == "memory" || names_[i].find("hugepages") == 0
                                                                ? api::Quantity::Format::BinarySI
                                                                : api::Quantity::Format::DecimalSI));
  }
  return list;
}

std::string ResourceTable::text_of(ResourceIndex index, std::int64_t amount) const {
  if (index == kCpu) return api::Quantity::of_milli(amount).canonical();
  if (index == kMemory) {
    // What is left on a node is rarely a round number: shown in Mi, rounded down.
    constexpr std::int64_t kMi = 1 << 20;
    if (amount >= 16 * kMi) amount = amount / kMi * kMi;
    return api::Quantity::of(amount, api::Quantity::Format::BinarySI).canonical();
  }
  return api::Quantity::of(amount).canonical();
}

void add_to(Amounts& sum, const Amounts& other, std::int64_t factor) {
  if (sum.size() < other.size()) sum.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) sum[i] += factor * other[i];
}

void add_to(Amounts& sum, const SparseAmounts& other, std::int64_t factor) {
  for (const auto& [index, amount] : other) {
    if (sum.size() <= index) sum.resize(index + 1u);
    sum[index] += factor * amount;
  }
}

SparseAmounts sparse_of(const Amounts& amounts) {
  SparseAmounts sparse;
  for (std::size_t i = 0; i < amounts.size(); ++i) {
    if (amounts[i] != 0) sparse.emplace_back(static_cast<ResourceIndex>(i), amounts[i]);
  }
  return sparse;
}

bool is_zero(const Amounts& amounts) {
  return std::all_of(amounts.begin(), amounts.end(), [](std::int64_t amount) { return amount == 0; });
}

}  // namespace basalt::scheduler
