#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/apply/field_set.h"
#include "apiserver/registry/resource_type.h"
#include "base/result.h"
#include "json/value.h"

namespace basalt::apiserver {

// Who writes, as metadata.managedFields tells managers apart.
struct FieldManager {
  std::string name;
  bool is_apply = false;
  std::string api_version;
  std::string subresource;
  auto operator<=>(const FieldManager&) const = default;
};

// metadata.managedFields.
class ManagedFields {
 public:
  struct Owned {
    FieldSet fields;
    std::string time;
  };
  // A list that is malformed counts as none: it was not ours, and nobody shall be locked out by it.
  [[nodiscard]] static ManagedFields of(const json::Value& object);
  [[nodiscard]] bool empty() const { return managers_.empty(); }
  // Writes the list into metadata, or removes it if it is empty.
  void write_to(json::Value& object) const;

  // Everything that the object has belongs to `before-first-apply` from now on.
  void claim_all(const json::Value& object, const ResourceType& type, std::string_view now);

  // A write that is no apply: the manager takes what it changed.
  void record_write(const json::Value& old, const json::Value& now_object, const ResourceType& type,
                    const FieldManager& manager, std::string_view now);

  struct Conflict {
    FieldManager manager;
    std::vector<std::string> paths;
  };
  // What the object becomes if the manager applies the configuration, and the new list. With conflicts and without
  // `force` nothing is changed and the conflicts are returned.
  struct Applied {
    json::Value object;
    std::vector<Conflict> conflicts;
  };
  [[nodiscard]] Result<Applied> apply(const json::Value& live, const json::Value& configuration,
                                      const ResourceType& type, const FieldManager& manager, bool force,
                                      std::string_view now);

 private:
  void drop_empty();
  void merge_oldest();

  std::map<FieldManager, Owned> managers_;
};

}  // namespace basalt::apiserver
