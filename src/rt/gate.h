#pragma once

#include <source_location>

#include "rt/runtime.h"

namespace basalt::rt {

// Guards something that must not go away while somebody is inside: enter() until close(), which refuses newcomers and
// waits for those inside to leave.
class Gate {
 public:
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept : gate_(other.gate_) { other.gate_ = nullptr; }
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { leave(); }
    explicit operator bool() const { return gate_ != nullptr; }
    void leave();

   private:
    friend class Gate;
    explicit Hold(Gate* gate) : gate_(gate) {}
    Gate* gate_ = nullptr;
  };

  explicit Gate(Runtime& runtime);
  ~Gate();                     // checks that nobody is inside
  [[nodiscard]] Hold enter();  // empty if closed
  void close(std::source_location where = std::source_location::current());

 private:
  Runtime& runtime_;
  Mutex mutex_;
  Condition empty_;
  int inside_ BASALT_GUARDED_BY(mutex_) = 0;
  bool closed_ BASALT_GUARDED_BY(mutex_) = false;
};

}  // namespace basalt::rt
