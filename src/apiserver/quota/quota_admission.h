#pragma once

#include <memory>

#include "apiserver/quota/quota_ledger.h"
#include "apiserver/registry/api_server.h"

namespace basalt::apiserver {

// Refuses what would exceed a ResourceQuota of its namespace, and charges the rest. Runs behind all other hooks, so
// that what they refuse is not charged.
[[nodiscard]] std::shared_ptr<AdmissionHook> quota_admission(rt::Runtime& runtime, ApiServer& server,
                                                             std::shared_ptr<QuotaLedger> ledger);

// Writes `used` (and spec.hard as status.hard) to the status of a quota as it was read, if that differs from what is
// there. Conflict if it has changed since.
Done write_quota_status(kube::Client& client, const json::Value& quota, const api::ResourceList& used,
                        const rt::StopToken& stop);

}  // namespace basalt::apiserver
