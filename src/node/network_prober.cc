#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "net/url.h"
#include "node/grpc_health.h"
#include "node/prober.h"
#include "node/tcp_connect_linux.h"

namespace basalt::node {
namespace {

constexpr std::size_t kThreadsMax = 256;
constexpr std::size_t kWaitingMax = 10'000;
constexpr std::size_t kBodyBytesMax = 10 * 1024;  // kubelet reads as much (pkg/probe/http, v1.36); more does no harm
constexpr std::size_t kGrpcBytesMax = 64 * 1024;
constexpr int kRequestsMax = 10;

CheckResult result_of(const Error& error) {
  const bool is_unknown = error.is(Reason::InvalidInput) || error.is(Reason::Cancelled);
  return {is_unknown ? Verdict::Errored : Verdict::Failed, error.message};
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// Where a Location leads from here (RFC 3986, 5.2, without dot segments, which servers resolve as well).
Result<net::Url> redirected(const net::Url& from, std::string_view location) {
  location = location.substr(0, location.find('#'));
  if (location.find("://") < location.find_first_of("/?")) return net::parse_url(location);
  if (location.starts_with("//")) return net::parse_url(from.scheme + ":" + std::string(location));
  net::Url to = from;
  const std::size_t query = std::min(location.find('?'), location.size());
  const std::string_view path = location.substr(0, query);
  to.query = query < location.size() ? std::string(location.substr(query + 1)) : "";
  if (path.starts_with('/')) {
    to.path = path;
  } else if (!path.empty()) {
    to.path = from.path.substr(0, from.path.rfind('/') + 1) + std::string(path);
  }
  return to;
}

// The answer to one request; what is beyond the limit of the body is not looked at.
struct Answer {
  int status = 0;
  std::string location;
  std::string body;
};

Result<Answer> ask(rt::Runtime& runtime, net::HttpClient& http, const net::HttpRequest& request, rt::Instant deadline,
                   const rt::StopToken& stop) {
  BASALT_TRY(const auto stream, http.open_stream(request, stop));
  Answer answer{
      .status = stream->status(), .location = std::string(net::find_header(stream->headers(), "Location")), .body = ""};
  while (answer.body.size() < kBodyBytesMax) {
    BASALT_TRY(const std::string piece, stream->read(deadline));
    if (piece.empty()) break;
    answer.body += piece;
    if (runtime.now() >= deadline)
      return Error::make(Reason::DeadlineExceeded, "the answer did not end within the timeout");
  }
  return answer;
}

// Without the milliseconds that it took: the same trouble is told in the same words, so that its events are counted
// rather than listed.
Error steady(Error error, const std::string& what) {
  if (error.is(Reason::DeadlineExceeded)) error.message = what + ": no answer came within the timeout";
  const std::size_t from = error.message.find(" after ");
  if (from == std::string::npos) return error;
  const std::size_t digits = from + std::string_view(" after ").size();
  const std::size_t to = error.message.find_first_not_of("0123456789", digits);
  if (to != std::string::npos && to > digits && error.message.compare(to, 3, " ms") == 0)
    error.message.erase(from, to + 3 - from);
  return error;
}

// As kubelet's pkg/probe/http: redirects are followed on the same host; one that leads elsewhere is a success.
CheckResult check_http(rt::Runtime& runtime, net::HttpClient& http, const HttpCheck& check, rt::Instant deadline,
                       const rt::StopToken& stop) {
  auto url = net::parse_url(check.url);
  if (!url.ok()) return result_of(url.error());
  const std::string host = url->host;
  net::HttpRequest request;
  request.headers = check.headers;
  request.headers.emplace_back("Connection", "close");
  for (int requests = 0; requests < kRequestsMax; ++requests) {
    request.url = url->to_string();
    request.timeout = std::max<rt::Duration>(deadline - runtime.now(), std::chrono::milliseconds(1));
    const auto answer = ask(runtime, http, request, deadline, stop);
    if (!answer.ok()) return result_of(steady(answer.error(), "GET " + request.url));
    if (answer->status < 200 || answer->status >= 400)
      return {Verdict::Failed, "HTTP probe failed with statuscode: " + std::to_string(answer->status)};
    if (answer->status < 300) return {Verdict::Passed, ""};
    const bool leads_on = is_redirect(answer->status) && !answer->location.empty();
    auto next = leads_on ? redirected(*url, answer->location) : Result<net::Url>(*url);
    if (!next.ok()) return {Verdict::Failed, next.error().message};
    if (!leads_on || next->host != host)
      return {Verdict::Passed, "Probe terminated redirects, Response body: " + base::ellipsize(answer->body, 256)};
    if (next->port != url->port || next->scheme != url->scheme)
      std::erase_if(request.headers,
                    [](const auto& header) { return base::equals_ignore_case_ascii(header.first, "Host"); });
    url = std::move(next);
  }
  return {Verdict::Failed, "stopped after " + std::to_string(kRequestsMax) + " redirects"};
}

CheckResult check_tcp(rt::Runtime& runtime, const TcpCheck& check, rt::Instant deadline, const rt::StopToken& stop) {
  const Done done = connect_tcp(runtime, check.host, check.port, deadline, stop);
  return done.ok() ? CheckResult{Verdict::Passed, ""} : result_of(done.error());
}

CheckResult check_grpc(net::HttpClient& http2, const GrpcCheck& check, rt::Duration timeout,
                       const rt::StopToken& stop) {
  net::Url url;
  url.scheme = "http";
  url.host = check.host;
  url.port = check.port;
  url.path = kGrpcHealthPath;
  const std::string body = grpc_health_request(check.service);
  const net::HttpRequest request{.method = "POST",
                                 .url = url.to_string(),
                                 .headers = {{"Content-Type", "application/grpc"}, {"TE", "trailers"}},
                                 .body = body,
                                 .timeout = timeout,
                                 .response_bytes_max = kGrpcBytesMax};
  const auto answer = http2.call(request, stop);
  return answer.ok() ? grpc_health_result(check.service, *answer)
                     : result_of(steady(answer.error(), "POST " + request.url));
}

class NetworkProber final : public Prober {
 public:
  explicit NetworkProber(rt::Runtime& runtime) : runtime_(runtime), changed_(runtime) {}
  ~NetworkProber() override { stop(); }

  Done start(NetworkCheck check, rt::Duration timeout, const rt::StopToken& stop, OnResult on_result) override {
    rt::MutexLock lock(mutex_);
    if (stopped_) return Error::make(Reason::Cancelled, "the node is stopping");
    if (tasks_.size() >= kWaitingMax)
      return Error::make(Reason::TooManyRequests, "too many probes wait for their turn on this machine");
    tasks_.push_back({std::move(check), timeout, stop, std::move(on_result)});
    if (tasks_.size() > idle_ && threads_.size() < kThreadsMax)
      threads_.emplace_back(runtime_, "probe", [this] { work(); });
    changed_.notify_one();
    return Ok{};
  }

  void stop() override {
    std::vector<rt::Thread> threads;
    {
      rt::MutexLock lock(mutex_);
      stopped_ = true;
      threads.swap(threads_);
      changed_.notify_all();
    }
    for (rt::Thread& thread : threads) thread.join();
  }

 private:
  enum Use : std::size_t { kForHttp, kForGrpc };
  struct Task {
    NetworkCheck check;
    rt::Duration timeout{};
    rt::StopToken stop;
    OnResult on_result;
  };

  void work() {
    while (auto task = next()) {
      CheckResult result = run(*task);
      task->on_result(std::move(result));
    }
  }

  std::optional<Task> next() BASALT_EXCLUDES(mutex_) {
    rt::MutexLock lock(mutex_);
    ++idle_;
    while (tasks_.empty() && !stopped_) changed_.wait(mutex_);
    --idle_;
    if (tasks_.empty()) return std::nullopt;
    std::optional<Task> task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  // The timeout runs from here: who waits for a thread has not been asked yet.
  CheckResult run(const Task& task) {
    if (runtime_.is_simulated()) return {Verdict::Errored, "a simulation has no network"};
    if (task.stop.stop_requested()) return {Verdict::Errored, "stopped"};
    const rt::Instant deadline = rt::saturating_add(runtime_.now(), task.timeout);
    if (const auto* tcp = std::get_if<TcpCheck>(&task.check)) return check_tcp(runtime_, *tcp, deadline, task.stop);
    const auto* grpc = std::get_if<GrpcCheck>(&task.check);
    const auto client = client_for(grpc != nullptr ? kForGrpc : kForHttp);
    if (!client.ok()) return {Verdict::Errored, client.error().message};
    if (grpc != nullptr) return check_grpc(**client, *grpc, task.timeout, task.stop);
    return check_http(runtime_, **client, *std::get_if<HttpCheck>(&task.check), deadline, task.stop);
  }

  // Made when it is needed for the first time: most clusters have no such probes.
  Result<net::HttpClient*> client_for(Use use) BASALT_EXCLUDES(mutex_) {
    rt::MutexLock lock(mutex_);
    if (!clients_[use]) {
      net::HttpClientOptions options;
      options.user_agent = kProbeUserAgent;
      options.connect_timeout = std::chrono::hours(1);  // each request has its own timeout
      options.connections_max = static_cast<int>(kThreadsMax);
      options.tls.insecure_skip_verify = true;  // as kubelet: a pod's own certificate says nothing that it could check
      options.http2_only = use == kForGrpc;
      BASALT_TRY(clients_[use], net::make_http_client(runtime_, std::move(options)));
    }
    return clients_[use].get();
  }

  rt::Runtime& runtime_;  // fixed after construction

  rt::Mutex mutex_;
  rt::Condition changed_;
  std::deque<Task> tasks_ BASALT_GUARDED_BY(mutex_);
  std::size_t idle_ BASALT_GUARDED_BY(mutex_) = 0;
  std::vector<rt::Thread> threads_ BASALT_GUARDED_BY(mutex_);
  bool stopped_ BASALT_GUARDED_BY(mutex_) = false;
  std::array<std::unique_ptr<net::HttpClient>, 2> clients_
      BASALT_GUARDED_BY(mutex_);  // by use; never changed once made
};

}  // namespace

std::unique_ptr<Prober> make_network_prober(rt::Runtime& runtime) { return std::make_unique<NetworkProber>(runtime); }

}  // namespace basalt::node
