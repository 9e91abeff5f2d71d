#pragma once

// Clang's thread-safety analysis; nothing for other compilers. Members say which mutex guards them, functions what they
// need to hold, and the clang and asan builds check it.
#if defined(__clang__)
#define BASALT_TSA(x) __attribute__((x))
#else
#define BASALT_TSA(x)
#endif

#define BASALT_CAPABILITY(name) BASALT_TSA(capability(name))
#define BASALT_SCOPED_CAPABILITY BASALT_TSA(scoped_lockable)
#define BASALT_GUARDED_BY(mutex) BASALT_TSA(guarded_by(mutex))
#define BASALT_REQUIRES(...) BASALT_TSA(requires_capability(__VA_ARGS__))
#define BASALT_EXCLUDES(...) BASALT_TSA(locks_excluded(__VA_ARGS__))
#define BASALT_ACQUIRE(...) BASALT_TSA(acquire_capability(__VA_ARGS__))
#define BASALT_RELEASE(...) BASALT_TSA(release_capability(__VA_ARGS__))
#define BASALT_NO_THREAD_SAFETY_ANALYSIS BASALT_TSA(no_thread_safety_analysis)
