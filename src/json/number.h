#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Numbers between text and memory, without locale and without loss. Internal to json/ and yaml/.
namespace basalt::json {

enum class IntegerOutcome : std::uint8_t { Exact, NotIntegral, OutOfRange };

// `raw` is a number by JSON's grammar; `is_integer` says that it has neither fraction nor exponent. Other spellings of
// an integer (1.0, 1e3, 120e-1) are computed on the digits, so nothing is rounded on the way.
IntegerOutcome to_int64(std::string_view raw, bool is_integer, std::int64_t& value);

// `raw` is a number by JSON's grammar. False if it is beyond the largest double; what is too small becomes zero.
bool to_double(std::string_view raw, double& value);

// The shortest text that reads back as the same double, laid out as Go's JSON encoder does: plain digits from 1e-6 up
// to 1e21, otherwise an exponent without leading zeros. The value is finite.
// Differs: between 2^53 and 2^63 all digits are written, so that the text read as an integer is the same number.
void append_double(std::string& out, double value);

}  // namespace basalt::json
