#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "net/http_server.h"
#include "net/websocket.h"
#include "rt/mutex.h"

namespace basalt::cli {

// An answer as its client sees it, for tests of handlers. Thread-safe.
class TestResponder final : public net::Responder {
 public:
  using net::Responder::respond;
  void respond(int status, net::Headers, std::shared_ptr<const std::string> body) override {
    rt::MutexLock lock(mutex_);
    code_ = status;
    bytes_ = *body;
    is_over_ = true;
  }
  void start(int status, net::Headers) override {
    rt::MutexLock lock(mutex_);
    code_ = status;
  }
  std::optional<std::size_t> write(std::shared_ptr<const std::string> piece) override {
    rt::MutexLock lock(mutex_);
    if (is_over_ || is_gone_) return std::nullopt;
    bytes_ += *piece;
    waiting_ += reads_ ? 0 : piece->size();
    most_waiting_ = std::max(most_waiting_, waiting_);
    return waiting_;
  }
  void finish() override {
    rt::MutexLock lock(mutex_);
    is_over_ = true;
  }
  void abort() override {
    rt::MutexLock lock(mutex_);
    is_over_ = true;
    code_ = -1;
  }
  [[nodiscard]] bool is_closed() const override {
    rt::MutexLock lock(mutex_);
    return is_over_ || is_gone_;
  }
  void on_close(std::function<void()> callback) override {
    rt::MutexLock lock(mutex_);
    on_close_ = std::move(callback);
  }
  void on_bytes(std::function<void(std::string_view)> callback) override {
    rt::MutexLock lock(mutex_);
    on_bytes_ = std::move(callback);
  }
  void hold_bytes(bool is_held) override {
    rt::MutexLock lock(mutex_);
    is_held_ = is_held;
  }
  void on_drained(std::size_t, std::function<void()> callback) override {
    rt::MutexLock lock(mutex_);
    on_drained_ = std::move(callback);
  }

  // What the client sends: a masked frame.
  void send(net::WebSocketOpcode opcode, std::string_view payload = "", bool is_final = true) {
    constexpr std::string_view kMask = "mask";
    std::string frame = net::websocket_frame(opcode, payload);
    const std::size_t head = frame.size() - payload.size();
    for (std::size_t i = 0; i < payload.size(); ++i)
      frame[head + i] = static_cast<char>(frame[head + i] ^ kMask[i % kMask.size()]);
    frame[1] = static_cast<char>(frame[1] | 0x80);
    if (!is_final) frame[0] = static_cast<char>(frame[0] & 0x7f);
    frame.insert(head, kMask);
    send_bytes(frame);
  }
  void send_bytes(std::string_view bytes) {
    std::function<void(std::string_view)> callback;
    {
      rt::MutexLock lock(mutex_);
      callback = on_bytes_;
    }
    callback(bytes);
  }
  void go_away() {
    std::function<void()> callback;
    {
      rt::MutexLock lock(mutex_);
      is_gone_ = true;
      callback = on_close_;
    }
    callback();
  }
  void stop_reading() {
    rt::MutexLock lock(mutex_);
    reads_ = false;
  }
  void read_all() {
    std::function<void()> callback;
    {
      rt::MutexLock lock(mutex_);
      reads_ = true;
      waiting_ = 0;
      callback = on_drained_;
    }
    if (callback) callback();
  }

  bool is_over() {
    rt::MutexLock lock(mutex_);
    return is_over_;
  }
  int code() {
    rt::MutexLock lock(mutex_);
    return code_;
  }
  std::string bytes() {
    rt::MutexLock lock(mutex_);
    return bytes_;
  }
  std::string text() {
    rt::MutexLock lock(mutex_);
    return std::to_string(code_) + " " + bytes_;
  }
  bool has(std::string_view text) {
    rt::MutexLock lock(mutex_);
    return bytes_.find(text) != std::string::npos;
  }
  bool has_message(char channel, const std::string& text) {
    return has(net::websocket_frame(net::WebSocketOpcode::Binary, std::string(1, channel) + text));
  }
  bool is_held() {
    rt::MutexLock lock(mutex_);
    return is_held_;
  }
  std::size_t most_waiting() {
    rt::MutexLock lock(mutex_);
    return most_waiting_;
  }

 private:
  mutable rt::Mutex mutex_;
  int code_ BASALT_GUARDED_BY(mutex_) = 0;
  std::string bytes_ BASALT_GUARDED_BY(mutex_);
  bool is_over_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_gone_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_held_ BASALT_GUARDED_BY(mutex_) = false;
  bool reads_ BASALT_GUARDED_BY(mutex_) = true;
  std::size_t waiting_ BASALT_GUARDED_BY(mutex_) = 0;
  std::size_t most_waiting_ BASALT_GUARDED_BY(mutex_) = 0;
  std::function<void()> on_close_ BASALT_GUARDED_BY(mutex_);
  std::function<void()> on_drained_ BASALT_GUARDED_BY(mutex_);
  std::function<void(std::string_view)> on_bytes_ BASALT_GUARDED_BY(mutex_);
};

}  // namespace basalt::cli
