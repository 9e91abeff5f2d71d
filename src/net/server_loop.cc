#include "net/server_loop.h"

#include <ctime>

#include <boost/asio/post.hpp>

#include "base/check.h"

namespace basalt::net {
namespace {

namespace asio = boost::asio;

constexpr rt::Duration kTickStopping = std::chrono::milliseconds(20);

std::string http_date(rt::WallTime time) {
  const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[40];
  const std::size_t size = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text, size};
}

}  // namespace

ServerLoop::ServerLoop(const ServerShared& shared, int index)
    : shared_(shared),
      index_(index),
      io_(1),
      mailbox_(std::make_shared<Mailbox>([this] { asio::post(io_, [this] { drain_mailbox(); }); })),
      work_(io_.get_executor()),
      timer_(io_),
      read_buffer_(kReadBytes),
      write_scratch_(Transport::kScratchBytes) {}

ServerLoop::~ServerLoop() { BASALT_CHECK(!thread_.joinable()); }

void ServerLoop::start() {
  thread_ = rt::Thread(shared_.runtime, "http-server-" + std::to_string(index_), [this] { io_.run(); });
}

void ServerLoop::post(std::function<void()> task) { asio::post(io_, std::move(task)); }

void ServerLoop::stop() {
  mailbox_->close();
  post([this] {
    timer_.cancel();
    work_.reset();
  });
  if (thread_.joinable()) thread_.join();
}

void ServerLoop::adopt(asio::ip::tcp::socket socket, SSL* ssl, std::string peer_address) {
  auto connection = std::make_shared<Connection>(*this, std::move(socket), ssl, std::move(peer_address));
  connections_.emplace(connection.get(), connection);
  if (!is_ticking_) {
    is_ticking_ = true;
    tick();
  }
  connection->start();
  if (is_stopping_) connection->begin_stop();
}

void ServerLoop::forget(Connection& connection) {
  if (connections_.erase(&connection) == 1) shared_.on_connection_ended();
}

void ServerLoop::write_soon(std::shared_ptr<Connection> connection) { to_write_.push_back(std::move(connection)); }

void ServerLoop::drain_mailbox() {
  BASALT_DCHECK(commands_.empty());
  mailbox_->take(commands_);
  for (ResponseCommand& command : commands_) {
    Session* session = command.exchange->session;
    if (session != nullptr) {
      session->carry_out(command);
    } else if (command.kind == ResponseCommand::Kind::TellClosed) {
      command.exchange->tell_gone();
    }
  }
  commands_.clear();
  for (const auto& connection : to_write_) connection->write();
  to_write_.clear();
}

void ServerLoop::tick() {
  const rt::Instant now = shared_.runtime.now();
  std::vector<std::shared_ptr<Connection>> all;
  all.reserve(connections_.size());
  for (const auto& [key, connection] : connections_) all.push_back(connection);
  for (const auto& connection : all) connection->check_deadlines(now);
  if (connections_.empty()) {  // an idle server does not wake up
    is_ticking_ = false;
    return;
  }
  timer_.expires_after(is_stopping_ ? kTickStopping : shared_.tick);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) tick();
  });
}

void ServerLoop::begin_stop() {
  is_stopping_ = true;
  std::vector<std::shared_ptr<Connection>> all;
  for (const auto& [key, connection] : connections_) all.push_back(connection);
  for (const auto& connection : all) connection->begin_stop();
  if (is_ticking_) tick();  // from now on at a quicker pace
}

void ServerLoop::close_all() {
  while (!connections_.empty()) {
    const std::shared_ptr<Connection> connection = connections_.begin()->second;
    connection->close();
  }
}

std::string_view ServerLoop::date() {
  const rt::Instant now = shared_.runtime.now();
  if (date_.empty() || now - date_made_at_ >= std::chrono::seconds(1)) {
    date_ = http_date(shared_.runtime.wall_now());
    date_made_at_ = now;
  }
  return date_;
}

}  // namespace basalt::net
