#include "net/curl_exchange.h"

namespace basalt::net {

Batch::Batch(rt::Runtime& runtime, std::span<const HttpRequest> all, int in_flight_limit)
    : requests(all),
      in_flight_max(in_flight_limit < 1 ? 1 : in_flight_limit),
      results(all.size(), Error::make(Reason::Cancelled, "The request was not sent.")),
      finished_changed_(runtime) {}

void Batch::wait() {
  rt::MutexLock lock(mutex_);
  while (!finished_) finished_changed_.wait(mutex_);
}

void Batch::finish() {
  {
    const rt::MutexLock lock(mutex_);
    finished_ = true;
  }
  // Without the lock, which the caller would run into. The batch stays: both sides share it.
  finished_changed_.notify_one();
}

StreamBuffer::StreamBuffer(rt::Runtime& runtime, const HttpRequest& original)
    : body(original.body), request(original), changed_(runtime) {
  request.body = body;
}

Done StreamBuffer::wait_until_open() {
  rt::MutexLock lock(mutex_);
  while (!is_open_ && !is_ended_) changed_.wait(mutex_);
  if (!is_open_ && error_) return *error_;
  return Ok{};
}

Result<StreamBuffer::Piece> StreamBuffer::take(rt::Instant deadline) {
  Piece piece;
  rt::MutexLock lock(mutex_);
  while (bytes_.empty() && !is_ended_) {
    is_reader_waiting_ = true;
    const bool is_in_time = changed_.wait_until(mutex_, deadline);
    is_reader_waiting_ = false;
    if (!is_in_time && bytes_.empty() && !is_ended_) {
      return Error::make(Reason::DeadlineExceeded, "Nothing came on the stream in time.");
    }
  }
  if (bytes_.empty() && error_) return *error_;
  piece.bytes.swap(bytes_);
  piece.must_resume = is_held_back_ && !is_ended_;
  is_held_back_ = false;
  return piece;
}

void StreamBuffer::open(int status, Headers headers) {
  status_ = status;
  headers_ = std::move(headers);
  rt::MutexLock lock(mutex_);
  is_open_ = true;
  changed_.notify_all();
}

bool StreamBuffer::append(std::string_view bytes, std::size_t bytes_max) {
  rt::MutexLock lock(mutex_);
  if (is_ended_) return true;  // cancelled: the loop will hear of it
  // One piece may be larger than what is left, so that a limit below the piece's size cannot stall the stream.
  if (bytes_.size() >= bytes_max) {
    is_held_back_ = true;
    return false;
  }
  bytes_.append(bytes);
  return true;
}

void StreamBuffer::announce() {
  {
    const rt::MutexLock lock(mutex_);
    if (!is_reader_waiting_ || bytes_.empty()) return;
  }
  changed_.notify_all();
}

void StreamBuffer::end() {
  rt::MutexLock lock(mutex_);
  is_ended_ = true;
  changed_.notify_all();
}

void StreamBuffer::fail(Error error) {
  rt::MutexLock lock(mutex_);
  if (is_ended_) return;
  is_ended_ = true;
  error_ = std::move(error);
  changed_.notify_all();
}

void StreamBuffer::cancel() {
  rt::MutexLock lock(mutex_);
  if (!is_ended_) error_ = Error::make(Reason::Cancelled, "The stream was cancelled.");
  is_ended_ = true;
  bytes_.clear();
  changed_.notify_all();
}

}  // namespace basalt::net
