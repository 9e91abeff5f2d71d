#pragma once

#include "cli/commands.h"

namespace basalt::cli {

// `basalt webhooks`, also `vc-webhook-manager`.
int run_webhooks(Invocation& invocation);

}  // namespace basalt::cli
