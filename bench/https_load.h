#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace basalt::bench {

// Where to, and as whom.
struct LoadTarget {
  std::string host;
  std::string port;
  std::string certificate_pem;
  std::string key_pem;
};

// A bare load generator: one thread, TLS connections in an epoll set, HTTP/1.1 kept alive, one request at a time on
// each. It does as little as it can, because it shares the cores with the server that it measures.
class HttpsLoad {
 public:
  // Connects at once; is_open() says whether that went well.
  HttpsLoad(const LoadTarget& target, int connections);
  ~HttpsLoad();
  HttpsLoad(const HttpsLoad&) = delete;
  HttpsLoad& operator=(const HttpsLoad&) = delete;
  [[nodiscard]] bool is_open() const { return epoll_ >= 0; }

  struct Outcome {
    double seconds = 0;
    std::size_t failed = 0;          // no answer, or one that is not 2xx
    std::size_t bytes = 0;           // received, heads included
    std::vector<double> latency_us;  // sorted
    [[nodiscard]] double percentile_us(double share) const;
  };
  // Sends all requests, as many at once as there are connections.
  Outcome run(std::span<const std::string> requests);

  // Sends the request on every connection and returns when all have the head of an answer (streams).
  bool open_streams(const std::string& request);
  // Reads what comes on the streams until `done` says so for a piece of connection `index`, or nothing comes for 10 s.
  bool read_streams(const std::function<bool(std::size_t index, std::string_view piece)>& done);

 private:
  struct Connection;
  bool connect(const LoadTarget& target);
  bool send(Connection& connection, std::string_view request);
  bool read(Connection& connection);

  SSL_CTX* context_ = nullptr;
  int epoll_ = -1;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<char> buffer_;
  std::size_t bytes_ = 0;
};

// The text of a request.
[[nodiscard]] std::string http_request(std::string_view method, std::string_view target, std::string_view body);

}  // namespace basalt::bench
