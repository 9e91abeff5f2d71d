#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/commands.h"

namespace basalt::cli {

// Tells the process that waits at the other end of a pipe how the start went; without one, nobody is told.
class Readiness {
 public:
  Readiness() = default;
  explicit Readiness(int fd) : fd_(fd) {}
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;
  ~Readiness();

  void ready(std::string_view text) { tell('+', text); }
  void failed(std::string_view text) { tell('-', text); }

 private:
  void tell(char sign, std::string_view text);
  int fd_ = -1;
};

[[nodiscard]] std::string background_log_path(const std::string& folder);

// Runs `body` in a process of its own, apart from the terminal, with its output in the log of the folder. Returns, in
// the process that was called, when the body has told how its start went; prints what it said. To be called before any
// thread is started.
int detach(Invocation& invocation, const std::string& folder, const std::function<int(Readiness&)>& body);

}  // namespace basalt::cli
