#include "cli/pod/pod_commands.h"

#include <algorithm>
#include <array>
#include <ostream>

#include "api/gen/core_pod.h"
#include "api/gen/names.h"
#include "base/sort.h"
#include "cli/cli.h"
#include "cli/client/objects.h"
#include "cli/client/output.h"
#include "cli/client/table.h"

namespace basalt::cli {
namespace {

using api::core::Pod;

int pod_list(CommandCall& call) {
  PodFilter filter;
  GoFlags flags = call.flags("Lists pods of jobs.");
  flags.text("job", filter.job, "only pods of this job", "JOB", 'j');
  flags.text("queue", filter.queue, "only pods of this queue", "QUEUE", 'q');
  flags.text("namespace", filter.ns, "namespace of the pods; that of the context if absent", "NAMESPACE", 'n');
  flags.truth("all-namespaces", filter.all_namespaces, "pods of all namespaces");
  add_output_flag(flags, filter.output);
  return call.run(flags, [&](Session& session) { return list_pods(session, filter); });
}

constexpr std::array kPodCommands = {
    ClientCommand{"list", "list pods of jobs", &pod_list},
};
constexpr CommandGroup kPodGroup{"pod", "Pods of jobs.", kPodCommands};

// Those that the flags ask for; an error if the job is not of the queue.
Result<std::vector<Listed<Pod>>> find_pods(Session& session, const PodFilter& filter) {
  ListOptions options;
  if (!filter.all_namespaces) options.ns = filter.ns.empty() ? session.ns : filter.ns;
  if (!filter.job.empty()) {
    options.label_selector = std::string(api::keys::kJobName) + " in (" + filter.job + ")";
  } else if (filter.queue.empty()) {
    options.label_selector = api::keys::kJobName;
  }
  BASALT_TRY(auto pods, list_objects<Pod>(session, options));
  if (filter.queue.empty()) return pods;
  if (!filter.job.empty()) {
    for (const auto& [pod, bytes] : pods) {
      const auto queue = pod.metadata.labels.find(api::keys::kQueueName);
      if (queue && *queue != filter.queue)
        return Error::make(Reason::BadRequest,
                           "the input vcjob " + filter.job + " does not match the queue " + filter.queue);
    }
    return pods;
  }
  std::erase_if(pods, [&filter](const Listed<Pod>& listed) {
    const auto& metadata = listed.object.metadata;
    return metadata.labels.get(api::keys::kQueueName) != filter.queue &&
           metadata.annotations.get(api::keys::kPodQueueName) != filter.queue;
  });
  return pods;
}

}  // namespace

Result<int> list_pods(Session& session, const PodFilter& filter) {
  BASALT_TRY(auto pods, find_pods(session, filter));
  base::stable_sort(pods, [](const Listed<Pod>& a, const Listed<Pod>& b) {
    return std::pair(std::string_view(a.object.metadata.namespace_), std::string_view(a.object.metadata.name)) <
           std::pair(std::string_view(b.object.metadata.namespace_), std::string_view(b.object.metadata.name));
  });
  if (prints_objects(filter.output)) {
    std::vector<kube::Bytes> bytes;
    for (const auto& pod : pods) bytes.push_back(pod.bytes);
    BASALT_TRY_DONE(print_objects(session.out, filter.output, Pod::kKindInfo, bytes, true));
    return kExitOk;
  }
  if (pods.empty()) {
    session.out << "No resources found\n";
    return kExitOk;
  }
  const rt::WallTime now = session.runtime.wall_now();
  std::vector<Column> columns;
  if (filter.all_namespaces) columns.push_back({"Namespace", 0});
  for (const char* heading : {"Name", "Ready", "Status", "Restart", "Age"}) columns.push_back({heading, 0});
  if (filter.output == "wide") {
    for (const char* heading : {"Node", "Task", "Queue"}) columns.push_back({heading, 0});
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [pod, bytes] : pods) {
    const PodSummary summary = summarize(pod, now);
    std::vector<std::string> cells;
    if (filter.all_namespaces) cells.push_back(pod.metadata.namespace_);
    for (const std::string& cell : {pod.metadata.name, summary.ready, summary.status, summary.restarts,
                                    age_of(pod.metadata.creation_timestamp, now)})
      cells.push_back(cell);
    if (filter.output == "wide") {
      cells.push_back(pod.spec.node_name.empty() ? "<none>" : pod.spec.node_name);
      cells.emplace_back(pod.metadata.labels.get(api::keys::kTaskSpec));
      cells.emplace_back(pod.metadata.labels.get(api::keys::kQueueName));
    }
    rows.push_back(std::move(cells));
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].width = columns[i].heading.size() + 2;
    for (const auto& row : rows) columns[i].width = std::max(columns[i].width, display_width(row[i]) + 8);
  }
  print_fixed(session.out, columns, rows);
  return kExitOk;
}

const CommandGroup& pod_group() { return kPodGroup; }
int run_pod(Invocation& invocation) { return run_group(invocation, kPodGroup); }

}  // namespace basalt::cli
