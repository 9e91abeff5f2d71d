#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apiserver/registry/resource_type.h"

namespace basalt::apiserver {

// Discovery documents, made from the table of types. `accept` decides between the legacy and the aggregated form.
struct DiscoveryDocument {
  std::string content_type;
  std::string body;
};

// Nothing for a path that is no discovery path, or names a group or version that is not served.
[[nodiscard]] std::optional<DiscoveryDocument> discovery_document(const TypeTable& types, std::string_view path,
                                                                  std::string_view accept,
                                                                  std::string_view server_address);

}  // namespace basalt::apiserver
