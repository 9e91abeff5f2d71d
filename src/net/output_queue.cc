#include "net/output_queue.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace basalt::net {
namespace {

constexpr std::size_t kMergeBytesMax = 16u << 10;  // one TLS record

}  // namespace

void OutputQueue::append(std::string_view text) {
  if (text.empty()) return;
  bytes_ += text.size();
  if (!entries_.empty() && !entries_.back().shared && entries_.back().own.size() + text.size() <= kMergeBytesMax) {
    entries_.back().own.append(text);
    return;
  }
  entries_.emplace_back().own = text;
}

void OutputQueue::append(std::shared_ptr<const std::string> piece, std::shared_ptr<Exchange> owner) {
  if (piece->empty()) return;
  bytes_ += piece->size();
  Entry& entry = entries_.emplace_back();
  entry.shared = std::move(piece);
  entry.owner = std::move(owner);
}

std::size_t OutputQueue::peek(std::string_view* pieces, std::size_t max) const {
  const std::size_t count = std::min(max, entries_.size());
  for (std::size_t i = 0; i < count; ++i) pieces[i] = entries_[i].all();
  if (count > 0) pieces[0].remove_prefix(offset_);
  return count;
}

std::string_view OutputQueue::front(char* buffer, std::size_t size) const {
  if (entries_.empty()) return {};
  const std::string_view first = entries_.front().all().substr(offset_);
  if (first.size() >= size) return first.substr(0, size);
  if (entries_.size() == 1) return first;
  std::size_t filled = 0;
  for (std::size_t i = 0; i < entries_.size() && filled < size; ++i) {
    const std::string_view piece = i == 0 ? first : entries_[i].all();
    const std::size_t part = std::min(piece.size(), size - filled);
    std::memcpy(buffer + filled, piece.data(), part);
    filled += part;
  }
  return {buffer, filled};
}

void OutputQueue::consume(std::size_t size) {
  BASALT_CHECK(size <= bytes_);
  bytes_ -= size;
  while (size > 0) {
    Entry& first = entries_.front();
    const std::size_t part = std::min(size, first.all().size() - offset_);
    if (first.owner) first.owner->subtract_waiting(part);
    offset_ += part;
    size -= part;
    if (offset_ == first.all().size()) {
      entries_.pop_front();
      offset_ = 0;
    }
  }
}

void OutputQueue::clear() { consume(bytes_); }

}  // namespace basalt::net
