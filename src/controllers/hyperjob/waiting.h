#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "api/gen/karmada_binding.h"
#include "api/gen/training.h"
#include "api/time.h"
#include "controllers/hyperjob/problems.h"

namespace basalt::controllers::hyperjob {

// Why a job does not run although everything of ours is in place: what Karmada says. Pure.

// A binding is suspended for a moment as a matter of course; beyond this it is told.
inline constexpr std::int64_t kSuspensionToldSeconds = 30;

// From the binding of one job; nothing if it is on its way. `job_uid` tells a binding of an earlier job of the name.
[[nodiscard]] std::optional<Problem> waiting_problem(const api::karmada::ResourceBinding& binding,
                                                     std::string_view job_uid, api::Time now);

// Names in clusterNames that no cluster has.
[[nodiscard]] std::vector<Problem> unknown_clusters(const api::training::HyperJobSpec& spec,
                                                    const std::function<bool(std::string_view)>& is_known);

}  // namespace basalt::controllers::hyperjob
