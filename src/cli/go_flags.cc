#include "cli/go_flags.h"

#include <algorithm>
#include <limits>
#include <ostream>
#include <utility>

#include "base/strings.h"
#include "cli/cli.h"

namespace basalt::cli {
namespace {

std::string normalised(std::string_view name) { return base::replace_all(name, "_", "-"); }

Error bad_value(std::string_view wanted) { return Error::invalid_input(std::string(wanted)); }

std::string number_text(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (!text.empty() && text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

GoFlags::GoFlags(std::string program, std::string summary)
    : program_(std::move(program)), summary_(std::move(summary)) {}

GoFlags::Flag& GoFlags::add(std::string_view name, char letter, std::string_view help, std::string_view placeholder,
                            std::string shown_default, std::function<Done(std::string_view, bool)> take) {
  Flag flag;
  flag.name = normalised(name);
  flag.letter = letter;
  flag.help = help;
  flag.placeholder = placeholder;
  flag.shown_default = std::move(shown_default);
  flag.section = section_;
  flag.take = std::move(take);
  flags_.push_back(std::move(flag));
  return flags_.back();
}

void GoFlags::truth(std::string_view name, bool& target, std::string_view help, char letter) {
  Flag& flag = add(name, letter, help, "", target ? "true" : "", [&target](std::string_view value, bool) -> Done {
    // The words that Go's strconv.ParseBool takes.
    for (const std::string_view word : {"1", "t", "T", "true", "TRUE", "True"}) {
      if (value == word) {
        target = true;
        return Ok{};
      }
    }
    for (const std::string_view word : {"0", "f", "F", "false", "FALSE", "False"}) {
      if (value == word) {
        target = false;
        return Ok{};
      }
    }
    return bad_value("it takes true or false");
  });
  flag.is_truth = true;
}

void GoFlags::number(std::string_view name, std::int64_t& target, std::string_view help, char letter) {
  add(name, letter, help, "N", target == 0 ? "" : std::to_string(target),
      [&target](std::string_view value, bool) -> Done {
        const auto number = base::parse_int64(value);
        if (!number) return bad_value("it takes a whole number");
        target = *number;
        return Ok{};
      });
}

void GoFlags::number(std::string_view name, std::int32_t& target, std::string_view help, char letter) {
  add(name, letter, help, "N", target == 0 ? "" : std::to_string(target),
      [&target](std::string_view value, bool) -> Done {
        const auto number = base::parse_int64(value);
        if (!number || *number < std::numeric_limits<std::int32_t>::min() ||
            *number > std::numeric_limits<std::int32_t>::max())
          return bad_value("it takes a whole number");
        target = static_cast<std::int32_t>(*number);
        return Ok{};
      });
}

void GoFlags::fraction(std::string_view name, double& target, std::string_view help) {
  add(name, 0, help, "NUMBER", target == 0 ? "" : number_text(target), [&target](std::string_view value, bool) -> Done {
    const auto number = base::parse_double(value);
    if (!number) return bad_value("it takes a number");
    target = *number;
    return Ok{};
  });
}

void GoFlags::text(std::string_view name, std::string& target, std::string_view help, std::string_view placeholder,
                   char letter) {
  add(name, letter, help, placeholder, target, [&target](std::string_view value, bool) -> Done {
    target = value;
    return Ok{};
  });
}

void GoFlags::choice(std::string_view name, std::string& target, std::vector<std::string> values, std::string_view help,
                     char letter) {
  const std::string placeholder = base::join(values, "|");
  add(name, letter, help, placeholder, target,
      [&target, values = std::move(values), placeholder](std::string_view value, bool) -> Done {
        if (std::find(values.begin(), values.end(), value) == values.end())
          return bad_value("it takes one of " + placeholder);
        target = value;
        return Ok{};
      });
}

void GoFlags::duration(std::string_view name, api::Duration& target, std::string_view help) {
  add(name, 0, help, "DURATION", target.value.count() == 0 ? "" : target.to_string(),
      [&target](std::string_view value, bool) -> Done {
        auto parsed = api::Duration::parse(value);
        if (!parsed.ok()) return bad_value("it takes a duration such as 30s, 5m or 1h30m");
        target = *parsed;
        return Ok{};
      });
}

void GoFlags::repeated(std::string_view name, std::vector<std::string>& target, std::string_view help,
                       std::string_view placeholder, char letter) {
  add(name, letter, help, placeholder, base::join(target, ","),
      [&target](std::string_view value, bool is_first) -> Done {
        if (is_first) target.clear();
        target.emplace_back(value);
        return Ok{};
      });
}

void GoFlags::comma_list(std::string_view name, std::vector<std::string>& target, std::string_view help) {
  add(name, 0, help, "LIST", base::join(target, ","), [&target](std::string_view value, bool is_first) -> Done {
    if (is_first) target.clear();
    if (value.empty()) return Ok{};
    for (const std::string_view item : base::split(value, ',')) target.emplace_back(item);
    return Ok{};
  });
}

void GoFlags::custom(std::string_view name, std::string_view help, std::string_view placeholder,
                     std::function<Done(std::string_view)> take, char letter) {
  add(name, letter, help, placeholder, "",
      [take = std::move(take)](std::string_view value, bool) -> Done { return take(value); });
}

void GoFlags::ignored(std::string_view name, bool takes_value, char letter) {
  Flag& flag = add(name, letter, "", "", "", [](std::string_view, bool) -> Done { return Ok{}; });
  flag.is_truth = !takes_value;
  flag.is_hidden = true;
}

void GoFlags::hide(std::string_view name) {
  if (Flag* flag = find(name); flag != nullptr) flag->is_hidden = true;
}

void GoFlags::positional(std::string usage) { positional_ = std::move(usage); }
void GoFlags::section(std::string title) { section_ = std::move(title); }
void GoFlags::footer(std::string text) { footer_ = std::move(text); }

GoFlags::Flag* GoFlags::find(std::string_view name) {
  const std::string wanted = normalised(name);
  for (Flag& flag : flags_) {
    if (flag.name == wanted) return &flag;
  }
  return nullptr;
}

GoFlags::Flag* GoFlags::find(char letter) {
  for (Flag& flag : flags_) {
    if (flag.letter == letter) return &flag;
  }
  return nullptr;
}

bool GoFlags::was_given(std::string_view name) const {
  const std::string wanted = normalised(name);
  return std::any_of(flags_.begin(), flags_.end(),
                     [&wanted](const Flag& flag) { return flag.name == wanted && flag.was_given; });
}

Error GoFlags::unknown(std::string_view shown) const {
  std::vector<std::string_view> candidates;
  for (const Flag& flag : flags_) {
    if (!flag.is_hidden) candidates.push_back(flag.name);
  }
  std::string message = "there is no flag " + std::string(shown) + ".";
  const std::string name = normalised(shown.substr(std::min(shown.find_first_not_of('-'), shown.size())));
  const std::string_view match = name.size() > 1 ? base::closest_match(name, candidates) : std::string_view();
  if (!match.empty()) message += " Did you mean --" + std::string(match) + "?";
  return Error::invalid_input(std::move(message));
}

Done GoFlags::give(Flag& flag, std::string_view value, std::string_view shown) {
  const bool is_first = !flag.was_given;
  flag.was_given = true;
  Done done = flag.take(value, is_first);
  if (done.ok()) return done;
  return Error::invalid_input("the value " + base::quote(value) + " of " + std::string(shown) +
                              " is wrong: " + done.error().message + ".");
}

Result<GoFlags::Parsed> GoFlags::parse(std::span<const std::string> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (word == "--") {
      words_.insert(words_.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (word.size() < 2 || word[0] != '-') {
      words_.emplace_back(word);
      continue;
    }
    const bool is_long = word.starts_with("--");
    std::string_view name = word.substr(is_long ? 2 : 1);
    std::optional<std::string_view> value;
    if (const auto equals = name.find('='); equals != std::string_view::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    Flag* flag = nullptr;
    std::string shown = (is_long ? "--" : "-") + std::string(name);
    if (is_long) {
      flag = find(name);
    } else if (!name.empty()) {
      flag = find(name[0]);
      if (flag != nullptr && name.size() > 1) {
        // -v4, or several letters without values: -it.
        shown = "-" + std::string(1, name[0]);
        if (flag->is_truth && !value) {
          BASALT_TRY_DONE(give(*flag, "true", shown));
          const std::string rest = "-" + std::string(name.substr(1));
          BASALT_TRY(const Parsed parsed, parse(std::span(&rest, 1)));
          if (parsed == Parsed::Help) return parsed;
          continue;
        }
        if (!value) value = name.substr(1);
      }
    }
    if (flag == nullptr) {
      if (name == "help" || (!is_long && name == "h")) return Parsed::Help;
      return unknown(shown);
    }
    if (!value) {
      if (flag->is_truth) {
        value = "true";
      } else if (i + 1 < arguments.size()) {
        value = arguments[++i];
      } else {
        return Error::invalid_input(shown + " needs a value" +
                                    (flag->placeholder.empty() ? "" : ": " + shown + " " + flag->placeholder) + ".");
      }
    }
    BASALT_TRY_DONE(give(*flag, *value, shown));
  }
  return Parsed::Run;
}

std::string GoFlags::help() const {
  std::string text =
      summary_ + "\n\nUsage: " + program_ + " [FLAGS]" + (positional_.empty() ? "" : " " + positional_) + "\n";
  std::size_t width = 0;
  const auto left_side = [](const Flag& flag) {
    std::string left = flag.letter != 0 ? std::string("  -") + flag.letter + ", --" : std::string("      --");
    left += flag.name;
    if (!flag.placeholder.empty()) left += " " + flag.placeholder;
    return left;
  };
  for (const Flag& flag : flags_) {
    if (!flag.is_hidden) width = std::max(width, left_side(flag).size());
  }
  width = std::min<std::size_t>(width, 38);
  std::string section;
  for (const Flag& flag : flags_) {
    if (flag.is_hidden) continue;
    if (flag.section != section) {
      section = flag.section;
      text += "\n" + section + ":\n";
    }
    std::string left = left_side(flag);
    if (left.size() > width) {
      text += left + "\n";
      left.clear();
    }
    text += left + std::string(width - left.size() + 3, ' ') + flag.help;
    if (!flag.shown_default.empty()) text += " (default " + flag.shown_default + ")";
    text += "\n";
  }
  if (!footer_.empty()) text += "\n" + footer_;
  if (text.back() != '\n') text += "\n";
  return text;
}

std::vector<std::string> GoFlags::names() const {
  std::vector<std::string> names;
  for (const Flag& flag : flags_) {
    if (flag.is_hidden) continue;
    names.push_back("--" + flag.name);
    if (flag.letter != 0) names.push_back(std::string("-") + flag.letter);
  }
  return names;
}

std::optional<int> GoFlags::parse_or_exit(std::span<const std::string> arguments, std::ostream& out,
                                          std::ostream& err) {
  auto parsed = parse(arguments);
  if (!parsed.ok()) {
    err << program_ << ": " << parsed.error().message << "\nRun '" << program_ << " --help' for its flags.\n";
    return kExitUsage;
  }
  if (*parsed == Parsed::Help) {
    out << help();
    return kExitOk;
  }
  return std::nullopt;
}

}  // namespace basalt::cli
