// Label and field selectors: what parses prints to text that reads back as the same selector and selects the same.
// Input: selector, then lines "key=value" of labels.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "api/fields.h"
#include "api/labels.h"
#include "api/names.h"
#include "api/string_map.h"
#include "base/check.h"
#include "base/strings.h"

namespace {

using namespace basalt;
using api::Requirement;

api::StringMap labels_of(std::string_view lines) {
  std::vector<api::StringMap::value_type> entries;
  for (const std::string_view line : base::split_lines(lines)) {
    if (const auto parts = base::split_once(line, '=')) entries.emplace_back(*parts);
  }
  return api::StringMap::of(std::move(entries));
}

// The same answer from the definition of each operator.
bool matches_plainly(const api::Selector& selector, const api::StringMap& labels) {
  using Operator = Requirement::Operator;
  for (const Requirement& each : selector.requirements()) {
    bool is_there = false;
    std::string_view found;
    for (const auto [key, value] : labels) {
      if (key != each.key) continue;
      is_there = true;
      found = value;
    }
    bool is_listed = false;
    for (const std::string& value : each.values) is_listed = is_listed || value == found;
    bool passes = false;
    switch (each.op) {
      case Operator::In:
      case Operator::Equals:
      case Operator::DoubleEquals:
        passes = is_there && is_listed;
        break;
      case Operator::NotIn:
      case Operator::NotEquals:
        passes = !is_there || !is_listed;
        break;
      case Operator::Exists:
        passes = is_there;
        break;
      case Operator::DoesNotExist:
        passes = !is_there;
        break;
      case Operator::GreaterThan:
      case Operator::LessThan: {
        const auto number = base::parse_int64(found);
        const auto bound = base::parse_int64(each.values.at(0));
        const bool greater = each.op == Operator::GreaterThan;
        passes = is_there && number && bound && (greater ? *number > *bound : *number < *bound);
      }
    }
    if (!passes) return false;
  }
  return true;
}

void check_labels_of(std::string_view text, const api::StringMap& labels) {
  const Result<api::Selector> selector = api::Selector::parse(text);
  if (!selector.ok()) {
    BASALT_CHECK(!selector.error().message.empty());
    return;
  }
  for (const Requirement& each : selector->requirements()) {
    BASALT_CHECK(api::is_qualified_name(each.key));
    for (const std::string& value : each.values) BASALT_CHECK(api::is_label_value(value));
  }
  const std::string printed = selector->to_string();
  const Result<api::Selector> again = api::Selector::parse(printed);
  BASALT_CHECK(again.ok() && *again == *selector && again->to_string() == printed);
  BASALT_CHECK(selector->matches(labels) == matches_plainly(*selector, labels));
}

void check_fields_of(std::string_view text, const api::StringMap& fields) {
  const Result<api::FieldSelector> selector = api::FieldSelector::parse(text);
  if (!selector.ok()) {
    BASALT_CHECK(!selector.error().message.empty());
    return;
  }
  const auto lookup = [&](std::string_view field) { return fields.get(field); };
  const Result<api::FieldSelector> again = api::FieldSelector::parse(selector->to_string());
  BASALT_CHECK(again.ok() && again->terms().size() == selector->terms().size());
  BASALT_CHECK(again->matches_with(lookup) == selector->matches_with(lookup));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\n');
  const std::string_view text = input.substr(0, end);
  const api::StringMap labels = labels_of(end == std::string_view::npos ? std::string_view() : input.substr(end + 1));
  check_labels_of(text, labels);
  check_fields_of(text, labels);
  return 0;
}
