#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/sanitizers.h"
#include "rt/real_runtime.h"
#include "rt/sim_runtime.h"

#if BASALT_ASAN || BASALT_TSAN
#include <sanitizer/common_interface_defs.h>
#endif

// For tests only: runs a body under simulation for many seeds. A failure, of whatever kind, prints one line that
// reproduces it:
//
//   reproduce: BASALT_SEED=1234 ./rt_test --gtest_filter=WorkQueue.Sim
//
// BASALT_SEED=n runs just this seed; BASALT_SEEDS=n runs n seeds instead of what the test says; BASALT_SEEDS_MAX=n at
// most so many, and of enumerated points (stride_of) only one in BASALT_STRIDE=n; BASALT_TRACE=1 prints
// every switch of threads.

namespace basalt::rt {

inline std::string reproduce_line(std::uint64_t seed) {
  std::string line = "reproduce: BASALT_SEED=" + std::to_string(seed) + " ./" + program_invocation_short_name;
  if (const auto* info = ::testing::UnitTest::GetInstance()->current_test_info(); info != nullptr)
    line += std::string(" --gtest_filter=") + info->test_suite_name() + "." + info->name();
  return line;
}

namespace internal {

// A broken invariant ends the process in the middle of a run; the line is then printed from here. A plain array,
// because a signal handler may not allocate.
class CrashLine {
 public:
  explicit CrashLine(std::uint64_t seed) {
    std::snprintf(text(), kBytes, "%s\n", reproduce_line(seed).c_str());
    install();
  }
  ~CrashLine() { text()[0] = '\0'; }
  CrashLine(const CrashLine&) = delete;
  CrashLine& operator=(const CrashLine&) = delete;

 private:
  static constexpr std::size_t kBytes = 1024;
  static char* text() {
    static std::array<char, kBytes> bytes{};
    return bytes.data();
  }
  static void print() {
    const char* line = text();
    if (write(STDERR_FILENO, line, std::strlen(line)) < 0) return;
  }
  static void on_signal(int signal) {
    print();
    constexpr char kHint[] = "a fault; if a stack overflowed, see SimRuntime::Options::stack_bytes\n";
    if (signal != SIGABRT && write(STDERR_FILENO, kHint, sizeof kHint - 1) < 0) _exit(1);
    // The handler was installed for one time: the second delivery has its usual effect.
    raise(signal);
  }
  static void install() {
    static const bool installed = [] {
      // A stack of its own, because the reason may be a fiber that has used up its stack.
      static std::array<char, 64 * 1024> memory;
      stack_t stack{};
      stack.ss_sp = memory.data();
      stack.ss_size = memory.size();
      sigaltstack(&stack, nullptr);
      struct sigaction action{};
      action.sa_handler = &CrashLine::on_signal;
      action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
      sigaction(SIGABRT, &action, nullptr);
#if BASALT_ASAN || BASALT_TSAN
      // The sanitizers look at faults themselves.
      __sanitizer_set_death_callback(&CrashLine::print);
#else
      sigaction(SIGSEGV, &action, nullptr);
      sigaction(SIGBUS, &action, nullptr);
#endif
      return true;
    }();
    static_cast<void>(installed);
  }
};

inline std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::strtoull(value, nullptr, 10) : otherwise;
}

inline void print_switch(const SimRuntime::Switch& to) {
  std::fprintf(stderr, "%14.6f %-20.*s %s:%u\n", std::chrono::duration<double>(to.time.time_since_epoch()).count(),
               static_cast<int>(to.thread.size()), to.thread.data(), to.place.file_name(), to.place.line());
}

// False if the run failed.
inline bool run_seed(SimRuntime::Options options, const std::function<void(SimRuntime&)>& body) {
  const std::uint64_t seed = options.seed;
  const CrashLine crash_line(seed);
  if (std::getenv("BASALT_TRACE") != nullptr) options.on_switch = &print_switch;
  const auto runtime = SimRuntime::make(std::move(options));
  const SimRuntime::Report report = runtime->run([&] { body(*runtime); });
  if (!report.completed) ADD_FAILURE() << report.problem;
  if (!::testing::Test::HasFailure()) return true;
  std::fprintf(stderr, "%s\n", reproduce_line(seed).c_str());
  return false;
}

}  // namespace internal

// What run_seeds() takes if nothing else is said: harder than the operating system, to find waits that are not in a
// loop.
inline SimRuntime::Options seed_options() { return {.spurious_wakeups = 0.02}; }

// Runs `body` as the main thread of a simulation for the seeds first, first + 1, ...; stops at the first that fails: an
// expectation of the test, a deadlock, a limit.
inline void run_seeds(std::uint64_t first, std::uint64_t count, const std::function<void(SimRuntime&)>& body,
                      SimRuntime::Options options = seed_options()) {
  base::set_bugs_are_fatal(true);
#if BASALT_TSAN
  // A race shows in nearly every order of things, and each costs twenty times as much here; a few seeds are enough.
  count = (count + 9) / 10;
#endif
  count = std::min(count, internal::number_from_environment("BASALT_SEEDS_MAX", count));
  count = internal::number_from_environment("BASALT_SEEDS", count);
  if (std::getenv("BASALT_SEED") != nullptr) {
    first = internal::number_from_environment("BASALT_SEED", first);
    count = 1;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    options.seed = first + i;
    if (!internal::run_seed(options, body)) return;
  }
}

// Of the points of an enumeration, one in so many is tried: all, unless a slow build asks for fewer.
inline std::uint64_t stride_of() {
  return std::max<std::uint64_t>(1, internal::number_from_environment("BASALT_STRIDE", 1));
}

// The same body once on the operating system and then under simulation.
inline void run_everywhere(std::uint64_t first, std::uint64_t count, const std::function<void(Runtime&)>& body) {
  base::set_bugs_are_fatal(true);
  if (std::getenv("BASALT_SEED") == nullptr) {
    SCOPED_TRACE("on the operating system");
    const auto runtime = make_real_runtime();
    body(*runtime);
    if (::testing::Test::HasFailure()) return;
  }
  run_seeds(first, count, body);
}

}  // namespace basalt::rt
