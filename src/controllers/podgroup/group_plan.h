#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/object_key.h"

namespace basalt::controllers::podgroup {

// What a group is for: the controller of its pods, or a pod that has none. Work is keyed by it, so that everything
// about one group, from the first pod to the deletion, is done by one worker at a time.
struct GroupOwner {
  std::string ns;
  std::string kind;
  std::string name;
  std::string uid;
  bool operator==(const GroupOwner&) const = default;

  // Kinds, names and UIDs have no slash in them.
  [[nodiscard]] api::ObjectKey to_key() const { return {ns, kind + "/" + name + "/" + uid}; }
  static std::optional<GroupOwner> parse(const api::ObjectKey& key);
};

// A pod of the owner that asks for one of our schedulers.
struct ObservedMember {
  std::string name;
  std::string uid;
  enum class Group : std::uint8_t { None, Ours, Other } group = Group::None;  // what its annotation names
  bool is_finished = false;
  bool is_being_deleted = false;
  std::string revision;  // label controller-revision-hash
};

// A ReplicaSet or StatefulSet, as its cache shows it.
struct ObservedWorkload {
  std::int32_t replicas = 0;
  bool is_being_deleted = false;
  std::string update_revision;  // of a StatefulSet
};

struct ObservedGroup {
  bool exists = false;
  std::string uid;
  bool owner_is_workload = false;            // a kind that we watch; `workload` is then nothing if it is gone
  std::optional<ObservedWorkload> workload;  // the one with the owner's UID
  std::vector<ObservedMember> members;       // in the order of names
};

struct GroupPlan {
  bool delete_group = false;
  // The member that the group is made of (create) or compared with (refresh); an index of `members`.
  std::optional<std::size_t> create_from;
  bool create_only_if_owner_lives = false;  // the group was there and went: maybe because the owner went
  std::optional<std::size_t> refresh_from;
  std::vector<std::size_t> annotate;  // after the group exists
  bool operator==(const GroupPlan&) const = default;
  [[nodiscard]] bool is_empty() const { return *this == GroupPlan{}; }
};

[[nodiscard]] GroupPlan plan_group(const ObservedGroup& observed);

}  // namespace basalt::controllers::podgroup
