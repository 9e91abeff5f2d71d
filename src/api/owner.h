#pragma once

#include <string_view>

#include "api/fwd.h"

// Who owns an object, and who must act before it goes. Identity is the UID: an owner of the same name with another UID
// is somebody else.

namespace basalt::api {

struct KindInfo;

// The owner that manages the object; null if there is none. A pointer into `meta`.
[[nodiscard]] const meta::OwnerReference* controller_of(const meta::ObjectMeta& meta);
[[nodiscard]] bool is_controlled_by(const meta::ObjectMeta& meta, std::string_view owner_uid);
[[nodiscard]] bool has_owner(const meta::ObjectMeta& meta, std::string_view owner_uid);

// What a controller puts on the objects it makes: controller and blockOwnerDeletion are true.
[[nodiscard]] meta::OwnerReference controller_reference(const KindInfo& owner_kind, const meta::ObjectMeta& owner);

[[nodiscard]] bool has_finalizer(const meta::ObjectMeta& meta, std::string_view finalizer);
// Both return whether anything changed.
bool add_finalizer(meta::ObjectMeta& meta, std::string_view finalizer);
bool remove_finalizer(meta::ObjectMeta& meta, std::string_view finalizer);

}  // namespace basalt::api
