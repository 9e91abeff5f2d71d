#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/fwd.h"
#include "base/result.h"

namespace basalt::api {

// A field selector: "metadata.name=x,status.phase!=Running". All terms must hold; a field that an object lacks is "".
// In values a backslash stands before ',', '=' and '\' themselves. Which fields a kind can be selected by is not known
// here.
class FieldSelector {
 public:
  struct Term {
    std::string field;
    std::string value;
    bool negated = false;  // "!="
    bool operator==(const Term&) const = default;
  };

  FieldSelector() = default;  // everything
  static Result<FieldSelector> parse(std::string_view text);
  static FieldSelector of(std::vector<Term> terms);

  // `lookup(field)` returns std::string_view, "" where there is no such field.
  template <class Lookup>
  [[nodiscard]] bool matches_with(Lookup&& lookup) const {
    for (const Term& term : terms_) {
      if ((std::string_view(lookup(std::string_view(term.field))) == term.value) == term.negated) return false;
    }
    return true;
  }

  [[nodiscard]] bool is_everything() const { return terms_.empty(); }
  [[nodiscard]] const std::vector<Term>& terms() const { return terms_; }
  // The one value that this field must have, if the selector says so; null if not.
  [[nodiscard]] const std::string* exact_value(std::string_view field) const;

  [[nodiscard]] std::string to_string() const;
  bool operator==(const FieldSelector&) const = default;

 private:
  std::vector<Term> terms_;
};

// With backslashes where they are needed.
[[nodiscard]] std::string escape_field_value(std::string_view value);

}  // namespace basalt::api
