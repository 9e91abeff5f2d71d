#include "controllers/job/plugins/factories.h"
#include "controllers/job/plugins/flags.h"
#include "controllers/job/plugins/pod_edit.h"

namespace basalt::controllers::job {

namespace {

// Tells every container the index of its pod, under the old and the new name.
class EnvPlugin : public JobPlugin {
 public:
  [[nodiscard]] std::string_view name() const override { return "env"; }
  [[nodiscard]] Done edit_pod(const api::batch::Job& /*job*/, std::size_t /*task*/, const PodIndex& index,
                              json::Value& pod) const override {
    for_each_container(pod, Containers::All, [&](json::Value& container) {
      append_env(container, "VK_TASK_INDEX", index.text());
      append_env(container, "VC_TASK_INDEX", index.text());
    });
    return Ok();
  }
};

}  // namespace

PluginPointer make_env_plugin(const Arguments& arguments, Warnings& warnings) {
  Flags("env").parse(arguments, warnings);
  return std::make_shared<EnvPlugin>();
}

}  // namespace basalt::controllers::job
