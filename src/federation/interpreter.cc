#include "federation/interpreter.h"

#include <algorithm>
#include <set>
#include <utility>

#include "api/gen/names.h"
#include "json/merge_patch.h"

namespace basalt::federation {
namespace {

using api::batch::JobSpec;
using api::batch::JobStatus;
namespace phases = api::batch::job_phase;

const json::Array& list_at(const json::Value& value, std::initializer_list<std::string_view> path) {
  static const json::Array kNone;
  const json::Value* found = value.find_path(path);
  return found != nullptr && found->is_array() ? found->as_array() : kNone;
}

api::ResourceList requests_of_pod(const json::Value& pod_template) {
  api::ResourceList sum;
  for (const json::Value& container : list_at(pod_template, {"spec", "containers"})) {
    const json::Value* resources = container.find("resources");
    const json::Value* requests = resources == nullptr ? nullptr : resources->find("requests");
    if (requests == nullptr && resources != nullptr) requests = resources->find("limits");
    if (requests == nullptr) continue;
    if (const auto list = json::from_text<api::ResourceList>(requests->to_text()); list.ok()) sum += *list;
  }
  return sum;
}

class DependencyFinder {
 public:
  void look_at(const json::Value& pod_template) {
    const json::Value* pod = pod_template.find("spec");
    if (pod == nullptr) return;
    add("ServiceAccount", pod->string_at({"serviceAccountName"}));
    for (const json::Value& secret : list_at(*pod, {"imagePullSecrets"})) add("Secret", secret.string_at({"name"}));
    for (const json::Value& volume : list_at(*pod, {"volumes"})) look_at_volume(volume);
    for (const std::string_view kind : {"containers", "initContainers"}) {
      for (const json::Value& container : list_at(*pod, {kind})) look_at_container(container);
    }
  }
  [[nodiscard]] std::vector<Dependency> take() { return {found_.begin(), found_.end()}; }

 private:
  void add(std::string_view kind, std::string_view name) {
    // Every namespace has a default account of its own.
    if (name.empty() || (kind == "ServiceAccount" && name == "default")) return;
    found_.insert({std::string(kind), std::string(name)});
  }
  void look_at_volume(const json::Value& volume) {
    add("ConfigMap", volume.string_at({"configMap", "name"}));
    add("Secret", volume.string_at({"secret", "secretName"}));
    add("PersistentVolumeClaim", volume.string_at({"persistentVolumeClaim", "claimName"}));
    for (const json::Value& source : list_at(volume, {"projected", "sources"})) {
      add("ConfigMap", source.string_at({"configMap", "name"}));
      add("Secret", source.string_at({"secret", "name"}));
    }
  }
  void look_at_container(const json::Value& container) {
    for (const json::Value& variable : list_at(container, {"env"})) {
      add("ConfigMap", variable.string_at({"valueFrom", "configMapKeyRef", "name"}));
      add("Secret", variable.string_at({"valueFrom", "secretKeyRef", "name"}));
    }
    for (const json::Value& source : list_at(container, {"envFrom"})) {
      add("ConfigMap", source.string_at({"configMapRef", "name"}));
      add("Secret", source.string_at({"secretRef", "name"}));
    }
  }
  std::set<Dependency> found_;
};

void take_if_absent(json::Value& value, const json::Value& from, std::string_view key) {
  if (!value.is_object() || value.as_object().contains(key)) return;
  if (const json::Value* found = from.find(key); found != nullptr) value.as_object().set(key, *found);
}

// What the member's webhook and controllers filled in, and what this patch is not about.
void retain(json::Value& spec, const json::Value& live) {
  for (const std::string_view key : {"minAvailable", "schedulerName", "queue", "maxRetry", "plugins"})
    take_if_absent(spec, live, key);
  json::Value* tasks = spec.find("tasks");
  const json::Array& live_tasks = list_at(live, {"tasks"});
  if (tasks != nullptr && tasks->is_array() && tasks->as_array().size() == live_tasks.size()) {
    for (std::size_t i = 0; i < live_tasks.size(); ++i) {
      for (const std::string_view key : {"name", "minAvailable", "maxRetry"})
        take_if_absent(tasks->as_array()[i], live_tasks[i], key);
    }
  }
  json::Value* volumes = spec.find("volumes");
  const json::Array& live_volumes = list_at(live, {"volumes"});
  if (volumes != nullptr && volumes->is_array() && volumes->as_array().size() == live_volumes.size()) {
    for (std::size_t i = 0; i < live_volumes.size(); ++i)
      take_if_absent(volumes->as_array()[i], live_volumes[i], "volumeClaimName");
  }
}

void add_counters(JobStatus& sum, const JobStatus& one) {
  sum.min_available += one.min_available;
  sum.pending += one.pending;
  sum.running += one.running;
  sum.succeeded += one.succeeded;
  sum.failed += one.failed;
  sum.terminating += one.terminating;
  sum.unknown_count += one.unknown_count;
  for (const auto& [task, state] : one.task_status_count) {
    for (const auto& [phase, count] : state.phase) sum.task_status_count[task].phase[phase] += count;
  }
}

}  // namespace

std::int32_t replicas_of(const JobSpec& spec) {
  return spec.tasks.empty() ? 1 : std::max<std::int32_t>(spec.tasks.front().replicas, 1);
}

api::ResourceList request_of(const JobSpec& spec) {
  api::ResourceList most;
  for (const auto& task : spec.tasks) most.raise_to(requests_of_pod(task.template_.value()));
  return most;
}

std::vector<Dependency> dependencies_of(const JobSpec& spec) {
  DependencyFinder finder;
  for (const auto& task : spec.tasks) finder.look_at(task.template_.value());
  return finder.take();
}

json::Value member_job(const json::Value& template_job, std::string_view binding, std::int32_t replicas) {
  const std::string ns(template_job.string_at({"metadata", "namespace"}));
  json::Object labels;
  if (const json::Value* given = template_job.find_path({"metadata", "labels"}); given != nullptr && given->is_object())
    labels = given->as_object();
  labels.set(api::keys::kKarmadaManaged, "true");
  json::Object annotations;
  if (const json::Value* given = template_job.find_path({"metadata", "annotations"});
      given != nullptr && given->is_object())
    annotations = given->as_object();
  annotations.set(kTemplateUid, template_job.string_at({"metadata", "uid"}));
  const json::Value* generation = template_job.find_path({"metadata", "generation"});
  annotations.set(kTemplateGeneration,
                  generation != nullptr && generation->is_int() ? std::to_string(generation->as_int()) : "0");
  annotations.set(kBindingName, binding);
  annotations.set(kBindingNamespace, ns);
  const json::Value* given = template_job.find("spec");
  json::Value spec = given != nullptr && given->is_object() ? *given : json::Value(json::Object());
  // Whoever watches the template decides when a finished job goes.
  spec.as_object().erase("ttlSecondsAfterFinished");
  if (json::Value* tasks = spec.find("tasks"); tasks != nullptr && tasks->is_array() && !tasks->as_array().empty())
    tasks->as_array()[0].as_object().set("replicas", static_cast<std::int64_t>(replicas));
  return json::Object{{"apiVersion", "batch.volcano.sh/v1alpha1"},
                      {"kind", "Job"},
                      {"metadata", json::Object{{"name", template_job.string_at({"metadata", "name"})},
                                                {"namespace", ns},
                                                {"labels", std::move(labels)},
                                                {"annotations", std::move(annotations)}}},
                      {"spec", std::move(spec)}};
}

json::Value member_patch(const json::Value& live, const json::Value& wanted) {
  const json::Value* live_spec = live.find("spec");
  json::Value spec = *wanted.find("spec");
  if (live_spec != nullptr) retain(spec, *live_spec);
  json::Object metadata;
  for (const std::string_view key : {"labels", "annotations"}) {
    const json::Value* found = live.find_path({"metadata", key});
    json::Object missing;
    for (const auto& [name, value] : wanted.find_path({"metadata", key})->as_object()) {
      const json::Value* has = found == nullptr ? nullptr : found->find(name);
      if (has == nullptr || *has != value) missing.set(name, value);
    }
    if (!missing.empty()) metadata.set(key, std::move(missing));
  }
  json::Object patch;
  if (!metadata.empty()) patch.set("metadata", std::move(metadata));
  json::Value changed = json::make_merge_patch(live_spec != nullptr ? *live_spec : json::Value(json::Object()), spec);
  if (changed.is_object() && !changed.as_object().empty()) patch.set("spec", std::move(changed));
  return patch.empty() ? json::Value() : json::Value(std::move(patch));
}

JobStatus aggregate(const std::vector<JobStatus>& members) {
  if (members.empty()) return {};
  if (members.size() == 1) return members.front();
  JobStatus sum;
  bool all_completed = true;
  for (const JobStatus& one : members) {
    add_counters(sum, one);
    all_completed &= one.state.phase == phases::kCompleted;
    const bool failed = one.state.phase == phases::kFailed || one.state.phase == phases::kAborted;
    if (failed) {
      sum.state = one.state;
      sum.state.phase = phases::kFailed;
    }
  }
  if (sum.state.phase.empty()) {
    for (const JobStatus& one : members) {
      const bool is_telling = !one.state.phase.empty() && one.state.phase != phases::kCompleted;
      if (is_telling || all_completed) sum.state = one.state;
    }
  }
  return sum;
}

std::string_view health_of(const JobStatus& status) {
  return status.state.phase.empty() || status.state.phase == phases::kFailed ? "Unhealthy" : "Healthy";
}

}  // namespace basalt::federation
