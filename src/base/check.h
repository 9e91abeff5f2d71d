#pragma once

#include <string_view>

// Three tiers of checks on our own invariants. None of them is for bytes that come from a peer, a file or a user:
// such input gets an Error.
//
//   BASALT_CHECK(cond)   always on. A broken invariant ends the process with the place and the text of the condition.
//   BASALT_DCHECK(cond)  for costly conditions; on unless NDEBUG is defined.
//   BASALT_BUG(cond)     true if something is wrong that we can survive: it is counted and logged, the caller takes
//                        the safe branch. In tests (see set_bugs_are_fatal) it ends the process.

namespace basalt::base {

[[noreturn]] void check_failed(const char* file, int line, const char* what, std::string_view detail = {});

// Reports the bug and returns true, so that `if (BASALT_BUG(x < 0)) return;` reads well.
bool report_bug(const char* file, int line, const char* what);

// Number of bugs survived since the process started; exported as a metric.
[[nodiscard]] unsigned long bugs_survived();

// Tests and simulations stop at the first bug instead of surviving it.
void set_bugs_are_fatal(bool fatal);

}  // namespace basalt::base

#define BASALT_CHECK(cond) (static_cast<bool>(cond) ? (void)0 : ::basalt::base::check_failed(__FILE__, __LINE__, #cond))
#define BASALT_CHECK_MSG(cond, detail) \
  (static_cast<bool>(cond) ? (void)0 : ::basalt::base::check_failed(__FILE__, __LINE__, #cond, (detail)))
#ifdef NDEBUG
#define BASALT_DCHECK(cond) ((void)sizeof(cond))
#else
#define BASALT_DCHECK(cond) BASALT_CHECK(cond)
#endif
#define BASALT_BUG(cond) (static_cast<bool>(cond) && ::basalt::base::report_bug(__FILE__, __LINE__, #cond))
