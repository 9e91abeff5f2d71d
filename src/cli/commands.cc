#include "cli/commands.h"

#include <array>
#include <ostream>

#include "cli/client/command.h"
#include "cli/controllers.h"
#include "cli/job/job_commands.h"
#include "cli/pod/pod_commands.h"
#include "cli/queue/queue_commands.h"
#include "cli/roles.h"
#include "cli/run/run_commands.h"
#include "cli/up/up.h"

namespace basalt::cli {
namespace {

constexpr std::array kCommands = {
    Command{"up", "start a cluster in this process: API server, controllers, scheduler, nodes", &run_up},
    Command{"down", "end the cluster of a folder", &run_down},
    Command{"status", "say whether the cluster of a folder runs, and what it does", &run_status},
    Command{"run", "submit what a file holds and follow its jobs to their end", &run_run},
    Command{"job", "jobs: run, list, view, suspend, resume, delete", &run_job},
    Command{"queue", "queues: create, list, get, operate, delete", &run_queue},
    Command{"pod", "pods of jobs: list", &run_pod},
    Command{"controllers", "run the controllers against a Kubernetes API server", &run_controllers},
    Command{"version", "print the version", &run_version},
};

constexpr std::array kStandAlone = {
    Command{"vsub", "create a job from flags", &run_vsub},
    Command{"vjobs", "show one job or list jobs", &run_vjobs},
    Command{"vqueues", "show one queue or list queues", &run_vqueues},
    Command{"vcancel", "delete a job", &run_vcancel},
    Command{"vsuspend", "suspend a job", &run_vsuspend},
    Command{"vresume", "resume a job", &run_vresume},
};

const Command* find_in(std::span<const Command> table, std::string_view name) {
  for (const Command& command : table) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

}  // namespace

std::span<const Command> commands() { return kCommands; }

const Command* find_command(std::string_view name) { return find_in(kCommands, name); }
const Command* find_stand_alone_command(std::string_view name) { return find_in(kStandAlone, name); }

std::string_view version() { return BASALT_VERSION; }

int run_version(Invocation& invocation) {
  if (manner_of(invocation.program) == Manner::Vcctl) {
    print_role_version(invocation.out);
    return 0;
  }
  invocation.out << "basalt " << version() << "\n";
  return 0;
}

}  // namespace basalt::cli
