#pragma once

#include <cstddef>
#include <string>

#include "apiserver/store/store.h"
#include "json/value.h"

namespace basalt::apiserver {

// The text of an object with a gap for the digits of its resource version, which only the store knows.
class SplitText {
 public:
  explicit SplitText(const json::Value& object);
  ~SplitText();
  SplitText(const SplitText&) = delete;
  SplitText& operator=(const SplitText&) = delete;
  // Views into this.
  [[nodiscard]] ObjectText parts() const {
    return {std::string_view(text_).substr(0, gap_), std::string_view(text_).substr(gap_)};
  }
  // The whole with this version in the gap.
  [[nodiscard]] std::string with_version(std::string_view digits) const;

 private:
  std::string text_;
  std::size_t gap_ = 0;
};

}  // namespace basalt::apiserver
