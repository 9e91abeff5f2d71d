#include "net/server_exchange.h"

#include <utility>

#include "base/check.h"

namespace basalt::net {
namespace {

using Kind = ResponseCommand::Kind;

class ExchangeResponder final : public Responder {
 public:
  explicit ExchangeResponder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeResponder() override { exchange_->drop(); }

  using Responder::respond;
  void respond(int status, Headers headers, std::shared_ptr<const std::string> body) override {
    exchange_->respond(status, std::move(headers), std::move(body));
  }
  void start(int status, Headers headers) override { exchange_->start(status, std::move(headers)); }
  std::optional<std::size_t> write(std::shared_ptr<const std::string> piece) override {
    return exchange_->write(std::move(piece));
  }
  void finish() override { exchange_->finish(); }
  void abort() override { exchange_->abort(); }
  bool is_closed() const override { return exchange_->is_closed(); }
  void on_close(std::function<void()> callback) override { exchange_->on_close(std::move(callback)); }
  void on_bytes(std::function<void(std::string_view)> callback) override { exchange_->on_bytes(std::move(callback)); }
  void hold_bytes(bool is_held) override { exchange_->hold_bytes(is_held); }
  void on_drained(std::size_t bytes_max, std::function<void()> callback) override {
    exchange_->on_drained(bytes_max, std::move(callback));
  }

 private:
  const std::shared_ptr<Exchange> exchange_;
};

std::shared_ptr<const std::string> not_null(std::shared_ptr<const std::string> bytes) {
  return bytes ? std::move(bytes) : std::make_shared<const std::string>();
}

}  // namespace

Mailbox::Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

void Mailbox::post(ResponseCommand command) {
  rt::MutexLock lock(mutex_);
  if (is_closed_) return;
  const bool must_wake = commands_.empty();
  commands_.push_back(std::move(command));
  if (must_wake) wake_();
}

bool Mailbox::is_closed() {
  rt::MutexLock lock(mutex_);
  return is_closed_;
}

void Mailbox::take(std::vector<ResponseCommand>& commands) {
  rt::MutexLock lock(mutex_);
  commands.swap(commands_);
}

void Mailbox::close() {
  std::vector<ResponseCommand> dropped;
  {
    rt::MutexLock lock(mutex_);
    is_closed_ = true;
    wake_ = nullptr;
    dropped.swap(commands_);
  }
  // Outside the lock: what they hold may end here.
}

void Exchange::respond(int status, Headers headers, std::shared_ptr<const std::string> body) {
  {
    rt::MutexLock lock(mutex_);
    if (BASALT_BUG(phase_ != Phase::Waiting)) return;
    phase_ = Phase::Answered;
    // A client that only closed its sending side still reads the answer, so is_gone_ does not count here.
  }
  mailbox_->post({.kind = Kind::Respond,
                  .exchange = shared_from_this(),
                  .status = status,
                  .headers = std::move(headers),
                  .bytes = not_null(std::move(body))});
}

void Exchange::start(int status, Headers headers) {
  {
    rt::MutexLock lock(mutex_);
    if (BASALT_BUG(phase_ != Phase::Waiting)) return;
    phase_ = Phase::Started;
  }
  mailbox_->post({.kind = Kind::Start,
                  .exchange = shared_from_this(),
                  .status = status,
                  .headers = std::move(headers),
                  .bytes = nullptr});
}

std::optional<std::size_t> Exchange::write(std::shared_ptr<const std::string> piece) {
  {
    rt::MutexLock lock(mutex_);
    if (is_gone_ || phase_ == Phase::Answered) return std::nullopt;
    if (BASALT_BUG(phase_ != Phase::Started)) return std::nullopt;
  }
  const std::size_t size = piece ? piece->size() : 0;
  if (size == 0) return waiting_bytes_.load(std::memory_order_relaxed);
  const std::size_t waiting = waiting_bytes_.fetch_add(size, std::memory_order_relaxed) + size;
  mailbox_->post(
      {.kind = Kind::Write, .exchange = shared_from_this(), .status = 0, .headers = {}, .bytes = std::move(piece)});
  return waiting;
}

void Exchange::finish() {
  {
    rt::MutexLock lock(mutex_);
    if (phase_ == Phase::Answered || BASALT_BUG(phase_ != Phase::Started)) return;
    phase_ = Phase::Answered;
    if (is_gone_) return;
  }
  post(Kind::Finish);
}

void Exchange::abort() {
  {
    rt::MutexLock lock(mutex_);
    phase_ = Phase::Answered;
    if (is_gone_) return;
  }
  post(Kind::Abort);
}

bool Exchange::is_closed() {
  rt::MutexLock lock(mutex_);
  return is_gone_ || phase_ == Phase::Answered;
}

void Exchange::on_bytes(std::function<void(std::string_view)> callback) {
  rt::MutexLock lock(mutex_);
  on_bytes_ = std::move(callback);
}

void Exchange::take_bytes(std::string_view bytes) {
  std::function<void(std::string_view)> callback;
  {
    rt::MutexLock lock(mutex_);
    callback = on_bytes_;
  }
  if (callback) callback(bytes);
}

void Exchange::hold_bytes(bool is_held) {
  if (holds_bytes_.exchange(is_held) && !is_held) post(Kind::ReadOn);
}

void Exchange::on_drained(std::size_t bytes_max, std::function<void()> callback) {
  rt::MutexLock lock(mutex_);
  on_drained_ = std::move(callback);
  drain_mark_ = bytes_max;
}

void Exchange::tell_drained() {
  std::function<void()> callback;
  {
    rt::MutexLock lock(mutex_);
    callback = on_drained_;
  }
  if (callback) callback();
}

void Exchange::on_close(std::function<void()> callback) {
  bool is_late = false;
  {
    rt::MutexLock lock(mutex_);
    if (is_complete_) return;
    on_close_ = std::move(callback);
    is_late = is_gone_;
  }
  if (!is_late) return;
  if (mailbox_->is_closed()) {
    tell_gone();  // there is no event loop any more
  } else {
    post(Kind::TellClosed);
  }
}

void Exchange::drop() {
  Phase phase{};
  {
    rt::MutexLock lock(mutex_);
    phase = std::exchange(phase_, Phase::Answered);
  }
  if (phase == Phase::Waiting) {
    mailbox_->post({.kind = Kind::Respond,
                    .exchange = shared_from_this(),
                    .status = 500,
                    .headers = {{"Content-Type", "text/plain"}},
                    .bytes = std::make_shared<const std::string>("The request was not answered.\n")});
  } else if (phase == Phase::Started) {
    post(Kind::Abort);
  }
}

void Exchange::tell_gone() {
  std::function<void()> callback;
  {
    rt::MutexLock lock(mutex_);
    is_gone_ = true;
    callback.swap(on_close_);
  }
  if (callback) callback();
}

void Exchange::set_answered() {
  std::function<void()> callback;
  {
    rt::MutexLock lock(mutex_);
    is_gone_ = true;
    is_complete_ = true;
    callback.swap(on_close_);
  }
  // Dropped here, outside the lock.
}

void Exchange::post(Kind kind) {
  mailbox_->post({.kind = kind, .exchange = shared_from_this(), .status = 0, .headers = {}, .bytes = nullptr});
}

std::shared_ptr<Responder> make_responder(std::shared_ptr<Exchange> exchange) {
  return std::make_shared<ExchangeResponder>(std::move(exchange));
}

}  // namespace basalt::net
