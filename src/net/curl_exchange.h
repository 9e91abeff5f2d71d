#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/http_client.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

// What calling threads and the event loop share. Inside net/ only.

namespace basalt::net {

class Transfer;

inline constexpr std::size_t kStreamBufferBytesMax = 1u << 20;
inline constexpr std::size_t kHttp2BufferBytesMax = 16u << 20;

// Some requests of one caller, who waits until all have an answer. The loop writes `results`, one slot a request, and
// the caller reads them after finish() has been seen by wait(): that hand-over orders the two.
class Batch {
 public:
  Batch(rt::Runtime& runtime, std::span<const HttpRequest> requests, int in_flight_max);

  void wait();    // by the caller
  void finish();  // by the loop, once

  // Fixed after construction.
  const std::span<const HttpRequest> requests;
  const int in_flight_max;

  // Used only by the loop, until finish().
  std::vector<Result<HttpResponse>> results;
  std::size_t next = 0;  // the first request that has not begun
  std::size_t done = 0;
  int in_flight = 0;
  bool is_queued = false;  // one of its requests waits for a connection
  bool is_finished = false;

 private:
  rt::Mutex mutex_;
  rt::Condition finished_changed_;
  bool finished_ BASALT_GUARDED_BY(mutex_) = false;
};

// The buffer between the loop, which appends, and the reader of a stream. Also carries the request to the loop.
class StreamBuffer {
 public:
  StreamBuffer(rt::Runtime& runtime, const HttpRequest& request);

  // By the reading thread.
  [[nodiscard]] Done wait_until_open();
  struct Piece {
    std::string bytes;         // "" at the end
    bool must_resume = false;  // the sender was held back: tell the loop
  };
  [[nodiscard]] Result<Piece> take(rt::Instant deadline);
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const Headers& headers() const { return headers_; }

  // By the loop.
  void open(int status, Headers headers);
  // False if `bytes_max` or more wait already: nothing was taken, and take() will ask to resume. The reader is not
  // woken before announce().
  [[nodiscard]] bool append(std::string_view bytes, std::size_t bytes_max);
  void announce();
  void end();
  void fail(Error error);  // does nothing after the end

  // By anybody: what has not been read is dropped, the reader gets Cancelled.
  void cancel();

  // Fixed after construction. The body is our own copy: the caller may go before all of it is sent.
  const std::string body;
  HttpRequest request;

  // Used only by the loop: what carries the stream, null before and after.
  Transfer* transfer = nullptr;

 private:
  rt::Mutex mutex_;
  rt::Condition changed_;
  std::string bytes_ BASALT_GUARDED_BY(mutex_);
  bool is_reader_waiting_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_open_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_held_back_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_ended_ BASALT_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ BASALT_GUARDED_BY(mutex_);

  // Written once before is_open_ is set, read after.
  int status_ = 0;
  Headers headers_;
};

}  // namespace basalt::net
