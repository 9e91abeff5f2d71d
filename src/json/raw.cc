#include "json/raw.h"

#include "base/check.h"

namespace basalt::json {

Value Raw::value() const {
  if (empty()) return {};
  Value::ParseOptions options;
  options.duplicate_keys_are_errors = false;
  auto parsed = Value::parse(*text_, options);
  if (BASALT_BUG(!parsed.ok())) return {};
  return std::move(parsed).value();
}

void decode(Reader& reader, Raw& raw) {
  std::string text;
  reader.read_compact(text);
  text.shrink_to_fit();
  raw = reader.ok() ? Raw::of(std::move(text)) : Raw();
}

void encode(Writer& writer, const Raw& raw) {
  if (raw.empty()) {
    writer.null();
  } else {
    writer.raw(raw.text());
  }
}

}  // namespace basalt::json
