#pragma once

#include <string_view>

#include "base/result.h"
#include "cel/value.h"

namespace basalt::cel {

// A version as semver.org writes it: 1.2.3-rc.1+build. With `normalize` also what people write: a leading "v", fewer
// than three numbers, zeros in front of them.
[[nodiscard]] Result<Value> parse_semver(std::string_view text, bool normalize);

}  // namespace basalt::cel
