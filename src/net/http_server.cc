#include "net/http_server.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <openssl/ssl.h>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/check.h"
#include "net/handler_pool.h"
#include "net/server_loop.h"
#include "net/tls_context.h"

namespace basalt::net {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when the process has no descriptor left

SessionLimits limits_of(const HttpServerOptions& options) {
  return {.body_bytes_max = options.body_bytes_max,
          .header_bytes_max = options.header_bytes_max,
          .streams_max = options.http2 ? options.http2_streams_max : 0,
          .header_timeout = options.header_timeout,
          .body_timeout = options.body_timeout,
          .idle_timeout = options.idle_timeout,
          .write_timeout = options.write_timeout};
}

// A deadline is noticed at most this much late: a tenth of the shortest, between 5 ms and a second.
rt::Duration tick_of(const HttpServerOptions& options) {
  const rt::Duration shortest =
      std::min({options.header_timeout, options.body_timeout, options.idle_timeout, options.write_timeout});
  return std::clamp<rt::Duration>(shortest / 10, std::chrono::milliseconds(5), std::chrono::seconds(1));
}

std::string address_text(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

class AsioHttpServer final : public HttpServer {
 public:
  AsioHttpServer(rt::Runtime& runtime, Logger log, const HttpServerOptions& options, Handler handler)
      : runtime_(runtime),
        connections_max_(options.connections_max),
        pool_(runtime,
              {.threads = std::max(0, options.handler_threads),
               .waiting_max = options.handler_queue_max,
               .waiting_bytes_max = options.handler_queue_bytes_max},
              std::move(handler)),
        shared_{.runtime = runtime,
                .log = std::move(log),
                .limits = limits_of(options),
                .tick = tick_of(options),
                .has_room_for = [this](std::size_t body_bytes) { return pool_.has_room_for(body_bytes); },
                .dispatch = [this](auto request,
                                   auto exchange) { return pool_.submit(std::move(request), std::move(exchange)); },
                .on_connection_ended = [this] { on_connection_ended(); }},
        connections_changed_(runtime) {
    for (int i = 0; i < std::max(1, options.event_threads); ++i) {
      loops_.push_back(std::make_unique<ServerLoop>(shared_, i));
    }
    acceptor_.emplace(loops_.front()->io());
    pause_.emplace(loops_.front()->io());
  }
  ~AsioHttpServer() override { BASALT_CHECK(is_stopped_); }

  Done listen(const HttpServerOptions& options) {
    if (options.tls) {
      BASALT_TRY(tls_, TlsContext::make(runtime_, shared_.log, *options.tls, options.http2));
    }
    error_code error;
    const asio::ip::address address = asio::ip::make_address(options.address, error);
    if (error) return Error::invalid_input(fmt::format("\"{}\" is not an IP address.", options.address));
    const tcp::endpoint endpoint(address, options.port);
    acceptor_->open(endpoint.protocol(), error);
    if (!error) acceptor_->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_->bind(endpoint, error);
    if (!error) acceptor_->listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return Error::invalid_input(fmt::format("Cannot listen on {}: {}.", address_text(endpoint), error.message()));
    }
    port_ = acceptor_->local_endpoint(error).port();
    return Ok{};
  }

  void start() {
    is_stopped_ = false;
    pool_.start();
    for (const auto& loop : loops_) loop->start();
    loops_.front()->post([this] { accept(); });
  }

  std::uint16_t port() const override { return port_; }

  void stop(rt::Duration grace) override {
    if (std::exchange(is_stopped_, true)) return;
    const rt::Instant deadline = runtime_.now() + grace;
    loops_.front()->post([this] {
      error_code ignored;
      acceptor_->close(ignored);
      pause_->cancel();
    });
    for (const auto& loop : loops_) {
      loop->post([&loop = *loop] { loop.begin_stop(); });
    }
    wait_for_connections(deadline);
    for (const auto& loop : loops_) {
      loop->post([&loop = *loop] { loop.close_all(); });
    }
    wait_for_connections(rt::kNever);
    // Handlers go first: they may still post to the loops.
    pool_.stop();
    for (const auto& loop : loops_) loop->stop();
  }

 private:
  void accept() {
    ServerLoop& loop = *loops_[next_loop_++ % loops_.size()];
    acceptor_->async_accept(loop.io(), [this, &loop](const error_code& error, tcp::socket socket) {
      if (!acceptor_->is_open()) return;
      if (error) return on_accept_failed(error);
      on_accepted(loop, std::move(socket));
      accept();
    });
  }

  void on_accept_failed(const error_code& error) {
    if (error == asio::error::connection_aborted) return accept();
    shared_.log.warn("cannot accept connections for a moment", {{"problem", error.message()}});
    pause_->expires_after(kAcceptPause);
    pause_->async_wait([this](const error_code& cancelled) {
      if (!cancelled && acceptor_->is_open()) accept();
    });
  }

  void on_accepted(ServerLoop& loop, tcp::socket socket) {
    error_code error;
    const tcp::endpoint peer = socket.remote_endpoint(error);
    if (!error) socket.native_non_blocking(true, error);
    if (error || !may_take_connection()) return;  // the socket closes itself
    socket.set_option(tcp::no_delay(true), error);
    socket.set_option(asio::socket_base::keep_alive(true), error);
    SSL* ssl = tls_ ? tls_->new_connection() : nullptr;
    if (tls_ && ssl == nullptr) return on_connection_ended();
    if (&loop == loops_.front().get()) {
      loop.adopt(std::move(socket), ssl, address_text(peer));
      return;
    }
    // std::function wants what it holds to be copyable.
    auto carried = std::make_shared<tcp::socket>(std::move(socket));
    loop.post([&loop, carried, ssl, address = address_text(peer)] { loop.adopt(std::move(*carried), ssl, address); });
  }

  bool may_take_connection() {
    rt::MutexLock lock(mutex_);
    if (connections_ >= connections_max_) return false;
    ++connections_;
    return true;
  }

  void on_connection_ended() {
    rt::MutexLock lock(mutex_);
    --connections_;
    if (connections_ == 0) connections_changed_.notify_all();
  }

  void wait_for_connections(rt::Instant deadline) {
    rt::MutexLock lock(mutex_);
    while (connections_ > 0 && connections_changed_.wait_until(mutex_, deadline)) continue;
  }

  // Fixed after construction.
  rt::Runtime& runtime_;
  const int connections_max_;
  HandlerPool pool_;
  const ServerShared shared_;
  std::vector<std::unique_ptr<ServerLoop>> loops_;
  std::uint16_t port_ = 0;
  bool is_stopped_ = true;

  // Used only by the first loop.
  std::optional<tcp::acceptor> acceptor_;
  std::optional<asio::steady_timer> pause_;
  std::unique_ptr<TlsContext> tls_;
  std::size_t next_loop_ = 0;

  rt::Mutex mutex_;
  rt::Condition connections_changed_;
  int connections_ BASALT_GUARDED_BY(mutex_) = 0;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> start_http_server(rt::Runtime& runtime, Logger log, HttpServerOptions options,
                                                      Handler handler) {
  if (runtime.is_simulated()) return Error::invalid_input("A simulation has no network.");
  try {
    auto server = std::make_unique<AsioHttpServer>(runtime, std::move(log), options, std::move(handler));
    BASALT_TRY_DONE(server->listen(options));
    server->start();
    return std::unique_ptr<HttpServer>(std::move(server));
  } catch (const boost::system::system_error& error) {
    return Error::make(Reason::InternalError, fmt::format("The HTTP server cannot start: {}.", error.what()));
  }
}

}  // namespace basalt::net
