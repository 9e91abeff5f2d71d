#include "node/grpc_health.h"

#include <gtest/gtest.h>

namespace basalt::node {
namespace {

using namespace std::string_literals;

TEST(GrpcHealth, TheRequestNamesTheService) {
  EXPECT_EQ(grpc_health_request(""), "\0\0\0\0\0"s);
  EXPECT_EQ(grpc_health_request("store"), "\0\0\0\0\7\n\5store"s);
  const std::string longest = grpc_health_request(std::string(300, 'x'));
  EXPECT_TRUE(longest.starts_with("\0\0\0\1\x2f\n\xac\2xxx"s));
  EXPECT_EQ(longest.size(), 5u + 3u + 300u);
}

net::HttpResponse answer(std::string body, net::Headers trailers = {{"grpc-status", "0"}}) {
  return {.status = 200, .headers = {}, .body = std::move(body), .trailers = std::move(trailers)};
}

TEST(GrpcHealth, WhoServesPasses) {
  EXPECT_EQ(grpc_health_result("", answer("\0\0\0\0\2\x08\1"s)).verdict, Verdict::Passed);
  EXPECT_EQ(grpc_health_result("", answer("\0\0\0\0\2\x08\1"s, {})).verdict, Verdict::Passed);
}

std::string failure_of(const net::HttpResponse& one) {
  const CheckResult result = grpc_health_result("store", one);
  EXPECT_EQ(result.verdict, Verdict::Failed);
  return result.message;
}

TEST(GrpcHealth, EverythingElseIsAFailure) {
  EXPECT_EQ(failure_of(answer("\0\0\0\0\2\x08\2"s)), "service \"store\" is unhealthy: it responded with NOT_SERVING");
  EXPECT_EQ(failure_of(answer("\0\0\0\0\0"s)), "service \"store\" is unhealthy: it responded with UNKNOWN");
  EXPECT_EQ(failure_of(answer("\0\0\0\0\2\x08\x63"s)), "service \"store\" is unhealthy: it responded with UNKNOWN");
  EXPECT_EQ(failure_of(answer("", {{"grpc-status", "12"}})), "the server does not offer grpc.health.v1.Health");
  EXPECT_EQ(failure_of(answer("", {{"Grpc-Status", "5"}})), "the server does not know service \"store\"");
  EXPECT_EQ(failure_of(answer("", {{"grpc-status", "14"}, {"grpc-message", "warming up"}})),
            "the health check ended with UNAVAILABLE: warming up");
  EXPECT_EQ(failure_of(answer("", {{"grpc-status", "x"}})), "the health check ended with status \"x\"");
  // Without a body, how it ended is among the headers.
  EXPECT_EQ(failure_of({.status = 200, .headers = {{"grpc-status", "13"}}, .body = "", .trailers = {}}),
            "the health check ended with INTERNAL");
  EXPECT_EQ(failure_of({.status = 404, .headers = {}, .body = "", .trailers = {}}),
            "the server answered with status 404 of HTTP: it is none of gRPC");
  EXPECT_EQ(failure_of(answer("\0\0"s)), "the server answered without a message");
  EXPECT_EQ(failure_of(answer("\1\0\0\0\1x"s)), "the server answered with a compressed message");
  for (const std::string& body : {"\0\0\0\0\3\x08\1"s, "\0\xff\xff\xff\xff"s, "\0\0\0\0\1\x08\1"s})
    EXPECT_EQ(failure_of(answer(body)), "the server answered with a message that has another length");
}

}  // namespace
}  // namespace basalt::node
