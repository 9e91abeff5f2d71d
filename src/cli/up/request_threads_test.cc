#include "cli/up/request_threads.h"

#include <gtest/gtest.h>

#include <chrono>

#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

using namespace std::chrono_literals;

TEST(RequestThreads, RefuseTooManyAndMakeRoomWhenOneEnds) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    RequestThreads threads(runtime, {"test", 2, "two are enough"});
    rt::StopSource first(runtime, threads.token());
    rt::StopSource second(runtime, threads.token());
    const auto until = [&](rt::StopSource& source) {
      return threads.start([&] { static_cast<void>(source.token().wait_until(runtime, rt::kNever)); });
    };
    EXPECT_TRUE(until(first).ok());
    EXPECT_TRUE(until(second).ok());
    const Done third = until(first);
    ASSERT_FALSE(third.ok());
    EXPECT_TRUE(third.error().is(Reason::TooManyRequests));
    EXPECT_EQ(third.error().message, "two are enough");
    first.request_stop();
    runtime.sleep_for(1s);
    EXPECT_TRUE(until(first).ok());
    threads.stop();
    const Done late = until(first);
    ASSERT_FALSE(late.ok());
    EXPECT_TRUE(late.error().is(Reason::ServiceUnavailable));
    threads.stop();
  });
}

}  // namespace
}  // namespace basalt::cli
