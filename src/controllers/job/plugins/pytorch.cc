#include <algorithm>
#include <limits>

#include "controllers/job/plugins/factories.h"
#include "controllers/job/plugins/flags.h"
#include "controllers/job/plugins/pod_edit.h"

namespace basalt::controllers::job {

namespace {

constexpr std::string_view kWaitName = "wait-for-master";

// Probes the master until it answers or the time is over. Written for the shell and the tools of busybox.
constexpr std::string_view kWaitScript =
    "deadline=$(($(date +%s) + WAIT_SECONDS))\n"
    "until nc -z -w 2 \"$MASTER_ADDR\" \"$MASTER_PORT\"; do\n"
    "  if [ \"$(date +%s)\" -ge \"$deadline\" ]; then\n"
    "    echo \"$MASTER_ADDR:$MASTER_PORT did not answer within ${WAIT_SECONDS}s\" >&2\n"
    "    exit 1\n"
    "  fi\n"
    "  sleep 2\n"
    "done\n";

// Tells every process where the master is and which rank it has.
class PytorchPlugin : public JobPlugin {
 public:
  PytorchPlugin(const Arguments& arguments, Warnings& warnings) {
    Flags flags("pytorch");
    flags.text("master", master_);
    flags.text("worker", worker_);
    flags.port("port", port_);
    flags.boolean("wait-master-enabled", wait_master_enabled_);
    flags.integer("wait-master-timeout", wait_seconds_, 0, std::numeric_limits<std::int32_t>::max());
    flags.text("wait-master-image", wait_image_);
    flags.parse(arguments, warnings);
  }

  [[nodiscard]] std::string_view name() const override { return "pytorch"; }

  [[nodiscard]] Done edit_pod(const api::batch::Job& job, std::size_t task, const PodIndex& index,
                              json::Value& pod) const override {
    const api::batch::TaskSpec* const master = find_task(job, master_);
    if (master == nullptr) return Ok();
    const api::batch::TaskSpec* const worker = find_task(job, worker_);
    std::int64_t world = master->replicas;
    if (worker != nullptr && worker != master) world += worker->replicas;
    const std::string address = TaskHosts(job, *master).domain(0);
    const std::string& own = job.spec.tasks[task].name;
    std::string rank;
    if (own == master_) {
      rank = "0";
    } else if (own == worker_) {
      rank = index.text(1);
    }
    for_each_container(pod, Containers::Main, [&](json::Value& container) {
      declare_port(container, "pytorchjob-port", port_);
      append_env(container, "MASTER_ADDR", address);
      append_env(container, "MASTER_PORT", std::to_string(port_));
      append_env(container, "WORLD_SIZE", std::to_string(world));
      if (!rank.empty()) append_env(container, "RANK", rank);
    });
    if (wait_master_enabled_ && own == worker_ && own != master_) add_wait(pod, address);
    return Ok();
  }

 private:
  void add_wait(json::Value& pod, const std::string& address) const {
    json::Array& containers = array_at(pod.ensure_path({"spec"}), "initContainers");
    const bool is_there = std::any_of(containers.begin(), containers.end(), [](const json::Value& container) {
      return container.string_at({"name"}) == kWaitName;
    });
    if (is_there) return;
    json::Value container =
        json::Object{{"name", kWaitName}, {"image", wait_image_}, {"command", json::Array{"sh", "-c", kWaitScript}}};
    append_env(container, "MASTER_ADDR", address);
    append_env(container, "MASTER_PORT", std::to_string(port_));
    append_env(container, "WAIT_SECONDS", std::to_string(wait_seconds_));
    containers.push_back(std::move(container));
  }

  std::string master_ = "master";
  std::string worker_ = "worker";
  std::int64_t port_ = 23456;
  bool wait_master_enabled_ = false;
  std::int64_t wait_seconds_ = 300;
  std::string wait_image_ = "busybox:1.36.1";
};

}  // namespace

PluginPointer make_pytorch_plugin(const Arguments& arguments, Warnings& warnings) {
  return std::make_shared<PytorchPlugin>(arguments, warnings);
}

}  // namespace basalt::controllers::job
