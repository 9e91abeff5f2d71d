#include "net/tcp_dialer.h"

#include <atomic>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/check.h"
#include "rt/mutex.h"

namespace basalt::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr std::size_t kReadBytes = 64u << 10;

class Dialed;

// The thread's work; lives as long as a connection may use it. Everything but post() is for that thread.
class DialerLoop {
 public:
  DialerLoop() : work_(io_.get_executor()), read_buffer_(kReadBytes) {}

  // From any thread. Tasks that come after the last one are dropped: nobody would carry them out.
  void post(std::function<void()> task, bool is_last = false) {
    rt::MutexLock lock(mutex_);
    if (std::exchange(is_over_, is_over_ || is_last)) return;
    asio::post(io_, std::move(task));
  }
  void run() { io_.run(); }
  void end();

  [[nodiscard]] asio::io_context& io() { return io_; }
  [[nodiscard]] std::vector<char>& read_buffer() { return read_buffer_; }
  void remember(const std::shared_ptr<Dialed>& connection) { connections_[connection.get()] = connection; }
  void forget(Dialed& connection) { connections_.erase(&connection); }

 private:
  asio::io_context io_{1};  // self-locking

  rt::Mutex mutex_;
  bool is_over_ BASALT_GUARDED_BY(mutex_) = false;

  // Used only by the thread.
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<char> read_buffer_;
  std::unordered_map<Dialed*, std::shared_ptr<Dialed>> connections_;  // until they are closed
};

class Dialed final : public TcpConnection, public std::enable_shared_from_this<Dialed> {
 public:
  Dialed(std::shared_ptr<DialerLoop> loop, TcpEvents events)
      : loop_(std::move(loop)), events_(std::move(events)), socket_(loop_->io()), timer_(loop_->io()) {}

  void write(std::string bytes) override {
    if (bytes.empty()) return;
    waiting_ += bytes.size();
    post([bytes = std::move(bytes)](Dialed& self) mutable {
      if (self.phase_ == Phase::Closed) {
        self.waiting_ -= bytes.size();
        return;
      }
      self.output_.push_back(std::move(bytes));
      self.send();
    });
  }
  void end_output() override {
    post([](Dialed& self) {
      self.is_output_over_ = true;
      self.send();
    });
  }
  [[nodiscard]] std::size_t waiting() const override { return waiting_; }
  void hold(bool is_held) override {
    post([is_held](Dialed& self) {
      self.is_held_ = is_held;
      self.wait_readable();
    });
  }
  void close() override {
    post([](Dialed& self) { self.close_now(); });
  }

  void start(const std::string& address, std::uint16_t port) {
    post([address, port](Dialed& self) { self.connect(address, port); });
  }
  void close_now() {
    if (phase_ == Phase::Closed) return;
    phase_ = Phase::Closed;
    events_ = {};
    error_code ignored;
    timer_.cancel();
    socket_.close(ignored);
    drop_output();
    loop_->forget(*this);
  }

 private:
  enum class Phase : unsigned char { Connecting, Open, Closed };

  template <typename Task>
  void post(Task task) {
    loop_->post([self = shared_from_this(), task = std::move(task)]() mutable { task(*self); });
  }

  void connect(const std::string& address, std::uint16_t port) {
    if (phase_ == Phase::Closed) return;
    loop_->remember(shared_from_this());
    error_code error;
    const auto parsed = asio::ip::make_address(address, error);
    if (error) return end(Error::make(Reason::Unreachable, "\"" + address + "\" is not an address"));
    timer_.expires_after(TcpDialer::kConnectTimeout);
    timer_.async_wait([self = shared_from_this()](const error_code& cancelled) {
      if (!cancelled && self->phase_ == Phase::Connecting)
        self->end(Error::make(Reason::Unreachable, "nobody took the connection in time"));
    });
    socket_.async_connect(tcp::endpoint(parsed, port), [self = shared_from_this()](const error_code& problem) {
      if (self->phase_ == Phase::Closed) return;
      if (problem) return self->end(Error::make(Reason::Unreachable, problem.message()));
      self->open();
    });
  }

  void open() {
    phase_ = Phase::Open;
    timer_.cancel();
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);
    wait_readable();
    send();
  }

  void wait_readable() {
    if (phase_ != Phase::Open || is_held_ || is_waiting_readable_) return;
    is_waiting_readable_ = true;
    socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code& error) {
      self->is_waiting_readable_ = false;
      if (!error && self->phase_ == Phase::Open && !self->is_held_) self->receive();
    });
  }

  void receive() {
    error_code error;
    std::vector<char>& buffer = loop_->read_buffer();
    const std::size_t size = socket_.read_some(asio::buffer(buffer), error);
    if (error == asio::error::eof) return end(Ok{});
    if (error && error != asio::error::would_block && error != asio::error::interrupted)
      return end(Error::make(Reason::ConnectionLost, error.message()));
    if (size > 0 && events_.on_bytes) events_.on_bytes({buffer.data(), size});
    wait_readable();
  }

  void send() {
    if (phase_ != Phase::Open || is_waiting_writable_) return;
    error_code error;
    std::size_t sent_bytes = 0;
    while (!output_.empty()) {
      const std::string& first = output_.front();
      const std::size_t size =
          socket_.write_some(asio::buffer(first.data() + written_, first.size() - written_), error);
      if (error) break;
      sent_bytes += size;
      written_ += size;
      if (written_ < first.size()) continue;
      output_.pop_front();
      written_ = 0;
    }
    waiting_ -= sent_bytes;
    if (sent_bytes > 0 && events_.on_written) events_.on_written();
    if (error == asio::error::would_block) return wait_writable();
    // What the peer said before it broke off is still to be read, and then its end.
    if (error) {
      drop_output();
      if (events_.on_written) events_.on_written();
    } else if (is_output_over_ && !std::exchange(is_shut_, true)) {
      socket_.shutdown(tcp::socket::shutdown_send, error);
    }
  }

  void drop_output() {
    for (const std::string& piece : output_) waiting_ -= piece.size();
    waiting_ += std::exchange(written_, 0);
    output_.clear();
  }

  void wait_writable() {
    is_waiting_writable_ = true;
    socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const error_code& error) {
      self->is_waiting_writable_ = false;
      if (!error) self->send();
    });
  }

  void end(const Done& how) {
    const auto on_ended = std::move(events_.on_ended);
    close_now();
    if (on_ended) on_ended(how);
  }

  const std::shared_ptr<DialerLoop> loop_;
  std::atomic<std::size_t> waiting_{0};  // in output_, and in tasks that will put it there

  // Used only by the loop's thread.
  TcpEvents events_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  std::deque<std::string> output_;
  std::size_t written_ = 0;  // of the first
  Phase phase_ = Phase::Connecting;
  bool is_held_ = false;
  bool is_output_over_ = false;
  bool is_shut_ = false;
  bool is_waiting_readable_ = false;
  bool is_waiting_writable_ = false;
};

void DialerLoop::end() {
  const auto all = std::exchange(connections_, {});
  for (const auto& [key, connection] : all) connection->close_now();
  work_.reset();
}

class TcpDialerImpl final : public TcpDialer {
 public:
  explicit TcpDialerImpl(rt::Runtime& runtime)
      : loop_(std::make_shared<DialerLoop>()), thread_(runtime, "tcp-dialer", [loop = loop_] { loop->run(); }) {}
  ~TcpDialerImpl() override { BASALT_CHECK(!thread_.joinable()); }

  std::shared_ptr<TcpConnection> dial(const std::string& address, std::uint16_t port, TcpEvents events) override {
    auto connection = std::make_shared<Dialed>(loop_, std::move(events));
    connection->start(address, port);
    return connection;
  }
  void stop() override {
    loop_->post([loop = loop_.get()] { loop->end(); }, /*is_last=*/true);
    if (thread_.joinable()) thread_.join();
  }

 private:
  const std::shared_ptr<DialerLoop> loop_;  // self-locking
  rt::Thread thread_;
};

}  // namespace

std::unique_ptr<TcpDialer> make_tcp_dialer(rt::Runtime& runtime) { return std::make_unique<TcpDialerImpl>(runtime); }

}  // namespace basalt::net
