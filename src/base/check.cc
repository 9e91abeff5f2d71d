#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace basalt::base {
namespace {

// Process-wide on purpose: an invariant that breaks is a property of the program, not of one cluster in it.
std::atomic<unsigned long> bugs{0};
std::atomic<bool> bugs_are_fatal{false};

}  // namespace

void check_failed(const char* file, int line, const char* what, std::string_view detail) {
  std::fprintf(stderr, "%s:%d: invariant broken: %s%s%.*s\n", file, line, what, detail.empty() ? "" : ": ",
               static_cast<int>(detail.size()), detail.data());
  std::fflush(stderr);
  std::abort();
}

bool report_bug(const char* file, int line, const char* what) {
  bugs.fetch_add(1, std::memory_order_relaxed);
  if (bugs_are_fatal.load(std::memory_order_relaxed)) check_failed(file, line, what, "a bug that production survives");
  std::fprintf(stderr, "%s:%d: bug, taking the safe branch: %s\n", file, line, what);
  return true;
}

unsigned long bugs_survived() { return bugs.load(std::memory_order_relaxed); }

void set_bugs_are_fatal(bool fatal) { bugs_are_fatal.store(fatal, std::memory_order_relaxed); }

}  // namespace basalt::base
