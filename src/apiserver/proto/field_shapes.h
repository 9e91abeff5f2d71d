#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apiserver/proto/tables.h"
#include "base/result.h"
#include "json/value.h"

namespace basalt::apiserver::proto {

// The message of a built-in kind; null if the tables do not have it. The pointer is valid for ever.
[[nodiscard]] const MessageFact* message_of_kind(std::string_view api_version, std::string_view kind);

// What a typed decoder does to a JSON object of a built-in kind: fields that the kind does not have are dropped (and
// their paths added to `unknown`, if given), and a value of the wrong type is an error that names its path and both
// types. Null fits everywhere. Pure; any thread.
[[nodiscard]] Done fit_to_message(const MessageFact& message, json::Value& object, std::vector<std::string>* unknown);

}  // namespace basalt::apiserver::proto
