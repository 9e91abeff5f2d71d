#include "rt/signals.h"

#include <csignal>

#include <pthread.h>

#include "base/check.h"

namespace basalt::rt {
namespace {

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

void block_stop_signals() {
  const sigset_t set = stop_signals();
  BASALT_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  std::signal(SIGPIPE, SIG_IGN);
}

int wait_for_stop_signal() {
  const sigset_t set = stop_signals();
  int number = 0;
  BASALT_CHECK(sigwait(&set, &number) == 0);
  return number;
}

}  // namespace basalt::rt
