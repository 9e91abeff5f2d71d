#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "api/time.h"

// Helpers over any list of conditions (meta::Condition, PodCondition, PodGroupCondition, ...): structs with `type`,
// `status` and `last_transition_time`, whatever else they have.

namespace basalt::api {

template <class Condition>
[[nodiscard]] const Condition* find_condition(const std::vector<Condition>& conditions, std::string_view type) {
  for (const Condition& condition : conditions) {
    if (condition.type == type) return &condition;
  }
  return nullptr;
}

template <class Condition>
[[nodiscard]] Condition* find_condition(std::vector<Condition>& conditions, std::string_view type) {
  return const_cast<Condition*>(find_condition(std::as_const(conditions), type));
}

// False also if there is no such condition.
template <class Condition>
[[nodiscard]] bool is_condition_true(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* condition = find_condition(conditions, type);
  return condition != nullptr && condition->status == "True";
}

template <class Condition>
[[nodiscard]] bool is_condition_false(const std::vector<Condition>& conditions, std::string_view type) {
  const Condition* condition = find_condition(conditions, type);
  return condition != nullptr && condition->status == "False";
}

// Puts the condition in, replacing the one of its type. `last_transition_time` stays what it was while the status does;
// else it is the given one, or `now` if none is given. Returns whether anything changed, so that nothing is written in
// vain.
template <class Condition>
bool set_condition(std::vector<Condition>& conditions, Condition condition, Time now) {
  Condition* existing = find_condition(conditions, condition.type);
  const bool same_status = existing != nullptr && existing->status == condition.status;
  if (same_status && !existing->last_transition_time.is_zero()) {
    condition.last_transition_time = existing->last_transition_time;
  } else if (condition.last_transition_time.is_zero()) {
    condition.last_transition_time = now;
  }
  if (existing == nullptr) {
    conditions.push_back(std::move(condition));
    return true;
  }
  // What others added to the condition stays.
  if constexpr (requires { condition.unknown; }) {
    if (condition.unknown.empty()) condition.unknown = existing->unknown;
  }
  if (*existing == condition) return false;
  *existing = std::move(condition);
  return true;
}

// Returns whether it was there.
template <class Condition>
bool remove_condition(std::vector<Condition>& conditions, std::string_view type) {
  return std::erase_if(conditions, [&](const Condition& condition) { return condition.type == type; }) > 0;
}

}  // namespace basalt::api
