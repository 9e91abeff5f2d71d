#include "base/thread_caches.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define BASALT_HAS_OTHER_ALLOCATOR
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define BASALT_HAS_OTHER_ALLOCATOR
#endif

namespace basalt::base {

#ifdef BASALT_HAS_OTHER_ALLOCATOR

void enlarge_thread_caches(char** /*argv*/) {}

#else

void enlarge_thread_caches(char** argv) {
  // A few megabytes a thread at most, and only of sizes that were in use.
  constexpr const char* kSetting = "glibc.malloc.tcache_count=64";
  constexpr const char* kName = "GLIBC_TUNABLES";
  if (const char* set = std::getenv(kName); set != nullptr) {
    // The second start. Programs that we start have their own needs.
    if (std::string_view(set) == kSetting) ::unsetenv(kName);
    return;
  }
  // By its real name, which is what lists of processes show.
  char program[4096];
  const ssize_t length = ::readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0 || ::setenv(kName, kSetting, 1) != 0) return;
  program[length] = '\0';
  ::execv(program, argv);
  ::unsetenv(kName);  // it could not be started again: it goes on as it is
}

#endif

}  // namespace basalt::base
