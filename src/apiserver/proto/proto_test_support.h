#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/encoding.h"
#include "json/value.h"

// For tests only: objects as Kubernetes' own encoders write them, in protobuf (testdata/*.hex) and JSON (*.json).
namespace basalt::apiserver::proto {

inline std::string sample_text(const std::string& file_name) {
  std::ifstream file(std::filesystem::path(BASALT_SOURCE_DIR) / "src/apiserver/proto/testdata" / file_name);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string sample_body(const std::string& name) {
  std::string text = sample_text(name + ".hex");
  std::erase(text, '\n');
  return base::hex_decode(text).value();
}

// Members that are null say what absent members say.
inline void drop_nulls(json::Value& value) {
  if (value.is_array()) {
    for (json::Value& item : value.as_array()) drop_nulls(item);
  } else if (value.is_object()) {
    value.as_object().erase_if([](const json::Member& member) { return member.value.is_null(); });
    for (json::Member& member : value.as_object()) drop_nulls(member.value);
  }
}

// Without the nulls.
inline json::Value sample_object(const std::string& name) {
  json::Value object = json::Value::parse(sample_text(name + ".json")).value();
  drop_nulls(object);
  return object;
}

inline std::vector<std::string> sample_names() {
  std::vector<std::string> names;
  const auto folder = std::filesystem::path(BASALT_SOURCE_DIR) / "src/apiserver/proto/testdata";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".hex") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace basalt::apiserver::proto
