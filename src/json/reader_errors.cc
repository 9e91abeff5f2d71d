// The part of Reader that says what is wrong and where: paths, places, warnings.

#include <algorithm>

#include "json/escape.h"
#include "json/reader.h"

namespace basalt::json {
namespace {

// A key as it stands in a path: plain for a field name, in brackets (as Kubernetes writes map keys) otherwise.
void append_path_key(std::string& path, std::string_view key) {
  const bool plain = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
           c == '$';
  });
  if (plain) {
    if (!path.empty()) path += '.';
    path += key;
  } else {
    path.append("[").append(key).append("]");
  }
}

}  // namespace

void Reader::warn(std::string text) {
  if (warnings_.size() < kWarningsMax) warnings_.push_back(std::move(text));
}

// At the end of an object: sorts its keys, so that a tenant's object with many keys costs n log n.
void Reader::report_duplicates(const Frame& frame) {
  const auto first = seen_.begin() + static_cast<std::ptrdiff_t>(frame.seen_begin);
  std::sort(first, seen_.end());
  for (auto at = first; at != seen_.end(); ++at) {
    const bool repeats = at != first && *at == *(at - 1);
    const bool reported = repeats && at - first >= 2 && *at == *(at - 2);
    if (!repeats || reported) continue;
    std::string where = path_of(frames_.size() - 1);
    append_path_key(where, *at);
    warn("duplicate field \"" + where + "\"");
  }
  seen_.erase(first, seen_.end());
}

std::string Reader::path_of(std::size_t frame_count) const {
  std::string path;
  for (std::size_t i = 0; i < frame_count; ++i) {
    const Frame& frame = frames_[i];
    if (frame.first) break;  // nothing announced yet: the container itself is meant
    if (frame.is_array) {
      path += '[' + std::to_string(frame.index) + ']';
    } else {
      std::string key;
      unescape(frame.raw_key, key);
      append_path_key(path, key);
    }
  }
  return path;
}

std::string Reader::path() const { return path_of(frames_.size()); }

void Reader::fail(std::string_view message) {
  if (failed_) return;
  failed_ = true;
  std::string text = path();
  if (!text.empty()) text += ": ";
  text += message;
  error_ = Error::invalid_input(std::move(text));
}

// A mistake of syntax: the place counts more than the path.
bool Reader::fail_here(std::string_view message) {
  if (failed_) return false;
  const char* line_start = begin_;
  std::size_t line = 1;
  for (const char* at = begin_; at != cursor_; ++at) {
    if (*at != '\n') continue;
    ++line;
    line_start = at + 1;
  }
  fail(std::string(message) + " at line " + std::to_string(line) + ", column " +
       std::to_string(cursor_ - line_start + 1));
  return false;
}

bool Reader::fail_unexpected(const char* expected) {
  const std::string wanted = std::string("expected ") + expected + ", found ";
  if (cursor_ == end_) return fail_here(wanted + "the end of the text");
  const auto byte = static_cast<unsigned char>(*cursor_);
  if (byte > 0x20 && byte < 0x7F) return fail_here(wanted + "'" + *cursor_ + "'");
  constexpr std::string_view kHex = "0123456789abcdef";
  return fail_here(wanted + "byte 0x" + kHex[byte >> 4] + kHex[byte & 15]);
}

}  // namespace basalt::json
