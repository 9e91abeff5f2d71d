#include <algorithm>
#include <array>
#include <map>
#include <ostream>
#include <utility>

#include "api/gen/core_objects.h"
#include "api/gen/core_pod.h"
#include "api/gen/core_workloads.h"
#include "api/gen/names.h"
#include "base/sort.h"
#include "cli/cli.h"
#include "cli/client/output.h"
#include "cli/client/table.h"
#include "cli/inspect/inspect_commands.h"
#include "cli/pod/pod_commands.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kPodsShown = 100;
constexpr std::size_t kNameShown = 8;  // of a name, at least

// One line of the tree and what hangs below it.
struct Branch {
  std::string kind;
  std::string name;
  std::string state;
  std::string details;
  std::vector<Branch> below;
};

json::Value to_json(const Branch& branch) {
  json::Object object{{"kind", branch.kind}, {"name", branch.name}};
  if (!branch.state.empty()) object.set("state", branch.state);
  if (!branch.details.empty()) object.set("details", branch.details);
  if (!branch.below.empty()) {
    json::Array below;
    for (const Branch& one : branch.below) below.push_back(to_json(one));
    object.set("below", std::move(below));
  }
  return object;
}

void print_branch(std::ostream& out, const Terminal& terminal, const Branch& branch, const std::string& lead,
                  const std::string& indent) {
  std::string line = lead + branch.kind + "/";
  // On a narrow terminal the end of a long name goes, not the state.
  const std::size_t rest = display_width(line) + 2 + display_width(branch.state) + (branch.details.empty() ? 0 : 1);
  const bool shows_state = !branch.state.empty() && terminal.width > rest + kNameShown;
  line += shows_state ? fit(branch.name, terminal.width - rest) : branch.name;
  if (!branch.state.empty()) line += "  " + paint(terminal, colour_of_phase(branch.state), branch.state);
  if (!branch.details.empty()) line += "  " + branch.details;
  out << fit(line, terminal.width) << "\n";
  for (std::size_t i = 0; i < branch.below.size(); ++i) {
    const bool is_last = i + 1 == branch.below.size();
    print_branch(out, terminal, branch.below[i], indent + (is_last ? "└─ " : "├─ "),
                 indent + (is_last ? "   " : "│  "));
  }
}

class Growing {
 public:
  Growing(Session& session, const api::batch::Job& job, std::size_t pods_max)
      : session_(session), job_(job), pods_max_(pods_max), now_(session.runtime.wall_now()) {}

  Result<Branch> grow() {
    Branch root{
        "job",
        job_.metadata.name,
        job_.status.state.phase.empty() ? "not seen yet" : job_.status.state.phase,
        "min " + std::to_string(job_.spec.min_available) + ", " + age_of(job_.metadata.creation_timestamp, now_),
        {}};
    BASALT_TRY(const auto group, find_pod_group(session_, job_));
    if (group) {
      const auto& status = group->object.status;
      root.below.push_back(
          {"podgroup",
           group->object.metadata.name,
           status.phase.empty() ? "not seen yet" : status.phase,
           "queue " + group->object.spec.queue + ", minMember " + std::to_string(group->object.spec.min_member),
           {}});
    }
    BASALT_TRY_DONE(add_tasks(root));
    BASALT_TRY_DONE(add_owned<api::core::Service>(root));
    BASALT_TRY_DONE(add_owned<api::core::ConfigMap>(root));
    BASALT_TRY_DONE(add_owned<api::core::Secret>(root));
    BASALT_TRY_DONE(add_owned<api::core::NetworkPolicy>(root));
    BASALT_TRY_DONE(add_claims(root));
    return root;
  }

 private:
  bool is_owned(const api::meta::ObjectMeta& metadata) const {
    return std::any_of(metadata.owner_references.begin(), metadata.owner_references.end(),
                       [this](const auto& owner) { return owner.uid == job_.metadata.uid; });
  }

  Done add_tasks(Branch& root) {
    BASALT_TRY(auto pods, list_objects<api::core::Pod>(session_, {.ns = job_.metadata.namespace_,
                                                                  .label_selector = std::string(api::keys::kJobName) +
                                                                                    "=" + job_.metadata.name}));
    base::stable_sort(pods, [](const auto& a, const auto& b) {
      // worker-2 before worker-10.
      return std::pair(a.object.metadata.name.size(), std::string_view(a.object.metadata.name)) <
             std::pair(b.object.metadata.name.size(), std::string_view(b.object.metadata.name));
    });
    std::map<std::string, std::vector<const api::core::Pod*>> by_task;
    for (const auto& [pod, bytes] : pods) {
      if (is_owned(pod.metadata)) by_task[std::string(pod.metadata.labels.get(api::keys::kTaskSpec))].push_back(&pod);
    }
    for (std::size_t i = 0; i < job_.spec.tasks.size(); ++i) {
      const auto& spec = job_.spec.tasks[i];
      const std::string name = spec.name.empty() ? "default" + std::to_string(i) : spec.name;
      Branch task{"task",
                  name,
                  "",
                  std::to_string(by_task[name].size()) + " of " + std::to_string(spec.replicas) + " pods",
                  {}};
      for (const api::core::Pod* pod : by_task[name]) {
        if (task.below.size() >= pods_max_) {
          task.details += ", " + std::to_string(by_task[name].size() - pods_max_) + " not shown";
          break;
        }
        const PodSummary summary = summarize(*pod, now_);
        std::string details = pod->spec.node_name.empty() ? "no node" : "on " + pod->spec.node_name;
        if (summary.restarts != "0") details += ", restarts " + summary.restarts;
        task.below.push_back({"pod", pod->metadata.name, summary.status, details, {}});
      }
      root.below.push_back(std::move(task));
    }
    return Ok{};
  }

  template <class T>
  Done add_owned(Branch& root) {
    auto objects = list_objects<T>(session_, {.ns = job_.metadata.namespace_});
    // Secrets above all are not for everybody to list.
    if (!objects.ok() && (objects.error().is(Reason::Forbidden) || objects.error().is(Reason::NotFound))) return Ok{};
    if (!objects.ok()) return std::move(objects).error();
    for (const auto& [object, bytes] : *objects) {
      if (is_owned(object.metadata))
        root.below.push_back({std::string(T::kKindInfo.singular), object.metadata.name, "", "", {}});
    }
    return Ok{};
  }

  Done add_claims(Branch& root) {
    for (const auto& volume : job_.spec.volumes) {
      if (volume.volume_claim_name.empty()) continue;
      auto claim = get_bytes(session_, kube::resource_of<api::core::PersistentVolumeClaim>(),
                             {job_.metadata.namespace_, volume.volume_claim_name});
      if (!claim.ok()) {
        const std::string state = claim.error().is(Reason::NotFound) ? "missing" : "unknown";
        root.below.push_back({"persistentvolumeclaim", volume.volume_claim_name, state, "at " + volume.mount_path, {}});
        continue;
      }
      BASALT_TRY(const json::Value value, json::Value::parse(**claim));
      root.below.push_back({"persistentvolumeclaim",
                            volume.volume_claim_name,
                            std::string(value.string_at({"status", "phase"})),
                            "at " + volume.mount_path,
                            {}});
    }
    return Ok{};
  }

  Session& session_;
  const api::batch::Job& job_;
  const std::size_t pods_max_;
  const rt::WallTime now_;
};

int tree_from_flags(CommandCall& call) {
  std::string name;
  std::string ns;
  std::string output;
  std::int64_t pods_max = kPodsShown;
  GoFlags flags = call.flags("Shows a job with all that belongs to it: pod group, tasks and pods, services, claims.");
  add_name_flag(flags, name, "job");
  add_namespace_flag(flags, ns, "job");
  flags.number("max-pods", pods_max, "pods of each task that are shown");
  add_value_output_flag(flags, output);
  return call.run(flags, [&](Session& session) -> Result<int> {
    BASALT_TRY(const api::ObjectKey key, job_key(flags, name, ns, session));
    BASALT_TRY(const auto job, get_object<api::batch::Job>(session, key));
    Growing growing(session, job.object, static_cast<std::size_t>(std::max<std::int64_t>(0, pods_max)));
    BASALT_TRY(const Branch tree, growing.grow());
    if (!output.empty()) {
      print_value(session.out, output, to_json(tree));
    } else {
      print_branch(session.out, session.host.terminal(), tree, "", "");
    }
    return kExitOk;
  });
}

constexpr ClientCommand kTree{"tree", "a job with all that belongs to it", &tree_from_flags};

}  // namespace

const ClientCommand& tree_command() { return kTree; }
int run_tree(Invocation& invocation) { return run_single(invocation, kTree); }

}  // namespace basalt::cli
