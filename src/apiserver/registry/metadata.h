#pragma once

#include <string>
#include <string_view>

#include "apiserver/registry/resource_type.h"
#include "base/result.h"
#include "json/value.h"

// What is the same for the metadata of all kinds.

namespace basalt::apiserver {

// The finalizers by which the garbage collector is asked to act.
inline constexpr std::string_view kForegroundFinalizer = "foregroundDeletion";
inline constexpr std::string_view kOrphanFinalizer = "orphan";

// Types of the members of metadata, as a decoder would check them. Makes metadata an object if it is absent.
Done check_metadata_types(json::Value& object);

void validate_metadata(const ResourceType& type, const json::Value& object, Causes& causes);
void validate_metadata_update(const ResourceType& type, const json::Value& object, const json::Value& old,
                              Causes& causes);

// metadata.<key> as text, "" if absent.
[[nodiscard]] std::string_view metadata_text(const json::Value& object, std::string_view key);
[[nodiscard]] bool has_finalizers(const json::Value& object);
[[nodiscard]] bool has_finalizer(const json::Value& object, std::string_view finalizer);
[[nodiscard]] bool is_being_deleted(const json::Value& object);

// Keeps from `old` what no client may change: uid, creation and deletion times, generation, self link.
void keep_system_metadata(json::Value& object, const json::Value& old);

}  // namespace basalt::apiserver
