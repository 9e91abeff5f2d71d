#include "net/websocket.h"

#include <openssl/sha.h>

#include <array>

#include "base/encoding.h"
#include "base/strings.h"

namespace basalt::net {
namespace {

constexpr std::string_view kSalt = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";  // RFC 6455, 1.3
constexpr std::size_t kControlPayloadMax = 125;

bool has_token(std::string_view list, std::string_view wanted) {
  for (const std::string_view token : base::split(list, ',')) {
    if (base::equals_ignore_case_ascii(base::trim(token), wanted)) return true;
  }
  return false;
}

void append_number(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xff);
}

std::uint64_t number_at(std::string_view bytes, std::size_t at, int count) {
  std::uint64_t value = 0;
  for (int i = 0; i < count; ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
  return value;
}

}  // namespace

bool asks_for_websocket(const ServerRequest& request) {
  return request.method == "GET" && !request.http2 &&
         base::equals_ignore_case_ascii(find_header(request.headers, "Upgrade"), "websocket") &&
         has_token(find_header(request.headers, "Connection"), "upgrade") &&
         find_header(request.headers, "Sec-WebSocket-Version") == "13" &&
         !find_header(request.headers, "Sec-WebSocket-Key").empty();
}

Headers websocket_headers(const ServerRequest& request, std::string_view protocol) {
  const std::string text = std::string(find_header(request.headers, "Sec-WebSocket-Key")) + std::string(kSalt);
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  Headers headers{{"Upgrade", "websocket"},
                  {"Sec-WebSocket-Accept",
                   base::base64_encode(std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()))}};
  if (!protocol.empty()) headers.emplace_back("Sec-WebSocket-Protocol", std::string(protocol));
  return headers;
}

std::string websocket_frame(WebSocketOpcode opcode, std::string_view payload) {
  std::string frame;
  frame.reserve(payload.size() + 10);
  frame += static_cast<char>(0x80 | static_cast<unsigned>(opcode));
  if (payload.size() <= kControlPayloadMax) {
    frame += static_cast<char>(payload.size());
  } else if (payload.size() <= 0xffff) {
    frame += static_cast<char>(126);
    append_number(frame, payload.size(), 2);
  } else {
    frame += static_cast<char>(127);
    append_number(frame, payload.size(), 8);
  }
  return frame.append(payload);
}

std::string websocket_close(std::uint16_t code, std::string_view reason) {
  std::string payload;
  append_number(payload, code, 2);
  return payload.append(reason.substr(0, kControlPayloadMax - 2));
}

Result<std::vector<WebSocketReader::Frame>> WebSocketReader::take(std::string_view bytes) {
  buffer_.append(bytes);
  std::vector<Frame> frames;
  std::size_t at = 0;
  while (buffer_.size() - at >= 2) {
    const auto first = static_cast<unsigned char>(buffer_[at]);
    const auto second = static_cast<unsigned char>(buffer_[at + 1]);
    if ((first & 0x70) != 0) return Error::make(Reason::BadRequest, "a WebSocket frame uses an extension");
    if ((second & 0x80) == 0) return Error::make(Reason::BadRequest, "a WebSocket frame of a client is not masked");
    std::size_t head = 2;
    std::uint64_t length = second & 0x7f;
    const int more = length == 126 ? 2 : length == 127 ? 8 : 0;
    if (buffer_.size() - at < head + static_cast<std::size_t>(more) + 4) break;
    if (more > 0) length = number_at(buffer_, at + head, more);
    head += static_cast<std::size_t>(more);
    const auto opcode = static_cast<WebSocketOpcode>(first & 0x0f);
    const bool is_control = (first & 0x08) != 0;
    if (length > (is_control ? kControlPayloadMax : frame_bytes_max_)) {
      return Error::make(Reason::BadRequest, "a WebSocket frame is longer than " +
                                                 std::to_string(is_control ? kControlPayloadMax : frame_bytes_max_));
    }
    const std::size_t size = static_cast<std::size_t>(length);
    if (buffer_.size() - at < head + 4 + size) break;
    Frame frame;
    frame.opcode = opcode;
    frame.is_final = (first & 0x80) != 0;
    frame.payload = buffer_.substr(at + head + 4, size);
    for (std::size_t i = 0; i < size; ++i)
      frame.payload[i] = static_cast<char>(frame.payload[i] ^ buffer_[at + head + i % 4]);
    frames.push_back(std::move(frame));
    at += head + 4 + size;
  }
  buffer_.erase(0, at);
  return frames;
}

}  // namespace basalt::net
