#include "apiserver/system/owner_index.h"

#include "json/reader.h"

namespace basalt::apiserver {
namespace {

OwnerRef read_owner(json::Reader& reader) {
  OwnerRef owner;
  if (!reader.begin_object()) return owner;
  std::string_view key;
  while (reader.next_member(key)) {
    if (key == "apiVersion") {
      reader.read_string(owner.api_version);
    } else if (key == "kind") {
      reader.read_string(owner.kind);
    } else if (key == "name") {
      reader.read_string(owner.name);
    } else if (key == "uid") {
      reader.read_string(owner.uid);
    } else if (key == "blockOwnerDeletion") {
      if (!reader.consume_null()) owner.blocks_deletion = reader.read_bool();
    } else {
      reader.skip();
    }
  }
  return owner;
}

void read_metadata(json::Reader& reader, CollectedMetadata& metadata) {
  if (!reader.begin_object()) return;
  std::string_view key;
  while (reader.next_member(key)) {
    if (key == "uid") {
      reader.read_string(metadata.uid);
    } else if (key == "deletionTimestamp") {
      metadata.is_being_deleted = !reader.consume_null();
      if (metadata.is_being_deleted) reader.skip();
    } else if (key == "finalizers") {
      if (reader.consume_null() || !reader.begin_array()) continue;
      while (reader.next_element()) metadata.finalizers.push_back(reader.read_string());
    } else if (key == "ownerReferences") {
      if (reader.consume_null() || !reader.begin_array()) continue;
      while (reader.next_element()) metadata.owners.push_back(read_owner(reader));
    } else {
      reader.skip();
    }
  }
}

}  // namespace

Result<CollectedMetadata> read_collected_metadata(std::string_view object) {
  CollectedMetadata metadata;
  json::Reader reader(object);
  if (reader.begin_object()) {
    std::string_view key;
    while (reader.next_member(key)) {
      if (key == "metadata") {
        read_metadata(reader, metadata);
        // Keys are sorted and metadata stands before spec and status: the rest need not be read.
        if (reader.ok()) return metadata;
      } else {
        reader.skip();
      }
    }
  }
  BASALT_TRY_DONE(reader.finish());
  return metadata;
}

void OwnerIndex::set(const ObjectRef& object, const std::vector<OwnerRef>& owners) {
  if (owners.empty()) {
    remove(object.uid);
    return;
  }
  remove(object.uid);
  Owned& owned = owned_[object.uid];
  owned.object = object;
  for (const OwnerRef& owner : owners) {
    owned.owners.emplace_back(owner.uid, owner.blocks_deletion);
    dependents_[owner.uid].insert(object.uid);
  }
}

void OwnerIndex::remove(const std::string& uid) {
  const auto it = owned_.find(uid);
  if (it == owned_.end()) return;
  for (const auto& [owner, blocks] : it->second.owners) {
    const auto dependents = dependents_.find(owner);
    if (dependents == dependents_.end()) continue;
    dependents->second.erase(uid);
    if (dependents->second.empty()) dependents_.erase(dependents);
  }
  owned_.erase(it);
}

std::vector<ObjectRef> OwnerIndex::dependents_of(const std::string& owner_uid) const {
  std::vector<ObjectRef> result;
  const auto it = dependents_.find(owner_uid);
  if (it == dependents_.end()) return result;
  for (const std::string& uid : it->second) result.push_back(owned_.at(uid).object);
  return result;
}

std::vector<ObjectRef> OwnerIndex::blocking_dependents_of(const std::string& owner_uid) const {
  std::vector<ObjectRef> result;
  for (ObjectRef& object : dependents_of(owner_uid)) {
    for (const auto& [owner, blocks] : owned_.at(object.uid).owners) {
      if (owner == owner_uid && blocks) result.push_back(object);
    }
  }
  return result;
}

std::vector<ObjectRef> OwnerIndex::all() const {
  std::vector<ObjectRef> result;
  result.reserve(owned_.size());
  for (const auto& [uid, owned] : owned_) result.push_back(owned.object);
  return result;
}

std::vector<std::string> OwnerIndex::owners_of(const std::string& uid) const {
  std::vector<std::string> result;
  const auto it = owned_.find(uid);
  if (it == owned_.end()) return result;
  for (const auto& [owner, blocks] : it->second.owners) result.push_back(owner);
  return result;
}

}  // namespace basalt::apiserver
