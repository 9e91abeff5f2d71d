#pragma once

#include <string_view>

#include "base/result.h"
#include "kube/client.h"
#include "rt/stop.h"
#include "webhooks/review.h"

namespace basalt::webhooks {

// Writes the authority into every entry of the hook's webhook configuration, if it is not there yet. NotFound if there
// is no such configuration (they come with the installation, never from here). Conflicts are tried again.
// True if something was written.
[[nodiscard]] Result<bool> register_ca_bundle(kube::Client& client, const Hook& hook, std::string_view ca_pem,
                                              const rt::StopToken& stop);

}  // namespace basalt::webhooks
