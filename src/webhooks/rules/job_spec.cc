// What a new job's specification must be.

#include "webhooks/rules/job_spec.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "api/names.h"
#include "base/strings.h"
#include "webhooks/graph.h"
#include "webhooks/template_check.h"

namespace basalt::webhooks {
namespace {

constexpr std::string_view kPlugins[] = {"ssh", "env", "svc", "tensorflow", "mpi", "pytorch", "hcclrank", "ray"};
constexpr std::string_view kTopologyPolicies[] = {"none", "best-effort", "restricted", "single-numa-node"};

std::string task_label(const json::Value& task, std::size_t index) {
  const std::string_view name = text_at(task, "name");
  return name.empty() ? "default" + std::to_string(index) : std::string(name);
}

// The value of --master among a plugin's arguments, as Go's flags are written.
std::string_view mpi_master(const json::Value& arguments) {
  if (!arguments.is_array()) return "master";
  bool is_next = false;
  for (const json::Value& argument : arguments.as_array()) {
    if (!argument.is_string()) continue;
    std::string_view text = argument.as_string();
    if (is_next) return text;
    if (auto rest = base::strip_prefix(text, "-")) text = *rest;
    if (auto rest = base::strip_prefix(text, "-")) text = *rest;
    if (auto value = base::strip_prefix(text, "master=")) return *value;
    is_next = text == "master";
  }
  return "master";
}

bool check_mpi_master(const json::Value& spec, Problems& problems) {
  const json::Value* mpi = map_at(spec, "plugins").find("mpi");
  if (mpi == nullptr) return true;
  const std::string_view master = mpi_master(*mpi);
  std::vector<std::string_view> names;
  for (const json::Value& task : list_at(spec, "tasks")) {
    names.push_back(text_at(task, "name"));
    if (names.back() == master) return true;
  }
  problems.add("spec.plugins[mpi]", "The mpi master task was not found: no task is named " + shown(master) +
                                        base::did_you_mean(master, names) +
                                        "; name a task so, or give the plugin the argument --master=<task>");
  return false;
}

// Pods of the job bear this name; beside a service they also have it as their host name.
void check_pod_name(std::string_view job_name, std::string_view task_name, std::int64_t index, const Path& path,
                    Problems& problems) {
  if (job_name.empty()) return;
  const std::string name =
      std::string(job_name) + "-" + std::string(task_name) + "-" + std::to_string(std::max<std::int64_t>(index, 0));
  const api::Complaints complaints = api::qualified_name_complaints(name);
  if (complaints.empty()) return;
  std::string message = "create pod with name " + shown(name) + " validate failed: " + base::join(complaints, ", ");
  if (name.size() > api::kQualifiedNameMax) {
    message += "; shorten the name of the job or of the task by " +
               std::to_string(name.size() - api::kQualifiedNameMax) + " characters";
  }
  problems.add(path.text("name"), std::move(message));
}

// A topology manager gives whole processors only.
void check_whole_processors(const json::Value& task, const Path& path, Problems& problems) {
  const json::Value* pod = task.find_path({"template", "spec"});
  if (pod == nullptr) return;
  for (const std::string_view list : {"containers", "initContainers"}) {
    const json::Array& containers = list_at(*pod, list);
    for (std::size_t i = 0; i < containers.size(); ++i) {
      const json::Value* resources = member(containers[i], "resources");
      const json::Object* amounts = nullptr;
      if (resources != nullptr) {
        amounts = &map_at(*resources, "requests");
        if (amounts->empty()) amounts = &map_at(*resources, "limits");
      }
      const json::Value* cpu = amounts == nullptr ? nullptr : amounts->find("cpu");
      const auto quantity = cpu == nullptr ? Result<api::Quantity>(api::Quantity()) : quantity_of(*cpu);
      if (quantity.ok() && quantity->sign() > 0 && quantity->milli_value() % 1000 == 0) continue;
      problems.add(path.text("topologyPolicy"),
                   "the cpu request isn't an integer in container " + shown(text_at(containers[i], "name")) + ": " +
                       (cpu == nullptr ? "it has none" : shown(*cpu)) + "; topologyPolicy " +
                       shown(text_at(task, "topologyPolicy")) + " needs whole processors");
      return;
    }
  }
}

void check_task(const RuleOptions& options, std::string_view job_name, const json::Value& task, std::size_t index,
                bool has_service, Problems& problems) {
  const Path tasks("spec.tasks");
  const Path path = tasks.index(index);
  const std::string name = task_label(task, index);
  const std::int64_t replicas = int_at(task, "replicas").value_or(0);
  if (replicas < 0) problems.add(path.text("replicas"), "'replicas' must be >= 0 in task: " + name);
  if (const auto minimum = int_at(task, "minAvailable")) {
    if (*minimum < 0) problems.add(path.text("minAvailable"), "'minAvailable' must be >= 0 in task: " + name);
    if (*minimum > replicas) {
      problems.add(path.text("minAvailable"), "'minAvailable' is greater than 'replicas' in task: " + name + " (" +
                                                  std::to_string(*minimum) + " > " + std::to_string(replicas) + ")");
    }
  }
  check_policies(options, task, path, problems);
  check_pod_name(job_name, name, static_cast<std::int64_t>(index), path, problems);
  if (has_service && replicas - 1 > static_cast<std::int64_t>(index)) {
    check_pod_name(job_name, name, replicas - 1, path, problems);
  }
  const std::string_view policy = text_at(task, "topologyPolicy");
  problems.one_of(path.text("topologyPolicy"), policy, kTopologyPolicies);
  const std::size_t before = problems.causes().size();
  // The word that upstream's users know this path by.
  check_pod_template(task, "spec.task[" + std::to_string(index) + "].template", problems);
  if (problems.causes().size() == before && !policy.empty() && policy != "none") {
    check_whole_processors(task, path, problems);
  }
  check_partition_policy(task, name, path, problems);
}

void check_tasks(const RuleOptions& options, std::string_view job_name, const json::Value& spec, Problems& problems) {
  const json::Array& tasks = list_at(spec, "tasks");
  const bool has_service = map_at(spec, "plugins").contains("svc");
  std::unordered_map<std::string, std::size_t> seen;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    total += std::max<std::int64_t>(int_at(tasks[i], "replicas").value_or(0), 0);
    if (problems.is_full()) continue;
    const std::string name = task_label(tasks[i], i);
    if (const auto [first, is_new] = seen.emplace(name, i); !is_new) {
      problems.add("spec.tasks[" + std::to_string(i) + "].name",
                   "duplicated task name " + name + ": spec.tasks[" + std::to_string(first->second) +
                       "] has it already; every task of a job needs its own name",
                   "FieldValueDuplicate");
      continue;
    }
    check_task(options, job_name, tasks[i], i, has_service, problems);
  }
  const std::int64_t minimum = int_at(spec, "minAvailable").value_or(0);
  if (minimum < 0) problems.add("spec.minAvailable", "job 'minAvailable' must be >= 0");
  if (minimum > total) {
    problems.add("spec.minAvailable", "job 'minAvailable' should not be greater than total replicas in tasks (" +
                                          std::to_string(minimum) + " > " + std::to_string(total) +
                                          "): the job could never start");
  }
}

void check_plugins(const json::Value& spec, Problems& problems) {
  for (const auto& [name, arguments] : map_at(spec, "plugins")) {
    if (std::find(std::begin(kPlugins), std::end(kPlugins), name) != std::end(kPlugins)) continue;
    problems.add("spec.plugins", "unable to find job plugin: " + base::ellipsize(name, kShownBytesMax) +
                                     base::did_you_mean(name, kPlugins) + " (known plugins are " +
                                     base::join(std::span<const std::string_view>(kPlugins), ", ") + ")");
  }
}

void check_volumes(const RuleOptions& options, const json::Value& spec, Problems& problems) {
  const json::Array& volumes = list_at(spec, "volumes");
  if (volumes.size() > options.volumes_max) {
    problems.too_many("spec.volumes", volumes.size(), options.volumes_max);
    return;
  }
  const Path list("spec.volumes");
  std::map<std::string_view, std::size_t> seen;
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const Path path = list.index(i);
    const std::string_view mount = text_at(volumes[i], "mountPath");
    const std::string_view claim_name = text_at(volumes[i], "volumeClaimName");
    const bool has_claim = member(volumes[i], "volumeClaim") != nullptr;
    if (mount.empty()) return problems.required(path.text("mountPath"), "mountPath is required");
    if (const auto [first, is_new] = seen.emplace(mount, i); !is_new) {
      return problems.add(path.text("mountPath"), "duplicated mountPath: " + shown(mount) + ": spec.volumes[" +
                                                      std::to_string(first->second) + "] is mounted there already");
    }
    if (!has_claim && claim_name.empty()) {
      return problems.add(path.text(), "either VolumeClaim or VolumeClaimName must be specified");
    }
    if (has_claim && !claim_name.empty()) {
      return problems.add(path.text(),
                          "conflict: if you want to use an existing PVC, just specify VolumeClaimName; if you want to "
                          "create a new PVC, you do not need to specify VolumeClaimName");
    }
    if (!claim_name.empty() && !api::is_dns1123_subdomain(claim_name)) {
      return problems.add(path.text("volumeClaimName"),
                          "invalid VolumeClaimName " + shown(claim_name) + ": " +
                              base::join(api::dns1123_subdomain_complaints(claim_name), ", "));
    }
  }
}

void check_dependencies(const RuleOptions& options, const json::Value& spec, Problems& problems) {
  const json::Array& tasks = list_at(spec, "tasks");
  std::unordered_map<std::string, std::uint32_t> index_of;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    names.push_back(task_label(tasks[i], i));
    index_of.emplace(names.back(), static_cast<std::uint32_t>(i));
  }
  constexpr std::string_view kWords =
      "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG): ";
  Graph graph;
  graph.depends_on.resize(tasks.size());
  std::size_t edges = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const json::Value* depends = member(tasks[i], "dependsOn");
    if (depends == nullptr) continue;
    const std::string path = "spec.tasks[" + std::to_string(i) + "].dependsOn.name";
    for (const json::Value& target : list_at(*depends, "name")) {
      if (!target.is_string()) continue;
      if (++edges > options.edges_max) return problems.too_many("spec.tasks[].dependsOn", edges, options.edges_max);
      const auto found = index_of.find(target.as_string());
      if (found == index_of.end()) {
        const std::vector<std::string_view> candidates(names.begin(), names.end());
        return problems.add(path, std::string(kWords) + "there is no task " + shown(target) +
                                      base::did_you_mean(target.as_string(), candidates));
      }
      graph.depends_on[i].push_back(found->second);
    }
  }
  const std::vector<std::uint32_t> cycle = find_cycle(graph);
  if (cycle.empty()) return;
  std::string way;
  constexpr std::size_t kShownMax = 8;
  for (std::size_t i = 0; i < std::min(cycle.size(), kShownMax); ++i) way += names[cycle[i]] + " waits for ";
  if (cycle.size() > kShownMax) way += "... ";
  problems.add("spec.tasks[" + std::to_string(cycle[0]) + "].dependsOn", std::string(kWords) + way + names[cycle[0]]);
}

}  // namespace

void check_topology(const json::Value& holder, const Path& path, Problems& problems) {
  const json::Value* topology = member(holder, "networkTopology");
  if (topology == nullptr || member(*topology, "highestTierAllowed") == nullptr) return;
  if (text_at(*topology, "highestTierName").empty()) return;
  problems.add(path.text("networkTopology"),
               "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously");
}

void check_partition_policy(const json::Value& task, std::string_view task_name, const Path& path, Problems& problems) {
  const json::Value* policy = member(task, "partitionPolicy");
  if (policy == nullptr) return;
  const Path at = path.child("partitionPolicy");
  const std::int64_t total = int_at(*policy, "totalPartitions").value_or(0);
  const std::int64_t size = int_at(*policy, "partitionSize").value_or(0);
  const std::int64_t least = int_at(*policy, "minPartitions").value_or(0);
  const std::int64_t replicas = int_at(task, "replicas").value_or(0);
  const auto minimum = int_at(task, "minAvailable");
  // The schema holds them to 32 bits, so products fit; without a schema they are bounded here.
  constexpr std::int64_t kMax = 2'147'483'647;
  const std::string in_task = " in task: " + std::string(task_name);
  if (total <= 0 || total > kMax) {
    problems.add(at.text("totalPartitions"), "'TotalPartitions' must be greater than 0" + in_task);
  } else if (size <= 0 || size > kMax) {
    problems.add(at.text("partitionSize"), "'PartitionSize' must be greater than 0" + in_task);
  } else if (replicas != total * size) {
    problems.add(at.text(), "'Replicas' are not equal to TotalPartitions*PartitionSize" + in_task + " (" +
                                std::to_string(replicas) + ", not " + std::to_string(total) + " x " +
                                std::to_string(size) + " = " + std::to_string(total * size) + ")");
  } else if (minimum && least > 0 && least <= kMax && least * size != *minimum) {
    problems.add(at.text(), "'MinAvailable' is not equal to MinPartitions*PartitionSize" + in_task + " (" +
                                std::to_string(*minimum) + ", not " + std::to_string(least) + " x " +
                                std::to_string(size) + " = " + std::to_string(least * size) + ")");
  }
  check_topology(*policy, at, problems);
}

void check_job_spec(const RuleOptions& options, std::string_view job_name, const json::Value& spec,
                    Problems& problems) {
  const json::Array& tasks = list_at(spec, "tasks");
  if (tasks.empty()) return problems.required("spec.tasks", "No task specified in job spec");
  if (tasks.size() > options.tasks_max) return problems.too_many("spec.tasks", tasks.size(), options.tasks_max);
  if (!check_mpi_master(spec, problems)) return;
  const Path path("spec");
  check_topology(spec, path, problems);
  check_tasks(options, job_name, spec, problems);
  if (!job_name.empty()) {
    if (const api::Complaints complaints = api::qualified_name_complaints(job_name); !complaints.empty()) {
      problems.add("metadata.name",
                   "create job with name " + shown(job_name) + " validate failed: " + base::join(complaints, ", "));
    }
  }
  check_policies(options, spec, path, problems);
  check_plugins(spec, problems);
  check_volumes(options, spec, problems);
  check_dependencies(options, spec, problems);
}

}  // namespace basalt::webhooks
