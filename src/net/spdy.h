#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "net/http_client.h"

// Frames of SPDY/3.1, which `kubectl port-forward` speaks: many streams on one connection of bytes. Header blocks are
// compressed, with one state for all of a direction. There is no flow control: the only clients left neither send nor
// heed window updates.

namespace basalt::net {

enum class SpdyType : std::uint16_t {
  Data = 0,
  SynStream = 1,
  SynReply = 2,
  RstStream = 3,
  Settings = 4,
  Ping = 6,
  GoAway = 7,
  MoreHeaders = 8,
  WindowUpdate = 9,
};

// Why a stream is reset.
enum class SpdyReset : std::uint32_t { ProtocolError = 1, InvalidStream = 2, RefusedStream = 3, Cancel = 5 };

struct SpdyFrame {
  SpdyType type = SpdyType::Data;
  std::uint32_t stream = 0;  // Ping: its number; GoAway: the last stream that was served; Settings: 0
  bool is_final = false;     // the sender says no more on this stream
  std::uint32_t code = 0;    // why, of RstStream and GoAway; by how much, of WindowUpdate
  Headers headers;           // of SynStream, SynReply and MoreHeaders; several values of a name follow each other
  std::string data;          // of Data
};

// Frames out of bytes as they come. One thread.
class SpdyReader {
 public:
  struct Limits {
    std::size_t frame_bytes_max = 1u << 20;
    std::size_t header_bytes_max = 16u << 10;  // of a block, unpacked
  };
  explicit SpdyReader(Limits limits);
  ~SpdyReader();
  SpdyReader(const SpdyReader&) = delete;
  SpdyReader& operator=(const SpdyReader&) = delete;

  // The frames that are complete now; such of unknown types are left out. An error if the peer breaks the protocol or a
  // limit: the connection is to be closed then.
  [[nodiscard]] Result<std::vector<SpdyFrame>> take(std::string_view bytes);

 private:
  class Unpacker;
  [[nodiscard]] Done read_control(std::string_view head, std::string_view body, std::vector<SpdyFrame>& frames);
  [[nodiscard]] Result<Headers> read_headers(std::string_view block);

  const Limits limits_;
  const std::unique_ptr<Unpacker> unpacker_;
  std::string buffer_;
};

// Frames with headers; they have to be sent in the order in which they were made. One thread.
class SpdyWriter {
 public:
  SpdyWriter();
  ~SpdyWriter();
  SpdyWriter(const SpdyWriter&) = delete;
  SpdyWriter& operator=(const SpdyWriter&) = delete;

  [[nodiscard]] std::string syn_stream(std::uint32_t stream, const Headers& headers, bool is_final);
  [[nodiscard]] std::string syn_reply(std::uint32_t stream, const Headers& headers);

 private:
  class Packer;
  const std::unique_ptr<Packer> packer_;
};

// Frames without headers. `bytes` are at most kSpdyDataBytesMax.
constexpr std::size_t kSpdyDataBytesMax = (1u << 24) - 1;
[[nodiscard]] std::string spdy_data(std::uint32_t stream, std::string_view bytes, bool is_final);
[[nodiscard]] std::string spdy_reset(std::uint32_t stream, SpdyReset why);
[[nodiscard]] std::string spdy_ping(std::uint32_t number);
[[nodiscard]] std::string spdy_go_away(std::uint32_t last_stream);

// What both ends know before the first header block.
[[nodiscard]] std::string spdy_dictionary();

}  // namespace basalt::net
