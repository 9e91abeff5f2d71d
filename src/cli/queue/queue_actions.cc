#include "cli/queue/queue_actions.h"

#include <ostream>
#include <utility>

#include "api/gen/bus.h"
#include "api/gen/scheduling_podgroup.h"
#include "api/gen/scheduling_queue.h"
#include "cli/cli.h"
#include "cli/client/objects.h"
#include "cli/client/output.h"
#include "cli/client/table.h"
#include "cli/job/job_actions.h"

namespace basalt::cli {
namespace {

using api::scheduling::PodGroup;
using api::scheduling::Queue;

Error bad(std::string message) { return Error::make(Reason::BadRequest, std::move(message)); }

Done set_resources(json::Value& queue, std::initializer_list<std::string_view> path, std::string_view text,
                   std::string_view flag) {
  if (text.empty()) return Ok{};
  auto resources = parse_resources(text);
  if (!resources.ok()) return resources.error().with_context(flag);
  json::Object object;
  for (const auto& [name, quantity] : *resources) object.set(name, quantity.to_string());
  queue.ensure_path(path) = std::move(object);
  return Ok{};
}

std::vector<std::string> queue_cells(const Queue& queue, const QueueCounts& counts, const QueueTable& table,
                                     rt::WallTime now) {
  std::vector<std::string> cells{queue.metadata.name, std::to_string(queue.spec.weight), queue.status.state};
  if (!table.is_vqueues) cells.push_back(queue.spec.parent);
  for (const std::int64_t count : {counts.inqueue, counts.pending, counts.running, counts.unknown})
    cells.push_back(std::to_string(count));
  if (!table.is_vqueues) cells.push_back(std::to_string(counts.completed));
  if (table.output == "wide") {
    const auto text = [](const api::ResourceList& list) { return list.empty() ? "<none>" : list.to_string(); };
    cells.push_back(age_of(queue.metadata.creation_timestamp, now));
    cells.push_back(text(queue.status.allocated));
    cells.push_back(text(queue.spec.deserved));
    cells.push_back(text(queue.spec.capability));
  }
  return cells;
}

}  // namespace

Result<std::map<std::string, QueueCounts>> count_pod_groups(Session& session) {
  BASALT_TRY(const auto groups, list_objects<PodGroup>(session, {}));
  std::map<std::string, QueueCounts> counts;
  namespace phase = api::scheduling::pod_group_phase;
  for (const auto& [group, bytes] : groups) {
    QueueCounts& count = counts[group.spec.queue];
    const std::string_view its = group.status.phase;
    if (its == phase::kInqueue) ++count.inqueue;
    if (its == phase::kPending) ++count.pending;
    if (its == phase::kRunning) ++count.running;
    if (its == phase::kUnknown) ++count.unknown;
    if (its == phase::kCompleted) ++count.completed;
  }
  return counts;
}

Result<int> create_queue(Session& session, const NewQueue& queue) {
  json::Value object = json::Object{{"apiVersion", Queue::kKindInfo.api_version()},
                                    {"kind", Queue::kKindInfo.kind},
                                    {"metadata", json::Object{{"name", queue.name}}},
                                    {"spec", json::Object{{"weight", queue.weight}}},
                                    {"status", json::Object{{"state", queue.state}}}};
  if (!queue.parent.empty()) object.ensure_path({"spec", "parent"}) = queue.parent;
  if (queue.priority != 0) object.ensure_path({"spec", "priority"}) = queue.priority;
  if (queue.reclaimable) object.ensure_path({"spec", "reclaimable"}) = *queue.reclaimable;
  BASALT_TRY_DONE(set_resources(object, {"spec", "capability"}, queue.capability, "--capability"));
  BASALT_TRY_DONE(set_resources(object, {"spec", "deserved"}, queue.deserved, "--deserved"));
  BASALT_TRY_DONE(set_resources(object, {"spec", "guarantee", "resource"}, queue.guarantee, "--guarantee"));
  BASALT_TRY(const kube::Response created,
             session.client.call(
                 {.verb = kube::Verb::Create, .resource = kube::resource_of<Queue>(), .body = object.to_text()},
                 session.stop));
  for (const std::string& warning : created.warnings) session.err << "Warning: " << warning << "\n";
  return kExitOk;
}

Result<int> delete_queue(Session& session, const std::string& name) {
  if (name.empty()) return bad("queue name must be specified");
  auto deleted = session.client.call({.verb = kube::Verb::Delete, .resource = kube::resource_of<Queue>(), .name = name},
                                     session.stop);
  if (!deleted.ok())
    return with_suggestion(session, kube::resource_of<Queue>(), {"", name}, std::move(deleted).error());
  return kExitOk;
}

Result<int> operate_queue(Session& session, const QueueOperation& operation) {
  if (operation.name.empty()) return bad("queue name must be specified");
  if (operation.action.empty()) return bad("action can not be null");
  if (operation.action == "update") {
    if (operation.weight == 0)
      return bad("when update queue " + operation.name +
                 ", weight must be specified, the value must be greater than 0");
    const json::Value patch = json::Object{{"spec", json::Object{{"weight", operation.weight}}}};
    auto patched = kube::patch_object(session.client, kube::resource_of<Queue>(), {"", operation.name}, patch.to_text(),
                                      session.stop);
    if (!patched.ok())
      return with_suggestion(session, kube::resource_of<Queue>(), {"", operation.name}, std::move(patched).error());
    return kExitOk;
  }
  const bool opens = operation.action == "open";
  if (!opens && operation.action != "close")
    return bad("action " + operation.action + " invalid, valid actions are open, close and update");
  BASALT_TRY(const auto queue, get_object<Queue>(session, {"", operation.name}));
  BASALT_TRY_DONE(send_command(session, "default", opens ? api::bus::action::kOpenQueue : api::bus::action::kCloseQueue,
                               Queue::kKindInfo, queue.object.metadata));
  return kExitOk;
}

Result<int> show_queues(Session& session, const QueueTable& table) {
  std::vector<Listed<Queue>> queues;
  if (table.name.empty()) {
    BASALT_TRY(queues, list_objects<Queue>(session, {}));
  } else {
    BASALT_TRY(Listed<Queue> queue, get_object<Queue>(session, {"", table.name}));
    queues.push_back(std::move(queue));
  }
  if (prints_objects(table.output)) {
    std::vector<kube::Bytes> bytes;
    for (const auto& queue : queues) bytes.push_back(queue.bytes);
    BASALT_TRY_DONE(print_objects(session.out, table.output, Queue::kKindInfo, bytes, table.name.empty()));
    return kExitOk;
  }
  if (queues.empty()) {
    session.out << "No resources found\n";
    return kExitOk;
  }
  auto counts = count_pod_groups(session);
  if (!counts.ok()) {
    return counts.error().with_context(table.name.empty()
                                           ? "failed to list podgroups with err"
                                           : "failed to list podgroup for queue " + table.name + " with err");
  }
  std::vector<Column> columns{{"Name", 25}, {"Weight", 8}, {"State", 8}};
  if (!table.is_vqueues) columns.push_back({"Parent", 8});
  for (const char* heading : {"Inqueue", "Pending", "Running", "Unknown"}) columns.push_back({heading, 8});
  if (!table.is_vqueues) columns.push_back({"Completed", 8});
  if (table.output == "wide") {
    columns.back().width = 12;
    columns.push_back({"Age", 8});
    columns.push_back({"Allocated", 28});
    columns.push_back({"Deserved", 28});
    columns.push_back({"Capability", 0});
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [queue, bytes] : queues)
    rows.push_back(queue_cells(queue, (*counts)[queue.metadata.name], table, session.runtime.wall_now()));
  print_fixed(session.out, columns, rows);
  return kExitOk;
}

}  // namespace basalt::cli
