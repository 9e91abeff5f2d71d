#include "net/spdy.h"

#include <zlib.h>

#include <array>

#include "base/check.h"
#include "base/strings.h"

namespace basalt::net {
namespace {

constexpr std::uint32_t kVersion = 3;
constexpr std::uint32_t kControlBit = 0x80000000;
constexpr std::uint32_t kStreamMask = 0x7fffffff;
constexpr std::uint8_t kFinalFlag = 1;
constexpr std::size_t kHeadBytes = 8;
constexpr std::size_t kHeadersMax = 128;  // of a block
// The dictionary has 1,423 bytes, a block some dozens: a small window finds all, and a connection costs little.
constexpr int kWindowBits = 11;
constexpr int kMemoryLevel = 1;

Error broken(std::string text) { return Error::make(Reason::BadRequest, "SPDY: " + std::move(text)); }

void append_number(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xff);
}

std::uint32_t number_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

std::string control_frame(SpdyType type, std::uint8_t flags, std::string_view body) {
  std::string frame;
  frame.reserve(kHeadBytes + body.size());
  append_number(frame, kControlBit | kVersion << 16 | static_cast<std::uint32_t>(type));
  append_number(frame, static_cast<std::uint32_t>(flags) << 24 | static_cast<std::uint32_t>(body.size()));
  return frame.append(body);
}

std::string control_frame(SpdyType type, std::initializer_list<std::uint32_t> numbers) {
  std::string body;
  for (const std::uint32_t number : numbers) append_number(body, number);
  return control_frame(type, 0, body);
}

// SPDY/3, section 2.6.10: first the names and values that are common, each behind its length, then a text.
constexpr std::string_view kDictionaryWords[] = {"options",
                                                 "head",
                                                 "post",
                                                 "put",
                                                 "delete",
                                                 "trace",
                                                 "accept",
                                                 "accept-charset",
                                                 "accept-encoding",
                                                 "accept-language",
                                                 "accept-ranges",
                                                 "age",
                                                 "allow",
                                                 "authorization",
                                                 "cache-control",
                                                 "connection",
                                                 "content-base",
                                                 "content-encoding",
                                                 "content-language",
                                                 "content-length",
                                                 "content-location",
                                                 "content-md5",
                                                 "content-range",
                                                 "content-type",
                                                 "date",
                                                 "etag",
                                                 "expect",
                                                 "expires",
                                                 "from",
                                                 "host",
                                                 "if-match",
                                                 "if-modified-since",
                                                 "if-none-match",
                                                 "if-range",
                                                 "if-unmodified-since",
                                                 "last-modified",
                                                 "location",
                                                 "max-forwards",
                                                 "pragma",
                                                 "proxy-authenticate",
                                                 "proxy-authorization",
                                                 "range",
                                                 "referer",
                                                 "retry-after",
                                                 "server",
                                                 "te",
                                                 "trailer",
                                                 "transfer-encoding",
                                                 "upgrade",
                                                 "user-agent",
                                                 "vary",
                                                 "via",
                                                 "warning",
                                                 "www-authenticate",
                                                 "method",
                                                 "get",
                                                 "status",
                                                 "200 OK",
                                                 "version",
                                                 "HTTP/1.1",
                                                 "url",
                                                 "public",
                                                 "set-cookie",
                                                 "keep-alive",
                                                 "origin"};
constexpr std::string_view kDictionaryText =
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritative "
    "Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 "
    "Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec "
    "00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset="
    "iso-8859-1,utf-,*,enq=0.";

// zlib takes what it only reads by pointers to what it might write.
Bytef* bytes_of(std::string_view text) {
  return reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}

}  // namespace

std::string spdy_dictionary() {
  std::string dictionary;
  for (const std::string_view word : kDictionaryWords) {
    append_number(dictionary, static_cast<std::uint32_t>(word.size()));
    dictionary += word;
  }
  return dictionary.append(kDictionaryText);
}

class SpdyReader::Unpacker {
 public:
  Unpacker() { BASALT_CHECK(inflateInit(&stream_) == Z_OK); }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  Result<std::string> unpack(std::string_view block, std::size_t bytes_max) {
    std::string result;
    std::array<char, 4096> piece{};
    stream_.next_in = bytes_of(block);
    stream_.avail_in = static_cast<uInt>(block.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream_.avail_out = static_cast<uInt>(piece.size());
      int outcome = inflate(&stream_, Z_SYNC_FLUSH);
      if (outcome == Z_NEED_DICT) {
        const std::string dictionary = spdy_dictionary();
        outcome = inflateSetDictionary(&stream_, bytes_of(dictionary), static_cast<uInt>(dictionary.size()));
      }
      // Without progress there is nothing left; with it there may be.
      if (outcome != Z_OK && outcome != Z_BUF_ERROR) return broken("a block of headers cannot be unpacked");
      result.append(piece.data(), piece.size() - stream_.avail_out);
      if (result.size() > bytes_max)
        return broken("a block of headers is longer than " + std::to_string(bytes_max) + " bytes");
      if (outcome == Z_BUF_ERROR) break;
    } while (stream_.avail_in > 0 || stream_.avail_out == 0);
    return result;
  }

 private:
  z_stream stream_{};
};

SpdyReader::SpdyReader(Limits limits) : limits_(limits), unpacker_(std::make_unique<Unpacker>()) {}
SpdyReader::~SpdyReader() = default;

Result<std::vector<SpdyFrame>> SpdyReader::take(std::string_view bytes) {
  buffer_.append(bytes);
  const std::string_view all = buffer_;
  std::vector<SpdyFrame> frames;
  std::size_t at = 0;
  while (all.size() - at >= kHeadBytes) {
    const std::string_view head = all.substr(at, kHeadBytes);
    const std::uint32_t length = number_at(head, 4) & 0xffffff;
    if (length > limits_.frame_bytes_max)
      return broken("a frame is longer than " + std::to_string(limits_.frame_bytes_max) + " bytes");
    if (all.size() - at - kHeadBytes < length) break;
    const std::string_view body = all.substr(at + kHeadBytes, length);
    at += kHeadBytes + length;
    if (const std::uint32_t first = number_at(head, 0); (first & kControlBit) == 0) {
      if (first == 0) return broken("data come without a stream");
      SpdyFrame frame;
      frame.stream = first;
      frame.is_final = (static_cast<std::uint8_t>(head[4]) & kFinalFlag) != 0;
      frame.data = std::string(body);
      frames.push_back(std::move(frame));
    } else {
      BASALT_TRY_DONE(read_control(head, body, frames));
    }
  }
  buffer_.erase(0, at);
  return frames;
}

Done SpdyReader::read_control(std::string_view head, std::string_view body, std::vector<SpdyFrame>& frames) {
  const std::uint32_t first = number_at(head, 0);
  if ((first >> 16 & 0x7fff) != kVersion) return broken("a frame is not of version 3");
  SpdyFrame frame;
  frame.type = static_cast<SpdyType>(first & 0xffff);
  std::size_t fixed_bytes = 0;  // ahead of a block of headers, if there is one
  bool has_headers = false;
  switch (frame.type) {
    case SpdyType::SynStream:
      fixed_bytes = 10;
      has_headers = true;
      break;
    case SpdyType::SynReply:
    case SpdyType::MoreHeaders:
      fixed_bytes = 4;
      has_headers = true;
      break;
    case SpdyType::RstStream:
    case SpdyType::GoAway:
    case SpdyType::WindowUpdate:
      fixed_bytes = 8;
      break;
    case SpdyType::Ping:
    case SpdyType::Settings:  // whose content changes nothing here
      fixed_bytes = 4;
      break;
    default:
      return Ok{};
  }
  if (body.size() < fixed_bytes) return broken("a control frame is too short");
  const bool is_of_stream = frame.type != SpdyType::Settings && frame.type != SpdyType::GoAway &&
                            frame.type != SpdyType::Ping && frame.type != SpdyType::WindowUpdate;
  if (frame.type != SpdyType::Settings)
    frame.stream = frame.type == SpdyType::Ping ? number_at(body, 0) : number_at(body, 0) & kStreamMask;
  if (is_of_stream && frame.stream == 0) return broken("a control frame names no stream");
  if (fixed_bytes == 8) frame.code = number_at(body, 4);
  if (has_headers) {
    frame.is_final = (static_cast<std::uint8_t>(head[4]) & kFinalFlag) != 0;
    BASALT_TRY(frame.headers, read_headers(body.substr(fixed_bytes)));
  }
  frames.push_back(std::move(frame));
  return Ok{};
}

Result<Headers> SpdyReader::read_headers(std::string_view block) {
  BASALT_TRY(const std::string text, unpacker_->unpack(block, limits_.header_bytes_max));
  std::string_view rest = text;
  const auto take_number = [&]() -> Result<std::uint32_t> {
    if (rest.size() < 4) return broken("a block of headers is cut off");
    const std::uint32_t number = number_at(rest, 0);
    rest.remove_prefix(4);
    return number;
  };
  const auto take_text = [&]() -> Result<std::string_view> {
    BASALT_TRY(const std::uint32_t size, take_number());
    if (rest.size() < size) return broken("a block of headers is cut off");
    const std::string_view taken = rest.substr(0, size);
    rest.remove_prefix(size);
    return taken;
  };
  Headers headers;
  BASALT_TRY(const std::uint32_t count, take_number());
  if (count > kHeadersMax) return broken("a block has more than " + std::to_string(kHeadersMax) + " headers");
  for (std::uint32_t i = 0; i < count; ++i) {
    BASALT_TRY(const std::string_view name, take_text());
    BASALT_TRY(const std::string_view values, take_text());
    if (name.empty()) return broken("a header has no name");
    for (const std::string_view value : base::split(values, '\0')) headers.emplace_back(name, value);
  }
  if (!rest.empty()) return broken("a block of headers has bytes behind them");
  return headers;
}

class SpdyWriter::Packer {
 public:
  Packer() {
    BASALT_CHECK(
        deflateInit2(&stream_, Z_BEST_COMPRESSION, Z_DEFLATED, kWindowBits, kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK);
    const std::string dictionary = spdy_dictionary();
    BASALT_CHECK(deflateSetDictionary(&stream_, bytes_of(dictionary), static_cast<uInt>(dictionary.size())) == Z_OK);
  }
  ~Packer() { deflateEnd(&stream_); }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  // Each name once.
  std::string pack(const Headers& headers) {
    std::string text;
    append_number(text, static_cast<std::uint32_t>(headers.size()));
    for (const auto& [name, value] : headers) {
      append_number(text, static_cast<std::uint32_t>(name.size()));
      text += base::to_lower_ascii(name);
      append_number(text, static_cast<std::uint32_t>(value.size()));
      text += value;
    }
    std::string block;
    std::array<char, 4096> piece{};
    stream_.next_in = bytes_of(text);
    stream_.avail_in = static_cast<uInt>(text.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream_.avail_out = static_cast<uInt>(piece.size());
      const int outcome = deflate(&stream_, Z_SYNC_FLUSH);
      BASALT_CHECK(outcome == Z_OK || outcome == Z_BUF_ERROR);
      block.append(piece.data(), piece.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
    return block;
  }

 private:
  z_stream stream_{};
};

SpdyWriter::SpdyWriter() : packer_(std::make_unique<Packer>()) {}
SpdyWriter::~SpdyWriter() = default;

std::string SpdyWriter::syn_stream(std::uint32_t stream, const Headers& headers, bool is_final) {
  std::string body;
  append_number(body, stream);
  append_number(body, 0);               // associated with no other
  body += std::string_view("\0\0", 2);  // priority and slot
  return control_frame(SpdyType::SynStream, is_final ? kFinalFlag : std::uint8_t{0}, body + packer_->pack(headers));
}

std::string SpdyWriter::syn_reply(std::uint32_t stream, const Headers& headers) {
  std::string body;
  append_number(body, stream);
  return control_frame(SpdyType::SynReply, 0, body + packer_->pack(headers));
}

std::string spdy_data(std::uint32_t stream, std::string_view bytes, bool is_final) {
  BASALT_CHECK(bytes.size() <= kSpdyDataBytesMax);
  std::string frame;
  frame.reserve(kHeadBytes + bytes.size());
  append_number(frame, stream & kStreamMask);
  append_number(frame, (is_final ? std::uint32_t{kFinalFlag} << 24 : 0) | static_cast<std::uint32_t>(bytes.size()));
  return frame.append(bytes);
}

std::string spdy_reset(std::uint32_t stream, SpdyReset why) {
  return control_frame(SpdyType::RstStream, {stream, static_cast<std::uint32_t>(why)});
}

std::string spdy_ping(std::uint32_t number) { return control_frame(SpdyType::Ping, {number}); }

std::string spdy_go_away(std::uint32_t last_stream) { return control_frame(SpdyType::GoAway, {last_stream, 0}); }

}  // namespace basalt::net
