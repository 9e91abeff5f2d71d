#pragma once

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error.h"

namespace basalt {

struct Ok {};

// A value or an Error. Where there is nothing to return but success, use `Done` below.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    BASALT_CHECK_MSG(ok(), error_text());
    return std::get<0>(state_);
  }
  const T& value() const& {
    BASALT_CHECK_MSG(ok(), error_text());
    return std::get<0>(state_);
  }
  T&& value() && {
    BASALT_CHECK_MSG(ok(), error_text());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const& {
    BASALT_CHECK(!ok());
    return std::get<1>(state_);
  }
  [[nodiscard]] Error&& error() && {
    BASALT_CHECK(!ok());
    return std::get<1>(std::move(state_));
  }

  [[nodiscard]] T value_or(T fallback) const& { return ok() ? std::get<0>(state_) : std::move(fallback); }

 private:
  [[nodiscard]] std::string error_text() const { return ok() ? std::string() : std::get<1>(state_).to_string(); }
  std::variant<T, Error> state_;
};

using Done = Result<Ok>;  // success without a value, or an Error

}  // namespace basalt

// `BASALT_TRY(auto x, call());` binds the value or returns the error from the enclosing function.
#define BASALT_TRY_CONCAT_(a, b) a##b
#define BASALT_TRY_NAME_(a, b) BASALT_TRY_CONCAT_(a, b)
#define BASALT_TRY(declaration, expression) \
  BASALT_TRY_IMPL_(BASALT_TRY_NAME_(try_result_, __LINE__), declaration, expression)
#define BASALT_TRY_IMPL_(name, declaration, expression) \
  auto name = (expression);                             \
  if (!name.ok()) return std::move(name).error();       \
  declaration = std::move(name).value()
// The same where there is no value to bind.
#define BASALT_TRY_DONE(expression) BASALT_TRY_DONE_IMPL_(BASALT_TRY_NAME_(try_result_, __LINE__), expression)
#define BASALT_TRY_DONE_IMPL_(name, expression)     \
  do {                                              \
    auto name = (expression);                       \
    if (!name.ok()) return std::move(name).error(); \
  } while (false)
