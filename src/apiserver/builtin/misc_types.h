#pragma once

#include "apiserver/builtin/builtin_types.h"

namespace basalt::apiserver {

// The small kinds of the core group: events, endpoints, service accounts, quotas, limit ranges.
[[nodiscard]] TypeList misc_types();

}  // namespace basalt::apiserver
