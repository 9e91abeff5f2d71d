#include "net/spdy.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <utility>

namespace basalt::net {
namespace {

constexpr SpdyReader::Limits kLimits{.frame_bytes_max = 1000, .header_bytes_max = 300};

std::string from_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  return bytes;
}

// Two streams as another program packed their headers, in one state: {streamtype: error, port: 8080, requestid: 0}, and
// the same with "data", which is final at once.
std::string two_streams() {
  return from_hex(
      "800300010000003d0000000100000000000078f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c6061606100a4398b20"
      "d198094ade8c0600000000ffff"
      "800300010100001800000003000000000000c2aa19540e2512d60b000000ffff");
}

std::string message_of(SpdyReader& reader, std::string_view bytes) {
  const auto frames = reader.take(bytes);
  return frames.ok() ? "no error" : frames.error().message;
}

std::string message_of(std::string_view bytes) {
  SpdyReader reader(kLimits);
  return message_of(reader, bytes);
}

TEST(Spdy, TheDictionaryIsThatOfTheProtocol) {
  const std::string dictionary = spdy_dictionary();
  EXPECT_EQ(dictionary.size(), 1423u);
  // By which a packed header names it.
  EXPECT_EQ(adler32(1, reinterpret_cast<const Bytef*>(dictionary.data()), static_cast<uInt>(dictionary.size())),
            0xe3c6a7c2u);
}

TEST(Spdy, HeadersOfAnotherProgramAreReadHoweverTheyAreCut) {
  const std::string bytes = two_streams();
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    SpdyReader reader(kLimits);
    std::vector<SpdyFrame> frames;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      auto some = reader.take(std::string_view(bytes).substr(at, piece));
      ASSERT_TRUE(some.ok()) << some.error().message;
      for (auto& frame : *some) frames.push_back(std::move(frame));
    }
    ASSERT_EQ(frames.size(), 2u) << piece;
    EXPECT_EQ(frames[0].type, SpdyType::SynStream);
    EXPECT_EQ(frames[0].stream, 1u);
    EXPECT_FALSE(frames[0].is_final);
    EXPECT_EQ(frames[0].headers, (Headers{{"streamtype", "error"}, {"port", "8080"}, {"requestid", "0"}}));
    EXPECT_EQ(frames[1].stream, 3u);
    EXPECT_TRUE(frames[1].is_final);
    EXPECT_EQ(find_header(frames[1].headers, "streamType"), "data");
  }
}

TEST(Spdy, WhatIsWrittenIsRead) {
  SpdyWriter writer;
  SpdyReader reader(kLimits);
  std::string bytes;
  for (std::uint32_t i = 0; i < 100; ++i) {
    bytes += writer.syn_stream(2 * i + 1, {{"Port", std::to_string(i)}, {"empty", ""}}, i == 7);
    bytes += writer.syn_reply(2 * i + 1, {});
  }
  bytes += spdy_data(1, "hello", false) + spdy_data(1, "", true) + spdy_reset(3, SpdyReset::RefusedStream) +
           spdy_ping(0xfffffffe) + spdy_go_away(199);
  const auto frames = reader.take(bytes);
  ASSERT_TRUE(frames.ok()) << frames.error().message;
  ASSERT_EQ(frames->size(), 205u);
  for (std::uint32_t i = 0; i < 100; ++i) {
    const SpdyFrame& opened = (*frames)[2 * i];
    EXPECT_EQ(opened.headers, (Headers{{"port", std::to_string(i)}, {"empty", ""}}));
    EXPECT_EQ(opened.is_final, i == 7);
    EXPECT_EQ((*frames)[2 * i + 1].type, SpdyType::SynReply);
    EXPECT_EQ((*frames)[2 * i + 1].stream, 2 * i + 1);
  }
  EXPECT_EQ((*frames)[200].data, "hello");
  EXPECT_FALSE((*frames)[200].is_final);
  EXPECT_TRUE((*frames)[201].is_final);
  EXPECT_EQ((*frames)[202].type, SpdyType::RstStream);
  EXPECT_EQ((*frames)[202].code, 3u);
  EXPECT_EQ((*frames)[203].stream, 0xfffffffeu);
  EXPECT_EQ((*frames)[204].type, SpdyType::GoAway);
  EXPECT_EQ((*frames)[204].stream, 199u);
}

TEST(Spdy, SettingsAndUnknownFramesChangeNothing) {
  SpdyReader reader(kLimits);
  const auto frames = reader.take(from_hex("800300040000000c000000010000000400000064"
                                           "8003000900000008000000000001000080030055000000026162") +
                                  spdy_data(1, "x", false));
  ASSERT_TRUE(frames.ok()) << frames.error().message;
  ASSERT_EQ(frames->size(), 3u);
  EXPECT_EQ((*frames)[0].type, SpdyType::Settings);
  EXPECT_EQ((*frames)[1].type, SpdyType::WindowUpdate);
  EXPECT_EQ((*frames)[2].data, "x");
}

TEST(Spdy, WhoBreaksTheProtocolIsToldHow) {
  EXPECT_EQ(message_of(from_hex("800200060000000400000001")), "SPDY: a frame is not of version 3");
  EXPECT_EQ(message_of(from_hex("800300060000000200")), "no error") << "not complete";
  EXPECT_EQ(message_of(from_hex("80030006000000020000")), "SPDY: a control frame is too short");
  EXPECT_EQ(message_of(spdy_data(0, "x", false)), "SPDY: data come without a stream");
  EXPECT_EQ(message_of(spdy_reset(0, SpdyReset::Cancel)), "SPDY: a control frame names no stream");
  EXPECT_EQ(message_of(from_hex("80030002000000080000000100000000")), "SPDY: a block of headers cannot be unpacked");
  EXPECT_EQ(message_of(from_hex("800300020000000400000001")), "SPDY: a block of headers is cut off");
  // Packed by another dictionary.
  EXPECT_EQ(message_of(from_hex("800300020000000a0000000178bb01020304")),
            "SPDY: a block of headers cannot be unpacked");
}

TEST(Spdy, LimitsHold) {
  EXPECT_EQ(message_of(spdy_data(1, std::string(1000, 'x'), false)), "no error");
  EXPECT_EQ(message_of(spdy_data(1, std::string(1001, 'x'), false).substr(0, 8)),
            "SPDY: a frame is longer than 1000 bytes")
      << "before it has come";
  SpdyWriter writer;
  EXPECT_EQ(message_of(writer.syn_stream(1, {{"name", std::string(100'000, 'x')}}, false)),
            "SPDY: a block of headers is longer than 300 bytes");
  SpdyReader wide({.frame_bytes_max = 100'000, .header_bytes_max = 100'000});
  SpdyWriter other;
  EXPECT_EQ(message_of(wide, other.syn_stream(1, Headers(129, {"a", "b"}), false)),
            "SPDY: a block has more than 128 headers");
}

}  // namespace
}  // namespace basalt::net
