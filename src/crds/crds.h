#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kube/client.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::crds {

// The CRDs of all kinds that Basalt knows, as YAML.
[[nodiscard]] std::span<const std::string_view> manifests();

// Creates those that are missing, updates the specification of those that differ, and returns when all are
// established. Safe to repeat; fails if one is not served within `timeout`.
[[nodiscard]] Done install(rt::Runtime& runtime, kube::Client& client, const rt::StopToken& stop,
                           rt::Duration timeout = std::chrono::seconds(30));
// Only those of these plurals ("jobs", "podgroups"), for tests that start many clusters.
[[nodiscard]] Done install_some(rt::Runtime& runtime, kube::Client& client, const std::vector<std::string>& plurals);

// The kinds of Karmada that its stand-in (src/federation) stores on the host. Never for a real Karmada.
[[nodiscard]] std::span<const std::string_view> karmada_manifests();
[[nodiscard]] Done install_karmada(rt::Runtime& runtime, kube::Client& client, const rt::StopToken& stop,
                                   rt::Duration timeout = std::chrono::seconds(30));

}  // namespace basalt::crds
