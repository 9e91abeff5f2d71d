#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace basalt::apiserver {

// A URL path below /api or /apis that names a resource, an object or a subresource:
//   /api/v1/namespaces/default/pods/a/log, /apis/batch.volcano.sh/v1alpha1/jobs
struct ApiPath {
  std::string group;
  std::string version;
  std::string ns;
  std::string plural;
  std::string name;
  std::string subresource;
  std::string rest;  // behind the subresource (proxy paths), without its slash
};

// Nothing if the path names no resource (discovery, health, nonsense). Segments are percent-decoded.
[[nodiscard]] std::optional<ApiPath> parse_api_path(std::string_view path);

}  // namespace basalt::apiserver
