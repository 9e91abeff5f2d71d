#include "node/grpc_health.h"

#include <gtest/gtest.h>

namespace basalt::node {
namespace {

using namespace std::string_literals;

std::string frame(char type, char flags, char stream, const std::string& payload) {
  return "\0\0"s + static_cast<char>(payload.size()) + type + flags + "\0\0\0"s + stream + payload;
}

const std::string kSettings = frame(4, 0, 0, "");
const std::string kServing = "\0\0\0\0\2\x08\1"s;

TEST(GrpcHealth, TheRequestIsOneCallOfHttp2) {
  const std::string request = grpc_health_request("127.64.0.1:90", "store");
  EXPECT_TRUE(request.starts_with("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"s + kSettings));
  EXPECT_NE(request.find("/grpc.health.v1.Health/Check"), std::string::npos);
  EXPECT_TRUE(request.ends_with(frame(0, 1, 1, "\0\0\0\0\7\n\5store"s)));
  EXPECT_TRUE(grpc_health_request("a", "").ends_with(frame(0, 1, 1, "\0\0\0\0\0"s)));
}

TEST(GrpcHealth, AnAnswerMayComeByteByByte) {
  GrpcHealthReader reader("");
  const std::string answer = kSettings + frame(6, 0, 0, "12345678") + frame(1, 4, 1, "headers") +
                             frame(0, 0, 1, kServing.substr(0, 3)) + frame(0, 8, 1, "\2"s + kServing.substr(3) + "pp");
  std::string replies;
  for (const char c : answer) {
    EXPECT_FALSE(reader.result().has_value());
    replies += reader.take({&c, 1});
  }
  ASSERT_TRUE(reader.result().has_value());
  EXPECT_EQ(reader.result()->verdict, Verdict::Passed);
  EXPECT_EQ(replies, frame(4, 1, 0, "") + frame(6, 1, 0, "12345678"));
}

std::string failure_of(const std::string& answer) {
  GrpcHealthReader reader("store");
  (void)reader.take(answer);
  reader.end();
  EXPECT_EQ(reader.result()->verdict, Verdict::Failed);
  return reader.result()->message;
}

TEST(GrpcHealth, EverythingElseIsAFailure) {
  EXPECT_EQ(failure_of(frame(0, 0, 1, "\0\0\0\0\2\x08\2"s)),
            "service \"store\" is unhealthy: it responded with NOT_SERVING");
  EXPECT_NE(failure_of(frame(0, 0, 1, "\0\0\0\0\0"s)).find("UNKNOWN"), std::string::npos);
  EXPECT_NE(failure_of(frame(1, 5, 1, "trailers")).find("does not offer"), std::string::npos);
  EXPECT_EQ(failure_of(frame(3, 0, 1, "1234")), "the server refused the call");
  EXPECT_EQ(failure_of(frame(7, 0, 0, "12345678")), "the server refused the call");
  EXPECT_NE(failure_of("HTTP/1.1 400 Bad Request\r\n\r\n").find("does not speak HTTP/2"), std::string::npos);
  EXPECT_NE(failure_of(frame(0, 0, 1, "\1\0\0\0\1x"s)).find("compressed"), std::string::npos);
  EXPECT_NE(failure_of(frame(0, 0, 1, "\0\xff\xff\xff\xff"s)).find("too long"), std::string::npos);
  EXPECT_NE(failure_of(frame(0, 8, 1, "\x7f"s)).find("malformed"), std::string::npos);
  EXPECT_NE(failure_of(kSettings).find("without an answer"), std::string::npos);
  std::string flood;
  for (int i = 0; i < 10'000; ++i) flood += kSettings;
  EXPECT_NE(failure_of(flood).find("too much"), std::string::npos);
}

}  // namespace
}  // namespace basalt::node
