#pragma once

#include <string>

#include "api/gen/datadependency.h"
#include "api/string_map.h"

namespace basalt::controllers::datadependency {

// Which data: what a claim asks for and a data source answers. Absent and empty attributes are the same.
struct DataIdentity {
  std::string system;
  std::string type;
  std::string name;
  api::StringMap attributes;

  [[nodiscard]] static DataIdentity of(const api::datadependency::DataSourceClaim& claim);
  [[nodiscard]] static DataIdentity of(const api::datadependency::DataSource& source);
  // One text for one identity: the key of indexes and of resolutions.
  [[nodiscard]] std::string key() const;
  [[nodiscard]] std::string to_string() const;  // "amoro table prod.db.orders", for messages
  bool operator==(const DataIdentity&) const = default;
};

// The name of the data source that is made for an identity: `<system>-<type>-<name>[-<hash of the attributes>]` if that
// is a valid name, as other controllers have it, otherwise the hashed one.
[[nodiscard]] std::string data_source_name(const DataIdentity& identity);
// A valid name that no other identity gets; for names that are not valid, or taken by another identity.
[[nodiscard]] std::string hashed_data_source_name(const DataIdentity& identity);

// The workload of a claim: "<apiVersion>/<kind>/<namespace>/<name>". The namespace is the claim's if it names none.
// "" if a part is missing: such a claim steers nothing.
[[nodiscard]] std::string workload_key(const api::datadependency::DataSourceClaim& claim);
[[nodiscard]] std::string workload_key(const std::string& api_version, const std::string& kind, const std::string& ns,
                                       const std::string& name);

}  // namespace basalt::controllers::datadependency
