#include "controllers/job/pod_group_builder.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "api/gen/core_pod.h"
#include "api/gen/names.h"
#include "api/names.h"
#include "api/owner.h"
#include "base/sort.h"
#include "base/strings.h"
#include "json/reader.h"
#include "json/value.h"

namespace basalt::controllers::job {

namespace {

using api::Quantity;
using api::ResourceList;
using api::core::Container;
using api::core::PodSpec;

constexpr std::string_view kRequestsPrefix = "requests.";
constexpr std::string_view kLimitsPrefix = "limits.";
constexpr std::string_view kHugePagesPrefix = "hugepages-";

// What a pod needs at its worst moment: either all its containers run together with the side cars, or an init container
// runs beside the side cars that were started before it.
template <class Pick>
ResourceList peak(const PodSpec& spec, Pick pick) {
  ResourceList together;
  for (const Container& container : spec.containers) together += pick(container);
  ResourceList side_cars;
  ResourceList starting;
  for (const Container& container : spec.init_containers) {
    const bool is_side_car = container.restart_policy == "Always";
    if (is_side_car) {
      together += pick(container);
      side_cars += pick(container);
      starting.raise_to(side_cars);
    } else {
      starting.raise_to(side_cars + pick(container));
    }
  }
  together.raise_to(starting);
  return together;
}

// The resources that can be given for the pod as a whole.
void override_by_pod(ResourceList& list, const ResourceList& of_pod) {
  for (const auto& [name, quantity] : of_pod) {
    if (name == "cpu" || name == "memory" || name.starts_with(kHugePagesPrefix)) list.set(name, quantity);
  }
}

ResourceList requests_of(const PodSpec& spec) {
  ResourceList list = peak(spec, [](const Container& c) -> const ResourceList& { return c.resources.requests; });
  if (spec.resources) override_by_pod(list, spec.resources->requests);
  list += spec.overhead;
  return list;
}

ResourceList limits_of(const PodSpec& spec) {
  ResourceList list = peak(spec, [](const Container& c) -> const ResourceList& { return c.resources.limits; });
  if (spec.resources) override_by_pod(list, spec.resources->limits);
  // No limit means unlimited, and overhead does not turn it into one.
  for (const auto& [name, quantity] : spec.overhead)
    if (!list.get(name).is_zero()) list[name] += quantity;
  return list;
}

// A name with a domain of its own, such as "nvidia.com/gpu".
bool is_extended_resource(std::string_view name) {
  if (name.find('/') == std::string_view::npos || name.find("kubernetes.io/") != std::string_view::npos) return false;
  return !name.starts_with(kRequestsPrefix) && api::is_qualified_name(std::string(kRequestsPrefix).append(name));
}

// As ResourceQuota counts: pkg/quota/v1/evaluator/core of Kubernetes 1.36; besides, each request is listed without its
// prefix, too, as the scheduler expects.
ResourceList usage_of(const PodSpec& spec) {
  ResourceList usage{{"count/pods", Quantity::of(1)}, {"pods", Quantity::of(1)}};
  const ResourceList requests = requests_of(spec);
  for (const auto& [name, quantity] : requests) {
    const bool is_counted = name == "cpu" || name == "memory" || name == "ephemeral-storage" ||
                            name.starts_with(kHugePagesPrefix) || is_extended_resource(name);
    if (!is_counted) continue;
    usage.set(name, quantity);
    usage.set(std::string(kRequestsPrefix) + name, quantity);
  }
  const ResourceList limits = limits_of(spec);
  for (const std::string_view name : {"cpu", "memory", "ephemeral-storage"}) {
    if (const Quantity* const limit = limits.find(name)) usage.set(std::string(kLimitsPrefix).append(name), *limit);
  }
  return usage;
}

Result<api::core::PodTemplateSpec> read_template(const json::Raw& pod_template) {
  if (pod_template.empty()) return api::core::PodTemplateSpec();
  return json::from_text<api::core::PodTemplateSpec>(pod_template.text());
}

struct TaskShare {
  std::int64_t replicas = 0;
  std::int64_t minimum = 0;
  std::int32_t priority = 0;
  std::int64_t taken = 0;
  ResourceList usage;  // of one pod
};

// Takes the pods that have to start together, by falling priority of their tasks (job.md 5.4).
void take_pods(std::vector<TaskShare>& shares, std::int64_t wanted) {
  base::stable_sort(shares, [](const TaskShare& a, const TaskShare& b) { return a.priority > b.priority; });
  std::int64_t left = std::max<std::int64_t>(wanted, 0);
  const auto take = [&](TaskShare& share, std::int64_t up_to) {
    const std::int64_t count = std::clamp<std::int64_t>(up_to - share.taken, 0, left);
    share.taken += count;
    left -= count;
  };
  std::int64_t minimums = 0;
  for (const TaskShare& share : shares) minimums += share.minimum;
  if (wanted >= minimums) {
    for (TaskShare& share : shares) take(share, share.minimum);
  }
  for (TaskShare& share : shares) take(share, share.replicas);
}

Result<ResourceList> min_resources(const api::batch::Job& job, const PriorityOf& priority_of) {
  std::vector<TaskShare> shares;
  for (const api::batch::TaskSpec& task : job.spec.tasks) {
    auto pod_template = read_template(task.template_);
    if (!pod_template.ok()) {
      return pod_template.error().with_context("job " + job.metadata.namespace_ + "/" + job.metadata.name + ", task " +
                                               base::quote(task.name) + ": template");
    }
    const std::string& priority_class = pod_template->spec.priority_class_name;
    const bool has_priority = !priority_class.empty() && priority_of != nullptr;
    shares.push_back({.replicas = task.replicas,
                      .minimum = task.min_available.value_or(task.replicas),
                      .priority = has_priority ? priority_of(priority_class) : 0,
                      .usage = usage_of(pod_template->spec)});
  }
  take_pods(shares, job.spec.min_available);
  ResourceList sum;
  for (const TaskShare& share : shares)
    if (share.taken > 0) sum += share.usage * share.taken;
  return sum;
}

std::int32_t task_minimum(const api::batch::TaskSpec& task) {
  if (task.min_available) return *task.min_available;
  if (task.partition_policy) {
    const std::int64_t minimum =
        static_cast<std::int64_t>(task.partition_policy->min_partitions) * task.partition_policy->partition_size;
    // More than there are pods cannot be asked for; admission refuses it, and here it must not overflow.
    if (minimum > 0) return static_cast<std::int32_t>(std::min<std::int64_t>(minimum, task.replicas));
  }
  return task.replicas;
}

// The number excludes the name.
api::scheduling::NetworkTopologySpec copy_topology(const api::scheduling::NetworkTopologySpec& from) {
  api::scheduling::NetworkTopologySpec topology;
  topology.mode = from.mode;
  topology.highest_tier_allowed = from.highest_tier_allowed;
  if (!from.highest_tier_allowed) topology.highest_tier_name = from.highest_tier_name;
  return topology;
}

api::scheduling::SubGroupPolicy sub_group_of(const api::batch::TaskSpec& task) {
  const api::batch::PartitionPolicy& partitions = *task.partition_policy;
  api::scheduling::SubGroupPolicy policy;
  policy.name = task.name;
  policy.sub_group_size = partitions.partition_size;
  policy.min_sub_groups = partitions.min_partitions;
  policy.label_selector.emplace().match_labels = api::StringMap{{api::keys::kTaskSpec, task.name}};
  policy.match_label_keys = {std::string(api::keys::kPartitionId)};
  if (partitions.network_topology) policy.network_topology = copy_topology(*partitions.network_topology);
  return policy;
}

// What the API server fills in when a field is absent, so that its defaults do not look like a difference.
bool are_equal(const std::optional<api::scheduling::NetworkTopologySpec>& a,
               const std::optional<api::scheduling::NetworkTopologySpec>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  const auto mode = [](const auto& topology) {
    return topology.mode.empty() ? api::scheduling::network_topology_mode::kHard : std::string_view(topology.mode);
  };
  return mode(*a) == mode(*b) && a->highest_tier_allowed == b->highest_tier_allowed &&
         a->highest_tier_name == b->highest_tier_name;
}

bool are_equal(const api::scheduling::SubGroupPolicy& a, const api::scheduling::SubGroupPolicy& b) {
  return a.name == b.name && a.sub_group_size_or_default() == b.sub_group_size_or_default() &&
         a.min_sub_groups_or_default() == b.min_sub_groups_or_default() && a.label_selector == b.label_selector &&
         a.match_label_keys == b.match_label_keys && are_equal(a.network_topology, b.network_topology);
}

// Names that are no longer wanted are removed.
json::Object resources_patch(const ResourceList& found, const ResourceList& wanted) {
  json::Object patch;
  for (const auto& [name, quantity] : found) patch.set(name, json::Value());
  for (const auto& [name, quantity] : wanted) patch.set(name, quantity.to_string());
  return patch;
}

json::Value sub_groups_patch(const std::vector<api::scheduling::SubGroupPolicy>& wanted) {
  if (wanted.empty()) return {};
  json::Array list;
  for (const api::scheduling::SubGroupPolicy& policy : wanted)
    list.push_back(json::Raw::of(json::to_text(policy)).value());
  return list;
}

}  // namespace

std::string pod_group_name(const api::batch::Job& job) { return job.metadata.name + "-" + job.metadata.uid; }

Result<ResourceList> pod_usage(const json::Raw& pod_template) {
  BASALT_TRY(const api::core::PodTemplateSpec decoded, read_template(pod_template));
  return usage_of(decoded.spec);
}

Result<api::scheduling::PodGroup> build_pod_group(const api::batch::Job& job, const PriorityOf& priority_of) {
  api::scheduling::PodGroup group;
  group.metadata.name = pod_group_name(job);
  group.metadata.namespace_ = job.metadata.namespace_;
  group.metadata.labels = job.metadata.labels;
  group.metadata.annotations = job.metadata.annotations;
  group.metadata.owner_references = {api::controller_reference(api::batch::Job::kind_info(), job.metadata)};
  group.spec.min_member = job.spec.min_available;
  group.spec.queue = job.spec.queue;
  group.spec.priority_class_name = job.spec.priority_class_name;
  BASALT_TRY(group.spec.min_resources, min_resources(job, priority_of));
  if (job.spec.network_topology) group.spec.network_topology = copy_topology(*job.spec.network_topology);
  for (const api::batch::TaskSpec& task : job.spec.tasks) {
    group.spec.min_task_member[task.name] = task_minimum(task);
    if (task.partition_policy) group.spec.sub_group_policy.push_back(sub_group_of(task));
  }
  return group;
}

std::string pod_group_patch(const api::scheduling::PodGroup& found, const api::scheduling::PodGroup& wanted) {
  const api::scheduling::PodGroupSpec& now = found.spec;
  const api::scheduling::PodGroupSpec& next = wanted.spec;
  json::Object patch;
  if (now.priority_class_name != next.priority_class_name) {
    patch.set("priorityClassName",
              next.priority_class_name.empty() ? json::Value() : json::Value(next.priority_class_name));
  }
  const ResourceList resources_now = now.min_resources.value_or(ResourceList());
  const ResourceList resources_next = next.min_resources.value_or(ResourceList());
  if (now.min_member != next.min_member || resources_now != resources_next) {
    patch.set("minMember", next.min_member);
    patch.set("minResources", resources_patch(resources_now, resources_next));
  }
  json::Object members;
  for (const auto& [task, minimum] : next.min_task_member) {
    const auto entry = now.min_task_member.find(task);
    if (entry == now.min_task_member.end() || entry->second != minimum) members.set(task, minimum);
  }
  if (!members.empty()) patch.set("minTaskMember", std::move(members));
  const bool same_sub_groups =
      std::equal(now.sub_group_policy.begin(), now.sub_group_policy.end(), next.sub_group_policy.begin(),
                 next.sub_group_policy.end(), [](const auto& a, const auto& b) { return are_equal(a, b); });
  if (!same_sub_groups) patch.set("subGroupPolicy", sub_groups_patch(next.sub_group_policy));
  if (patch.empty()) return {};
  return json::Value(json::Object{{"spec", std::move(patch)}}).to_text();
}

}  // namespace basalt::controllers::job
