#pragma once

#include <string>

#include "json/value.h"

namespace basalt::yaml {

// The value as `kubectl -o yaml` prints it: keys sorted, block style, lists not indented under their key, strings in
// quotes where they would be read as something else, strings of several lines as literal blocks. Ends with a line end.
// read() gives the same value back. What is not UTF-8 in a string is written as U+FFFD, as JSON does.
[[nodiscard]] std::string write(const json::Value& value);

}  // namespace basalt::yaml
