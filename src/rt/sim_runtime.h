#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "rt/runtime.h"

namespace basalt::rt {

// A whole program in one operating-system thread and in virtual time. Threads of the simulation are fibers; exactly one
// runs, and it gives the baton away only at a wait or yield, to a fiber that a seeded choice picks among the runnable.
// When none is runnable, time jumps to the next deadline. So a run is a pure function of the seed and the code.
//
// A wait while a Mutex is held (other than the one a condition releases) ends the process with the place of the wait.
// If nothing can ever run again, the run ends with a report that names every thread and the place where it waits.
//
// A run that ends early leaves its fibers where they stand: their stacks are dropped without running destructors, and
// what they own is leaked on purpose. was_abandoned() is true from then on.
//
// Everything here is for the thread that called run(), or the one that will. No exception may leave a fiber's body.
class SimRuntime : public Runtime {
 public:
  // One handing over of the baton: `thread` goes on at `place`, where it had waited.
  struct Switch {
    std::string_view thread;
    std::uint64_t thread_id = 0;
    std::source_location place;
    Instant time;
  };
  struct Options {
    std::uint64_t seed = 1;
    WallTime start = WallTime(std::chrono::seconds(1'767'225'600));  // 2026-01-01T00:00:00Z
    std::uint64_t switches_max = 500'000'000;                        // a run that needs more is reported as endless
    Duration time_max = std::chrono::hours(24 * 365);
    std::size_t stack_bytes = 256 * 1024;  // times four under a sanitizer, whose frames are larger
    // Before each switch, with this chance, a wait on a condition ends without reason, as it may on the operating
    // system.
    double spurious_wakeups = 0;
    std::function<void(const Switch&)> on_switch;  // for debugging: sees the whole schedule; may not wait
  };
  static std::unique_ptr<SimRuntime> make(Options options);

  struct Report {
    bool completed = false;
    std::string problem;  // "" if completed; else deadlock, limit, with one line a thread: name, state, place
    std::uint64_t switches = 0;
    Duration virtual_time{};
    std::uint64_t trace_hash = 0;
  };
  // Runs `main` as the first fiber until it returns. Every fiber it started must have ended or been joined by then;
  // otherwise the report says which did not. Called once, from a plain thread.
  virtual Report run(std::function<void()> main) = 0;

  // From inside: lets all others run until none is runnable without time passing.
  virtual void settle(std::source_location where = std::source_location::current()) = 0;
  [[nodiscard]] virtual std::uint64_t seed() const = 0;
  [[nodiscard]] virtual std::uint64_t switches() const = 0;
  // Of every switch so far: which thread, at which place, when. Equal for equal seeds and code.
  [[nodiscard]] virtual std::uint64_t trace_hash() const = 0;
  // One line a live thread: name, running/runnable/waiting, place, deadline.
  [[nodiscard]] virtual std::vector<std::string> dump() const = 0;
};

}  // namespace basalt::rt
