#include "node/grpc_health.h"

#include <array>

#include "base/strings.h"

namespace basalt::node {
namespace {

constexpr std::size_t kBytesMax = 64 * 1024;
constexpr std::size_t kFrameHeaderBytes = 9;
constexpr std::size_t kFrameBytesMax = 16 * 1024;  // we have not allowed more in our settings
constexpr std::size_t kPrefixBytes = 5;            // of a gRPC message: compressed or not, and its length

enum FrameType : std::uint8_t { kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6, kGoAway = 7 };
constexpr std::uint8_t kEndStream = 0x1;
constexpr std::uint8_t kAck = 0x1;
constexpr std::uint8_t kEndHeaders = 0x4;
constexpr std::uint8_t kPadded = 0x8;

std::uint8_t byte_at(std::string_view bytes, std::size_t at) { return static_cast<std::uint8_t>(bytes[at]); }

std::uint32_t number_at(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < count; ++i) number = number << 8 | byte_at(bytes, at + i);
  return number;
}

void add_number(std::string& out, std::uint32_t number, int count) {
  for (int i = count - 1; i >= 0; --i) out += static_cast<char>(number >> (8 * i) & 0xff);
}

std::string frame(FrameType type, std::uint8_t flags, std::uint32_t stream, std::string_view payload) {
  std::string out;
  add_number(out, static_cast<std::uint32_t>(payload.size()), 3);
  add_number(out, type, 1);
  add_number(out, flags, 1);
  add_number(out, stream, 4);
  out += payload;
  return out;
}

// A string of HPACK (RFC 7541, 5.2), not Huffman coded.
void add_string(std::string& out, std::string_view text) {
  std::size_t length = text.size();
  if (length < 0x7f) {
    out += static_cast<char>(length);
  } else {
    out += '\x7f';
    for (length -= 0x7f; length >= 0x80; length >>= 7) out += static_cast<char>(0x80 | (length & 0x7f));
    out += static_cast<char>(length);
  }
  out += text;
}

void add_header(std::string& out, std::string_view name, std::string_view value) {
  out += '\0';  // a literal that nobody shall remember, with its name
  add_string(out, name);
  add_string(out, value);
}

// A field of protobuf that holds a length: number 1, type 2.
std::string request_message(std::string_view service) {
  if (service.empty()) return "";
  std::string out = "\x0a";
  std::size_t length = service.size();
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(0x80 | (length & 0x7f));
  out += static_cast<char>(length);
  out += service;
  return out;
}

std::string_view status_name(std::uint8_t status) {
  constexpr std::array<std::string_view, 4> kNames = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
  return status < kNames.size() ? kNames[status] : "UNKNOWN";
}

}  // namespace

struct GrpcHealthReader::Frame {
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;
  std::string_view payload;
};

std::string grpc_health_request(std::string_view authority, std::string_view service) {
  std::string headers;
  add_header(headers, ":method", "POST");
  add_header(headers, ":scheme", "http");
  add_header(headers, ":path", "/grpc.health.v1.Health/Check");
  add_header(headers, ":authority", authority);
  add_header(headers, "content-type", "application/grpc");
  add_header(headers, "user-agent", kProbeUserAgent);
  add_header(headers, "te", "trailers");
  const std::string message = request_message(service);
  std::string data(1, '\0');
  add_number(data, static_cast<std::uint32_t>(message.size()), 4);
  data += message;
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "") + frame(kHeaders, kEndHeaders, 1, headers) +
         frame(kData, kEndStream, 1, data);
}

void GrpcHealthReader::fail(std::string_view why) {
  if (!result_) result_ = CheckResult{Verdict::Failed, std::string(why)};
}

std::string GrpcHealthReader::take(std::string_view bytes) {
  std::string reply;
  bytes_ += bytes.size();
  buffer_ += bytes;
  while (!result_ && buffer_.size() >= kFrameHeaderBytes) {
    const std::size_t length = number_at(buffer_, 0, 3);
    if (length > kFrameBytesMax) {
      fail("the server does not speak HTTP/2 without TLS, as gRPC needs it");
      break;
    }
    if (buffer_.size() < kFrameHeaderBytes + length) break;
    take_frame({.type = byte_at(buffer_, 3),
                .flags = byte_at(buffer_, 4),
                .stream = number_at(buffer_, 5, 4) & 0x7fffffff,
                .payload = std::string_view(buffer_).substr(kFrameHeaderBytes, length)},
               reply);
    buffer_.erase(0, kFrameHeaderBytes + length);
  }
  if (bytes_ > kBytesMax) fail("the server sent too much before it answered");
  return reply;
}

void GrpcHealthReader::take_frame(const Frame& one, std::string& reply) {
  switch (one.type) {
    case kSettings:
      if ((one.flags & kAck) == 0) reply += frame(kSettings, kAck, 0, "");
      return;
    case kPing:
      if ((one.flags & kAck) == 0) reply += frame(kPing, kAck, 0, one.payload);
      return;
    case kReset:
    case kGoAway:
      return fail("the server refused the call");
    case kData:
      if (one.stream == 1) take_data(one);
      break;
    default:
      break;
  }
  const bool ends = (one.type == kData || one.type == kHeaders) && (one.flags & kEndStream) != 0;
  if (ends && one.stream == 1) {
    fail("the server answered without a status: it does not offer grpc.health.v1.Health, or does not know service " +
         base::quote(service_));
  }
}

void GrpcHealthReader::take_data(const Frame& one) {
  std::string_view bytes = one.payload;
  if ((one.flags & kPadded) != 0) {
    const std::size_t padding = bytes.empty() ? 0 : byte_at(bytes, 0);
    if (bytes.size() < 1 + padding) return fail("the server sent a malformed frame");
    bytes = bytes.substr(1, bytes.size() - 1 - padding);
  }
  message_ += bytes;
  read_message();
}

void GrpcHealthReader::read_message() {
  if (result_ || message_.size() < kPrefixBytes) return;
  if (message_[0] != '\0') return fail("the server answered with a compressed message");
  const std::size_t length = number_at(message_, 1, 4);
  if (length > kBytesMax) return fail("the server answered with a message that is too long");
  if (message_.size() < kPrefixBytes + length) return;
  // Field 1, a number that fits one byte; left out if it is 0.
  const std::string_view message = std::string_view(message_).substr(kPrefixBytes, length);
  const std::uint8_t status = message.size() >= 2 && message[0] == '\x08' ? byte_at(message, 1) : 0;
  if (status == 1) {
    result_ = CheckResult{Verdict::Passed, ""};
  } else {
    fail("service " + base::quote(service_) + " is unhealthy: it responded with " + std::string(status_name(status)));
  }
}

void GrpcHealthReader::end() { fail("the server closed the connection without an answer"); }

}  // namespace basalt::node
