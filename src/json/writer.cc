#include "json/writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "json/number.h"
#include "json/scan.h"

namespace basalt::json {
namespace {

void append_escape(std::string& out, unsigned code) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out.append("\\u");
  for (int shift = 12; shift >= 0; shift -= 4) out.push_back(kHex[code >> shift & 15]);
}

// One character that may not stand as it is; returns what follows it.
const char* append_special(std::string& out, const char* at, const char* end) {
  const auto byte = static_cast<unsigned char>(*at);
  switch (*at) {
    case '"':
      out.append("\\\"");
      return at + 1;
    case '\\':
      out.append("\\\\");
      return at + 1;
    case '\n':
      out.append("\\n");
      return at + 1;
    case '\r':
      out.append("\\r");
      return at + 1;
    case '\t':
      out.append("\\t");
      return at + 1;
    case '\b':
      out.append("\\b");
      return at + 1;
    case '\f':
      out.append("\\f");
      return at + 1;
    default:
      break;
  }
  if (byte < 0x80) {
    append_escape(out, byte);
    return at + 1;
  }
  const std::size_t length = utf8_length(at, end);
  if (length == 0) {
    append_escape(out, 0xFFFD);
    return at + 1;
  }
  // Line separators end a line in JavaScript; Go escapes them, so do we.
  const char32_t code = utf8_decode(at, length);
  if (code == 0x2028 || code == 0x2029) {
    append_escape(out, static_cast<unsigned>(code));
  } else {
    out.append(at, length);
  }
  return at + length;
}

void append_run(std::string& out, const char* at, const char* end, bool escape_html) {
  if (!escape_html) {
    out.append(at, end);
    return;
  }
  for (; at != end; ++at) {
    if (*at == '<' || *at == '>' || *at == '&') {
      append_escape(out, static_cast<unsigned char>(*at));
    } else {
      out.push_back(*at);
    }
  }
}

}  // namespace

void append_quoted(std::string& out, std::string_view value, Writer::Options options) {
  out.push_back('"');
  const char* at = value.data();
  const char* const end = at + value.size();
  while (at != end) {
    const char* const special = find_special(at, end);
    append_run(out, at, special, options.escape_html);
    at = special == end ? end : append_special(out, special, end);
  }
  out.push_back('"');
}

void Writer::key(std::string_view key) {
  BASALT_DCHECK(!after_key_);
  separate();
  append_quoted(out_, key, options_);
  out_.push_back(':');
  after_key_ = true;
}

void Writer::null() {
  separate();
  out_.append("null");
}

void Writer::boolean(bool value) {
  separate();
  out_.append(value ? "true" : "false");
}

void Writer::integer(std::int64_t value) {
  separate();
  std::array<char, 24> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out_.append(buffer.data(), result.ptr);
}

void Writer::number(double value) {
  if (!std::isfinite(value)) {
    null();
    return;
  }
  separate();
  append_double(out_, value);
}

void Writer::string(std::string_view value) {
  separate();
  append_quoted(out_, value, options_);
}

void Writer::raw(std::string_view json) {
  separate();
  out_.append(json);
}

void Writer::raw_members(std::string_view members) {
  if (members.empty()) return;
  BASALT_DCHECK(!after_key_);
  separate();
  out_.append(members);
}

}  // namespace basalt::json
