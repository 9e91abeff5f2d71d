#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/registry/resource_type.h"
#include "apiserver/store/entry.h"
#include "base/result.h"
#include "json/value.h"
#include "kube/client.h"
#include "rt/stop.h"

// Between objects as they are stored and as a version serves them.

namespace basalt::apiserver {

// The text of an object without its apiVersion and kind, as items of a list of a built-in kind are sent.
[[nodiscard]] std::string without_type(std::string_view text, const ResourceType& type);

// Whether only the webhook of its CRD can turn the stored object into one of this version: it was stored in another.
[[nodiscard]] bool needs_converter(const ResourceType& type, const Entry& entry);

// The object's text in this version. Asks nobody: for what needs no converter.
[[nodiscard]] Bytes present_plain(const ResourceType& type, const Entry& entry);
// The same for any object; a CRD's webhook is asked, on this thread, where it must be.
[[nodiscard]] Result<Bytes> present(const ResourceType& type, const Entry& entry);
// Of many, with one question for all of them (or a few, if they are large).
[[nodiscard]] Result<std::vector<Bytes>> present_all(const ResourceType& type, std::span<const EntryRef> entries,
                                                     const rt::StopToken& stop = {});

// The stored object as one of this version, to work on.
[[nodiscard]] Result<json::Value> from_storage(const ResourceType& type, const Entry& entry);
// And back, before it is written.
[[nodiscard]] Done to_storage(const ResourceType& type, json::Value& object);

}  // namespace basalt::apiserver
