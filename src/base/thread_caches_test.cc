#include "base/thread_caches.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace basalt::base {
namespace {

// The start itself is left out: it would put the test program in its own place.
TEST(ThreadCaches, WhatTheUserSetStays) {
  ASSERT_EQ(::setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=9", 1), 0);
  char* arguments[] = {nullptr};
  enlarge_thread_caches(arguments);
  const char* kept = std::getenv("GLIBC_TUNABLES");
  EXPECT_EQ(std::string(kept == nullptr ? "" : kept), "glibc.malloc.tcache_count=9");
  ::unsetenv("GLIBC_TUNABLES");
}

}  // namespace
}  // namespace basalt::base
