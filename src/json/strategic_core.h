#pragma once

#include <string_view>

#include "json/strategic_merge.h"

namespace basalt::json {

// The strategies of a built-in kind, by API group ("" for core) and kind. Null for groups that are not Kubernetes' own:
// custom resources take no strategic merge patch. The schemas live as long as the process.
[[nodiscard]] const StrategicSchema* core_strategic_schema(std::string_view group, std::string_view kind);

}  // namespace basalt::json
