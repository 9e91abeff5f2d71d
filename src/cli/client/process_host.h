#pragma once

#include <memory>

#include "cli/client/host.h"

namespace basalt::cli {

// The process: its environment, files, terminal, signals, and the cluster of its kubeconfig. From its construction on
// SIGINT, SIGTERM and SIGHUP interrupt the command; a second one that nobody has asked for ends the process with 130.
// Make it before any thread is started, and only one.
[[nodiscard]] std::unique_ptr<Host> make_process_host();

}  // namespace basalt::cli
