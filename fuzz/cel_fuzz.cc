// The expression language: whatever the text, compiling and evaluating end within their limits, twice with the same
// result and cost, and every failure has words. Input: expression, a line "---", and JSON for `self`.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "cel/expression.h"
#include "json/value.h"

namespace {

using namespace basalt;

constexpr std::uint64_t kCostMax = 20'000;

void check(std::string_view text, const json::Value& self) {
  const cel::Variable variables[] = {{"self", nullptr}};
  const auto expression = cel::Expression::compile(text, variables);
  if (!expression.ok()) {
    BASALT_CHECK(!expression.error().message.empty());
    return;
  }
  const cel::Value values[] = {cel::Value::of(self)};
  cel::Cost first_cost(kCostMax);
  cel::Cost second_cost(kCostMax);
  const auto first = expression->evaluate(values, first_cost);
  const auto second = expression->evaluate(values, second_cost);
  BASALT_CHECK(first_cost.spent() == second_cost.spent() && first_cost.spent() <= kCostMax);
  BASALT_CHECK(first.ok() == second.ok());
  if (!first.ok()) {
    BASALT_CHECK(!first.error().message.empty() && first.error().message == second.error().message);
    return;
  }
  const auto shown = first->to_json();
  const auto again = second->to_json();
  BASALT_CHECK(shown.has_value() == again.has_value());
  if (!shown) return;
  BASALT_CHECK(shown->to_text() == again->to_text());
  const bool is_known = expression->result_type() != "dyn" && expression->result_type() != "object";
  BASALT_CHECK(!is_known || expression->result_type() == first->type_name());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  constexpr std::string_view kMark = "\n---\n";
  const std::size_t end = input.find(kMark);
  const std::string_view rest = end == std::string_view::npos ? std::string_view() : input.substr(end + kMark.size());
  const auto self = json::Value::parse(rest);
  check(input.substr(0, end), self.ok() ? *self : json::Value());
  return 0;
}
