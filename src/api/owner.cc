#include "api/owner.h"

#include <algorithm>

#include "api/gen/meta.h"
#include "api/kind_info.h"

namespace basalt::api {

const meta::OwnerReference* controller_of(const meta::ObjectMeta& meta) {
  for (const meta::OwnerReference& owner : meta.owner_references) {
    if (owner.controller.value_or(false)) return &owner;
  }
  return nullptr;
}

bool is_controlled_by(const meta::ObjectMeta& meta, std::string_view owner_uid) {
  const meta::OwnerReference* owner = controller_of(meta);
  return owner != nullptr && !owner_uid.empty() && owner->uid == owner_uid;
}

bool has_owner(const meta::ObjectMeta& meta, std::string_view owner_uid) {
  return !owner_uid.empty() && std::any_of(meta.owner_references.begin(), meta.owner_references.end(),
                                           [&](const meta::OwnerReference& owner) { return owner.uid == owner_uid; });
}

meta::OwnerReference controller_reference(const KindInfo& owner_kind, const meta::ObjectMeta& owner) {
  meta::OwnerReference reference;
  reference.api_version = owner_kind.api_version();
  reference.kind = owner_kind.kind;
  reference.name = owner.name;
  reference.uid = owner.uid;
  reference.controller = true;
  reference.block_owner_deletion = true;
  return reference;
}

bool has_finalizer(const meta::ObjectMeta& meta, std::string_view finalizer) {
  return std::find(meta.finalizers.begin(), meta.finalizers.end(), finalizer) != meta.finalizers.end();
}

bool add_finalizer(meta::ObjectMeta& meta, std::string_view finalizer) {
  if (has_finalizer(meta, finalizer)) return false;
  meta.finalizers.emplace_back(finalizer);
  return true;
}

bool remove_finalizer(meta::ObjectMeta& meta, std::string_view finalizer) {
  return std::erase(meta.finalizers, finalizer) > 0;
}

}  // namespace basalt::api
