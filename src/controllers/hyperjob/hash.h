#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "json/value.h"

namespace basalt::controllers::hyperjob {

// The label values that tell whether a child was made of the specification that is wanted now. Pure.
//
// Differs: upstream hashes a text dump of Go structures, which nobody else can compute and which changes with every new
// field. Ours is SHA-256 of canonical JSON in base32: 52 characters, where 64 hexadecimal digits would not fit a label.

// No white space, members sorted by the bytes of their keys, null members dropped, empty objects and lists kept,
// strings with the fewest escapes. Invalid if a number is not an integer that fits 64 bits: no field of a job has such
// a value.
[[nodiscard]] Result<std::string> canonical_text(const json::Value& value);

// SHA-256 of a canonical text in base32.
[[nodiscard]] std::string hash_of_text(std::string_view canonical);
[[nodiscard]] Result<std::string> spec_hash(const json::Value& value);

// Whether a label value has the form of ours; other values were written by another program.
[[nodiscard]] bool is_spec_hash(std::string_view label);

}  // namespace basalt::controllers::hyperjob
