#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "json/value.h"

// What a scalar means: YAML 1.1 as Kubernetes reads it (sigs.k8s.io/yaml v1.6 on go.yaml.in/yaml/v2 v2.4). Internal to
// yaml/: reader and writer share it, so that what is written reads back as it was.
namespace basalt::yaml {

enum class ScalarType : std::uint8_t { Null, Bool, Int, Float, NotFinite, String };

struct Scalar {
  ScalarType type = ScalarType::String;
  json::Value value;  // null if NotFinite
};

// The meaning of an unquoted scalar. Never fails: what is nothing else is a string.
[[nodiscard]] Scalar resolve_plain(std::string_view text);

// True if another reader of YAML (1.1 or 1.2) may take the unquoted text for a time or a sexagesimal number: we read it
// as a string, but write it in quotes.
[[nodiscard]] bool looks_special_elsewhere(std::string_view text);

// A number as a mapping's key, which JSON wants to be a string: the shortest text of its single-precision value.
[[nodiscard]] std::string float_key(double value);

}  // namespace basalt::yaml
