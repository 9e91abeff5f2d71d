// YAML texts: whatever is read can be written and reads back as the same value; whatever is not has an error with a
// place; text that is JSON means the same in both readers.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "json/value.h"
#include "yaml/reader.h"
#include "yaml/writer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto documents = basalt::yaml::read_all(text);
  if (!documents.ok()) {
    BASALT_CHECK(documents.error().message.starts_with("line "));
  } else {
    for (const basalt::yaml::Document& document : *documents) {
      BASALT_CHECK(document.line >= 1);
      // What is printed can be longer than what was read: aliases are written out.
      basalt::yaml::ReadOptions options;
      options.size_bytes_max = std::size_t{1} << 30;
      const auto back = basalt::yaml::read(basalt::yaml::write(document.value), options);
      BASALT_CHECK(back.ok() && *back == document.value);
    }
  }
  const auto json = basalt::json::Value::parse(text);
  if (json.ok() && json->is_object()) {
    const auto value = basalt::yaml::read(text);
    BASALT_CHECK(value.ok() && *value == *json);
  }
  return 0;
}
