#pragma once

#include "apiserver/builtin/builtin_types.h"

namespace basalt::apiserver {

// Who may do what (RBAC), and who is asked before (admission webhooks and policies).
[[nodiscard]] TypeList access_types();

}  // namespace basalt::apiserver
