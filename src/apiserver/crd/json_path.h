#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "json/value.h"

namespace basalt::apiserver {

// The part of kubectl's JSON paths that printer columns and selectable fields use: .a.b, ['a'], [0], [*],
// [?(@.a=="b")], and "\." in a name. At most 32 steps.
class JsonPath {
 public:
  static Result<JsonPath> parse(std::string_view text);
  // What the path leads to, in order; pointers into `root`. At most 1,000.
  [[nodiscard]] std::vector<const json::Value*> find(const json::Value& root) const;

 private:
  struct Step {
    enum class Kind : std::uint8_t { Member, Index, All, Filter };
    Kind kind = Kind::Member;
    std::string name;               // Member
    std::int64_t index = 0;         // Index; negative counts from the end
    std::vector<std::string> path;  // Filter: members of the element
    json::Value equals;             // Filter
  };
  static Result<std::size_t> parse_bracket(std::string_view text, std::size_t at, Step& step);
  static void apply(const Step& step, const json::Value& value, std::vector<const json::Value*>& out);

  std::vector<Step> steps_;
};

}  // namespace basalt::apiserver
