#include "cli/commands.h"

#include <array>
#include <ostream>

#include "cli/controllers.h"
#include "cli/up.h"

namespace basalt::cli {
namespace {

constexpr std::array kCommands = {
    Command{"up", "start a cluster in this process (so far: its API server)", &run_up},
    Command{"controllers", "run the controllers against a Kubernetes API server", &run_controllers},
    Command{"version", "print the version", &run_version},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

std::string_view version() { return BASALT_VERSION; }

int run_version(Invocation& invocation) {
  invocation.out << "basalt " << version() << "\n";
  return 0;
}

}  // namespace basalt::cli
