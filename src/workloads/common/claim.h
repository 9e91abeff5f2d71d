#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/common/keyed_controller.h"

namespace basalt::workloads {

// Which objects belong to an owner: those that it controls and whose labels fit are kept, those that no longer fit are
// released, and those of nobody that fit are adopted.

[[nodiscard]] inline const api::StringMap& labels_of(const Pod& pod) { return pod.metadata.labels; }
[[nodiscard]] inline api::StringMap labels_of(const Object& object) {
  return strings_at(object.json, {"metadata", "labels"});
}
[[nodiscard]] inline bool is_going(const Pod& pod) { return pod.is_being_deleted() || pod.is_finished(); }
[[nodiscard]] inline bool is_going(const Object& object) { return object.metadata.is_being_deleted; }

struct ClaimRequest {
  const Object& owner;
  OwnerKind kind;
  kube::Resource owner_resource;
  kube::Resource resource;  // of what is claimed
  const api::Selector& selector;
  json::Value adoption;  // what else an adopted object gets: a strategic merge patch; null for nothing
};

// The owner as the API server has it is still the one we know, and stays: only then may it adopt.
[[nodiscard]] Result<bool> may_adopt(Writer& writer, const ClaimRequest& request, const rt::StopToken& stop);
[[nodiscard]] Writer::Patch adoption_of(const ClaimRequest& request, std::string_view name, std::string_view uid);
[[nodiscard]] Writer::Patch release_of(const ClaimRequest& request, std::string_view name, std::string_view uid);

template <class T>
Result<std::vector<std::shared_ptr<const T>>> claim(const kube::Informer<T>& cache, Writer& writer,
                                                    const ClaimRequest& request, const rt::StopToken& stop) {
  const Object& owner = request.owner;
  std::vector<std::shared_ptr<const T>> claimed;
  std::vector<Writer::Patch> patches;
  for (auto& item : cache.by_index(indexes::kByOwner, owner.metadata.uid)) {
    if (request.selector.matches(labels_of(*item)) || owner.metadata.is_being_deleted) {
      claimed.push_back(std::move(item));
    } else if (!is_going(*item)) {
      patches.push_back(release_of(request, item->metadata.name, item->metadata.uid));
    }
  }
  if (!owner.metadata.is_being_deleted) {
    std::vector<std::shared_ptr<const T>> orphans;
    for (auto& item : cache.by_index(indexes::kOrphans, owner.metadata.namespace_)) {
      if (!is_going(*item) && request.selector.matches(labels_of(*item))) orphans.push_back(std::move(item));
    }
    if (!orphans.empty()) {
      BASALT_TRY(const bool allowed, may_adopt(writer, request, stop));
      for (auto& item : orphans) {
        if (!allowed) break;
        patches.push_back(adoption_of(request, item->metadata.name, item->metadata.uid));
        claimed.push_back(std::move(item));
      }
    }
  }
  BASALT_TRY_DONE(writer.patch_all(owner.key(), request.resource, patches, stop));
  return claimed;
}

}  // namespace basalt::workloads
