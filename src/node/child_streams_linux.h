#pragma once

#include <sys/types.h>

#include <utility>

#include "base/result.h"
#include "node/command_io.h"

namespace basalt::node {

// An open file of the system, closed with it.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  ~Descriptor() { close(); }
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  void close();

 private:
  int number_;
};

// The two ends of a child's standard streams: pipes, or a pseudo terminal for all of them. Ours do not block.
struct ChildStreams {
  Descriptor out;
  Descriptor err;  // closed for a terminal
  Descriptor in;   // closed if the child gets no input

  // The child's, until it has them.
  Descriptor child_in;   // closed: there is no input
  Descriptor child_out;  // the terminal, if there is one
  Descriptor child_err;
  bool is_terminal = false;

  [[nodiscard]] int child_in_fd() const { return is_terminal ? child_out.get() : child_in.get(); }
  [[nodiscard]] int child_err_fd() const { return is_terminal ? child_out.get() : child_err.get(); }
  void close_child_ends();
};

// `io` may be null: no input, no terminal.
[[nodiscard]] Result<ChildStreams> open_child_streams(const CommandIo* io);

// Of the terminal behind one of its descriptors; programs on it are told by SIGWINCH.
void set_terminal_size(int fd, TerminalSize size);

// Kills whatever runs in the session that this process leads: the jobs of a shell have groups of their own. The leader
// is not yet reaped, so that its number is nobody else's.
void kill_session(pid_t leader);

}  // namespace basalt::node
