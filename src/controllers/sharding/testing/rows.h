#pragma once

namespace basalt::controllers::sharding::testing {

// The table of scenarios, by its numbers.
inline constexpr int kRows[] = {1,  2,  3,  5,  6,  7,  8,  9,  11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 23,
                                24, 25, 26, 27, 29, 30, 31, 32, 33, 35, 36, 37, 38, 39, 41, 42, 43, 44, 45,
                                47, 48, 49, 50, 51, 53, 54, 55, 56, 57, 59, 60, 61, 62, 63, 65, 66, 67, 68,
                                69, 71, 72, 73, 74, 75, 77, 78, 79, 80, 81, 83, 84, 85, 86, 87, 89, 90, 91};

}  // namespace basalt::controllers::sharding::testing
