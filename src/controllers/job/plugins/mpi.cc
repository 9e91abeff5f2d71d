#include "controllers/job/plugins/factories.h"
#include "controllers/job/plugins/flags.h"
#include "controllers/job/plugins/pod_edit.h"

namespace basalt::controllers::job {

namespace {

// Tells the master where its workers are, and declares the port that they talk on.
class MpiPlugin : public JobPlugin {
 public:
  MpiPlugin(const Arguments& arguments, Warnings& warnings) {
    Flags flags("mpi");
    flags.text("master", master_);
    flags.text("worker", worker_);
    flags.port("port", port_);
    flags.parse(arguments, warnings);
  }

  [[nodiscard]] std::string_view name() const override { return "mpi"; }

  [[nodiscard]] Done edit_pod(const api::batch::Job& job, std::size_t task, const PodIndex& /*index*/,
                              json::Value& pod) const override {
    const bool is_master = job.spec.tasks[task].name == master_;
    std::string hosts;
    if (is_master) {
      const api::batch::TaskSpec* const workers = find_task(job, worker_);
      if (workers == nullptr) return Ok();
      hosts = joined_domains(TaskHosts(job, *workers), ",");
    }
    for_each_container(pod, Containers::All, [&](json::Value& container) {
      if (is_master) append_env(container, "MPI_HOST", hosts);
      declare_port(container, "mpijob-port", port_);
    });
    return Ok();
  }

 private:
  std::string master_ = "master";
  std::string worker_ = "worker";
  std::int64_t port_ = 22;
};

}  // namespace

PluginPointer make_mpi_plugin(const Arguments& arguments, Warnings& warnings) {
  return std::make_shared<MpiPlugin>(arguments, warnings);
}

}  // namespace basalt::controllers::job
