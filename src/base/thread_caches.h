#pragma once

namespace basalt::base {

// Lets the allocator keep 64 free blocks of each size for every thread instead of 7. JSON objects are a few hundred
// small blocks that come and go together; with so few kept most of them take the slow way (a quarter of the processor
// time of a busy API server). glibc reads this setting only when a program starts, so the program is started once more
// in its place: same process, arguments and open files. Call it first in main(), in programs that serve for long.
// Without glibc, under a sanitizer, or if GLIBC_TUNABLES is set by the user, nothing happens.
void enlarge_thread_caches(char** argv);

}  // namespace basalt::base
