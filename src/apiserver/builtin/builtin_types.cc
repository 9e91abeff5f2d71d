#include "apiserver/builtin/builtin_types.h"

#include <utility>

#include "apiserver/builtin/misc_types.h"
#include "apiserver/registry/api_server.h"
#include "apiserver/registry/generic_strategy.h"
#include "base/strings.h"

namespace basalt::apiserver {

ResourceType basic_type(std::string group, std::string version, std::string plural, std::string kind, bool namespaced) {
  ResourceType type;
  type.group = std::move(group);
  type.version = std::move(version);
  type.storage_version = type.version;
  type.plural = std::move(plural);
  type.singular = base::to_lower_ascii(kind);
  type.list_kind = kind + "List";
  type.kind = std::move(kind);
  type.namespaced = namespaced;
  type.verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
  type.columns = {{"Name", "string", "name", "Name of the object, unique in its namespace.", "", 0},
                  {"Age", "string", "", "How long ago the object was created.", "", 0}};
  type.has_generation = false;
  type.strategy = std::make_shared<GenericStrategy>(false);
  return type;
}

std::shared_ptr<const TypeTable> builtin_types() {
  TypeList all;
  for (TypeList part : {core_types(), workload_types(), cluster_types(), flow_types(), stored_types()}) {
    for (auto& type : part) all.push_back(std::move(type));
  }
  return TypeTable().with(std::move(all));
}

}  // namespace basalt::apiserver
