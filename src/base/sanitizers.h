#pragma once

// Which sanitizer this file is compiled with; g++ and clang say it differently.
#if defined(__has_feature)
#define BASALT_HAS_FEATURE(x) __has_feature(x)
#else
#define BASALT_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || BASALT_HAS_FEATURE(address_sanitizer)
#define BASALT_ASAN 1
#else
#define BASALT_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || BASALT_HAS_FEATURE(thread_sanitizer)
#define BASALT_TSAN 1
#else
#define BASALT_TSAN 0
#endif

// A function that ThreadSanitizer does not see; what it calls is seen.
#if !BASALT_TSAN
#define BASALT_UNSEEN_BY_TSAN
#elif defined(__clang__)
#define BASALT_UNSEEN_BY_TSAN __attribute__((disable_sanitizer_instrumentation))
#else
#define BASALT_UNSEEN_BY_TSAN __attribute__((no_sanitize_thread))
#endif
