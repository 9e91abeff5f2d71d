#pragma once

#include "apiserver/builtin/builtin_types.h"

namespace basalt::apiserver {

// The small kinds of the core group: endpoints, service accounts, quotas, limit ranges.
[[nodiscard]] TypeList misc_types();
// Events, as the core group and as events.k8s.io show them (event_types.cc).
[[nodiscard]] TypeList event_types();
// How the server shares its time among clients: flow schemas and priority levels (flow_types.cc).
[[nodiscard]] TypeList flow_types();
// Kinds that are kept for those who read them, and that nothing here acts on (stored_types.cc).
[[nodiscard]] TypeList stored_types();

}  // namespace basalt::apiserver
