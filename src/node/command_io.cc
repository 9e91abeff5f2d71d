#include "node/command_io.h"

#include <utility>

namespace basalt::node {

bool CommandIo::add_input(std::string_view bytes) {
  bool is_full = false;
  {
    rt::MutexLock lock(mutex_);
    if (is_input_over_ || is_input_dropped_ || !options_.has_input) return true;
    input_.append(bytes);
    is_full = input_.size() >= kInputBytesMax;
  }
  wake();
  return !is_full;
}

bool CommandIo::is_full() {
  rt::MutexLock lock(mutex_);
  return input_.size() >= kInputBytesMax;
}

void CommandIo::end_input() {
  {
    rt::MutexLock lock(mutex_);
    is_input_over_ = true;
  }
  wake();
}

void CommandIo::set_size(TerminalSize size) {
  {
    rt::MutexLock lock(mutex_);
    size_ = size;
  }
  wake();
}

void CommandIo::hold_output(bool is_held) {
  {
    rt::MutexLock lock(mutex_);
    if (is_output_held_ == is_held) return;
    is_output_held_ = is_held;
  }
  wake();
}

void CommandIo::wake() {
  std::function<void()> callback;
  {
    rt::MutexLock lock(mutex_);
    if (is_woken_) return;
    callback = wake_;
    is_woken_ = callback != nullptr;
  }
  if (callback) callback();
}

void CommandIo::attach(std::function<void()> wake) {
  rt::MutexLock lock(mutex_);
  wake_ = std::move(wake);
}

void CommandIo::detach() {
  std::function<void()> dropped;
  {
    rt::MutexLock lock(mutex_);
    dropped.swap(wake_);
  }
  drop_input();
}

CommandIo::Change CommandIo::take(bool wants_input) {
  Change change;
  bool was_full = false;
  {
    rt::MutexLock lock(mutex_);
    is_woken_ = false;
    change.is_output_held = is_output_held_;
    change.size = std::exchange(size_, std::nullopt);
    if (wants_input) {
      was_full = input_.size() >= kInputBytesMax;
      change.input = std::exchange(input_, {});
      change.is_input_over = is_input_over_;
    }
  }
  if (was_full && options_.on_room) options_.on_room();
  return change;
}

void CommandIo::drop_input() {
  bool was_full = false;
  {
    rt::MutexLock lock(mutex_);
    was_full = input_.size() >= kInputBytesMax;
    input_ = {};
    is_input_dropped_ = true;
  }
  if (was_full && options_.on_room) options_.on_room();
}

}  // namespace basalt::node
