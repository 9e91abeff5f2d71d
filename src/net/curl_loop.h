#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <curl/curl.h>

#include "base/result.h"
#include "net/curl_exchange.h"
#include "net/curl_transfer.h"
#include "net/http_client.h"
#include "net/pem_source.h"
#include "net/stream_pace.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::net {

// The calls to one host: how many are under way and which wait for a connection, first come first served. A batch has
// at most one request in the queue, so that a caller with one call waits for one connection and not for a whole batch.
struct HostQueue {
  int active = 0;
  std::deque<Transfer*> waiting;
};

// Sockets in an epoll set, changed as seldom as possible: libcurl forgets a connection's socket after each request and
// asks for it again with the next. Changes are collected and applied before the next wait, and a socket of ours that
// nobody asks for stays in the set until something happens on it. Those of streams are in a set of their own within it,
// so that they can be left out for a while by one call.
class SocketSet final : public SocketObserver {
 public:
  static constexpr int kLanes = 2;
  static constexpr int kCallLane = 0;
  static constexpr int kStreamLane = 1;
  SocketSet();
  ~SocketSet();
  SocketSet(const SocketSet&) = delete;
  SocketSet& operator=(const SocketSet&) = delete;

  struct Ready {
    int lane = 0;
    int fd = -1;
    int curl_mask = 0;  // CURL_CSELECT_*
  };
  void want(int lane, int fd, int curl_what);  // CURL_POLL_*
  // Waits until a socket is ready, wake() is called or the time is over; at most kReadyMax of a lane.
  const std::vector<Ready>& wait(int timeout_ms);
  // From now on wait() leaves out the streams' sockets, or no longer does.
  void pause_streams(bool is_pausing);
  // The streams' sockets that are ready now, whether they are paused or not.
  const std::vector<Ready>& ready_streams();
  void wake();  // from any thread
  // Is the event still wanted? An earlier one of the same round may have closed the socket.
  [[nodiscard]] bool is_current(const Ready& ready) const;

  void on_socket_opened(int fd) override;
  void on_socket_closed(int fd) override;

 private:
  static constexpr int kReadyMax = 64;
  struct State {
    std::uint32_t wanted = 0;
    std::uint32_t registered = 0;
    int lane = 0;
    bool is_ours = false;  // opened and closed through us, so that it may stay registered
    bool is_dirty = false;
  };
  State& state(int fd);
  void apply_changes();
  void set_registered(int fd, State& state, std::uint32_t events);
  void collect(int epoll_fd, int timeout_ms);
  [[nodiscard]] int epoll_of(int lane) const { return lane == kStreamLane ? streams_epoll_fd_ : epoll_fd_; }

  const int epoll_fd_;
  const int streams_epoll_fd_;  // an element of the first
  const int wake_fd_;
  bool streams_are_paused_ = false;
  std::vector<State> states_;  // by file descriptor
  std::vector<int> dirty_;
  std::vector<Ready> ready_;
};

// The event loop of an HttpClient: one thread that owns libcurl's handles. Other threads hand it commands and wait on
// the batch or the stream they handed over. Two multi handles, because a pool of HTTP/1.1 connections for calls and
// HTTP/2 connections for streams have different limits and must not be mistaken for each other.
class CurlLoop {
 public:
  CurlLoop(rt::Runtime& runtime, HttpClientOptions options, PemSource pem);
  ~CurlLoop();
  CurlLoop(const CurlLoop&) = delete;
  CurlLoop& operator=(const CurlLoop&) = delete;

  void start();
  void stop();  // everything under way ends with Cancelled; later commands do so at once

  // From any thread.
  void submit(std::shared_ptr<Batch> batch);
  void cancel(std::shared_ptr<Batch> batch);
  void open(std::shared_ptr<StreamBuffer> stream);
  void cancel(std::shared_ptr<StreamBuffer> stream);
  void resume(std::shared_ptr<StreamBuffer> stream);

 private:
  struct Command {
    enum class Kind : std::uint8_t { Submit, Cancel, Resume } kind = Kind::Submit;
    std::shared_ptr<Batch> batch;
    std::shared_ptr<StreamBuffer> stream;
  };
  // One multi handle with its timer and its easy handles.
  struct Lane {
    CurlLoop* loop = nullptr;
    int index = 0;
    CURLM* multi = nullptr;
    rt::Instant timer = rt::kNever;
    std::vector<std::unique_ptr<Transfer>> idle;
    std::size_t idle_max = 0;
  };

  [[nodiscard]] bool post(Command command);  // false after stop()
  void run();
  void run_commands();
  void run_command(Command& command);
  void run_timers();
  void run_messages(Lane& lane);
  void run_deadlines();
  void end_everything();
  [[nodiscard]] int wait_ms() const;
  void act_on(const std::vector<SocketSet::Ready>& all);
  void finish_round(bool streams_were_due);

  void pump(const std::shared_ptr<Batch>& batch);
  void begin(Transfer& transfer);
  void give_connection_to_next(HostQueue& host);
  void open_stream(std::shared_ptr<StreamBuffer> stream);
  void complete_call(Transfer& transfer, Result<HttpResponse> result);
  void complete_stream(Transfer& transfer, std::optional<Error> error);
  void fail(Transfer& transfer, Error error);  // either of them
  void cut_off(Transfer& transfer);            // a stream that nobody wants any more
  void cancel_batch(const std::shared_ptr<Batch>& batch);

  Transfer& take_transfer(Lane& lane);
  void put_back(Transfer& transfer);  // also takes it from libcurl and from the deadlines
  void set_deadline(Transfer& transfer, rt::Duration timeout);
  HostQueue& host_of(const std::string& origin);
  void refresh_tls();
  [[nodiscard]] Lane& lane_of(const Transfer& transfer) { return lanes_[transfer.stream ? 1 : 0]; }

  static int on_socket(CURL* easy, curl_socket_t fd, int what, void* lane, void* per_socket);
  static int on_timer(CURLM* multi, long timeout_ms, void* lane);

  // Fixed after construction.
  rt::Runtime& runtime_;
  const HttpClientOptions options_;
  rt::Thread thread_;

  // Guarded by mutex_.
  rt::Mutex mutex_;
  std::vector<Command> commands_ BASALT_GUARDED_BY(mutex_);
  bool is_loop_asleep_ BASALT_GUARDED_BY(mutex_) = false;
  bool must_stop_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_closed_ BASALT_GUARDED_BY(mutex_) = true;

  // Used only by the loop's thread.
  PemSource pem_;
  std::uint64_t tls_generation_ = 1;
  rt::Instant tls_checked_at_{};
  SocketSet sockets_;
  // A further connection to the same host takes up the TLS session of an earlier one (of the same certificates: libcurl
  // compares them), which spares both sides the costly half of the handshake.
  CURLSH* const share_;
  std::array<Lane, SocketSet::kLanes> lanes_;
  std::map<std::string, HostQueue, std::less<>> hosts_;
  std::vector<std::unique_ptr<Transfer>> active_;  // under way or waiting for a connection
  std::set<std::pair<rt::Instant, Transfer*>> deadlines_;
  std::vector<Command> running_commands_;
  StreamsRead streams_read_;
  StreamPace pace_;
};

}  // namespace basalt::net
