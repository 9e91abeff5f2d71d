#include "net/stream_pace.h"

#include <gtest/gtest.h>

namespace basalt::net {
namespace {

using namespace std::chrono_literals;

rt::Instant at(rt::Duration time) { return rt::Instant(std::chrono::hours(1) + time); }

TEST(StreamPaceTest, WhatComesNowAndThenIsReadAtOnce) {
  StreamPace pace;
  for (int i = 0; i < 10; ++i) {
    pace.note(at(i * 6ms), 1000, false);
    EXPECT_FALSE(pace.is_pausing()) << i;
    pace.note(at(i * 6ms + 1ms), 0, false);  // a round for something else
    EXPECT_FALSE(pace.is_pausing()) << i;
  }
}

TEST(StreamPaceTest, TheSecondWithinAPauseBeginsOne) {
  StreamPace pace;
  pace.note(at(0ms), 1000, false);
  pace.note(at(2ms), 1000, false);
  ASSERT_TRUE(pace.is_pausing());
  EXPECT_EQ(at(7ms), pace.pauses_until());
  pace.note(at(3ms), 0, false);  // rounds for something else change nothing
  EXPECT_EQ(at(7ms), pace.pauses_until());
}

TEST(StreamPaceTest, PausesGrowWhileEachEndsWithSomethingToRead) {
  StreamPace pace;
  pace.note(at(0ms), 1000, false);
  pace.note(at(1ms), 1000, false);
  EXPECT_EQ(at(6ms), pace.pauses_until());
  pace.note(at(6ms), 1000, true);
  EXPECT_EQ(at(16ms), pace.pauses_until());
  pace.note(at(16ms), 1000, true);
  EXPECT_EQ(at(36ms), pace.pauses_until());
  pace.note(at(36ms), 1000, true);
  EXPECT_EQ(at(36ms) + StreamPace::kPauseMax, pace.pauses_until());
  pace.note(at(56ms), 0, true);
  EXPECT_FALSE(pace.is_pausing());
  // And begin anew.
  pace.note(at(57ms), 1000, false);
  EXPECT_FALSE(pace.is_pausing());
  pace.note(at(58ms), 1000, false);
  EXPECT_EQ(at(58ms) + StreamPace::kPauseMin, pace.pauses_until());
}

TEST(StreamPaceTest, APauseInWhichNothingCameIsTheLast) {
  StreamPace pace;
  pace.note(at(0ms), 1000, false);
  pace.note(at(1ms), 1000, false);
  pace.note(at(6ms), 0, true);
  EXPECT_FALSE(pace.is_pausing());
  pace.note(at(20ms), 1000, false);
  EXPECT_FALSE(pace.is_pausing());
}

TEST(StreamPaceTest, AFloodIsNotSlowedDown) {
  StreamPace pace;
  for (int i = 0; i < 10; ++i) {
    pace.note(at(i * 1ms), StreamPace::kFloodBytes, false);
    EXPECT_FALSE(pace.is_pausing()) << i;
  }
}

TEST(StreamPaceTest, AFloodWithinATrickleIsReadToItsEndAndThenPausesGoOn) {
  StreamPace pace;
  pace.note(at(0ms), 1000, false);
  pace.note(at(1ms), 1000, false);
  pace.note(at(6ms), StreamPace::kFloodBytes, true);
  EXPECT_EQ(at(6ms), pace.pauses_until());  // due at once
  pace.note(at(7ms), StreamPace::kFloodBytes, true);
  EXPECT_EQ(at(7ms), pace.pauses_until());
  pace.note(at(8ms), 0, true);
  EXPECT_EQ(at(12ms), pace.pauses_until());
  pace.note(at(12ms), 0, true);
  EXPECT_FALSE(pace.is_pausing());
}

}  // namespace
}  // namespace basalt::net
