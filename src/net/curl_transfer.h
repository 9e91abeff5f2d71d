#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <curl/curl.h>

#include "base/result.h"
#include "net/curl_exchange.h"
#include "net/http_client.h"
#include "net/pem_source.h"

namespace basalt::net {

struct HostQueue;

// Told about the sockets that libcurl opens and closes, so that the loop can keep idle ones registered.
class SocketObserver {
 public:
  virtual void on_socket_opened(int fd) = 0;
  virtual void on_socket_closed(int fd) = 0;

 protected:
  ~SocketObserver() = default;
};

// What one round of the loop has read of streams: their readers are woken at its end, once each.
struct StreamsRead {
  std::vector<std::shared_ptr<StreamBuffer>> touched;
  std::size_t bytes = 0;
};

// One libcurl easy handle with what one request needs while it is under way. Used again for the next request: most
// options are set once. Used only by the loop's thread.
class Transfer {
 public:
  struct Common {
    const HttpClientOptions& options;
    const PemSource& pem;
    SocketObserver& sockets;
    StreamsRead& streams_read;
    CURLSH* share = nullptr;  // the TLS sessions of all transfers
    bool is_for_streams = false;
  };
  explicit Transfer(const Common& common);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Sets the handle up. `tls_generation` counts changes of the PEM texts. InvalidInput if the request cannot be sent.
  [[nodiscard]] Done prepare(const HttpRequest& request, std::uint64_t tls_generation);
  // After libcurl is done with it. It takes an answer that ends within its header for a success; we do not.
  [[nodiscard]] bool is_success(CURLcode code) const { return code == CURLE_OK && has_headers_; }
  [[nodiscard]] Result<HttpResponse> take_response(CURLcode code);
  [[nodiscard]] Error failure(CURLcode code) const;
  [[nodiscard]] Error deadline_exceeded() const;
  [[nodiscard]] bool is_http2() const;
  [[nodiscard]] int local_port() const { return local_port_; }  // tells connections apart; 0 before there is one
  void resume() { curl_easy_pause(easy_, CURLPAUSE_CONT); }     // after the stream's buffer was full
  void forbid_reuse() { curl_easy_setopt(easy_, CURLOPT_FORBID_REUSE, 1L); }  // of its connection, after this request
  void release();                                                             // forgets request and owner

  [[nodiscard]] CURL* easy() const { return easy_; }
  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] bool has_headers() const { return has_headers_; }

  // Belong to the loop.
  std::shared_ptr<Batch> batch;  // of a call; `index` is its place there
  std::size_t index = 0;
  std::shared_ptr<StreamBuffer> stream;  // of a stream
  HostQueue* host = nullptr;             // of a call
  rt::Instant deadline = rt::kNever;
  std::size_t slot = 0;     // its place among the loop's active transfers
  bool is_waiting = false;  // for a connection; not yet given to libcurl

 private:
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
  static int on_ready_to_send(void* self, char* remote_ip, char* local_ip, int remote_port, int local_port);
  static curl_socket_t on_open_socket(void* self, curlsocktype purpose, curl_sockaddr* address);
  static int on_close_socket(void* observer, curl_socket_t fd);

  void set_fixed_options();
  void set_tls_options();
  [[nodiscard]] Done set_target(const HttpRequest& request);
  [[nodiscard]] Done set_headers(const HttpRequest& request);
  void set_method(const HttpRequest& request);
  void add_header_line(std::string line);
  void take_header_line(std::string_view line);
  [[nodiscard]] std::size_t take_stream_bytes(std::string_view bytes);
  [[nodiscard]] bool take_body(std::string_view bytes);

  const Common common_;
  CURL* const easy_;
  std::uint64_t tls_generation_ = 0;

  // Of the current request. libcurl keeps pointers to these.
  const HttpRequest* request_ = nullptr;
  std::string origin_;                    // "https://host:port" as the URL has it, for messages
  std::deque<std::string> header_lines_;  // a deque: its elements stay where they are
  std::deque<curl_slist> header_list_;
  std::string connect_to_text_;
  curl_slist connect_to_{};
  std::array<char, CURL_ERROR_SIZE> error_text_{};
  int sends_ = 0;
  int local_port_ = 0;

  HttpResponse response_;
  std::size_t header_bytes_ = 0;
  bool has_headers_ = false;  // the final status and all its headers are there
  bool is_too_large_ = false;
};

}  // namespace basalt::net
