#include "node/command_io.h"

#include <gtest/gtest.h>

namespace basalt::node {
namespace {

TEST(CommandIo, InputComesInOrderAndEndsOnce) {
  CommandIo io({.has_input = true, .has_terminal = false, .on_room = {}});
  int wakes = 0;
  EXPECT_TRUE(io.add_input("before "));
  io.attach([&] { ++wakes; });
  EXPECT_TRUE(io.add_input("and "));
  EXPECT_TRUE(io.add_input("after"));
  EXPECT_EQ(wakes, 1) << "once until it is taken";
  EXPECT_EQ(io.take(false).input, "");
  auto taken = io.take(true);
  EXPECT_EQ(taken.input, "before and after");
  EXPECT_FALSE(taken.is_input_over);
  io.end_input();
  EXPECT_TRUE(io.add_input("too late"));
  EXPECT_EQ(wakes, 2);
  taken = io.take(true);
  EXPECT_EQ(taken.input, "");
  EXPECT_TRUE(taken.is_input_over);
}

TEST(CommandIo, TellsWhenItIsFullAndWhenThereIsRoom) {
  int rooms = 0;
  CommandIo io({.has_input = true, .has_terminal = false, .on_room = [&] { ++rooms; }});
  EXPECT_TRUE(io.add_input(std::string(CommandIo::kInputBytesMax - 1, 'x')));
  EXPECT_FALSE(io.is_full());
  EXPECT_FALSE(io.add_input("y"));
  EXPECT_TRUE(io.is_full());
  EXPECT_EQ(rooms, 0);
  EXPECT_EQ(io.take(true).input.size(), CommandIo::kInputBytesMax);
  EXPECT_EQ(rooms, 1);
  static_cast<void>(io.take(true));
  EXPECT_EQ(rooms, 1) << "it was not full";
  EXPECT_FALSE(io.add_input(std::string(CommandIo::kInputBytesMax, 'x')));
  io.detach();
  EXPECT_EQ(rooms, 2) << "nobody reads it any more";
  EXPECT_TRUE(io.add_input(std::string(CommandIo::kInputBytesMax, 'x'))) << "dropped";
  EXPECT_FALSE(io.is_full());
}

TEST(CommandIo, SizeAndHoldReachTheRunner) {
  CommandIo io({.has_input = false, .has_terminal = true, .on_room = {}});
  io.set_size({.columns = 80, .rows = 24});
  int wakes = 0;
  io.attach([&] { ++wakes; });
  auto taken = io.take(true);
  ASSERT_TRUE(taken.size);
  EXPECT_EQ(taken.size->columns, 80);
  EXPECT_FALSE(io.take(true).size) << "once";
  io.hold_output(true);
  io.hold_output(true);
  EXPECT_TRUE(io.take(true).is_output_held);
  io.hold_output(false);
  EXPECT_FALSE(io.take(true).is_output_held);
  EXPECT_EQ(wakes, 2);
}

}  // namespace
}  // namespace basalt::node
