#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/websocket.h"

namespace {

constexpr std::size_t kFrameBytesMax = 1024;

// All frames in one text, when they come in pieces of that size; nothing if the client breaks the protocol.
std::optional<std::string> read_in_pieces(std::string_view bytes, std::size_t piece) {
  basalt::net::WebSocketReader reader(kFrameBytesMax);
  std::string seen;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto frames = reader.take(bytes.substr(at, piece));
    if (!frames.ok()) {
      BASALT_CHECK(!frames.error().message.empty());
      return std::nullopt;
    }
    for (const auto& frame : *frames) {
      BASALT_CHECK(frame.payload.size() <= kFrameBytesMax);
      seen += std::to_string(static_cast<int>(frame.opcode)) + (frame.is_final ? "!" : "+");
      seen += std::to_string(frame.payload.size()) + ":" + frame.payload;
    }
  }
  return seen;
}

}  // namespace

// However the bytes of a client are cut, its frames are the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > (1u << 15)) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = read_in_pieces(bytes, size);
  BASALT_CHECK(whole == read_in_pieces(bytes, 1));
  BASALT_CHECK(whole == read_in_pieces(bytes, 7));
  return 0;
}
