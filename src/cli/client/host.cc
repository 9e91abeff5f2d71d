#include "cli/client/host.h"

namespace basalt::cli {

Interrupts::Interrupts(rt::Runtime& runtime) : runtime_(runtime), source_(std::make_shared<rt::StopSource>(runtime)) {}

rt::StopToken Interrupts::token() {
  const rt::MutexLock lock(mutex_);
  return source_->token();
}

bool Interrupts::interrupt() {
  std::shared_ptr<rt::StopSource> source;
  {
    const rt::MutexLock lock(mutex_);
    source = source_;
  }
  if (source->token().stop_requested()) return false;
  source->request_stop();
  return true;
}

void Interrupts::rearm() {
  auto source = std::make_shared<rt::StopSource>(runtime_);
  const rt::MutexLock lock(mutex_);
  source_.swap(source);
}

}  // namespace basalt::cli
