#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "net/server_exchange.h"

namespace basalt::net {

// Bytes on their way to one connection's socket, in pieces that are shared, not copied. Used by the event loop only.
class OutputQueue {
 public:
  // Small pieces are copied together: fewer system calls, fewer TLS records.
  void append(std::string_view text);
  // `owner`, if any, is told as the bytes leave.
  void append(std::shared_ptr<const std::string> piece, std::shared_ptr<Exchange> owner);

  [[nodiscard]] bool empty() const { return bytes_ == 0; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // The first pieces, at most `max` of them; returns how many were filled in.
  std::size_t peek(std::string_view* pieces, std::size_t max) const;
  // The first bytes in one run: a view of the first piece if it has `size` bytes, else a copy in `buffer` of as many as
  // there are, up to `size`. `size` is the capacity of `buffer`.
  [[nodiscard]] std::string_view front(char* buffer, std::size_t size) const;
  void consume(std::size_t size);
  void clear();

 private:
  struct Entry {
    std::shared_ptr<const std::string> shared;
    std::string own;  // instead of `shared`
    std::shared_ptr<Exchange> owner;
    [[nodiscard]] std::string_view all() const { return shared ? std::string_view(*shared) : std::string_view(own); }
  };
  std::deque<Entry> entries_;
  std::size_t offset_ = 0;  // of the first entry, already consumed
  std::size_t bytes_ = 0;
};

}  // namespace basalt::net
