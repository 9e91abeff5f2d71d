#include "net/curl_loop.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace basalt::net {
namespace {

constexpr int kCallLane = SocketSet::kCallLane;
constexpr int kStreamLane = SocketSet::kStreamLane;
constexpr std::size_t kIdleStreamHandlesMax = 16;
constexpr std::size_t kHostsKeptMax = 64;
constexpr long kStreamsPerConnectionMax = 1000;              // servers usually allow 100 to 250
constexpr auto kTlsCheckInterval = std::chrono::seconds(1);  // a renewed certificate is noticed after that
constexpr auto kTimeoutMax = std::chrono::hours(24 * 365);   // beyond: no deadline

Error cancelled() { return Error::make(Reason::Cancelled, "The call was cancelled."); }

}  // namespace

CurlLoop::CurlLoop(rt::Runtime& runtime, HttpClientOptions options, PemSource pem)
    : runtime_(runtime),
      options_(std::move(options)),
      pem_(std::move(pem)),
      tls_checked_at_(runtime.now()),
      share_(curl_share_init()) {
  BASALT_CHECK(share_ != nullptr);
  // Used by one thread, so no locks.
  curl_share_setopt(share_, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
  for (int i = 0; i < SocketSet::kLanes; ++i) {
    Lane& lane = lanes_[static_cast<std::size_t>(i)];
    lane.loop = this;
    lane.index = i;
    lane.multi = curl_multi_init();
    BASALT_CHECK(lane.multi != nullptr);
    curl_multi_setopt(lane.multi, CURLMOPT_SOCKETFUNCTION, &CurlLoop::on_socket);
    curl_multi_setopt(lane.multi, CURLMOPT_SOCKETDATA, &lane);
    curl_multi_setopt(lane.multi, CURLMOPT_TIMERFUNCTION, &CurlLoop::on_timer);
    curl_multi_setopt(lane.multi, CURLMOPT_TIMERDATA, &lane);
    curl_multi_setopt(lane.multi, CURLMOPT_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  }
  // The queue of a host keeps calls from going over this; libcurl is told as well, to be sure.
  curl_multi_setopt(lanes_[kCallLane].multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                    static_cast<long>(options_.connections_max));
  curl_multi_setopt(lanes_[kCallLane].multi, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.connections_max) * 2);
  lanes_[kCallLane].idle_max = static_cast<std::size_t>(options_.connections_max);
  lanes_[kStreamLane].idle_max = kIdleStreamHandlesMax;
}

CurlLoop::~CurlLoop() {
  BASALT_CHECK(active_.empty());
  for (Lane& lane : lanes_) {
    lane.idle.clear();
    curl_multi_cleanup(lane.multi);
  }
  curl_share_cleanup(share_);
}

void CurlLoop::start() {
  {
    rt::MutexLock lock(mutex_);
    is_closed_ = false;
  }
  thread_ = rt::Thread(runtime_, "http-client", [this] { run(); });
}

void CurlLoop::stop() {
  {
    rt::MutexLock lock(mutex_);
    is_closed_ = true;
    must_stop_ = true;
  }
  sockets_.wake();
  if (thread_.joinable()) thread_.join();
}

void CurlLoop::submit(std::shared_ptr<Batch> batch) {
  if (!post({.kind = Command::Kind::Submit, .batch = batch, .stream = nullptr})) batch->finish();
}

void CurlLoop::cancel(std::shared_ptr<Batch> batch) {
  (void)post({.kind = Command::Kind::Cancel, .batch = std::move(batch), .stream = nullptr});
}

void CurlLoop::open(std::shared_ptr<StreamBuffer> stream) {
  if (!post({.kind = Command::Kind::Submit, .batch = nullptr, .stream = stream})) stream->cancel();
}

void CurlLoop::cancel(std::shared_ptr<StreamBuffer> stream) {
  stream->cancel();
  (void)post({.kind = Command::Kind::Cancel, .batch = nullptr, .stream = std::move(stream)});
}

void CurlLoop::resume(std::shared_ptr<StreamBuffer> stream) {
  (void)post({.kind = Command::Kind::Resume, .batch = nullptr, .stream = std::move(stream)});
}

bool CurlLoop::post(Command command) {
  bool must_wake = false;
  {
    rt::MutexLock lock(mutex_);
    if (is_closed_) return false;
    commands_.push_back(std::move(command));
    must_wake = std::exchange(is_loop_asleep_, false);
  }
  if (must_wake) sockets_.wake();
  return true;
}

void CurlLoop::run() {
  bool streams_were_due = false;
  for (;;) {
    run_commands();
    run_timers();
    run_deadlines();
    finish_round(streams_were_due);
    int timeout_ms = wait_ms();
    {
      rt::MutexLock lock(mutex_);
      if (must_stop_) break;
      if (!commands_.empty()) timeout_ms = 0;
      is_loop_asleep_ = timeout_ms != 0;
    }
    act_on(sockets_.wait(timeout_ms));
    streams_were_due = pace_.is_pausing() && runtime_.now() >= pace_.pauses_until();
    if (streams_were_due) act_on(sockets_.ready_streams());
    for (Lane& lane : lanes_) run_messages(lane);
  }
  end_everything();
}

void CurlLoop::act_on(const std::vector<SocketSet::Ready>& all) {
  for (const SocketSet::Ready& ready : all) {
    if (!sockets_.is_current(ready)) continue;
    int running = 0;
    curl_multi_socket_action(lanes_[static_cast<std::size_t>(ready.lane)].multi, ready.fd, ready.curl_mask, &running);
  }
}

// What libcurl has read for other streams on the same connection came out in run_timers().
void CurlLoop::finish_round(bool streams_were_due) {
  for (const auto& stream : streams_read_.touched) stream->announce();
  streams_read_.touched.clear();
  pace_.note(runtime_.now(), std::exchange(streams_read_.bytes, 0), streams_were_due);
  sockets_.pause_streams(pace_.is_pausing());
}

void CurlLoop::run_commands() {
  {
    rt::MutexLock lock(mutex_);
    is_loop_asleep_ = false;
    running_commands_.swap(commands_);
  }
  for (Command& command : running_commands_) run_command(command);
  running_commands_.clear();
}

void CurlLoop::run_command(Command& command) {
  switch (command.kind) {
    case Command::Kind::Submit:
      if (command.batch) pump(command.batch);
      if (command.stream) open_stream(std::move(command.stream));
      return;
    case Command::Kind::Cancel:
      if (command.batch) cancel_batch(command.batch);
      if (command.stream && command.stream->transfer != nullptr) cut_off(*command.stream->transfer);
      return;
    case Command::Kind::Resume:
      if (command.stream->transfer != nullptr) command.stream->transfer->resume();
      return;
  }
}

void CurlLoop::run_timers() {
  // A request that ends lets the next begin, which sets the timer to "now": a few rounds, then sockets get their turn.
  for (int round = 0; round < 16; ++round) {
    bool is_any_due = false;
    const rt::Instant now = runtime_.now();
    for (Lane& lane : lanes_) {
      if (lane.timer > now) continue;
      is_any_due = true;
      lane.timer = rt::kNever;
      int running = 0;
      curl_multi_socket_action(lane.multi, CURL_SOCKET_TIMEOUT, 0, &running);
      run_messages(lane);
    }
    if (!is_any_due) return;
  }
}

void CurlLoop::run_messages(Lane& lane) {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(lane.multi, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    void* owner = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &owner);
    auto& transfer = *static_cast<Transfer*>(owner);
    const CURLcode code = message->data.result;
    if (!transfer.stream) {
      complete_call(transfer, transfer.take_response(code));
    } else if (transfer.is_success(code)) {
      complete_stream(transfer, std::nullopt);
    } else {
      complete_stream(transfer, transfer.failure(code));
    }
  }
}

void CurlLoop::run_deadlines() {
  if (deadlines_.empty()) return;
  const rt::Instant now = runtime_.now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Transfer& transfer = *deadlines_.begin()->second;
    if (transfer.stream && transfer.has_headers()) {  // open in time
      deadlines_.erase(deadlines_.begin());
      transfer.deadline = rt::kNever;
      continue;
    }
    fail(transfer, transfer.deadline_exceeded());
  }
}

int CurlLoop::wait_ms() const {
  rt::Instant until = std::min(lanes_[kCallLane].timer, lanes_[kStreamLane].timer);
  if (!deadlines_.empty()) until = std::min(until, deadlines_.begin()->first);
  until = std::min(until, pace_.pauses_until());
  if (until == rt::kNever) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - runtime_.now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

void CurlLoop::pump(const std::shared_ptr<Batch>& batch) {
  if (batch->is_finished || batch->is_queued) return;
  refresh_tls();
  while (batch->next < batch->requests.size() && batch->in_flight < batch->in_flight_max) {
    const std::size_t index = batch->next++;
    const HttpRequest& request = batch->requests[index];
    Transfer& transfer = take_transfer(lanes_[kCallLane]);
    const Done prepared = transfer.prepare(request, tls_generation_);
    if (!prepared) {
      put_back(transfer);
      batch->results[index] = prepared.error();
      ++batch->done;
      continue;
    }
    transfer.batch = batch;
    transfer.index = index;
    transfer.host = &host_of(transfer.origin());
    ++batch->in_flight;
    set_deadline(transfer, request.timeout);
    if (transfer.host->active >= options_.connections_max || !transfer.host->waiting.empty()) {
      transfer.host->waiting.push_back(&transfer);
      transfer.is_waiting = true;
      batch->is_queued = true;
      return;
    }
    begin(transfer);
  }
  if (batch->done == batch->requests.size()) {
    batch->is_finished = true;
    batch->finish();
  }
}

void CurlLoop::begin(Transfer& transfer) {
  transfer.is_waiting = false;
  ++transfer.host->active;
  BASALT_CHECK(curl_multi_add_handle(lanes_[kCallLane].multi, transfer.easy()) == CURLM_OK);
}

void CurlLoop::give_connection_to_next(HostQueue& host) {
  while (host.active < options_.connections_max && !host.waiting.empty()) {
    Transfer& next = *host.waiting.front();
    host.waiting.pop_front();
    const std::shared_ptr<Batch> batch = next.batch;
    batch->is_queued = false;
    begin(next);
    pump(batch);
  }
}

void CurlLoop::open_stream(std::shared_ptr<StreamBuffer> stream) {
  refresh_tls();
  Transfer& transfer = take_transfer(lanes_[kStreamLane]);
  transfer.stream = std::move(stream);
  transfer.stream->transfer = &transfer;
  const Done prepared = transfer.prepare(transfer.stream->request, tls_generation_);
  if (!prepared) {
    complete_stream(transfer, prepared.error());
    return;
  }
  BASALT_CHECK(curl_multi_add_handle(lanes_[kStreamLane].multi, transfer.easy()) == CURLM_OK);
  set_deadline(transfer, transfer.stream->request.timeout);
}

void CurlLoop::complete_call(Transfer& transfer, Result<HttpResponse> result) {
  const std::shared_ptr<Batch> batch = transfer.batch;
  HostQueue& host = *transfer.host;
  if (transfer.is_waiting) {
    std::erase(host.waiting, &transfer);
    batch->is_queued = false;
  } else {
    --host.active;
  }
  batch->results[transfer.index] = std::move(result);
  ++batch->done;
  --batch->in_flight;
  put_back(transfer);
  pump(batch);
  give_connection_to_next(host);
}

void CurlLoop::complete_stream(Transfer& transfer, std::optional<Error> error) {
  const std::shared_ptr<StreamBuffer> stream = transfer.stream;
  stream->transfer = nullptr;
  put_back(transfer);
  if (error) {
    stream->fail(std::move(*error));
  } else {
    stream->end();
  }
}

// libcurl 7.88 only queues the frame that ends an HTTP/2 stream early; it goes out with the next that must. Changing
// the window of another stream on the same connection makes one. If there is no other, the connection is closed, not
// kept.
void CurlLoop::cut_off(Transfer& transfer) {
  const int port = transfer.is_http2() ? transfer.local_port() : 0;
  transfer.forbid_reuse();
  complete_stream(transfer, cancelled());
  if (port == 0) return;
  for (const auto& other : active_) {
    if (!other->stream || other->local_port() != port) continue;
    curl_easy_pause(other->easy(), CURLPAUSE_RECV);
    curl_easy_pause(other->easy(), CURLPAUSE_CONT);
    return;
  }
}

void CurlLoop::fail(Transfer& transfer, Error error) {
  if (transfer.stream) {
    complete_stream(transfer, std::move(error));
  } else {
    complete_call(transfer, std::move(error));
  }
}

void CurlLoop::cancel_batch(const std::shared_ptr<Batch>& batch) {
  if (batch->is_finished) return;
  batch->done += batch->requests.size() - batch->next;  // their results say Cancelled from the start
  batch->next = batch->requests.size();
  std::vector<Transfer*> own;
  for (const auto& transfer : active_) {
    if (transfer->batch == batch) own.push_back(transfer.get());
  }
  for (Transfer* transfer : own) complete_call(*transfer, cancelled());
  pump(batch);
}

void CurlLoop::end_everything() {
  run_commands();
  while (!active_.empty()) {
    Transfer& transfer = *active_.back();
    if (transfer.batch) {
      cancel_batch(std::shared_ptr<Batch>(transfer.batch));
    } else {
      complete_stream(transfer, cancelled());
    }
  }
}

Transfer& CurlLoop::take_transfer(Lane& lane) {
  std::unique_ptr<Transfer> transfer;
  if (lane.idle.empty()) {
    const Transfer::Common common{.options = options_,
                                  .pem = pem_,
                                  .sockets = sockets_,
                                  .streams_read = streams_read_,
                                  .share = share_,
                                  .is_for_streams = lane.index == kStreamLane};
    transfer = std::make_unique<Transfer>(common);
  } else {
    transfer = std::move(lane.idle.back());
    lane.idle.pop_back();
  }
  transfer->slot = active_.size();
  active_.push_back(std::move(transfer));
  return *active_.back();
}

void CurlLoop::put_back(Transfer& transfer) {
  if (transfer.deadline != rt::kNever) deadlines_.erase({transfer.deadline, &transfer});
  transfer.deadline = rt::kNever;
  transfer.is_waiting = false;
  Lane& lane = lane_of(transfer);
  // Does nothing if it was not added.
  curl_multi_remove_handle(lane.multi, transfer.easy());
  transfer.release();

  const std::size_t slot = transfer.slot;
  std::unique_ptr<Transfer> owned = std::move(active_[slot]);
  if (slot + 1 != active_.size()) {
    active_[slot] = std::move(active_.back());
    active_[slot]->slot = slot;
  }
  active_.pop_back();
  if (lane.idle.size() < lane.idle_max) lane.idle.push_back(std::move(owned));
}

void CurlLoop::set_deadline(Transfer& transfer, rt::Duration timeout) {
  if (timeout > kTimeoutMax) return;
  transfer.deadline = runtime_.now() + timeout;
  deadlines_.insert({transfer.deadline, &transfer});
}

HostQueue& CurlLoop::host_of(const std::string& origin) {
  if (const auto found = hosts_.find(origin); found != hosts_.end()) return found->second;
  if (hosts_.size() >= kHostsKeptMax) {
    std::erase_if(hosts_, [](const auto& entry) { return entry.second.active == 0 && entry.second.waiting.empty(); });
  }
  return hosts_[origin];
}

void CurlLoop::refresh_tls() {
  const rt::Instant now = runtime_.now();
  if (now - tls_checked_at_ < kTlsCheckInterval) return;
  tls_checked_at_ = now;
  if (pem_.refresh()) ++tls_generation_;
}

int CurlLoop::on_socket(CURL* /*easy*/, curl_socket_t fd, int what, void* lane, void* /*per_socket*/) {
  auto& self = *static_cast<Lane*>(lane);
  self.loop->sockets_.want(self.index, fd, what);
  return 0;
}

int CurlLoop::on_timer(CURLM* /*multi*/, long timeout_ms, void* lane) {
  auto& self = *static_cast<Lane*>(lane);
  self.timer = timeout_ms < 0 ? rt::kNever : self.loop->runtime_.now() + std::chrono::milliseconds(timeout_ms);
  return 0;
}

}  // namespace basalt::net
