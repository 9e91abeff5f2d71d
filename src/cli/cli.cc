#include "cli/cli.h"

#include <algorithm>
#include <ostream>
#include <string_view>

#include "base/strings.h"
#include "cli/client/command.h"
#include "cli/client/vcctl_help.h"
#include "cli/commands.h"

namespace basalt::cli {
namespace {

// The other names of the program and the command that each stands for; "" is the whole command line (vcctl).
struct Alias {
  std::string_view name;
  std::string_view command;
};
constexpr Alias kAliases[] = {
    {"vcctl", ""},
    {"vc-controller-manager", "controllers"},
    {"vc-webhook-manager", "webhooks"},
};

constexpr std::size_t kSuggestionDistance = 2;  // as vcctl

std::string_view base_name(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

void print_help(std::ostream& out, std::string_view program) {
  if (const auto text = vcctl_help(program)) {
    out << *text;
    return;
  }
  out << "Basalt runs batch and AI jobs declared in Volcano's API.\n\n"
      << "Usage: " << program << " COMMAND [FLAGS]\n"
      << "       " << program << " COMMAND --help\n\nCommands:\n";
  std::size_t width = 0;
  for (const Command& command : commands()) width = std::max(width, command.name.size());
  for (const Command& command : commands()) {
    out << "  " << command.name << std::string(width - command.name.size() + 3, ' ') << command.summary << "\n";
  }
  out << "\nFlags:\n  --help, -h   print this text\n  --version    print the version\n";
}

int unknown_command(std::ostream& err, std::string_view program, std::string_view name) {
  if (manner_of(program) == Manner::Vcctl && name.starts_with("-")) {
    print_help(err, program);
    const bool is_long = name.starts_with("--") || name.size() < 2;
    err << "\nError: unknown " << (is_long ? "flag: " : "shorthand flag: '")
        << (is_long ? std::string(name) : std::string(name.substr(1, 1)) + "' in " + std::string(name)) << "\n";
    return kExitVcctlUsage;
  }
  if (manner_of(program) == Manner::Vcctl) {
    err << "Error: unknown command \"" << name << "\" for \"" << program << "\"\n";
    std::string matches;
    for (const Command& command : commands()) {
      if (base::edit_distance(name, command.name, kSuggestionDistance) <= kSuggestionDistance)
        matches += "\t" + std::string(command.name) + "\n";
    }
    if (!matches.empty()) err << "\nDid you mean this?\n" << matches;
    return kExitVcctlUsage;
  }
  err << program << ": there is no command '" << name << "'.";
  std::vector<std::string_view> names;
  for (const Command& command : commands()) names.push_back(command.name);
  if (const std::string_view match = base::closest_match(name, names); !match.empty()) {
    err << " Did you mean '" << match << "'?";
  }
  err << "\nRun '" << program << " --help' for the list of commands.\n";
  return kExitUsage;
}

int run_role(std::string_view program, std::string_view role, std::vector<std::string> rest, std::ostream& out,
             std::ostream& err) {
  const Command* command = find_command(role);
  if (command != nullptr) {
    Invocation invocation{std::string(program), std::move(rest), out, err};
    return command->run(invocation);
  }
  if (!rest.empty() && (rest[0] == "--help" || rest[0] == "-h")) {
    out << "Usage: " << program << " [FLAGS]\n\nThis role ('" << role << "') is not part of this build.\n";
    return kExitOk;
  }
  if (!rest.empty() && rest[0] == "--version") {
    out << program << " (basalt " << version() << ")\n";
    return kExitOk;
  }
  err << program << ": the role '" << role << "' is not part of this build of basalt " << version() << ".\n";
  return kExitFailed;
}

}  // namespace

int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  const std::string_view called = arguments.empty() ? std::string_view("basalt") : base_name(arguments[0]);
  std::string_view program = "basalt";
  for (const Alias& alias : kAliases) {
    if (called != alias.name) continue;
    program = alias.name;
    if (!alias.command.empty()) {
      return run_role(program, alias.command, {arguments.begin() + 1, arguments.end()}, out, err);
    }
  }
  if (const Command* command = find_stand_alone_command(called); command != nullptr) {
    Invocation invocation{std::string(called), {arguments.begin() + 1, arguments.end()}, out, err};
    return command->run(invocation);
  }
  if (arguments.size() < 2) {
    const bool is_asked = manner_of(program) == Manner::Vcctl;
    print_help(is_asked ? out : err, program);
    return is_asked ? kExitOk : kExitUsage;
  }
  const std::string& first = arguments[1];
  if (first == "--help" || first == "-h" || first == "help") {
    print_help(out, program);
    return kExitOk;
  }
  if (first == "--version") {
    out << "basalt " << version() << "\n";
    return kExitOk;
  }
  const Command* command = find_command(first);
  if (command == nullptr) return unknown_command(err, program, first);
  Invocation invocation{std::string(program) + " " + first, {arguments.begin() + 2, arguments.end()}, out, err};
  return command->run(invocation);
}

}  // namespace basalt::cli
