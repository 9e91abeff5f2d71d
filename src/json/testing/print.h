#pragma once

#include <ostream>

#include "json/value.h"

namespace basalt::json {

// For GoogleTest's messages.
inline void PrintTo(const Value& value, std::ostream* out) { *out << value.to_text(); }

}  // namespace basalt::json
