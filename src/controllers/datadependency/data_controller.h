#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "controllers/common/controller.h"
#include "controllers/datadependency/plugins/plugin.h"
#include "rt/time.h"

namespace basalt::controllers::datadependency {

inline constexpr std::string_view kControllerName = "datadependency-controller";
inline constexpr std::string_view kClaimFinalizer = "datadependency.volcano.sh/finalizer";
inline constexpr std::string_view kSourceFinalizer = "datadependency.volcano.sh/datasource-finalizer";
inline constexpr std::string_view kStaticAnnotation = "datadependency.volcano.sh/static";
inline constexpr std::string_view kRefreshAnnotation = "datadependency.volcano.sh/refresh";

struct DataControllerOptions {
  int workers = 4;
  int resolver_threads = 4;
  std::string config_namespace = "volcano-global";
  std::string config_name = "volcano-global-datasource-plugins";
  // A mounted folder with one file for each plugin, read again every few seconds. While it has files they count alone;
  // without any, or if it cannot be read, the ConfigMap does.
  std::string config_folder;
  std::vector<PluginFactory> factories = plugin_factories();
  rt::Duration keep_old_constraint = std::chrono::seconds(30);  // while a claim's new data source is resolved
  rt::Duration between_moves = std::chrono::minutes(5);         // of one workload
  rt::Duration backoff_max = std::chrono::minutes(5);
  // Secrets are not watched, which would need the right to see them all: they are read again so often. Nor is the
  // folder: a mounted ConfigMap changes by a swapped link, some seconds after the object.
  rt::Duration secret_period = std::chrono::minutes(1);
  rt::Duration folder_period = std::chrono::seconds(5);
  // So many claims are named in the status of a data source, which must fit into a store; the rest are counted.
  std::size_t claim_refs_max = 2000;
  bool gates = true;  // suspends what must not be scheduled yet, and releases it
};

// The name is "datadependency-controller". It works on the API of a Karmada control plane. See README.md.
[[nodiscard]] std::unique_ptr<Controller> make_data_controller(ControllerContext& context,
                                                               DataControllerOptions options = {});

}  // namespace basalt::controllers::datadependency
