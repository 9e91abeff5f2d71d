#pragma once

#include <cstdint>

#include "base/result.h"

namespace basalt::cel {

// What evaluations may cost together: about one unit for a step, an element visited, ten bytes of text looked at. An
// evaluation that would exceed it ends with an error that says so, whatever the expression would have done with errors.
class Cost {
 public:
  static constexpr std::uint64_t kExpressionMax = 1'000'000;  // as Kubernetes allows one expression
  explicit Cost(std::uint64_t max = kExpressionMax) : max_(max) {}

  [[nodiscard]] Done spend(std::uint64_t units) {
    if (take(units)) return Ok{};
    return exhausted();
  }
  // The same without words.
  [[nodiscard]] bool take(std::uint64_t units) {
    if (units > max_ - spent_) {
      spent_ = max_;
      is_exceeded_ = true;
    } else {
      spent_ += units;
    }
    return !is_exceeded_;
  }
  [[nodiscard]] static Error exhausted() {
    return Error::invalid_input("operation cancelled: actual cost limit exceeded");
  }
  [[nodiscard]] bool is_exceeded() const { return is_exceeded_; }
  [[nodiscard]] std::uint64_t spent() const { return spent_; }
  [[nodiscard]] std::uint64_t left() const { return max_ - spent_; }

 private:
  const std::uint64_t max_;
  std::uint64_t spent_ = 0;
  bool is_exceeded_ = false;
};

}  // namespace basalt::cel
