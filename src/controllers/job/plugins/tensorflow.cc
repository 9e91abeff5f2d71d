#include <array>

#include "controllers/job/plugins/factories.h"
#include "controllers/job/plugins/flags.h"
#include "controllers/job/plugins/pod_edit.h"
#include "json/writer.h"

namespace basalt::controllers::job {

namespace {

// Describes the cluster and the pod's place in it in TF_CONFIG.
class TensorflowPlugin : public JobPlugin {
 public:
  TensorflowPlugin(const Arguments& arguments, Warnings& warnings) {
    Flags flags("tensorflow");
    for (Role& role : roles_) flags.text(role.name, role.task);
    flags.port("port", port_);
    flags.parse(arguments, warnings);
  }

  [[nodiscard]] std::string_view name() const override { return "tensorflow"; }

  [[nodiscard]] Done edit_pod(const api::batch::Job& job, std::size_t task, const PodIndex& index,
                              json::Value& pod) const override {
    // A process that is alone finds out by the absence of the variable.
    if (job.spec.tasks.size() == 1 && job.spec.tasks[0].replicas == 1) return Ok();
    const std::string config = tf_config(job, job.spec.tasks[task].name, index);
    for_each_container(pod, Containers::Main,
                       [&](json::Value& container) { append_env(container, "TF_CONFIG", config); });
    return Ok();
  }

 private:
  struct Role {
    std::string_view name;
    std::string task;
  };

  [[nodiscard]] std::string tf_config(const api::batch::Job& job, const std::string& task,
                                      const PodIndex& index) const {
    std::string text;
    json::Writer writer(text);
    writer.begin_object();
    writer.key("cluster");
    writer.begin_object();
    for (const Role& role : roles_) write_role(writer, job, role);
    writer.end_object();
    writer.key("task");
    writer.begin_object();
    writer.key("type");
    writer.string(type_of(task));
    writer.key("index");
    writer.raw(index.text());
    writer.end_object();
    writer.end_object();
    return text;
  }

  // One entry for each replica, even if they share a hostname: the position is the index of the pod.
  void write_role(json::Writer& writer, const api::batch::Job& job, const Role& role) const {
    const api::batch::TaskSpec* const task = find_task(job, role.task);
    if (task == nullptr || task->replicas <= 0) return;
    const TaskHosts hosts(job, *task);
    const std::string port = ":" + std::to_string(port_);
    writer.key(role.name);
    writer.begin_array();
    for (std::int32_t i = 0; i < task->replicas; ++i) writer.string(hosts.domain(i) + port);
    writer.end_array();
  }

  [[nodiscard]] std::string_view type_of(std::string_view task) const {
    for (const Role& role : roles_)
      if (role.task == task) return role.name;
    return task;
  }

  std::array<Role, 4> roles_{Role{"ps", "ps"}, {"worker", "worker"}, {"chief", "chief"}, {"evaluator", "evaluator"}};
  std::int64_t port_ = 2222;
};

}  // namespace

PluginPointer make_tensorflow_plugin(const Arguments& arguments, Warnings& warnings) {
  return std::make_shared<TensorflowPlugin>(arguments, warnings);
}

}  // namespace basalt::controllers::job
