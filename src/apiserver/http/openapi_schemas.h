#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "apiserver/registry/resource_type.h"
#include "json/value.h"

namespace basalt::apiserver {

// The schemas of one document, with everything that they refer to.
class OpenApiSchemas {
 public:
  // The kind by the tables of built-in messages; nothing is added if they do not have it.
  void add_builtin(const ResourceType& type);
  // The kind by the schema that its CRD has for the version.
  void add_custom(const ResourceType& type, const json::Value& crd);

  // The name of the schema of a kind in this document.
  [[nodiscard]] static std::string name_of(const ResourceType& type);
  [[nodiscard]] json::Object take() { return std::move(schemas_); }

 private:
  std::string add_message(std::uint16_t index);
  [[nodiscard]] json::Value schema_of_message(std::uint16_t index);
  void add_metadata();

  json::Object schemas_;
  std::set<std::uint16_t> messages_;
};

}  // namespace basalt::apiserver
