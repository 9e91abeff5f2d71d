#include "cli/queue/queue_commands.h"

#include <array>

#include "cli/client/output.h"
#include "cli/queue/queue_actions.h"

namespace basalt::cli {
namespace {

// For queues -n is the name: they have no namespace.
void add_queue_name(GoFlags& flags, std::string& name) {
  flags.text("name", name, "name of the queue", "NAME", 'n');
  flags.positional("[NAME]");
}

int queue_create(CommandCall& call) {
  NewQueue queue;
  bool reclaimable = true;
  GoFlags flags = call.flags("Creates a queue.");
  add_queue_name(flags, queue.name);
  flags.number("weight", queue.weight, "share of the queue among its siblings", 'w');
  flags.text("state", queue.state, "accepted for compatibility, without effect; see 'queue operate'", "STATE", 'S');
  flags.text("parent", queue.parent, "queue above this one", "QUEUE");
  flags.text("capability", queue.capability, "upper limit, such as cpu=10,memory=20Gi", "LIST");
  flags.text("deserved", queue.deserved, "what the queue is due", "LIST");
  flags.text("guarantee", queue.guarantee, "what nobody else may use", "LIST");
  flags.number("priority", queue.priority, "queues of higher priority are served first");
  flags.truth("reclaimable", reclaimable, "whether others may take back what exceeds the due");
  return call.run(flags, [&](Session& session) {
    if (!flags.was_given("name") && !flags.words().empty()) queue.name = flags.words().front();
    if (flags.was_given("reclaimable")) queue.reclaimable = reclaimable;
    return create_queue(session, queue);
  });
}

int queue_delete(CommandCall& call) {
  std::string name;
  GoFlags flags = call.flags("Deletes a queue. Jobs in it stay, and wait until a queue of its name exists again.");
  add_queue_name(flags, name);
  return call.run(flags, [&](Session& session) {
    take_name_from_words(flags, name);
    return delete_queue(session, name);
  });
}

int queue_operate(CommandCall& call) {
  QueueOperation operation;
  GoFlags flags = call.flags("Opens or closes a queue, or changes its weight.");
  add_queue_name(flags, operation.name);
  flags.text("action", operation.action, "open, close or update", "ACTION", 'a');
  flags.number("weight", operation.weight, "the new weight, for update", 'w');
  return call.run(flags, [&](Session& session) {
    take_name_from_words(flags, operation.name);
    return operate_queue(session, operation);
  });
}

int queue_list(CommandCall& call) {
  QueueTable table;
  GoFlags flags = call.flags("Lists the queues with their pod groups by phase.");
  add_output_flag(flags, table.output);
  return call.run(flags, [&](Session& session) { return show_queues(session, table); });
}

int queue_get(CommandCall& call) {
  QueueTable table;
  GoFlags flags = call.flags("Shows one queue with its pod groups by phase.");
  add_queue_name(flags, table.name);
  add_output_flag(flags, table.output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    take_name_from_words(flags, table.name);
    if (table.name.empty())
      return Error::make(Reason::BadRequest, "name is mandatory to get the particular queue details");
    return show_queues(session, table);
  });
}

int vqueues(CommandCall& call) {
  QueueTable table;
  table.is_vqueues = true;
  GoFlags flags = call.flags("Shows one queue, or lists all.");
  add_queue_name(flags, table.name);
  add_output_flag(flags, table.output);
  return call.run(flags, [&](Session& session) {
    take_name_from_words(flags, table.name);
    return show_queues(session, table);
  });
}

constexpr std::array kQueueCommands = {
    ClientCommand{"create", "create a queue", &queue_create},
    ClientCommand{"delete", "delete a queue", &queue_delete},
    ClientCommand{"get", "show one queue", &queue_get},
    ClientCommand{"list", "list the queues", &queue_list},
    ClientCommand{"operate", "open or close a queue, or change its weight", &queue_operate},
};
constexpr CommandGroup kQueueGroup{"queue", "Queues: create, list, get, operate, delete.", kQueueCommands};
constexpr ClientCommand kVqueues{"vqueues", "show one queue or list all", &vqueues};

}  // namespace

const CommandGroup& queue_group() { return kQueueGroup; }
const ClientCommand& vqueues_command() { return kVqueues; }
int run_queue(Invocation& invocation) { return run_group(invocation, kQueueGroup); }
int run_vqueues(Invocation& invocation) { return run_single(invocation, kVqueues); }

}  // namespace basalt::cli
