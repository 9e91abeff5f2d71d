#pragma once

#include "api/time.h"
#include "apiserver/registry/api_server.h"
#include "json/value.h"

namespace basalt::apiserver {

// Whether a pod may be evicted now as far as PodDisruptionBudgets go, and if so, takes one of what its budget allows. A
// dry run takes nothing. TooManyRequests with the cause DisruptionBudget: not now.
[[nodiscard]] Done spend_disruption(ApiServer& server, const json::Value& pod, bool is_dry_run,
                                    const RequestContext& context, api::Time now);

}  // namespace basalt::apiserver
