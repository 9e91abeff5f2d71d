#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/duration.h"
#include "base/result.h"

namespace basalt::cli {

// Command-line flags in the grammar that Go programs take (pflag), because manifests and habits rely on it:
// `--flag value`, `--flag=value`, `--flag` for a boolean, `-v=4`, `-v 4`, `-v4`; `_` and `-` in names are the same;
// `--` ends the flags. Words that are no flags are collected in order, wherever they stand.
//
//   GoFlags flags("basalt controllers", "Runs the controllers against a Kubernetes API.");
//   flags.text("kubeconfig", config.kubeconfig, "path of a kubeconfig file", "FILE");
//   flags.truth("leader-elect", config.leader_elect, "take part in an election");
//   if (auto done = flags.parse(arguments); !done.ok()) ...
//
// Targets keep their value as the default that help() shows. A flag that is given several times: the last one wins,
// except for lists.
class GoFlags {
 public:
  GoFlags(std::string program, std::string summary);

  void truth(std::string_view name, bool& target, std::string_view help, char letter = 0);
  void number(std::string_view name, std::int64_t& target, std::string_view help, char letter = 0);
  void number(std::string_view name, std::int32_t& target, std::string_view help, char letter = 0);
  void fraction(std::string_view name, double& target, std::string_view help);
  void text(std::string_view name, std::string& target, std::string_view help, std::string_view placeholder = "TEXT",
            char letter = 0);
  void choice(std::string_view name, std::string& target, std::vector<std::string> values, std::string_view help,
              char letter = 0);
  void duration(std::string_view name, api::Duration& target, std::string_view help);
  // Each occurrence is one value; the first replaces the default.
  void repeated(std::string_view name, std::vector<std::string>& target, std::string_view help,
                std::string_view placeholder = "TEXT", char letter = 0);
  // Each occurrence is a list with commas between; nothing is trimmed; the first replaces the default.
  void comma_list(std::string_view name, std::vector<std::string>& target, std::string_view help);
  // Anything else: `take` gets the text of the value.
  void custom(std::string_view name, std::string_view help, std::string_view placeholder,
              std::function<Done(std::string_view)> take, char letter = 0);
  // Accepted so that existing command lines go on working; has no effect here.
  void ignored(std::string_view name, bool takes_value, char letter = 0);
  void hide(std::string_view name);  // from help()
  // What the usage line says after the flags: "NAME", "[FILE...]".
  void positional(std::string usage);
  void section(std::string title);  // of the flags that follow, in help()
  void footer(std::string text);    // after the flags

  enum class Parsed : std::uint8_t { Run, Help };
  // An error is a sentence that names the flag and what is wrong, with a suggestion for an unknown one.
  [[nodiscard]] Result<Parsed> parse(std::span<const std::string> arguments);
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  [[nodiscard]] bool was_given(std::string_view name) const;
  [[nodiscard]] std::string help() const;
  // Names with their dashes, for completion scripts.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] const std::string& program() const { return program_; }

  // Parses and deals with the outcome: prints help or the error. The exit code if the command is over by that.
  [[nodiscard]] std::optional<int> parse_or_exit(std::span<const std::string> arguments, std::ostream& out,
                                                 std::ostream& err);

 private:
  struct Flag {
    std::string name;
    char letter = 0;
    bool is_truth = false;
    bool is_hidden = false;
    bool was_given = false;
    std::string help;
    std::string placeholder;
    std::string shown_default;
    std::string section;
    std::function<Done(std::string_view value, bool is_first)> take;
  };
  Flag& add(std::string_view name, char letter, std::string_view help, std::string_view placeholder,
            std::string shown_default, std::function<Done(std::string_view, bool)> take);
  Flag* find(std::string_view name);
  Flag* find(char letter);
  [[nodiscard]] Error unknown(std::string_view shown) const;
  static Done give(Flag& flag, std::string_view value, std::string_view shown);

  std::string program_;
  std::string summary_;
  std::string positional_;
  std::string footer_;
  std::string section_ = "Flags";
  std::vector<Flag> flags_;
  std::vector<std::string> words_;
};

}  // namespace basalt::cli
