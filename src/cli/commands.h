#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace basalt::cli {

// What a command gets: its own name as the user typed it (for usage lines), its arguments, and where to print.
struct Invocation {
  std::string program;  // "basalt up", "vcctl"
  std::vector<std::string> arguments;
  std::ostream& out;
  std::ostream& err;
};

// One command of the program. Each has a file of its own; the table in commands.cc is the list of them.
struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(Invocation& invocation);
};

[[nodiscard]] std::span<const Command> commands();
[[nodiscard]] const Command* find_command(std::string_view name);
// Programs of one command that this one stands in for when it is called by their names: vsub, vjobs, ...
[[nodiscard]] const Command* find_stand_alone_command(std::string_view name);
[[nodiscard]] std::string_view version();

int run_version(Invocation& invocation);

}  // namespace basalt::cli
