#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "net/http_server.h"

namespace basalt::apiserver {

// Passes everything on to another responder, and tells who derives from it when the answer begins to stream and, once,
// how it ended. The destructor of a derived class calls end(500): an answer that never came is what the client gets.
class ObservedResponder : public net::Responder {
 public:
  explicit ObservedResponder(std::shared_ptr<net::Responder> inner) : inner_(std::move(inner)) {}

  void respond(int status, net::Headers headers, std::shared_ptr<const std::string> body) final {
    end(status);
    inner_->respond(status, std::move(headers), std::move(body));
  }
  void start(int status, net::Headers headers) final {
    code_.store(status);
    on_start(status);
    inner_->start(status, std::move(headers));
  }
  std::optional<std::size_t> write(std::shared_ptr<const std::string> piece) final {
    return inner_->write(std::move(piece));
  }
  void finish() final {
    end(200);
    inner_->finish();
  }
  void abort() final {
    end(200);
    inner_->abort();
  }
  [[nodiscard]] bool is_closed() const final { return inner_->is_closed(); }
  void on_close(std::function<void()> callback) final { inner_->on_close(std::move(callback)); }
  void on_bytes(std::function<void(std::string_view)> callback) final { inner_->on_bytes(std::move(callback)); }
  void hold_bytes(bool is_held) final { inner_->hold_bytes(is_held); }
  void on_drained(std::size_t bytes_max, std::function<void()> callback) final {
    inner_->on_drained(bytes_max, std::move(callback));
  }

 protected:
  virtual void on_start(int code) = 0;
  virtual void on_end(int code) = 0;
  void end(int status) {
    if (is_ended_.exchange(true)) return;
    const int begun = code_.load();
    on_end(begun != 0 ? begun : status);
  }

 private:
  const std::shared_ptr<net::Responder> inner_;
  std::atomic<int> code_{0};  // of an answer that streams
  std::atomic<bool> is_ended_{false};
};

}  // namespace basalt::apiserver
