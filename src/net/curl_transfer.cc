#include "net/curl_transfer.h"

#include <algorithm>

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/strings.h"
#include "net/url.h"

namespace basalt::net {
namespace {

constexpr std::size_t kHeaderBytesMax = 256u << 10;
constexpr std::size_t kExpectBytesMin = 512u << 10;  // libcurl would ask "100-continue" from 1 MiB on
constexpr long kReceiveBufferBytes = 64L << 10;

// A peer that vanished without a word is noticed within about 30 s, on idle watches, too.
void set_socket_options(int fd) {
  const int on = 1;
  const int idle_s = 15;
  const int interval_s = 5;
  const int probes = 3;
  const int unacknowledged_ms = 30'000;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return base::is_alphanumeric(c) || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_header_value(std::string_view text) {
  return text.find_first_of(std::string_view("\r\n\0", 3)) == std::string_view::npos;
}

// Did the request certainly not reach the server?
bool is_before_sending(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:  // only of connecting: the deadline of a call is the loop's
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_PROXY:
      return true;
    default:
      return false;
  }
}

curl_blob blob_of(const std::string& text) {
  return {.data = const_cast<char*>(text.data()), .len = text.size(), .flags = CURL_BLOB_COPY};
}

}  // namespace

Transfer::Transfer(const Common& common) : common_(common), easy_(curl_easy_init()) {
  BASALT_CHECK(easy_ != nullptr);
  set_fixed_options();
}

Transfer::~Transfer() { curl_easy_cleanup(easy_); }

void Transfer::set_fixed_options() {
  const HttpClientOptions& options = common_.options;
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_text_.data());
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_SHARE, common_.share);
  curl_easy_setopt(easy_, CURLOPT_QUICK_EXIT, 1L);  // a slow resolver must not hold up the loop
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_PROXY, options.proxy_url.c_str());  // "" switches the environment variables off
  curl_easy_setopt(easy_, CURLOPT_NOPROXY, "");
  curl_easy_setopt(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(easy_, CURLOPT_USERAGENT, options.user_agent.c_str());
  const auto connect_ms = std::chrono::duration_cast<std::chrono::milliseconds>(options.connect_timeout).count();
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(std::max<std::int64_t>(connect_ms, 1)));
  curl_easy_setopt(easy_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));

  const bool may_multiplex = common_.is_for_streams && options.http2_for_streams;
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION,
                   static_cast<long>(options.http2_only ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE
                                     : may_multiplex    ? CURL_HTTP_VERSION_2TLS
                                                        : CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy_, CURLOPT_FRESH_CONNECT, options.http2_only ? 1L : 0L);
  // A stream rather waits for the handshake under way, to share that connection, than to open another.
  curl_easy_setopt(easy_, CURLOPT_PIPEWAIT, may_multiplex ? 1L : 0L);
  if (!common_.is_for_streams) curl_easy_setopt(easy_, CURLOPT_BUFFERSIZE, kReceiveBufferBytes);

  curl_easy_setopt(easy_, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  curl_easy_setopt(easy_, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy_, CURLOPT_PREREQFUNCTION, &Transfer::on_ready_to_send);
  curl_easy_setopt(easy_, CURLOPT_PREREQDATA, this);
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETFUNCTION, &Transfer::on_open_socket);
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETDATA, this);
  // The connection outlives this transfer, so its end is told to the loop.
  curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETFUNCTION, &Transfer::on_close_socket);
  curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETDATA, &common_.sockets);
}

void Transfer::set_tls_options() {
  const TlsClientOptions& tls = common_.options.tls;
  const PemSource::Texts& texts = common_.pem.texts();
  if (tls.insecure_skip_verify) {
    curl_easy_setopt(easy_, CURLOPT_CAINFO, nullptr);  // would be read all the same
    curl_easy_setopt(easy_, CURLOPT_CAPATH, nullptr);
    curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!texts.authorities.empty()) {
    curl_blob blob = blob_of(texts.authorities);
    curl_easy_setopt(easy_, CURLOPT_CAINFO, nullptr);
    curl_easy_setopt(easy_, CURLOPT_CAPATH, nullptr);
    curl_easy_setopt(easy_, CURLOPT_CAINFO_BLOB, &blob);
  }
  if (!texts.certificate.empty()) {
    curl_blob certificate = blob_of(texts.certificate);
    curl_blob key = blob_of(texts.key);
    curl_easy_setopt(easy_, CURLOPT_SSLCERTTYPE, "PEM");
    curl_easy_setopt(easy_, CURLOPT_SSLCERT_BLOB, &certificate);
    curl_easy_setopt(easy_, CURLOPT_SSLKEYTYPE, "PEM");
    curl_easy_setopt(easy_, CURLOPT_SSLKEY_BLOB, &key);
  }
}

Done Transfer::prepare(const HttpRequest& request, std::uint64_t tls_generation) {
  request_ = &request;
  error_text_[0] = '\0';
  sends_ = 0;
  local_port_ = 0;
  response_ = {};
  header_bytes_ = 0;
  has_headers_ = false;
  is_too_large_ = false;
  if (tls_generation != tls_generation_) {
    set_tls_options();
    tls_generation_ = tls_generation;
  }
  set_method(request);
  header_lines_.clear();
  header_list_.clear();
  BASALT_TRY_DONE(set_target(request));
  return set_headers(request);
}

void Transfer::set_method(const HttpRequest& request) {
  curl_easy_setopt(easy_, CURLOPT_FORBID_REUSE, common_.options.http2_only ? 1L : 0L);
  curl_easy_setopt(easy_, CURLOPT_HTTPGET, 1L);  // undoes what an earlier request set
  curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, nullptr);
  const bool has_body = !request.body.empty();
  if (request.method == "HEAD") {
    curl_easy_setopt(easy_, CURLOPT_NOBODY, 1L);
    return;
  }
  if (has_body || request.method == "POST" || request.method == "PUT" || request.method == "PATCH") {
    curl_easy_setopt(easy_, CURLOPT_POST, 1L);
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, has_body ? request.body.data() : "");
    if (request.method != "POST") curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else if (request.method != "GET") {
    curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

Done Transfer::set_target(const HttpRequest& request) {
  if (!is_token(request.method)) return Error::invalid_input("The request's method is not a word.");
  curl_easy_setopt(easy_, CURLOPT_CONNECT_TO, nullptr);
  const std::string& server_name = common_.options.tls.server_name;
  if (server_name.empty()) {
    const std::size_t scheme_end = request.url.find("://");
    if (scheme_end == std::string::npos) {
      return Error::invalid_input(
          fmt::format("The URL \"{}\" does not start with http:// or https://.", request.url.substr(0, 256)));
    }
    origin_ = request.url.substr(0, request.url.find_first_of("/?", scheme_end + 3));
    curl_easy_setopt(easy_, CURLOPT_URL, request.url.c_str());
    return Ok{};
  }
  // libcurl gets a URL with the name that the certificate must have, and is sent to the real address with it. The
  // Host header stays that of the real URL, as a Kubernetes client's "tls-server-name" has it.
  BASALT_TRY(const Url url, parse_url(request.url));
  origin_ = url.origin();
  Url named = url;
  named.host = server_name;
  connect_to_text_ = named.host_and_port() + ":" + url.host_and_port();
  connect_to_ = {.data = connect_to_text_.data(), .next = nullptr};
  curl_easy_setopt(easy_, CURLOPT_URL, named.to_string().c_str());
  curl_easy_setopt(easy_, CURLOPT_CONNECT_TO, &connect_to_);
  if (find_header(request.headers, "Host").empty()) {
    const std::size_t start = request.url.find("://") + 3;
    add_header_line("Host: " + request.url.substr(start, request.url.find_first_of("/?", start) - start));
  }
  return Ok{};
}

Done Transfer::set_headers(const HttpRequest& request) {
  bool has_content_type = false;
  for (const auto& [name, value] : request.headers) {
    if (!is_token(name) || !is_header_value(value)) {
      return Error::invalid_input(fmt::format("The header {} cannot be sent.", base::quote(name.substr(0, 64))));
    }
    has_content_type = has_content_type || base::equals_ignore_case_ascii(name, "Content-Type");
    // libcurl takes "name:" as "leave this header out" and "name;" as "empty value".
    add_header_line(value.empty() ? name + ";" : name + ": " + value);
  }
  if (!has_content_type) add_header_line("Content-Type:");
  if (request.body.size() >= kExpectBytesMin) add_header_line("Expect:");
  for (std::size_t i = 0; i + 1 < header_list_.size(); ++i) header_list_[i].next = &header_list_[i + 1];
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, header_list_.empty() ? nullptr : &header_list_.front());
  return Ok{};
}

void Transfer::add_header_line(std::string line) {
  header_lines_.push_back(std::move(line));
  header_list_.push_back({.data = header_lines_.back().data(), .next = nullptr});
}

Result<HttpResponse> Transfer::take_response(CURLcode code) {
  if (!is_success(code)) return failure(code);
  return std::move(response_);
}

Error Transfer::failure(CURLcode code) const {
  if (is_too_large_ && stream) {
    return Error::make(Reason::ResponseTooLarge, fmt::format("{} {}: the reader is {} bytes behind the stream.",
                                                             request_->method, origin_, kHttp2BufferBytesMax));
  }
  if (is_too_large_) {
    return Error::make(Reason::ResponseTooLarge,
                       fmt::format("{} {}: the answer is larger than {} bytes.", request_->method, origin_,
                                   has_headers_ ? request_->response_bytes_max : kHeaderBytesMax));
  }
  std::string_view text(error_text_.data());
  if (text.empty()) text = code == CURLE_OK ? "the answer ended within its header" : curl_easy_strerror(code);
  if (sends_ > 1 || (sends_ == 1 && code == CURLE_COULDNT_CONNECT)) {
    // libcurl wanted to send the request a second time, on another connection; we stopped it.
    return Error::make(Reason::ConnectionLost, fmt::format("{} {}: the server closed the connection without an answer.",
                                                           request_->method, origin_));
  }
  if (sends_ == 0 && (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)) {
    return Error::invalid_input(
        fmt::format("The URL \"{}\" cannot be used: {}.", base::ellipsize(request_->url, 256), text));
  }
  const bool is_unsent = is_before_sending(code) || (sends_ == 0 && !has_headers_);
  if (is_unsent) return Error::make(Reason::Unreachable, fmt::format("Cannot connect to {}: {}.", origin_, text));
  return Error::make(Reason::ConnectionLost,
                     fmt::format("{} {}: the connection was lost: {}.", request_->method, origin_, text));
}

Error Transfer::deadline_exceeded() const {
  const char* where = is_waiting    ? "all connections were busy"
                      : sends_ == 0 ? "no connection was made"
                                    : "no answer came";
  return Error::make(Reason::DeadlineExceeded,
                     fmt::format("{} {}: {} within {} ms.", request_->method, origin_, where,
                                 std::chrono::duration_cast<std::chrono::milliseconds>(request_->timeout).count()));
}

bool Transfer::is_http2() const {
  long version = 0;
  curl_easy_getinfo(easy_, CURLINFO_HTTP_VERSION, &version);
  return version == CURL_HTTP_VERSION_2_0;
}

void Transfer::release() {
  batch.reset();
  stream.reset();
  host = nullptr;
  request_ = nullptr;
  response_ = {};
}

int Transfer::on_ready_to_send(void* self, char* /*remote_ip*/, char* /*local_ip*/, int /*remote_port*/,
                               int local_port) {
  auto& transfer = *static_cast<Transfer*>(self);
  // libcurl repeats a request whose kept-alive connection turned out to be closed. Whether a write may be sent twice is
  // for the caller to decide. A stream that only reads may be repeated.
  const bool may_repeat = transfer.stream != nullptr && transfer.request_->method == "GET";
  ++transfer.sends_;
  transfer.local_port_ = local_port;
  return transfer.sends_ > 1 && !may_repeat ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

curl_socket_t Transfer::on_open_socket(void* self, curlsocktype /*purpose*/, curl_sockaddr* address) {
  auto& transfer = *static_cast<Transfer*>(self);
  const bool may_repeat = transfer.stream != nullptr && transfer.request_->method == "GET";
  if (transfer.sends_ > 0 && !may_repeat) return CURL_SOCKET_BAD;  // see on_ready_to_send
  const int fd = ::socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->protocol);
  if (fd < 0) return CURL_SOCKET_BAD;
  set_socket_options(fd);
  transfer.common_.sockets.on_socket_opened(fd);
  return fd;
}

int Transfer::on_close_socket(void* observer, curl_socket_t fd) {
  static_cast<SocketObserver*>(observer)->on_socket_closed(fd);
  return ::close(fd);
}

std::size_t Transfer::on_header(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::size_t bytes = size * count;
  transfer.header_bytes_ += bytes;
  if (transfer.header_bytes_ > kHeaderBytesMax) {
    transfer.is_too_large_ = true;
    return 0;
  }
  transfer.take_header_line({data, bytes});
  return bytes;
}

void Transfer::take_header_line(std::string_view line) {
  line = base::trim_end(line);
  const bool is_trailer = has_headers_;
  if (is_trailer && (stream || line.empty())) return;
  if (line.empty()) {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200) return;  // an interim answer; the real one follows
    response_.status = static_cast<int>(status);
    has_headers_ = true;
    if (stream) {
      stream->open(response_.status, std::move(response_.headers));
    } else {
      curl_off_t length = 0;
      curl_easy_getinfo(easy_, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
      // The length is the peer's word: what is set aside for it stays moderate.
      if (length > 0) response_.body.reserve(static_cast<std::size_t>(std::min<curl_off_t>(length, 8 << 20)));
    }
    return;
  }
  if (!is_trailer && line.starts_with("HTTP/")) {
    response_.headers.clear();
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  Headers& headers = is_trailer ? response_.trailers : response_.headers;
  headers.emplace_back(line.substr(0, colon), base::trim(line.substr(colon + 1)));
}

std::size_t Transfer::on_body(char* data, std::size_t size, std::size_t count, void* self) {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::string_view bytes(data, size * count);
  if (transfer.stream) {
    return transfer.take_stream_bytes(bytes);
  }
  return transfer.take_body(bytes) ? bytes.size() : 0;
}

// libcurl 7.88 loses the end of an HTTP/2 stream that was paused (and reads on into its own buffer while it is). So
// such a stream is never paused: a reader that falls far behind is cut off.
std::size_t Transfer::take_stream_bytes(std::string_view bytes) {
  const bool may_pause = !is_http2();
  if (stream->append(bytes, may_pause ? kStreamBufferBytesMax : kHttp2BufferBytesMax)) {
    StreamsRead& read = common_.streams_read;
    read.bytes += bytes.size();
    if (std::find(read.touched.begin(), read.touched.end(), stream) == read.touched.end())
      read.touched.push_back(stream);
    return bytes.size();
  }
  if (may_pause) return CURL_WRITEFUNC_PAUSE;
  is_too_large_ = true;
  return 0;
}

bool Transfer::take_body(std::string_view bytes) {
  if (response_.body.size() + bytes.size() > request_->response_bytes_max) {
    is_too_large_ = true;
    return false;
  }
  response_.body.append(bytes);
  return true;
}

}  // namespace basalt::net
