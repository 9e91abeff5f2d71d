#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rt/mutex.h"

namespace basalt::node {

struct TerminalSize {
  std::uint16_t columns = 0;
  std::uint16_t rows = 0;
};

// What a command takes from its client while it runs: input, the size of its terminal, and how fast it may print.
// Shared by who serves the client and the ProcessRunner; each side calls only its own functions, from any thread.
// Callbacks are called without a lock and must not wait.
//
// Limits: kInputBytesMax wait here, and as much again is on its way into the command. The client's side is told
// when they do (add_input() is false) and when there is room again (on_room); what it adds meanwhile is kept, so it
// must hold its client. Input for a command that has closed its own end is dropped.
class CommandIo {
 public:
  static constexpr std::size_t kInputBytesMax = 1u << 20;

  struct Options {
    bool has_input = false;     // else it is empty
    bool has_terminal = false;  // which is then the input, the output and the errors' output
    std::function<void()> on_room;
  };
  explicit CommandIo(Options options) : options_(std::move(options)) {}

  [[nodiscard]] bool has_input() const { return options_.has_input; }
  [[nodiscard]] bool has_terminal() const { return options_.has_terminal; }

  // The client's side.
  bool add_input(std::string_view bytes);  // false: no more until on_room
  [[nodiscard]] bool is_full();
  void end_input();
  void set_size(TerminalSize size);
  void hold_output(bool is_held);  // while held the command is not read, so that it waits

  // The runner's side. `wake` is called, at most once until the next take(), when something has changed.
  void attach(std::function<void()> wake);
  void detach();  // the command is over
  struct Change {
    std::string input;
    bool is_input_over = false;  // nothing follows `input`
    bool is_output_held = false;
    std::optional<TerminalSize> size;  // a new one
  };
  // With `wants_input` false the input stays here.
  [[nodiscard]] Change take(bool wants_input);
  void drop_input();  // the command does not read it any more

 private:
  void wake();

  const Options options_;

  rt::Mutex mutex_;
  std::string input_ BASALT_GUARDED_BY(mutex_);
  bool is_input_over_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_input_dropped_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_output_held_ BASALT_GUARDED_BY(mutex_) = false;
  std::optional<TerminalSize> size_ BASALT_GUARDED_BY(mutex_);
  bool is_woken_ BASALT_GUARDED_BY(mutex_) = false;
  std::function<void()> wake_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::node
