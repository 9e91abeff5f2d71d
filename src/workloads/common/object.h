#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "api/fwd.h"
#include "api/labels.h"
#include "api/object_key.h"
#include "api/string_map.h"
#include "api/time.h"
#include "base/result.h"
#include "json/value.h"
#include "kube/client.h"

namespace basalt::workloads {

// A cached object whose spec is carried on rather than looked into: its identity as values, the whole of it as JSON.
// Immutable once cached.
struct Object {
  struct Metadata {
    std::string name;
    std::string namespace_;
    std::string uid;
    std::string resource_version;
    std::string owner_uid;  // of the owner with `controller: true`, as the next two; "" if there is none
    std::string owner_kind;
    std::string owner_name;
    api::Time creation;
    std::int64_t generation = 0;
    bool is_being_deleted = false;
  };
  Metadata metadata;
  json::Value json;

  [[nodiscard]] api::ObjectKey key() const { return {metadata.namespace_, metadata.name}; }
};
void decode(json::Reader& reader, Object& object);
[[nodiscard]] Result<Object> object_of(const kube::Response& response);

using ObjectPtr = std::shared_ptr<const Object>;

using Path = std::initializer_list<std::string_view>;

// What is at a path, or the fallback if it is absent or something else.
[[nodiscard]] std::int64_t int_at(const json::Value& value, Path path, std::int64_t fallback = 0);
[[nodiscard]] bool flag_at(const json::Value& value, Path path, bool fallback = false);
[[nodiscard]] api::Time time_at(const json::Value& value, Path path);
[[nodiscard]] const json::Array& list_at(const json::Value& value, Path path);
[[nodiscard]] const json::Object& map_at(const json::Value& value, Path path);
// {} if absent.
[[nodiscard]] const json::Value& object_at(const json::Value& value, Path path);
// Labels, annotations: members that are strings.
[[nodiscard]] api::StringMap strings_at(const json::Value& value, Path path);
[[nodiscard]] std::string_view annotation_of(const json::Value& object, std::string_view name);

// spec.selector of a workload. An absent one selects nothing.
[[nodiscard]] Result<api::Selector> selector_at(const json::Value& value, Path path);

// A reference to an owner that controls.
struct OwnerKind {
  std::string_view api_version;
  std::string_view kind;
};
inline constexpr OwnerKind kDeploymentKind{"apps/v1", "Deployment"};
inline constexpr OwnerKind kReplicaSetKind{"apps/v1", "ReplicaSet"};
inline constexpr OwnerKind kReplicationControllerKind{"v1", "ReplicationController"};
inline constexpr OwnerKind kStatefulSetKind{"apps/v1", "StatefulSet"};
inline constexpr OwnerKind kJobKind{"batch/v1", "Job"};
inline constexpr OwnerKind kCronJobKind{"batch/v1", "CronJob"};
inline constexpr OwnerKind kDaemonSetKind{"apps/v1", "DaemonSet"};
inline constexpr OwnerKind kDisruptionBudgetKind{"policy/v1", "PodDisruptionBudget"};
inline constexpr OwnerKind kServiceKind{"v1", "Service"};
// spec.selector of an object of this kind: a ReplicationController's is a plain map of labels.
[[nodiscard]] Result<api::Selector> selector_of(const Object& object, const OwnerKind& kind);
[[nodiscard]] json::Value controller_reference(const OwnerKind& kind, const Object& owner);

// The condition of a type in a list of them, null if there is none.
[[nodiscard]] const json::Value* find_condition(const json::Value& status, std::string_view type);
// Puts it in, in place of the one of its type; the time of the transition stays while the status does.
struct Condition {
  std::string_view type;
  std::string_view status;
  std::string_view reason;
  std::string message;
};
void set_condition(json::Value& status, const Condition& condition, api::Time now);
void remove_condition(json::Value& status, std::string_view type);

}  // namespace basalt::workloads
