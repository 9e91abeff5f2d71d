#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/fwd.h"
#include "base/result.h"

namespace basalt::api {

// One test of a label selector. A value made by `make` or by a selector is valid; `values` is sorted, each once.
struct Requirement {
  // Equals and DoubleEquals mean the same and differ in print; NotEquals is NotIn with one value.
  enum class Operator : std::uint8_t {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan
  };

  std::string key;
  Operator op = Operator::Exists;
  std::vector<std::string> values;

  // Refuses, with Kubernetes' words, a key or value that no label could have, and a wrong number of values.
  static Result<Requirement> make(std::string_view key, Operator op, std::vector<std::string> values);

  // Whether a label of this value, or the lack of one, passes.
  [[nodiscard]] bool accepts(std::optional<std::string_view> value) const;
  [[nodiscard]] std::string to_string() const;  // "a in (b,c)", "!d"
  bool operator==(const Requirement&) const = default;
};

// A label selector, ready to be asked. All requirements must hold; without any it selects everything, and there is one
// that selects nothing. Immutable but for `add`; any number of threads may ask it.
class Selector {
 public:
  Selector() = default;  // everything
  static Selector everything() { return {}; }
  static Selector nothing();
  // Labels that must be there with exactly these values, without checking that they are valid ones.
  static Selector of_labels(const StringMap& labels);
  // The string form, as in ?labelSelector= and kubectl -l: "a=b,c!=d,e in (x,y),f,!g,h notin (z),i>5".
  static Result<Selector> parse(std::string_view text);
  // The form that objects carry. An absent one (null pointer) selects nothing, an empty one everything.
  static Result<Selector> from(const meta::LabelSelector* selector);
  static Result<Selector> from(const meta::LabelSelector& selector) { return from(&selector); }

  [[nodiscard]] bool matches(const StringMap& labels) const;
  // `lookup(key)` returns std::optional<std::string_view>.
  template <class Lookup>
  [[nodiscard]] bool matches_with(Lookup&& lookup) const {
    if (nothing_) return false;
    for (const Requirement& requirement : requirements_) {
      if (!requirement.accepts(lookup(std::string_view(requirement.key)))) return false;
    }
    return true;
  }

  [[nodiscard]] bool is_everything() const { return !nothing_ && requirements_.empty(); }
  [[nodiscard]] bool is_nothing() const { return nothing_; }
  [[nodiscard]] const std::vector<Requirement>& requirements() const { return requirements_; }
  // The one value that this key must have, if the selector says so: for indexes.
  [[nodiscard]] std::optional<std::string_view> exact_value(std::string_view key) const;
  void add(Requirement requirement);

  // Sorted by key, as Kubernetes prints it; "" for everything and, as there, for nothing.
  [[nodiscard]] std::string to_string() const;
  bool operator==(const Selector&) const = default;

 private:
  std::vector<Requirement> requirements_;  // sorted by key; those of one key in the order given
  bool nothing_ = false;
};

// For people: the string form, "<none>" if empty and "<error>" if invalid, as kubectl shows it.
[[nodiscard]] std::string format_label_selector(const meta::LabelSelector& selector);

}  // namespace basalt::api
