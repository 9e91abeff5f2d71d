#include "api/gen/names.h"
#include "controllers/job/plugins/factories.h"
#include "controllers/job/plugins/flags.h"
#include "controllers/job/plugins/pod_edit.h"

namespace basalt::controllers::job {

namespace {

// The literal value of RANK in the first container that has one; "" if none has.
std::string rank_of(json::Value& pod) {
  std::string rank;
  for_each_container(pod, Containers::Main, [&](json::Value& container) {
    const json::Value* const variables = container.find("env");
    if (!rank.empty() || variables == nullptr || !variables->is_array()) return;
    for (const json::Value& variable : variables->as_array()) {
      // Of several the last is what the process sees.
      if (variable.string_at({"name"}) == "RANK") rank = variable.string_at({"value"});
    }
  });
  return rank;
}

// Writes the rank of a pod where the collective communication library looks for it. Makes no object, so nothing of it
// is recorded in the status.
class HcclRankPlugin : public JobPlugin {
 public:
  HcclRankPlugin(const Arguments& arguments, Warnings& warnings) {
    Flags flags("hcclrank");
    flags.text("master", master_);
    flags.text("worker", worker_);
    flags.parse(arguments, warnings);
  }

  [[nodiscard]] std::string_view name() const override { return "hcclrank"; }
  [[nodiscard]] bool is_recorded() const override { return false; }

  [[nodiscard]] Done edit_pod(const api::batch::Job& job, std::size_t task, const PodIndex& index,
                              json::Value& pod) const override {
    const json::Value* const present = pod.find_path({"metadata", "annotations", api::keys::kHcclRankIndex});
    if (present != nullptr) return Ok();
    std::string rank = rank_of(pod);
    const std::string& own = job.spec.tasks[task].name;
    if (rank.empty() && own == master_) rank = index.text();
    if (rank.empty() && own == worker_) {
      const api::batch::TaskSpec* const master = find_task(job, master_);
      rank = index.text(master == nullptr ? 0 : master->replicas);
    }
    if (!rank.empty()) pod.ensure_path({"metadata", "annotations", api::keys::kHcclRankIndex}) = std::move(rank);
    return Ok();
  }

 private:
  std::string master_ = "master";
  std::string worker_ = "worker";
};

}  // namespace

PluginPointer make_hcclrank_plugin(const Arguments& arguments, Warnings& warnings) {
  return std::make_shared<HcclRankPlugin>(arguments, warnings);
}

}  // namespace basalt::controllers::job
