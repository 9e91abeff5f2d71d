#include "cli/commands.h"

#include <array>
#include <ostream>

#include "cli/client/command.h"
#include "cli/controllers.h"
#include "cli/data/data_commands.h"
#include "cli/flow/flow_commands.h"
#include "cli/hyperjob/hyperjob_commands.h"
#include "cli/inspect/completion.h"
#include "cli/inspect/inspect_commands.h"
#include "cli/job/job_commands.h"
#include "cli/node/node.h"
#include "cli/pod/pod_commands.h"
#include "cli/queue/queue_commands.h"
#include "cli/roles.h"
#include "cli/run/run_commands.h"
#include "cli/scheduler/scheduler.h"
#include "cli/shard/shard_commands.h"
#include "cli/up/up.h"
#include "cli/webhooks/webhooks.h"

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
    Command{"shard", "shards of nodes: list, view, explain, status", &run_shard},
    Command{"jobflow", "flows of jobs: create, list, get, describe, delete", &run_job_flow},
    Command{"jobtemplate", "templates of the jobs of flows: create, list, get, describe, delete", &run_job_template},
    Command{"hyperjob", "jobs over many clusters: list, view, explain, delete", &run_hyper_job},
    Command{"data", "data that workloads follow: list, view, explain, top", &run_data},
    Command{"explain", "say why a job waits, and what helps", &run_explain},
    Command{"logs", "print the logs of all pods of a job", &run_logs},
    Command{"watch", "follow jobs to their end, with logs", &run_watch},
    Command{"wait", "wait until jobs end or reach a phase", &run_wait},
    Command{"tree", "show a job with all that belongs to it", &run_tree},
    Command{"events", "show events of a job or a namespace", &run_events},
    Command{"top", "show what queues and nodes have given out", &run_top},
    Command{"doctor", "check the cluster and what you may do there", &run_doctor},
    Command{"completion", "print a script that completes commands in bash, zsh or fish", &run_completion},
    Command{"controllers", "run the controllers against a Kubernetes API server", &run_controllers},
    Command{"scheduler", "run the gang scheduler against a Kubernetes API server", &run_scheduler},
    Command{"node", "run a node of processes, or simulated nodes, for a Kubernetes API server", &run_node},
    Command{"webhooks", "serve admission reviews to Kubernetes API servers", &run_webhooks},
    Command{"version", "print the version", &run_version},
};

constexpr Command kComplete{"__complete", "what the shells' scripts ask", &run_complete};

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

const Command* find_command(std::string_view name) {
  return name == kComplete.name ? &kComplete : find_in(kCommands, name);
}
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
