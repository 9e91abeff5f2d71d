#pragma once

#include <algorithm>

#include "rt/sim_test_support.h"

namespace basalt::rt {

// How often a test repeats what is the same each time: `full`, or a tenth where a slow build asks for fewer points
// (stride_of). What such a build looks for shows at the first repetitions.
template <typename Number>
[[nodiscard]] Number test_size(Number full) {
  return stride_of() > 1 ? std::max<Number>(1, full / 10) : full;
}

}  // namespace basalt::rt
