#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"
#include "cel/cost.h"
#include "cel/value.h"

namespace re2 {
class RE2;
}

namespace basalt::cel {

// One call of a function: its arguments (of a method, the object first) and who pays.
struct Call {
  std::string_view name;
  std::span<const Value> arguments;
  Cost& cost;
  const re2::RE2* regex = nullptr;  // the compiled pattern, if it stands in the text as a literal

  [[nodiscard]] const Value& operator[](std::size_t index) const { return arguments[index]; }
  [[nodiscard]] std::size_t size() const { return arguments.size(); }
  // The argument if it is of that type, else null.
  template <class T>
  [[nodiscard]] const T* get(std::size_t index) const {
    return index < arguments.size() ? arguments[index].get<T>() : nullptr;
  }
  [[nodiscard]] std::optional<std::string_view> text(std::size_t index) const {
    const Text* found = get<Text>(index);
    return found == nullptr ? std::nullopt : std::optional(found->view);
  }
};

struct Function {
  std::string_view name;  // "size", "_+_", "optional.of"
  bool is_method = false;
  std::uint8_t arguments_min = 0;  // of a method without the object
  std::uint8_t arguments_max = 0;
  Result<Value> (*run)(const Call& call) = nullptr;  // null: only extensions have this method
  std::string_view result = "dyn";                   // the type of the result where it is always the same
  bool has_regex = false;                            // the last required argument is a pattern
  std::string_view receiver = "";                    // of a method: the only type that has it
};

[[nodiscard]] Error no_overload();

// The functions of a file, for the table.
[[nodiscard]] std::span<const Function> operator_functions();
[[nodiscard]] std::span<const Function> conversion_functions();
[[nodiscard]] std::span<const Function> text_functions();
[[nodiscard]] std::span<const Function> list_functions();
[[nodiscard]] std::span<const Function> extension_functions();

// Null if there is none with this name; `count` arguments may still be wrong for it.
[[nodiscard]] const Function* find_function(std::string_view name, bool is_method);

// What only a call of another file needs.
[[nodiscard]] Result<Value> to_text(const Call& call);
[[nodiscard]] std::string double_text(double value);
[[nodiscard]] Result<Value> format_text(const Call& call);
[[nodiscard]] Result<Value> text_index_of(const Call& call);

}  // namespace basalt::cel
