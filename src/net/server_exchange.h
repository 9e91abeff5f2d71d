#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http_server.h"
#include "rt/mutex.h"

namespace basalt::net {

class Session;
class Exchange;

// What a Responder asks for, on its way from any thread to the event loop.
struct ResponseCommand {
  enum class Kind : std::uint8_t { Respond, Start, Write, Finish, Abort, TellClosed, ReadOn };
  Kind kind = Kind::Respond;
  std::shared_ptr<Exchange> exchange;
  int status = 0;
  Headers headers;
  std::shared_ptr<const std::string> bytes;  // Respond, Write; never null there
};

// The way into one event loop. Commands are collected and the loop is woken once for all that came meanwhile, so that
// many small events become few writes. Outlives the loop: commands after close() are dropped.
class Mailbox {
 public:
  // `wake` makes the loop call take() soon; called with the lock held, from any thread.
  explicit Mailbox(std::function<void()> wake);
  void post(ResponseCommand command);
  [[nodiscard]] bool is_closed();
  void take(std::vector<ResponseCommand>& commands);  // by the loop; into an empty vector
  void close();

 private:
  rt::Mutex mutex_;
  std::function<void()> wake_ BASALT_GUARDED_BY(mutex_);
  std::vector<ResponseCommand> commands_ BASALT_GUARDED_BY(mutex_);
  bool is_closed_ BASALT_GUARDED_BY(mutex_) = false;
};

// One request and its answer: what the session on the event loop and the responder in the handler's hands share.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  explicit Exchange(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}

  // By the responder, from any thread.
  void respond(int status, Headers headers, std::shared_ptr<const std::string> body);
  void start(int status, Headers headers);
  std::optional<std::size_t> write(std::shared_ptr<const std::string> piece);
  void finish();
  void abort();
  [[nodiscard]] bool is_closed();
  void on_close(std::function<void()> callback);
  void on_bytes(std::function<void(std::string_view)> callback);
  void hold_bytes(bool is_held);
  void on_drained(std::size_t bytes_max, std::function<void()> callback);
  void drop();  // the responder is gone

  // By the session.
  void tell_gone();                         // the client or the server: calls the callback, once
  void set_answered();                      // the answer is complete: the callback will not be called
  void take_bytes(std::string_view bytes);  // of a connection that is one of bytes now
  [[nodiscard]] bool holds_bytes() const { return holds_bytes_.load(); }
  void subtract_waiting(std::size_t bytes) {
    const std::size_t before = waiting_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    const std::size_t mark = drain_mark_.load(std::memory_order_relaxed);
    if (before > mark && before - bytes <= mark) tell_drained();
  }

  // Used only by the event loop: who carries the answer, null when nobody does any more.
  Session* session = nullptr;
  std::int32_t stream_id = 0;  // HTTP/2

 private:
  enum class Phase : std::uint8_t { Waiting, Started, Answered };
  void post(ResponseCommand::Kind kind);
  void tell_drained();

  // Fixed after construction.
  const std::shared_ptr<Mailbox> mailbox_;

  // Self-locking: bytes handed to write() and not yet given to the system.
  std::atomic<std::size_t> waiting_bytes_ = 0;
  std::atomic<std::size_t> drain_mark_ = std::numeric_limits<std::size_t>::max();  // of on_drained_
  std::atomic<bool> holds_bytes_ = false;

  rt::Mutex mutex_;
  Phase phase_ BASALT_GUARDED_BY(mutex_) = Phase::Waiting;
  bool is_gone_ BASALT_GUARDED_BY(mutex_) = false;      // nothing more reaches the client
  bool is_complete_ BASALT_GUARDED_BY(mutex_) = false;  // it got everything
  std::function<void()> on_close_ BASALT_GUARDED_BY(mutex_);
  std::function<void(std::string_view)> on_bytes_ BASALT_GUARDED_BY(mutex_);
  std::function<void()> on_drained_ BASALT_GUARDED_BY(mutex_);
};

[[nodiscard]] std::shared_ptr<Responder> make_responder(std::shared_ptr<Exchange> exchange);

}  // namespace basalt::net
