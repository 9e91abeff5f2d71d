#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::net {

using Headers = std::vector<std::pair<std::string, std::string>>;
// Case-insensitive; "" if absent.
[[nodiscard]] std::string_view find_header(const Headers& headers, std::string_view name);

// How a server's certificate is checked and what we show it. Files are read again when they change.
struct TlsClientOptions {
  std::string ca_pem;  // instead of the system's authorities, if not empty
  std::string ca_file;
  std::string certificate_pem;  // ours
  std::string certificate_file;
  std::string key_pem;
  std::string key_file;
  std::string server_name;  // checked instead of the URL's host, if not empty
  bool insecure_skip_verify = false;
};

struct HttpClientOptions {
  TlsClientOptions tls;
  std::string proxy_url;  // "" = none; environment variables are the caller's business
  std::string user_agent = "basalt";
  int connections_max = 64;  // per host; further calls wait for a free one
  rt::Duration connect_timeout = std::chrono::seconds(10);
  // Streams share one HTTP/2 connection where the server offers it. Off, because libcurl 7.88 loses the end of a paused
  // HTTP/2 stream, so that with it a slow reader cannot slow the sender down: 16 MiB behind, it gets ResponseTooLarge.
  bool http2_for_streams = false;
  // Calls speak HTTP/2 from their first byte, without TLS too, and each has a connection of its own: for gRPC.
  bool http2_only = false;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  Headers headers;
  std::string_view body;  // must live until the call returns (streams: until opened)
  // From when its turn comes in call_all(); includes waiting for a free connection.
  rt::Duration timeout = std::chrono::seconds(30);
  std::size_t response_bytes_max = 64u << 20;  // a larger body is Reason::ResponseTooLarge
};

struct HttpResponse {
  int status = 0;
  Headers headers;
  std::string body;
  Headers trailers;  // what came behind the body; not of streams
};

// A response whose body is read piece by piece as it arrives. read() is for one thread, cancel() for any.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  [[nodiscard]] virtual int status() const = 0;
  [[nodiscard]] virtual const Headers& headers() const = 0;
  // The bytes that came since the last call (at least one), "" at the end of the body. DeadlineExceeded if nothing came
  // in time; the stream stays usable then. About 1 MiB is held: a slow reader slows the sender down.
  virtual Result<std::string> read(rt::Instant deadline) = 0;
  virtual void cancel() = 0;
};

// HTTP/1.1 keep-alive pool for calls, one connection a stream (or HTTP/2), on one event-loop thread inside (libcurl's
// multi interface). Blocking for the caller, thread-safe. Errors: Unreachable (nothing was sent), ConnectionLost,
// DeadlineExceeded, Cancelled, ResponseTooLarge; any HTTP status is a success here.
class HttpClient {
 public:
  virtual ~HttpClient() = default;
  virtual Result<HttpResponse> call(const HttpRequest& request, const rt::StopToken& stop) = 0;
  virtual std::vector<Result<HttpResponse>> call_all(std::span<const HttpRequest> requests, int in_flight_max,
                                                     const rt::StopToken& stop) = 0;
  // `timeout` is for the answer's headers; `stop` cancels the stream also after it was opened.
  virtual Result<std::unique_ptr<HttpStream>> open_stream(const HttpRequest& request, const rt::StopToken& stop) = 0;
};

[[nodiscard]] Result<std::unique_ptr<HttpClient>> make_http_client(rt::Runtime& runtime, HttpClientOptions options);

}  // namespace basalt::net
