#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/store/entry.h"
#include "base/result.h"

namespace basalt::apiserver {

// Where an object is, and which one it is.
struct ObjectRef {
  ResourceId resource{};
  std::string ns;
  std::string name;
  std::string uid;
  auto operator<=>(const ObjectRef&) const = default;
};

struct OwnerRef {
  std::string api_version;
  std::string kind;
  std::string name;
  std::string uid;
  bool blocks_deletion = false;
};

// What the garbage collector reads of an object, taken from its text without a tree.
struct CollectedMetadata {
  std::string uid;
  std::vector<OwnerRef> owners;
  std::vector<std::string> finalizers;
  bool is_being_deleted = false;
};
[[nodiscard]] Result<CollectedMetadata> read_collected_metadata(std::string_view object);

// Who depends on whom, by UID. Holds only objects that have owners. One thread.
class OwnerIndex {
 public:
  void set(const ObjectRef& object, const std::vector<OwnerRef>& owners);
  void remove(const std::string& uid);
  [[nodiscard]] std::vector<ObjectRef> dependents_of(const std::string& owner_uid) const;
  [[nodiscard]] std::vector<ObjectRef> blocking_dependents_of(const std::string& owner_uid) const;
  [[nodiscard]] std::vector<ObjectRef> all() const;
  [[nodiscard]] std::vector<std::string> owners_of(const std::string& uid) const;
  [[nodiscard]] std::size_t size() const { return owned_.size(); }

 private:
  struct Owned {
    ObjectRef object;
    std::vector<std::pair<std::string, bool>> owners;  // UID, blocks its deletion
  };
  std::map<std::string, Owned> owned_;                       // by the object's UID
  std::map<std::string, std::set<std::string>> dependents_;  // owner's UID -> UIDs
};

}  // namespace basalt::apiserver
