#include <signal.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ostream>

#include "api/duration.h"
#include "cli/cli.h"
#include "cli/go_flags.h"
#include "cli/up/run_lock.h"
#include "cli/up/up.h"
#include "rt/real_runtime.h"

namespace basalt::cli {
namespace {

constexpr rt::Duration kPause = std::chrono::milliseconds(20);

}  // namespace

int run_down(Invocation& invocation) {
  std::string folder = ".basalt";
  api::Duration timeout{std::chrono::seconds(60)};
  GoFlags flags(
      invocation.program,
      "Ends the cluster of a folder and the processes of its pods. What it holds stays: 'basalt up' goes on.");
  flags.text("data-dir", folder, "folder of the cluster", "FOLDER");
  flags.duration("timeout", timeout, "how long to wait for its end");
  if (const auto code = flags.parse_or_exit(invocation.arguments, invocation.out, invocation.err)) return *code;

  const auto running = running_process(folder);
  if (!running) {
    invocation.out << "No cluster runs in " << folder << ".\n";
    return kExitOk;
  }
  if (::kill(*running, SIGTERM) != 0) {
    invocation.err << invocation.program << ": process " << *running
                   << " cannot be told to end: " << std::strerror(errno) << "\n";
    return kExitFailed;
  }
  const auto runtime = rt::make_real_runtime();
  const rt::Instant deadline = runtime->now() + timeout.value;
  while (running_process(folder) == running) {
    if (runtime->now() >= deadline) {
      invocation.err << invocation.program << ": process " << *running << " has not ended after " << timeout.to_string()
                     << "; 'kill -9 " << *running << "' loses nothing that was acknowledged.\n";
      return kExitFailed;
    }
    runtime->sleep_for(kPause);
  }
  invocation.out << "The cluster in " << folder << " has ended.\n";
  return kExitOk;
}

}  // namespace basalt::cli
