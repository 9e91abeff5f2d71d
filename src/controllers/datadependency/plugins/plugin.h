#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "controllers/datadependency/identity.h"
#include "controllers/datadependency/plugins/plugin_config.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::controllers::datadependency {

// How a question about data ended.
enum class ResolutionKind : std::uint8_t {
  Found,          // clusters are known
  NotFound,       // the system says that there is no such data
  NoMapping,      // the data is there, and its location is mapped to no cluster
  InvalidName,    // no such name can exist in this system
  Malformed,      // the system answered nonsense
  Misconfigured,  // the wrong address, or a certificate that is not trusted
  Unsupported,    // the system cannot say
  Denied,         // our credentials are not accepted
  Unavailable,    // nobody answered, or only that it cannot now: worth another try
};
[[nodiscard]] std::string_view to_string(ResolutionKind kind);
// Whether the same call may succeed a moment later.
[[nodiscard]] bool is_worth_a_retry(ResolutionKind kind);

struct Resolution {
  ResolutionKind kind = ResolutionKind::Unavailable;
  std::vector<std::string> clusters;  // Found; in the order of the mapping
  std::string message;                // for people; holds no credentials and nothing that a server sent unasked
  rt::Duration retry_after{};         // the server's wish, if it said one
};

// Finds out where data is. One instance is made for each configuration; called by several threads at once, never on a
// worker of a controller. A plugin is small: the retry, the cache, the limits and the conditions are not its business.
class DataSourcePlugin {
 public:
  virtual ~DataSourcePlugin() = default;
  // Waits for at most the timeout of its configuration.
  [[nodiscard]] virtual Resolution locate(const DataIdentity& identity, const rt::StopToken& stop) = 0;
};

// What a plugin is made of. Credentials have been read from the Secret, if one is named.
struct PluginContext {
  rt::Runtime& runtime;
  Logger log;
  PluginConfig config;
};
struct PluginFactory {
  std::string_view name;  // spec.system of the claims, and the key in the ConfigMap
  Result<std::unique_ptr<DataSourcePlugin>> (*make)(PluginContext context);
};
// All that this program has: amoro, iceberg, static.
[[nodiscard]] const std::vector<PluginFactory>& plugin_factories();

}  // namespace basalt::controllers::datadependency
