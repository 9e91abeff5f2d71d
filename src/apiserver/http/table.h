#pragma once

#include <span>
#include <string>
#include <string_view>

#include "api/time.h"
#include "apiserver/registry/resource_type.h"
#include "kube/client.h"

namespace basalt::apiserver {

// What `kubectl get` asks for: rows and columns instead of objects (meta.k8s.io/v1 Table).
struct TableOptions {
  bool with_columns = true;                      // a watch sends the column definitions with the first event only
  std::string_view include_object = "Metadata";  // None, Metadata, Object
  std::string_view version = "v1";               // of meta.k8s.io
  std::string resource_version;
  std::string continue_token;
  std::optional<std::int64_t> remaining_item_count;
  api::Time now;
};
[[nodiscard]] Result<std::string> make_table(const ResourceType& type, std::span<const kube::Bytes> objects,
                                             const TableOptions& options);

// What metadata informers ask for: of an object nothing but its metadata (PartialObjectMetadata of meta.k8s.io).
[[nodiscard]] Result<std::string> make_metadata(std::string_view object, std::string_view version);

}  // namespace basalt::apiserver
