#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "node/prober.h"

namespace basalt::node {

// One call of grpc.health.v1.Health/Check over HTTP/2 without TLS: all that is sent up front. gRPC's "HTTP/2 protocol
// mapping" and RFC 9113; headers are sent uncompressed.
[[nodiscard]] std::string grpc_health_request(std::string_view authority, std::string_view service);

// Reads the answer. Pure: bytes in, bytes to send back and at last a result out. Headers are not decoded: a server that
// serves says so in a message, and one that does not gives no message or another one. Holds 64 KiB at most; a server
// that sends more before it has answered has failed.
class GrpcHealthReader {
 public:
  explicit GrpcHealthReader(std::string_view service) : service_(service) {}
  // What is to be sent back: acknowledgements.
  std::string take(std::string_view bytes);
  // The connection has ended; there is a result afterwards.
  void end();
  [[nodiscard]] const std::optional<CheckResult>& result() const { return result_; }

 private:
  struct Frame;
  void take_frame(const Frame& frame, std::string& reply);
  void take_data(const Frame& frame);
  void read_message();
  void fail(std::string_view why);

  const std::string service_;
  std::string buffer_;   // of frames
  std::string message_;  // of the answer, with its five bytes of prefix
  std::size_t bytes_ = 0;
  std::optional<CheckResult> result_;
};

}  // namespace basalt::node
