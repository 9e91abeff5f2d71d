#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// The escapes of JSON strings. Internal to json/.
namespace basalt::json {

// The escape at `at` (a backslash, before `end`): its length, surrogate pairs whole; or 0 and why it is wrong.
std::size_t check_escape(const char* at, const char* end, const char*& problem);

// Appends the content of a string (without its quotes) whose escapes check_escape found valid.
void unescape(std::string_view raw, std::string& out);

}  // namespace basalt::json
