// Kinds of the core group.

#include "apiserver/builtin/builtin_types.h"
#include "apiserver/builtin/config_strategies.h"
#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/misc_types.h"
#include "apiserver/builtin/namespace_strategy.h"
#include "apiserver/builtin/node_strategy.h"
#include "apiserver/builtin/pod_strategy.h"
#include "apiserver/builtin/service_strategy.h"
#include "apiserver/builtin/volume_strategies.h"
#include "apiserver/builtin/workload_rules.h"

namespace basalt::apiserver {
namespace {

std::shared_ptr<const ResourceType> namespace_type() {
  ResourceType type = basic_type("", "v1", "namespaces", "Namespace", false);
  type.short_names = {"ns"};
  type.has_status = true;
  type.name_rule = NameRule::Label;
  type.other_subresources = {"finalize"};
  type.verbs = {"create", "delete", "get", "list", "patch", "update", "watch"};
  type.strategy = std::make_shared<NamespaceStrategy>();
  type.columns = {name_column(), column("Status", "string", "Active or Terminating."), age_column()};
  return std::make_shared<const ResourceType>(std::move(type));
}

}  // namespace

TypeList core_types() {
  TypeList types = {pod_type(), node_type(), namespace_type(), service_type()};
  for (TypeList part : {config_types(), volume_types(), misc_types(), event_types(), core_workload_types()}) {
    for (auto& type : part) types.push_back(std::move(type));
  }
  return types;
}

}  // namespace basalt::apiserver
