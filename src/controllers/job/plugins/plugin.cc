#include "controllers/job/plugins/plugin.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/strings.h"
#include "controllers/job/plugins/factories.h"

namespace basalt::controllers::job {

namespace {

struct KnownPlugin {
  std::string_view name;
  PluginPointer (*make)(const Arguments& arguments, Warnings& warnings);
};

// The order in which they edit a pod. hcclrank reads what pytorch wrote, so it comes last.
constexpr std::array kKnownPlugins{
    KnownPlugin{"env", make_env_plugin},
    KnownPlugin{"svc", make_svc_plugin},
    KnownPlugin{"ssh", make_ssh_plugin},
    KnownPlugin{"mpi", make_mpi_plugin},
    KnownPlugin{"tensorflow", make_tensorflow_plugin},
    KnownPlugin{"pytorch", make_pytorch_plugin},
    KnownPlugin{"ray", make_ray_plugin},
    KnownPlugin{"hcclrank", make_hcclrank_plugin},
};

Error unknown_plugin(std::string_view name) {
  std::vector<std::string_view> known;
  for (const KnownPlugin& plugin : kKnownPlugins) known.push_back(plugin.name);
  return Error::make(Reason::Invalid, "spec.plugins: there is no plugin " + base::quote(base::ellipsize(name, 100)) +
                                          "; use one of " + base::join(known, ", ") + base::did_you_mean(name, known));
}

}  // namespace

PodIndex PodIndex::of_mark(std::string mark) {
  PodIndex index(0);
  index.mark_ = std::move(mark);
  return index;
}

std::string PodIndex::text(std::int64_t offset) const {
  if (mark_.empty()) return std::to_string(index_ + offset);
  return mark_ + kPlus + std::to_string(offset) + kEnd;
}

std::string PodIndex::quotient_text(std::int32_t divisor) const {
  BASALT_CHECK(divisor > 0);
  if (mark_.empty()) return std::to_string(index_ / divisor);
  return mark_ + kQuotient + std::to_string(divisor) + kEnd;
}

std::vector<PluginObject> JobPlugin::objects(const api::batch::Job& /*job*/) const { return {}; }

Result<PluginSet> PluginSet::make(const api::batch::JobSpec& spec) {
  PluginSet set;
  for (const KnownPlugin& known : kKnownPlugins) {
    const auto found = spec.plugins.find(std::string(known.name));
    if (found != spec.plugins.end()) set.plugins_.push_back(known.make(found->second, set.warnings_));
  }
  if (set.plugins_.size() == spec.plugins.size()) return set;
  for (const auto& [name, arguments] : spec.plugins) {
    const bool is_known =
        std::any_of(kKnownPlugins.begin(), kKnownPlugins.end(), [&](const auto& known) { return known.name == name; });
    if (!is_known) return unknown_plugin(name);
  }
  return set;
}

bool PluginSet::needs_keys() const {
  return std::any_of(plugins_.begin(), plugins_.end(), [](const auto& plugin) { return plugin->needs_keys(); });
}

}  // namespace basalt::controllers::job
