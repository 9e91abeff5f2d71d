#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "json/value.h"

namespace basalt::apiserver::proto {

// The object as a body of kMediaType: what a client that takes nothing else is sent. By its apiVersion and kind.
// NotAcceptable if the kind has no protobuf form here (custom resources have none), InternalError,
// with the message and the field, if a value is not of the kind's shape, which nothing stored is.
[[nodiscard]] Result<std::string> encode_object(const json::Value& object);

// A list of objects of a kind, given as JSON texts, which are read one after the other.
[[nodiscard]] Result<std::string> encode_list(std::string_view api_version, std::string_view item_kind,
                                              const json::Value& metadata,
                                              std::span<const std::shared_ptr<const std::string>> items);

// An event of a watch in the same form: its length in four bytes, then {1: type, 2: {1: the object's body}}.
[[nodiscard]] Result<std::string> encode_watch_frame(std::string_view type, const json::Value& object);

}  // namespace basalt::apiserver::proto
