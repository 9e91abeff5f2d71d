#include "json/escape.h"

#include <cstring>

#include "json/scan.h"

namespace basalt::json {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The four hex digits at `at`; -1 if they are not there.
int hex4(const char* at, const char* end) {
  if (end - at < 4) return -1;
  int code = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = hex_value(at[i]);
    if (digit < 0) return -1;
    code = code << 4 | digit;
  }
  return code;
}

}  // namespace

std::size_t check_escape(const char* at, const char* end, const char*& problem) {
  problem = "invalid escape in string";
  if (end - at < 2) return 0;
  switch (at[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
      return 2;
    case 'u':
      break;
    default:
      return 0;
  }
  const int code = hex4(at + 2, end);
  if (code < 0) return 0;
  if (code < 0xD800 || code > 0xDFFF) return 6;
  problem = "unpaired surrogate in string";
  if (code > 0xDBFF || end - at < 12 || at[6] != '\\' || at[7] != 'u') return 0;
  const int low = hex4(at + 8, end);
  return low >= 0xDC00 && low <= 0xDFFF ? 12 : 0;
}

void unescape(std::string_view raw, std::string& out) {
  const char* at = raw.data();
  const char* const end = at + raw.size();
  while (at != end) {
    const auto* backslash = static_cast<const char*>(std::memchr(at, '\\', static_cast<std::size_t>(end - at)));
    if (backslash == nullptr) backslash = end;
    out.append(at, backslash);
    if (backslash == end) return;
    at = backslash + 2;
    switch (backslash[1]) {
      case 'b':
        out.push_back('\b');
        break;
      case 'f':
        out.push_back('\f');
        break;
      case 'n':
        out.push_back('\n');
        break;
      case 'r':
        out.push_back('\r');
        break;
      case 't':
        out.push_back('\t');
        break;
      case 'u': {
        auto code = static_cast<char32_t>(hex4(at, end));
        at += 4;
        if (code >= 0xD800 && code <= 0xDBFF) {
          code = 0x10000 + ((code - 0xD800) << 10) + (static_cast<char32_t>(hex4(at + 2, end)) - 0xDC00);
          at += 6;
        }
        append_utf8(out, code);
        break;
      }
      default:
        out.push_back(backslash[1]);
    }
  }
}

}  // namespace basalt::json
