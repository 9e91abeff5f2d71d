#include "kube/rest_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "kube/metrics.h"
#include "kube/status.h"
#include "kube/version.h"
#include "kube/watch_decoder.h"
#include "net/url.h"
#include "rt/backoff.h"
#include "rt/token_bucket.h"

namespace basalt::kube {
namespace {

// The first wait is long enough for a load balancer to notice a dead server, the longest keeps an outage's end visible.
constexpr rt::BackoffOptions kBackoff = {
    .base = std::chrono::milliseconds(50), .cap = std::chrono::seconds(5), .factor = 2, .jitter = 0.5};
// What is read of the body of a refused watch.
constexpr std::size_t kWatchErrorBytesMax = 64u << 10;
// How many requests of one call_all are handed to the transport at once, so that none waits there for longer than its
// own timeout and the results of a hundred thousand are not all in memory twice.
constexpr std::size_t kWaveMax = 2048;
// How many series of the metrics are at hand; codes beyond it are looked up each time.
constexpr std::size_t kSeriesKeptMax = 64;

std::string_view method_of(Verb verb) {
  switch (verb) {
    case Verb::Get:
      return "GET";
    case Verb::Create:
      return "POST";
    case Verb::Update:
      return "PUT";
    case Verb::Patch:
      return "PATCH";
    case Verb::Delete:
    case Verb::DeleteCollection:
      return "DELETE";
  }
  return "GET";
}

// The server certainly did not carry it out, or carrying it out twice does no harm.
bool may_retry(const Error& error, bool is_read) {
  if (is_read) return error.is_transient();
  if (error.is(Reason::Unreachable)) return true;
  return (error.code == 429 || error.code == 503) && error.retry_after.has_value();
}

// Warning: 299 - "text", as RFC 7234 has it; `text` with \" and \\ undone.
std::optional<std::string> warning_text(std::string_view header) {
  const std::size_t open = header.find('"');
  if (open == std::string_view::npos) return std::nullopt;
  std::string text;
  for (std::size_t i = open + 1; i < header.size() && header[i] != '"'; ++i) {
    if (header[i] == '\\' && i + 1 < header.size()) ++i;
    text.push_back(header[i]);
  }
  return text;
}

std::vector<std::string> warnings_of(const net::Headers& headers) {
  constexpr std::size_t kWarningsMax = 64;
  std::vector<std::string> warnings;
  for (const auto& [name, value] : headers) {
    if (warnings.size() >= kWarningsMax || !base::equals_ignore_case_ascii(name, "warning")) continue;
    if (auto text = warning_text(value)) warnings.push_back(std::move(*text));
  }
  return warnings;
}

// A request in the making: what stays the same over its attempts.
struct Prepared {
  std::string_view method;
  std::string url;
  std::string_view content_type;
  std::string_view body;
  std::string own_body;   // that `body` looks at, if we made it
  std::string_view verb;  // label of the metrics
  bool is_read = false;
  std::size_t bytes_max = 0;
};

class RestWatchStream final : public WatchStream {
 public:
  RestWatchStream(std::shared_ptr<net::HttpClient> http, std::unique_ptr<net::HttpStream> stream,
                  std::size_t frame_bytes_max)
      : http_(std::move(http)), stream_(std::move(stream)), decoder_(frame_bytes_max) {}

  Result<std::optional<WatchEvent>> next(rt::Instant deadline) override {
    while (true) {
      BASALT_TRY(std::optional<WatchEvent> event, decoder_.next());
      if (event) return event;
      BASALT_TRY(std::string piece, stream_->read(deadline));
      if (!piece.empty()) {
        decoder_.add(piece);
        continue;
      }
      if (decoder_.at_boundary()) return std::optional<WatchEvent>();
      return Error::make(Reason::ConnectionLost, "the watch ended in the middle of an event");
    }
  }
  void cancel() override { stream_->cancel(); }

 private:
  const std::shared_ptr<net::HttpClient> http_;  // outlives the stream
  const std::unique_ptr<net::HttpStream> stream_;
  WatchDecoder decoder_;
};

class RestClientImpl final : public RestClient {
 public:
  RestClientImpl(rt::Runtime& runtime, Logger log, Target target, RestClientOptions options)
      : runtime_(runtime),
        log_(std::move(log)),
        target_(std::move(target)),
        options_(std::move(options)),
        server_(base::strip_suffix(target_.server, "/").value_or(target_.server)),
        bucket_(runtime,
                {.per_second = options_.calls_per_second, .burst = static_cast<double>(std::max(1, options_.burst))}) {}

  Result<Response> call(const Request& request, const rt::StopToken& stop) override;
  Result<ListPage> list(const ListRequest& request, const rt::StopToken& stop) override;
  Result<std::unique_ptr<WatchStream>> watch(const WatchRequest& request, const rt::StopToken& stop) override;
  std::vector<Result<Response>> call_all(std::span<const Request> requests, const CallAllOptions& options,
                                         const rt::StopToken& stop) override;
  Result<net::HttpResponse> raw(std::string_view method, std::string_view path_and_query, std::string_view body,
                                const rt::StopToken& stop) override;

 private:
  struct Session {
    Credential credential;
    std::shared_ptr<net::HttpClient> http;
  };
  Result<Session> open_session(const rt::StopToken& stop);
  [[nodiscard]] Prepared prepare(const Request& request) const;
  [[nodiscard]] net::HttpRequest to_http(const Prepared& prepared, const Credential& credential,
                                         rt::Duration timeout) const;
  Result<net::HttpResponse> attempt(const Prepared& prepared, rt::Instant deadline, bool& refreshed,
                                    const rt::StopToken& stop);
  Result<net::HttpResponse> run(const Prepared& prepared, rt::Duration timeout, const rt::StopToken& stop);
  Done wait_for_token(rt::Instant deadline, const rt::StopToken& stop);
  Result<net::HttpResponse> judge(const Prepared& prepared, Result<net::HttpResponse> answer);
  static Result<Response> to_response(Result<net::HttpResponse> answer);
  void send_wave(std::span<const Request> requests, std::span<Result<Response>> results, int in_flight_max,
                 const rt::StopToken& stop);
  void count(std::string_view verb, int code, rt::Duration took);
  struct Series {
    std::string verb;
    int code = 0;
    Counter requests;
    Histogram seconds;
  };
  Series series_of(std::string_view verb, int code);

  // Fixed after construction.
  rt::Runtime& runtime_;
  const Logger log_;
  const Target target_;
  const RestClientOptions options_;
  const std::string server_;

  // Self-locking.
  rt::TokenBucket bucket_;

  rt::Mutex mutex_;
  Credential transport_credential_ BASALT_GUARDED_BY(mutex_);  // whose certificate transport_ shows
  std::shared_ptr<net::HttpClient> transport_ BASALT_GUARDED_BY(mutex_);
  std::vector<Series> series_ BASALT_GUARDED_BY(mutex_);
};

Result<RestClientImpl::Session> RestClientImpl::open_session(const rt::StopToken& stop) {
  Session session;
  BASALT_TRY(session.credential, target_.credentials->get(stop));
  const auto same_certificate = [&session](const Credential& other) {
    return other.certificate_pem == session.credential.certificate_pem && other.key_pem == session.credential.key_pem;
  };
  {
    const rt::MutexLock lock(mutex_);
    if (transport_ && same_certificate(transport_credential_)) session.http = transport_;
  }
  if (session.http) return session;
  BASALT_TRY(auto made, target_.make_http(session.credential));
  session.http = std::move(made);
  std::shared_ptr<net::HttpClient> replaced;  // destroyed after the lock: it may join a thread
  const rt::MutexLock lock(mutex_);
  if (transport_ && same_certificate(transport_credential_)) {
    replaced = std::exchange(session.http, transport_);  // another thread was faster
  } else {
    replaced = std::exchange(transport_, session.http);
    transport_credential_ = session.credential;
  }
  return session;
}

Prepared RestClientImpl::prepare(const Request& request) const {
  Prepared prepared;
  prepared.method = method_of(request.verb);
  prepared.verb = to_string(request.verb);
  prepared.url = server_ + path_of(request);
  prepared.is_read = request.verb == Verb::Get;
  prepared.bytes_max = options_.response_bytes_max;
  if (request.verb == Verb::Delete || request.verb == Verb::DeleteCollection) {
    prepared.own_body = delete_options_of(request);
  } else if (!prepared.is_read) {
    prepared.body = request.body;
  }
  prepared.content_type = request.verb == Verb::Patch ? content_type_of(request.patch_type) : "application/json";
  return prepared;
}

net::HttpRequest RestClientImpl::to_http(const Prepared& prepared, const Credential& credential,
                                         rt::Duration timeout) const {
  net::HttpRequest http;
  http.method = prepared.method;
  http.url = prepared.url;
  http.body = prepared.own_body.empty() ? prepared.body : std::string_view(prepared.own_body);
  http.timeout = timeout;
  http.response_bytes_max = prepared.bytes_max;
  http.headers.emplace_back("Accept", "application/json");
  if (!http.body.empty()) http.headers.emplace_back("Content-Type", prepared.content_type);
  if (!credential.authorization.empty()) http.headers.emplace_back("Authorization", credential.authorization);
  const Impersonation& as = target_.impersonation;
  if (!as.user.empty()) http.headers.emplace_back("Impersonate-User", as.user);
  if (!as.uid.empty()) http.headers.emplace_back("Impersonate-Uid", as.uid);
  for (const std::string& group : as.groups) http.headers.emplace_back("Impersonate-Group", group);
  for (const auto& [key, values] : as.extra) {
    for (const std::string& value : values) {
      http.headers.emplace_back("Impersonate-Extra-" + net::percent_encode(key), value);
    }
  }
  return http;
}

void RestClientImpl::count(std::string_view verb, int code, rt::Duration took) {
  if (options_.metrics == nullptr) return;
  const Series series = series_of(verb, code);
  series.requests.add();
  series.seconds.observe(std::chrono::duration<double>(took).count());
}

// Looking a series up by its labels costs more than counting; so few there are that a short list is the best index.
RestClientImpl::Series RestClientImpl::series_of(std::string_view verb, int code) {
  {
    const rt::MutexLock lock(mutex_);
    for (const Series& known : series_) {
      if (known.code == code && known.verb == verb) return known;
    }
  }
  Series made{.verb = std::string(verb), .code = code, .requests = {}, .seconds = {}};
  made.requests = options_.metrics->counter("basalt_client_requests_total",
                                            "Requests to the API server by verb and HTTP code (0: no answer).",
                                            {{"verb", made.verb}, {"code", std::to_string(code)}});
  made.seconds = options_.metrics->histogram("basalt_client_request_seconds", "Time from request to answer.",
                                             Metrics::seconds_bounds(), {{"verb", made.verb}});
  const rt::MutexLock lock(mutex_);
  if (series_.size() < kSeriesKeptMax) series_.push_back(made);
  return made;
}

Done RestClientImpl::wait_for_token(rt::Instant deadline, const rt::StopToken& stop) {
  if (options_.calls_per_second <= 0) return Ok();
  const rt::Duration wait = bucket_.reserve();
  if (runtime_.now() + wait > deadline) {
    return Error::make(Reason::DeadlineExceeded, "the client's own rate limit leaves no time for this call");
  }
  if (wait > rt::Duration::zero() && stop.wait_for(runtime_, wait)) {
    return Error::make(Reason::Cancelled, "stopped while waiting for the client's rate limit");
  }
  return Ok();
}

// An HTTP error code becomes an Error; one without an answer says what was asked.
Result<net::HttpResponse> RestClientImpl::judge(const Prepared& prepared, Result<net::HttpResponse> answer) {
  if (!answer.ok()) return answer.error().with_context(prepared.url.substr(server_.size()));
  if (answer->status < 400) return answer;
  return error_from_answer(answer->status, answer->body, net::find_header(answer->headers, "Retry-After"));
}

Result<net::HttpResponse> RestClientImpl::attempt(const Prepared& prepared, rt::Instant deadline, bool& refreshed,
                                                  const rt::StopToken& stop) {
  while (true) {
    BASALT_TRY(const Session session, open_session(stop));
    const rt::Instant begin = runtime_.now();
    if (begin >= deadline) {
      return Error::make(Reason::DeadlineExceeded, std::string(prepared.method) + " " + prepared.url + ": out of time");
    }
    Result<net::HttpResponse> answer =
        session.http->call(to_http(prepared, session.credential, deadline - begin), stop);
    count(prepared.verb, answer.ok() ? answer->status : 0, runtime_.now() - begin);
    // A token that rotated, or a certificate that a program must make anew.
    if (answer.ok() && answer->status == 401 && !refreshed && target_.credentials->refresh(session.credential)) {
      refreshed = true;
      continue;
    }
    return judge(prepared, std::move(answer));
  }
}

Result<net::HttpResponse> RestClientImpl::run(const Prepared& prepared, rt::Duration timeout,
                                              const rt::StopToken& stop) {
  const rt::Instant deadline = runtime_.now() + timeout;
  rt::Backoff backoff(runtime_, kBackoff);
  bool refreshed = false;
  for (int attempts = 1;; ++attempts) {
    BASALT_TRY_DONE(wait_for_token(deadline, stop));
    Result<net::HttpResponse> answer = attempt(prepared, deadline, refreshed, stop);
    if (answer.ok() || !may_retry(answer.error(), prepared.is_read) || attempts >= options_.attempts_max) {
      return answer;
    }
    const Error& error = answer.error();
    const rt::Duration wait =
        std::max<rt::Duration>(backoff.next(), error.retry_after.value_or(std::chrono::milliseconds(0)));
    // The last answer says more than "out of time" would.
    if (runtime_.now() + wait >= deadline || stop.wait_for(runtime_, wait)) return answer;
  }
}

Result<Response> RestClientImpl::to_response(Result<net::HttpResponse> answer) {
  if (!answer.ok()) return std::move(answer).error();
  Response response;
  response.code = answer->status;
  response.warnings = warnings_of(answer->headers);
  response.body = make_bytes(std::move(answer->body));
  return response;
}

Result<Response> RestClientImpl::call(const Request& request, const rt::StopToken& stop) {
  return to_response(run(prepare(request), request.timeout, stop));
}

Result<ListPage> RestClientImpl::list(const ListRequest& request, const rt::StopToken& stop) {
  Prepared prepared;
  prepared.method = "GET";
  prepared.verb = "List";
  prepared.url = server_ + path_of(request);
  prepared.is_read = true;
  prepared.bytes_max = options_.list_bytes_max;
  BASALT_TRY(net::HttpResponse answer, run(prepared, request.timeout, stop));
  return split_list(answer.body);
}

Result<std::unique_ptr<WatchStream>> RestClientImpl::watch(const WatchRequest& request, const rt::StopToken& stop) {
  // How long a server may take to accept; a streaming list is accepted at once as well.
  constexpr rt::Duration kOpenTimeout = std::chrono::seconds(30);
  Prepared prepared;
  prepared.method = "GET";
  prepared.verb = "Watch";
  prepared.url = server_ + path_of(request);
  prepared.is_read = true;
  prepared.bytes_max = options_.response_bytes_max;
  const rt::Instant deadline = runtime_.now() + kOpenTimeout;
  BASALT_TRY_DONE(wait_for_token(deadline, stop));
  for (bool refreshed = false;; refreshed = true) {
    BASALT_TRY(const Session session, open_session(stop));
    const rt::Instant begin = runtime_.now();
    auto stream = session.http->open_stream(to_http(prepared, session.credential, deadline - begin), stop);
    count(prepared.verb, stream.ok() ? (*stream)->status() : 0, runtime_.now() - begin);
    if (!stream.ok()) return stream.error().with_context(prepared.url.substr(server_.size()));
    if ((*stream)->status() < 400) {
      return std::unique_ptr<WatchStream>(
          std::make_unique<RestWatchStream>(session.http, std::move(*stream), options_.watch_frame_bytes_max));
    }
    net::HttpResponse answer{.status = (*stream)->status(), .headers = (*stream)->headers(), .body = {}};
    while (answer.body.size() < kWatchErrorBytesMax) {
      Result<std::string> piece = (*stream)->read(deadline);
      if (!piece.ok() || piece->empty()) break;
      answer.body += *piece;
    }
    if (answer.status == 401 && !refreshed && target_.credentials->refresh(session.credential)) continue;
    return judge(prepared, std::move(answer)).error();
  }
}

// Sends all once, then again those that may be and that have time left.
void RestClientImpl::send_wave(std::span<const Request> requests, std::span<Result<Response>> results,
                               int in_flight_max, const rt::StopToken& stop) {
  const rt::Instant begin = runtime_.now();
  std::vector<Prepared> prepared;
  prepared.reserve(requests.size());
  for (const Request& request : requests) prepared.push_back(prepare(request));
  std::vector<std::size_t> due(requests.size());
  for (std::size_t i = 0; i < due.size(); ++i) due[i] = i;
  rt::Backoff backoff(runtime_, kBackoff);
  bool refreshed = false;
  for (int attempts = 1; !due.empty(); ++attempts) {
    Result<Session> session = open_session(stop);
    if (!session.ok()) {
      for (const std::size_t i : due) results[i] = session.error();
      return;
    }
    std::vector<net::HttpRequest> wave;
    wave.reserve(due.size());
    const rt::Instant now = runtime_.now();
    for (const std::size_t i : due) {
      wave.push_back(to_http(prepared[i], session->credential, begin + requests[i].timeout - now));
    }
    std::vector<Result<net::HttpResponse>> answers = session->http->call_all(wave, in_flight_max, stop);
    const rt::Duration took = (runtime_.now() - now) / static_cast<rt::Duration::rep>(due.size());
    rt::Duration wait = backoff.next();
    std::vector<std::size_t> again;
    bool refused = false;
    for (std::size_t k = 0; k < due.size(); ++k) {
      const std::size_t i = due[k];
      count(prepared[i].verb, answers[k].ok() ? answers[k]->status : 0, took);
      refused = refused || (answers[k].ok() && answers[k]->status == 401);
      results[i] = to_response(judge(prepared[i], std::move(answers[k])));
      if (results[i].ok()) continue;
      const Error& error = results[i].error();
      const bool worth = may_retry(error, prepared[i].is_read) && attempts < options_.attempts_max;
      if (worth) wait = std::max<rt::Duration>(wait, error.retry_after.value_or(std::chrono::milliseconds(0)));
      if (worth || (error.code == 401 && !refreshed)) again.push_back(i);
    }
    if (refused && !refreshed) {
      refreshed = true;
      if (!target_.credentials->refresh(session->credential)) {
        std::erase_if(again, [&results](std::size_t i) { return results[i].error().code == 401; });
      }
    }
    const rt::Instant resume = runtime_.now() + wait;
    std::erase_if(again, [&](std::size_t i) { return resume >= begin + requests[i].timeout; });
    due = std::move(again);
    if (!due.empty() && stop.wait_until(runtime_, resume)) return;
  }
}

std::vector<Result<Response>> RestClientImpl::call_all(std::span<const Request> requests, const CallAllOptions& options,
                                                       const rt::StopToken& stop) {
  const int in_flight_max = std::max(1, options.in_flight_max);
  const bool limited = options_.calls_per_second > 0;
  // Smaller waves where something has to be decided between them.
  const std::size_t wave_max = options.failures_max > 0 || limited ? static_cast<std::size_t>(in_flight_max) : kWaveMax;
  std::vector<Result<Response>> results(requests.size(), Error::make(Reason::Cancelled, "the request was not sent"));
  int failures = 0;
  for (std::size_t begin = 0; begin < requests.size(); begin += wave_max) {
    if (stop.stop_requested() || (options.failures_max > 0 && failures >= options.failures_max)) break;
    const std::size_t count_of_wave = std::min(wave_max, requests.size() - begin);
    for (std::size_t i = 0; limited && i < count_of_wave; ++i) {
      if (!bucket_.acquire(stop)) return results;
    }
    send_wave(requests.subspan(begin, count_of_wave), std::span(results).subspan(begin, count_of_wave), in_flight_max,
              stop);
    for (std::size_t i = begin; i < begin + count_of_wave; ++i) failures += results[i].ok() ? 0 : 1;
  }
  return results;
}

Result<net::HttpResponse> RestClientImpl::raw(std::string_view method, std::string_view path_and_query,
                                              std::string_view body, const rt::StopToken& stop) {
  Prepared prepared;
  prepared.method = method;
  prepared.verb = "Raw";
  prepared.url = server_ + std::string(path_and_query);
  prepared.content_type = "application/json";
  prepared.body = body;
  prepared.bytes_max = options_.response_bytes_max;
  bool refreshed = false;
  return attempt(prepared, runtime_.now() + std::chrono::seconds(30), refreshed, stop);
}

}  // namespace

std::string default_user_agent(std::string_view name) {
#if defined(__aarch64__)
  constexpr std::string_view kPlatform = "linux/arm64";
#else
  constexpr std::string_view kPlatform = "linux/amd64";
#endif
  return std::string(name) + "/" + std::string(kVersion) + " (" + std::string(kPlatform) + ")";
}

std::unique_ptr<RestClient> RestClient::make(rt::Runtime& runtime, Logger log, Target target,
                                             RestClientOptions options) {
  return std::make_unique<RestClientImpl>(runtime, std::move(log), std::move(target), std::move(options));
}

Result<std::unique_ptr<RestClient>> make_rest_client(rt::Runtime& runtime, Logger log, const ClientConfig& config,
                                                     RestClientOptions options) {
  net::HttpClientOptions http;
  http.tls = config.tls;
  http.proxy_url = config.proxy_url;
  http.connections_max = options.connections_max;
  http.user_agent = options.user_agent.empty() ? default_user_agent("basalt") : options.user_agent;
  HttpFactory factory = [&runtime, http](const Credential& credential) {
    net::HttpClientOptions own = http;
    if (!credential.certificate_pem.empty()) {
      own.tls.certificate_file.clear();
      own.tls.key_file.clear();
      own.tls.certificate_pem = credential.certificate_pem;
      own.tls.key_pem = credential.key_pem;
    }
    return net::make_http_client(runtime, std::move(own));
  };
  // A certificate that cannot be used shows now, not at the first call.
  BASALT_TRY(auto probe, factory({}));
  probe.reset();
  RestClient::Target target;
  target.server = config.server;
  target.credentials = make_credentials(runtime, config);
  target.impersonation = config.impersonation;
  target.make_http = std::move(factory);
  return RestClient::make(runtime, std::move(log), std::move(target), std::move(options));
}

}  // namespace basalt::kube
