#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "api/object_key.h"
#include "scheduler/pod.h"

namespace basalt::scheduler {

// Which pod groups belong to another scheduler: those whose pods name it. A pod group does not say whose it is, and two
// schedulers that both write its status would take each other's words back for ever. A group without pods is
// everybody's; one with pods of several schedulers (a mistake) belongs to the one whose name comes first, so that all
// agree. One entry for each grouped pod of others, none if there is no other scheduler. One thread.
class ForeignGroups {
 public:
  explicit ForeignGroups(std::vector<std::string> own_names);

  // The latest state of a pod; null: it is gone.
  void note(const api::ObjectKey& key, const SchedulablePod* pod);
  // Whether the group belongs to somebody else, if it has pods of ours or not.
  [[nodiscard]] bool is_foreign(const api::ObjectKey& group, bool has_own_pods) const;
  [[nodiscard]] bool empty() const { return pods_.empty(); }
  // Groups whose answer may have changed since the last call.
  [[nodiscard]] std::unordered_set<api::ObjectKey> take_changed() { return std::exchange(changed_, {}); }

 private:
  struct Member {
    api::ObjectKey group;
    std::string scheduler;
  };
  std::vector<std::string> own_names_;  // sorted
  std::unordered_map<api::ObjectKey, Member> pods_;
  std::unordered_map<api::ObjectKey, std::map<std::string, std::size_t>> groups_;  // pods by their scheduler
  std::unordered_set<api::ObjectKey> changed_;
};

}  // namespace basalt::scheduler
