#include "apiserver/http/api_path.h"

#include <vector>

#include "base/strings.h"
#include "net/url.h"

namespace basalt::apiserver {

std::optional<ApiPath> parse_api_path(std::string_view path) {
  std::vector<std::string> segments;
  for (const std::string_view part : base::split(path, '/')) {
    if (part.empty()) continue;
    auto decoded = net::percent_decode(part);
    if (!decoded) return std::nullopt;
    segments.push_back(std::move(*decoded));
  }
  ApiPath result;
  std::size_t at = 0;
  if (segments.size() > 2 && segments[0] == "api") {
    result.version = segments[1];
    at = 2;
  } else if (segments.size() > 3 && segments[0] == "apis") {
    result.group = segments[1];
    result.version = segments[2];
    at = 3;
  } else {
    return std::nullopt;
  }
  // "namespaces/x" is the namespace x itself, "namespaces/x/status" and "/finalize" its subresources; anything longer
  // is something in the namespace.
  const auto is_own_subresource = [&](std::size_t i) {
    return i + 1 == segments.size() && (segments[i] == "status" || segments[i] == "finalize");
  };
  if (segments[at] == "namespaces" && segments.size() > at + 2 && !is_own_subresource(at + 2)) {
    result.ns = segments[at + 1];
    at += 2;
  }
  result.plural = segments[at++];
  if (at < segments.size()) result.name = segments[at++];
  if (at < segments.size()) result.subresource = segments[at++];
  for (; at < segments.size(); ++at) result.rest += (result.rest.empty() ? "" : "/") + segments[at];
  return result;
}

}  // namespace basalt::apiserver
