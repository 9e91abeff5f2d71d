#include "controllers/job/completed_indexes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/encoding.h"
#include "base/strings.h"

namespace basalt::controllers::job {
namespace {

std::optional<std::int32_t> parse_index(std::string_view text) {
  const auto value = base::parse_uint64(text);
  if (!value || *value >= static_cast<std::uint64_t>(CompletedIndexes::kIndexMax)) return std::nullopt;
  return static_cast<std::int32_t>(*value);
}

}  // namespace

bool CompletedIndexes::contains(std::int32_t index) const {
  return index >= 0 && static_cast<std::size_t>(index) < bits_.size() && bits_[static_cast<std::size_t>(index)];
}

bool CompletedIndexes::add(std::int32_t index, std::int32_t version) {
  if (index < 0 || index >= kIndexMax || contains(index)) return false;
  const auto at = static_cast<std::size_t>(index);
  if (at >= bits_.size()) bits_.resize(at + 1, false);
  bits_[at] = true;
  ++size_;
  version_ = version;
  return true;
}

void CompletedIndexes::remove(std::int32_t index) {
  if (!contains(index)) return;
  bits_[static_cast<std::size_t>(index)] = false;
  --size_;
  while (!bits_.empty() && !bits_.back()) bits_.pop_back();
  if (size_ == 0) version_ = 0;
}

void CompletedIndexes::truncate(std::int32_t replicas) {
  while (!bits_.empty() && static_cast<std::int32_t>(bits_.size()) > replicas)
    remove(static_cast<std::int32_t>(bits_.size()) - 1);
}

std::string CompletedIndexes::to_text() const {
  if (size_ == 0) return {};
  const std::string version = std::to_string(version_) + ":";
  // A bit each, and a third more for the encoding: nothing longer is of use.
  const std::size_t bitmap_bytes = (bits_.size() + 7) / 8;
  // Short texts stay readable.
  const std::size_t bitmap_text = std::max<std::size_t>(64, 1 + (bitmap_bytes * 4 + 2) / 3);
  std::string intervals;
  for (std::size_t i = 0; i < bits_.size() && intervals.size() <= bitmap_text;) {
    if (!bits_[i]) {
      ++i;
      continue;
    }
    std::size_t last = i;
    while (last + 1 < bits_.size() && bits_[last + 1]) ++last;
    if (!intervals.empty()) intervals += ',';
    intervals += std::to_string(i);
    if (last > i) intervals += "-" + std::to_string(last);
    i = last + 1;
  }
  if (intervals.size() <= bitmap_text) return version + intervals;
  std::string bytes(bitmap_bytes, '\0');
  for (std::size_t i = 0; i < bits_.size(); ++i) {
    if (bits_[i]) bytes[i / 8] = static_cast<char>(static_cast<unsigned char>(bytes[i / 8]) | (1U << (i % 8)));
  }
  return version + "~" + base::base64url_encode(bytes);
}

CompletedIndexes CompletedIndexes::parse(std::string_view text) {
  CompletedIndexes indexes;
  const auto parts = base::split_once(text, ':');
  if (!parts) return indexes;
  const auto version = base::parse_int64(parts->first);
  if (!version || *version < 0 || *version > INT32_MAX) return indexes;
  const auto at = static_cast<std::int32_t>(*version);
  std::string_view rest = parts->second;
  if (rest.starts_with('~')) {
    const auto bytes = base::base64url_decode(rest.substr(1));
    if (!bytes || bytes->size() * 8 > static_cast<std::size_t>(kIndexMax) + 7) return indexes;
    for (std::size_t i = 0; i < bytes->size() * 8; ++i) {
      if (((static_cast<unsigned char>((*bytes)[i / 8]) >> (i % 8)) & 1U) != 0)
        indexes.add(static_cast<std::int32_t>(i), at);
    }
    return indexes;
  }
  for (const std::string_view piece : base::split(rest, ',')) {
    const auto range = base::split_once(piece, '-');
    const auto first = parse_index(range ? range->first : piece);
    const auto last = range ? parse_index(range->second) : first;
    if (!first || !last || *last < *first) return {};
    for (std::int32_t i = *first; i <= *last; ++i) indexes.add(i, at);
  }
  return indexes;
}

}  // namespace basalt::controllers::job
