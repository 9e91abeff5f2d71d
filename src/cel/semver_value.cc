#include "cel/semver_value.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cel/function.h"

namespace basalt::cel {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_identifier(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return base::is_alphanumeric(c) || c == '-'; });
}

struct Version {
  std::array<std::uint64_t, 3> numbers{};
  std::vector<std::string> prerelease;
};

// Numbers by value and before words; words by their bytes.
int compare_identifiers(const std::string& left, const std::string& right) {
  const bool left_is_number = is_number(left);
  if (left_is_number != is_number(right)) return left_is_number ? -1 : 1;
  if (left_is_number && left.size() != right.size()) return left.size() < right.size() ? -1 : 1;
  return left == right ? 0 : left < right ? -1 : 1;
}

int compare(const Version& left, const Version& right) {
  if (left.numbers != right.numbers) return left.numbers < right.numbers ? -1 : 1;
  // What comes before a release is less than it.
  if (left.prerelease.empty() != right.prerelease.empty()) return left.prerelease.empty() ? 1 : -1;
  for (std::size_t i = 0; i < std::min(left.prerelease.size(), right.prerelease.size()); ++i) {
    if (const int order = compare_identifiers(left.prerelease[i], right.prerelease[i]); order != 0) return order;
  }
  if (left.prerelease.size() == right.prerelease.size()) return 0;
  return left.prerelease.size() < right.prerelease.size() ? -1 : 1;
}

class SemverValue final : public Extension {
 public:
  explicit SemverValue(Version version) : version_(std::move(version)) {}

  [[nodiscard]] std::string_view type_name() const override { return "kubernetes.Semver"; }
  [[nodiscard]] bool equals(const Extension& other) const override {
    return compare(version_, static_cast<const SemverValue&>(other).version_) == 0;
  }
  [[nodiscard]] Result<Value> call(std::string_view method, std::span<const Value> arguments) const override {
    constexpr std::string_view kNumbers[] = {"major", "minor", "patch"};
    for (std::size_t i = 0; arguments.empty() && i < std::size(kNumbers); ++i) {
      if (method == kNumbers[i]) return Value::of_int(static_cast<std::int64_t>(version_.numbers[i]));
    }
    const auto* other = arguments.empty() ? nullptr : dynamic_cast<const SemverValue*>(arguments[0].extension());
    if (other == nullptr) return no_overload();
    const int order = compare(version_, other->version_);
    if (method == "isLessThan") return Value::of_bool(order < 0);
    if (method == "isGreaterThan") return Value::of_bool(order > 0);
    if (method == "compareTo") return Value::of_int(order);
    return no_overload();
  }

 private:
  Version version_;
};

// "1.2" and "01.2.3" as "1.2.0" and "1.2.3".
void normalise(std::vector<std::string>& numbers) {
  while (numbers.size() < 3) numbers.emplace_back("0");
  for (std::string& number : numbers) {
    const std::size_t first = number.find_first_not_of('0');
    number.erase(0, first == std::string::npos ? number.size() - 1 : first);
  }
}

std::optional<std::vector<std::string>> identifiers(std::string_view text, bool may_start_with_zero) {
  std::vector<std::string> list;
  for (const std::string_view one : base::split(text, '.')) {
    if (!is_identifier(one)) return std::nullopt;
    if (!may_start_with_zero && is_number(one) && one.size() > 1 && one[0] == '0') return std::nullopt;
    list.emplace_back(one);
  }
  return list;
}

std::optional<Version> parsed(std::string_view text, bool normalize) {
  if (normalize && text.starts_with("v")) text.remove_prefix(1);
  Version version;
  if (const std::size_t plus = text.find('+'); plus != std::string_view::npos) {
    if (!identifiers(text.substr(plus + 1), true)) return std::nullopt;
    text = text.substr(0, plus);
  }
  if (const std::size_t minus = text.find('-'); minus != std::string_view::npos) {
    auto prerelease = identifiers(text.substr(minus + 1), false);
    if (!prerelease) return std::nullopt;
    version.prerelease = std::move(*prerelease);
    text = text.substr(0, minus);
  }
  std::vector<std::string> numbers;
  for (const std::string_view one : base::split(text, '.')) {
    if (!is_number(one)) return std::nullopt;
    numbers.emplace_back(one);
  }
  if (numbers.size() > 3) return std::nullopt;
  if (normalize) normalise(numbers);
  if (numbers.size() != 3) return std::nullopt;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].size() > 1 && numbers[i][0] == '0') return std::nullopt;
    const auto number = base::parse_int64(numbers[i]);
    if (!number) return std::nullopt;
    version.numbers[i] = static_cast<std::uint64_t>(*number);
  }
  return version;
}

}  // namespace

Result<Value> parse_semver(std::string_view text, bool normalize) {
  auto version = parsed(text, normalize);
  if (!version) return Error::invalid_input("semver: " + base::quote(text) + " is not a semantic version");
  return Value(Value::Data(Value::ExtensionRef(std::make_shared<const SemverValue>(std::move(*version)))));
}

}  // namespace basalt::cel
