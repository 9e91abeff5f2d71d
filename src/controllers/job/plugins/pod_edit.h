#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "controllers/job/plugins/plugin.h"
#include "json/value.h"

// What the plugins share: the names of pods and the common edits. Pure functions; any thread.
namespace basalt::controllers::job {

// The names by which the pods of one task find each other. Reads the template once.
class TaskHosts {
 public:
  TaskHosts(const api::batch::Job& job, const api::batch::TaskSpec& task);

  // The template's hostname if set, else "J-T-i".
  [[nodiscard]] std::string host(const PodIndex& index) const;
  // "host.subdomain"; the subdomain is the template's if set, else "J".
  [[nodiscard]] std::string domain(const PodIndex& index) const;
  // One for each pod, but only one for all if the template sets the hostname.
  [[nodiscard]] std::int32_t distinct() const;

 private:
  std::int32_t replicas_ = 0;
  std::string hostname_;    // the template's, or ""
  std::string pod_prefix_;  // "J-T-"
  std::string subdomain_;
};

// The domains of a task's pods, as many as distinct() says, with `separator` between them.
[[nodiscard]] std::string joined_domains(const TaskHosts& hosts, std::string_view separator);

// Null if the job has no such task.
[[nodiscard]] const api::batch::TaskSpec* find_task(const api::batch::Job& job, std::string_view name);

// Name of a volume: `front` and `back`, with dots turned into '-' and the front cut so that it is a DNS label.
[[nodiscard]] std::string fitting_volume_name(std::string_view front, std::string_view back);

// The controller reference to the job, and what every object of a plugin starts with.
[[nodiscard]] json::Value owner_reference(const api::batch::Job& job);
[[nodiscard]] json::Object plugin_object(const api::batch::Job& job, std::string_view api_version,
                                         std::string_view kind, std::string_view name);
// {volcano.sh/job-name: J, volcano.sh/job-namespace: N}
[[nodiscard]] json::Object pod_labels_of(const api::batch::Job& job);

// The array at `key`, made if there is none.
[[nodiscard]] json::Array& array_at(json::Value& object, std::string_view key);

enum class Containers : std::uint8_t { Main, All };  // All: init containers, too

template <class Edit>
void for_each_container(json::Value& pod, Containers which, Edit edit) {
  for (const std::string_view key : {"containers", "initContainers"}) {
    if (key == "initContainers" && which == Containers::Main) return;
    json::Value* const list = pod.find_path({"spec", key});
    if (list == nullptr || !list->is_array()) continue;
    for (json::Value& container : list->as_array())
      if (container.is_object()) edit(container);
  }
}

void append_env(json::Value& container, std::string_view name, std::string_view value);
// Adds the port unless the container declares that number already. The name is left out if it is taken.
void declare_port(json::Value& container, std::string_view name, std::int64_t number);
// Adds a volume to the pod.
void append_volume(json::Value& pod, json::Object volume);

}  // namespace basalt::controllers::job
