#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/registry/resource_type.h"
#include "json/strategic_merge.h"
#include "json/value.h"

namespace basalt::apiserver {

// The two forms of OpenAPI documents. The older one has neither alternatives nor null.
enum class OpenApiVersion : std::uint8_t { V2, V3 };

// The schemas of one document, with everything that they refer to.
class OpenApiSchemas {
 public:
  explicit OpenApiSchemas(OpenApiVersion version) : version_(version) {}

  // The kind by the tables of built-in messages; nothing is added if they do not have it.
  void add_builtin(const ResourceType& type);
  // The kind by the schema that its CRD has for the version.
  void add_custom(const ResourceType& type, const json::Value& crd);

  // The name of the schema of a kind, as Kubernetes names it: io.k8s.api.core.v1.Pod, sh.volcano.batch.v1alpha1.Job.
  [[nodiscard]] static std::string name_of(const ResourceType& type);
  // {"$ref": ...} to a schema of the document.
  [[nodiscard]] json::Value reference(const std::string& name) const;
  [[nodiscard]] json::Object take() { return std::move(schemas_); }

 private:
  std::string add_message(std::uint16_t index);
  [[nodiscard]] json::Value schema_of_message(std::uint16_t index);
  [[nodiscard]] json::Value member_reference(const std::string& name) const;
  std::string add_metadata();
  void put_strategy(json::Value& field) const;

  // Where in which kind the message stands whose schema is being made: what is said of merging its fields hangs on it.
  class Place;

  const OpenApiVersion version_;
  const json::StrategicSchema* strategies_ = nullptr;
  std::vector<std::string_view> path_;
  json::Object schemas_;
  std::set<std::uint16_t> messages_;
};

// Makes a structural schema what the older form can say: without alternatives, null, and fields below what keeps
// unknown ones.
void reduce_to_v2(json::Value& schema);

}  // namespace basalt::apiserver
