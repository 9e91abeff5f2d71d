#include "controllers/hyperjob/hash.h"

#include <algorithm>

#include "base/encoding.h"
#include "base/hash.h"

namespace basalt::controllers::hyperjob {
namespace {

constexpr std::size_t kHashLength = 52;
constexpr std::string_view kHexDigits = "0123456789abcdef";

void append_escaped(std::string& out, char c) {
  out.push_back('\\');
  switch (c) {
    case '"':
    case '\\':
      out.push_back(c);
      return;
    case '\b':
      out.push_back('b');
      return;
    case '\t':
      out.push_back('t');
      return;
    case '\n':
      out.push_back('n');
      return;
    case '\f':
      out.push_back('f');
      return;
    case '\r':
      out.push_back('r');
      return;
    default:
      out.append("u00");
      out.push_back(kHexDigits[(static_cast<unsigned char>(c) >> 4) & 0xF]);
      out.push_back(kHexDigits[static_cast<unsigned char>(c) & 0xF]);
  }
}

void append_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) {
      append_escaped(out, c);
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

// Recursion is bounded by the depth that the reader of the value allowed.
bool append_value(std::string& out, const json::Value& value) {
  if (value.is_object()) {
    out.push_back('{');
    bool is_first = true;
    for (const auto& [key, member] : value.as_object()) {
      if (member.is_null()) continue;
      if (!is_first) out.push_back(',');
      is_first = false;
      append_string(out, key);
      out.push_back(':');
      if (!append_value(out, member)) return false;
    }
    out.push_back('}');
  } else if (value.is_array()) {
    out.push_back('[');
    bool is_first = true;
    for (const json::Value& element : value.as_array()) {
      if (!is_first) out.push_back(',');
      is_first = false;
      if (!append_value(out, element)) return false;
    }
    out.push_back(']');
  } else if (value.is_string()) {
    append_string(out, value.as_string());
  } else if (value.is_int()) {
    out.append(std::to_string(value.as_int()));
  } else if (value.is_bool()) {
    out.append(value.as_bool() ? "true" : "false");
  } else if (value.is_null()) {
    out.append("null");
  } else {
    return false;
  }
  return true;
}

}  // namespace

Result<std::string> canonical_text(const json::Value& value) {
  std::string text;
  if (!append_value(text, value))
    return Error::make(Reason::Invalid,
                       "the template holds a number that is not an integer of 64 bits; no field of a job takes one");
  return text;
}

std::string hash_of_text(std::string_view canonical) {
  const base::Sha256Digest digest = base::sha256(canonical);
  return base::base32_encode(base::as_bytes(digest));
}

Result<std::string> spec_hash(const json::Value& value) {
  BASALT_TRY(const std::string text, canonical_text(value));
  return hash_of_text(text);
}

bool is_spec_hash(std::string_view label) {
  return label.size() == kHashLength && std::all_of(label.begin(), label.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '2' && c <= '7');
         });
}

}  // namespace basalt::controllers::hyperjob
