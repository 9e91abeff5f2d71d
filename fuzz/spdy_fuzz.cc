#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/check.h"
#include "net/spdy.h"

namespace {

constexpr std::size_t kFrameBytesMax = 2048;
constexpr std::size_t kHeaderBytesMax = 4096;

// All frames in one text, when they come in pieces of that size; nothing if the peer breaks the protocol.
std::optional<std::string> read_in_pieces(std::string_view bytes, std::size_t piece) {
  basalt::net::SpdyReader reader({.frame_bytes_max = kFrameBytesMax, .header_bytes_max = kHeaderBytesMax});
  std::string seen;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto frames = reader.take(bytes.substr(at, piece));
    if (!frames.ok()) {
      BASALT_CHECK(!frames.error().message.empty());
      return std::nullopt;
    }
    for (const auto& frame : *frames) {
      BASALT_CHECK(frame.data.size() <= kFrameBytesMax);
      seen += std::to_string(static_cast<int>(frame.type)) + (frame.is_final ? "!" : "+");
      seen += std::to_string(frame.stream) + "," + std::to_string(frame.code) + ":" + frame.data;
      std::size_t header_bytes = 0;
      for (const auto& [name, value] : frame.headers) {
        BASALT_CHECK(!name.empty());
        header_bytes += value.size();
        seen += "[" + name + "=" + value + "]";
      }
      BASALT_CHECK(header_bytes <= kHeaderBytesMax);
    }
  }
  return seen;
}

}  // namespace

// However the bytes of a peer are cut, its frames are the same.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > (1u << 14)) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto whole = read_in_pieces(bytes, size);
  BASALT_CHECK(whole == read_in_pieces(bytes, 1));
  BASALT_CHECK(whole == read_in_pieces(bytes, 7));
  return 0;
}
