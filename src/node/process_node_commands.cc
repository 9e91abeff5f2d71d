// The part of ProcessNode that runs commands beside containers (`kubectl exec`).
#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "node/process_node.h"
#include "node/process_node_impl.h"

namespace basalt::node {
namespace {

// The container that is meant, or why it is none.
Result<std::string> container_named(const api::core::Pod& pod, const std::string& wanted) {
  if (wanted.empty()) {
    if (pod.spec.containers.empty()) return Error::make(Reason::BadRequest, "the pod has no containers");
    return pod.spec.containers.front().name;
  }
  for (const auto* list : {&pod.spec.containers, &pod.spec.init_containers}) {
    for (const auto& one : *list) {
      if (one.name == wanted) return wanted;
    }
  }
  return Error::make(Reason::BadRequest, "container " + wanted + " is not valid for pod " + pod.metadata.name);
}

// Programs draw by the kind of the terminal, which clients do not tell; all that are in use understand this one.
void name_terminal(ProcessSpec& spec) {
  const bool is_named =
      std::any_of(spec.env.begin(), spec.env.end(), [](const auto& entry) { return entry.first == "TERM"; });
  if (!is_named) spec.env.emplace_back("TERM", "xterm");
}

}  // namespace

void ProcessNode::end_commands(const std::string& uid, const std::string& container) {
  std::vector<ProcessId> commands;
  {
    rt::MutexLock lock(mutex_);
    const auto found = log_places_.find(uid);
    if (found == log_places_.end()) return;
    LogPlace& place = found->second[container];
    place.running = nullptr;
    commands = place.commands;
  }
  for (const ProcessId id : commands) host_.runner().signal(id, SIGKILL);
}

Result<ProcessExit> ProcessNode::run_command(const Command& command, ProcessRunner::OnOutput on_output,
                                             const rt::StopToken& stop) {
  const PodPtr pod = pods_.get({command.ns, command.pod});
  if (!pod) return Error::make(Reason::NotFound, "pods \"" + command.pod + "\" not found");
  BASALT_TRY(const std::string container, container_named(*pod, command.container));
  if (command.argv.empty()) return Error::make(Reason::BadRequest, "you must specify at least one command");
  const std::string& uid = pod->metadata.uid;
  std::shared_ptr<const ProcessSpec> beside;
  {
    rt::MutexLock lock(mutex_);
    if (const auto found = log_places_.find(uid); found != log_places_.end()) beside = found->second[container].running;
    if (!beside || stop_.token().stop_requested()) {
      return Error::make(Reason::BadRequest,
                         "container \"" + container + "\" in pod \"" + command.pod + "\" is not running");
    }
    ++probes_running_;
  }
  ProcessSpec spec = *beside;
  spec.argv = command.argv;
  spec.name += " (exec)";
  spec.io = command.io;
  if (spec.io && spec.io->has_terminal()) name_terminal(spec);
  const auto exit = std::make_shared<std::optional<ProcessExit>>();
  const auto started = host_.runner().start(spec, std::move(on_output), [this, exit](const ProcessExit& ended) {
    rt::MutexLock lock(mutex_);
    *exit = ended;
    exited_.notify_all();
  });
  if (!started.ok()) {
    rt::MutexLock lock(mutex_);
    --probes_running_;
    exited_.notify_all();
    return started.error();
  }
  const ProcessId id = started->id;
  const auto kill = [this, id] { host_.runner().signal(id, SIGKILL); };
  bool is_late = false;
  {
    rt::MutexLock lock(mutex_);
    const auto found = log_places_.find(uid);
    is_late = found == log_places_.end() || found->second[container].running != beside;
    if (!is_late) found->second[container].commands.push_back(id);
  }
  if (is_late) kill();
  ProcessExit result;
  {
    const auto by_caller = stop.on_stop(kill);
    const auto by_node = stop_.token().on_stop(kill);
    rt::MutexLock lock(mutex_);
    while (!*exit) exited_.wait(mutex_);
    result = **exit;
    if (const auto found = log_places_.find(uid); found != log_places_.end())
      std::erase(found->second[container].commands, id);
  }
  rt::MutexLock lock(mutex_);
  --probes_running_;  // last: who waits for it may then take everything away
  exited_.notify_all();
  return result;
}

}  // namespace basalt::node
