#include "net/http_client.h"

#include <mutex>

#include <curl/curl.h>

#include "base/strings.h"
#include "net/curl_exchange.h"
#include "net/curl_loop.h"
#include "net/pem_source.h"

namespace basalt::net {
namespace {

class CurlStream final : public HttpStream {
 public:
  CurlStream(std::shared_ptr<CurlLoop> loop, std::shared_ptr<StreamBuffer> buffer, rt::StopToken::Registration on_stop)
      : loop_(std::move(loop)), buffer_(std::move(buffer)), on_stop_(std::move(on_stop)) {}
  ~CurlStream() override { loop_->cancel(buffer_); }

  int status() const override { return buffer_->status(); }
  const Headers& headers() const override { return buffer_->headers(); }
  void cancel() override { loop_->cancel(buffer_); }

  Result<std::string> read(rt::Instant deadline) override {
    BASALT_TRY(StreamBuffer::Piece piece, buffer_->take(deadline));
    if (piece.must_resume) loop_->resume(buffer_);
    return std::move(piece.bytes);
  }

 private:
  const std::shared_ptr<CurlLoop> loop_;
  const std::shared_ptr<StreamBuffer> buffer_;
  const rt::StopToken::Registration on_stop_;
};

class CurlClient final : public HttpClient {
 public:
  CurlClient(rt::Runtime& runtime, HttpClientOptions options, PemSource pem)
      : runtime_(runtime), loop_(std::make_shared<CurlLoop>(runtime, std::move(options), std::move(pem))) {
    loop_->start();
  }
  ~CurlClient() override { loop_->stop(); }

  Result<HttpResponse> call(const HttpRequest& request, const rt::StopToken& stop) override {
    return std::move(call_all({&request, 1}, 1, stop).front());
  }

  std::vector<Result<HttpResponse>> call_all(std::span<const HttpRequest> requests, int in_flight_max,
                                             const rt::StopToken& stop) override {
    const auto batch = std::make_shared<Batch>(runtime_, requests, in_flight_max);
    if (requests.empty() || stop.stop_requested()) return std::move(batch->results);
    loop_->submit(batch);
    {
      // After the submission, so that the loop sees the two in this order.
      const auto on_stop = stop.on_stop([this, &batch] { loop_->cancel(batch); });
      batch->wait();
    }
    return std::move(batch->results);
  }

  Result<std::unique_ptr<HttpStream>> open_stream(const HttpRequest& request, const rt::StopToken& stop) override {
    if (stop.stop_requested()) return Error::make(Reason::Cancelled, "The stream was not opened.");
    const auto buffer = std::make_shared<StreamBuffer>(runtime_, request);
    loop_->open(buffer);
    auto on_stop = stop.on_stop([loop = std::weak_ptr(loop_), weak = std::weak_ptr(buffer)] {
      const auto live_loop = loop.lock();
      const auto live_buffer = weak.lock();
      if (live_loop && live_buffer) live_loop->cancel(live_buffer);
    });
    BASALT_TRY_DONE(buffer->wait_until_open());
    return std::unique_ptr<HttpStream>(std::make_unique<CurlStream>(loop_, buffer, std::move(on_stop)));
  }

 private:
  rt::Runtime& runtime_;
  const std::shared_ptr<CurlLoop> loop_;
};

}  // namespace

std::string_view find_header(const Headers& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (base::equals_ignore_case_ascii(key, name)) return value;
  }
  return {};
}

Result<std::unique_ptr<HttpClient>> make_http_client(rt::Runtime& runtime, HttpClientOptions options) {
  if (runtime.is_simulated()) return Error::invalid_input("A simulation has no network.");
  if (options.connections_max < 1) return Error::invalid_input("connections_max must be at least 1.");
  // The library's own once-per-process set-up; it is never undone, since other clients may be in use.
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });

  const TlsClientOptions& tls = options.tls;
  PemSource pem({.authorities_pem = tls.ca_pem,
                 .authorities_file = tls.ca_file,
                 .certificate_pem = tls.certificate_pem,
                 .certificate_file = tls.certificate_file,
                 .key_pem = tls.key_pem,
                 .key_file = tls.key_file});
  BASALT_TRY_DONE(pem.load());
  return std::unique_ptr<HttpClient>(std::make_unique<CurlClient>(runtime, std::move(options), std::move(pem)));
}

}  // namespace basalt::net
