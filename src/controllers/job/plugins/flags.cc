#include "controllers/job/plugins/flags.h"

#include <charconv>
#include <optional>

#include "base/strings.h"

namespace basalt::controllers::job {

namespace {

// What strconv.ParseBool takes.
std::optional<bool> parse_bool(std::string_view text) {
  for (const std::string_view word : {"1", "t", "T", "true", "TRUE", "True"})
    if (text == word) return true;
  for (const std::string_view word : {"0", "f", "F", "false", "FALSE", "False"})
    if (text == word) return false;
  return std::nullopt;
}

// Decimal, or with 0x, 0o, 0b or a leading 0 in another base, as strconv.ParseInt reads with base 0.
std::optional<std::int64_t> parse_integer(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char letter = base::to_lower(text[1]);
    base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
    text.remove_prefix(letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1);
  }
  // from_chars would take a second sign.
  if (text.empty() || text[0] == '-') return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return negative ? -value : value;
}

}  // namespace

const Flags::Flag* Flags::find(std::string_view name) const {
  for (const Flag& flag : flags_)
    if (flag.name == name) return &flag;
  return nullptr;
}

std::string Flags::known() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) names.push_back("--" + std::string(flag.name));
  return names.empty() ? "it takes none" : "it takes " + base::join(names, ", ");
}

Flags::Taken Flags::set(const Flag& flag, std::string_view value) {
  if (auto* const text = std::get_if<std::string*>(&flag.target)) {
    (*text)->assign(value);
    return Taken::Yes;
  }
  if (auto* const boolean = std::get_if<bool*>(&flag.target)) {
    const std::optional<bool> parsed = parse_bool(value);
    if (!parsed) return Taken::Malformed;
    **boolean = *parsed;
    return Taken::Yes;
  }
  const std::optional<std::int64_t> parsed = parse_integer(value);
  if (!parsed) return Taken::Malformed;
  if (*parsed < flag.min || *parsed > flag.max) return Taken::OutOfRange;
  *std::get<std::int64_t*>(flag.target) = *parsed;
  return Taken::Yes;
}

void Flags::parse(const std::vector<std::string>& arguments, std::vector<std::string>& warnings) const {
  const auto warn = [&](std::string_view argument, std::string_view what) {
    warnings.push_back("spec.plugins[" + std::string(plugin_) + "]: argument " +
                       base::quote(base::ellipsize(argument, 200)) + " " + std::string(what));
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--") {
      if (i + 1 < arguments.size()) warn(arguments[i + 1], "stands behind \"--\"; it and what follows is ignored");
      return;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      warn(argument, "is no flag (--name=value); it and what follows is ignored");
      return;
    }
    std::string_view name = argument.substr(argument[1] == '-' ? 2 : 1);
    std::optional<std::string_view> value;
    if (const std::size_t equals = name.find('='); equals != std::string_view::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    const Flag* const flag = name.empty() || name[0] == '-' ? nullptr : find(name);
    if (flag == nullptr) {
      warn(argument, "is not known to the plugin (" + known() + "); it and what follows is ignored");
      return;
    }
    if (!value && std::holds_alternative<bool*>(flag->target)) value = "true";
    if (!value) {
      if (++i == arguments.size()) {
        warn(argument, "has no value; write it as --" + std::string(name) + "=VALUE");
        return;
      }
      value = arguments[i];
    }
    switch (set(*flag, *value)) {
      case Taken::Yes:
        break;
      case Taken::OutOfRange:
        warn(argument, "is out of range (" + std::to_string(flag->min) + " to " + std::to_string(flag->max) +
                           "); the default is used");
        break;
      case Taken::Malformed:
        warn(argument, std::string(std::holds_alternative<bool*>(flag->target) ? "is neither true nor false"
                                                                               : "is not a whole number") +
                           "; it and what follows is ignored");
        return;
    }
  }
}

}  // namespace basalt::controllers::job
