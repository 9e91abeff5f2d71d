// Protobuf where it comes in: the bodies of HTTP requests.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "apiserver/http/request_parser.h"
#include "apiserver/proto/decode.h"

namespace basalt::apiserver {
namespace {

net::ServerRequest request_of(std::string method, std::string body) {
  net::ServerRequest request;
  request.method = std::move(method);
  request.headers = {{"Content-Type", std::string(proto::kMediaType)}};
  request.body = std::move(body);
  return request;
}

ApiPath deployments(std::string name) {
  ApiPath path;
  path.group = "apps";
  path.version = "v1";
  path.ns = "default";
  path.plural = "deployments";
  path.name = std::move(name);
  return path;
}

TEST(ProtoRequestBody, IsJsonForTheServer) {
  // Deployment with metadata.name "w", an empty namespace and spec.replicas 0.
  const std::string body(
      "k8s\0\x0a\x15\x0a\x07"
      "apps/v1\x12\x0a"
      "Deployment\x12\x0b\x0a\x05\x0a\x01w\x1a\x00\x12\x02\x08\x00",
      40);
  const auto request = parse_call(request_of("POST", body), deployments(""), {});
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->body,
            R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"w"},"spec":{"replicas":0}})");
}

TEST(ProtoRequestBody, HoldsDeleteOptions) {
  // gracePeriodSeconds 0, preconditions.uid "u", propagationPolicy "Orphan"
  const std::string options("\x08\x00\x12\x03\x0a\x01u\x22\x06Orphan", 15);
  const std::string body = std::string(
                               "k8s\0\x0a\x18\x0a\x07"
                               "apps/v1\x12\x0d"
                               "DeleteOptions\x12\x0f",
                               32) +
                           options;
  const auto request = parse_call(request_of("DELETE", body), deployments("w"), {});
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->grace_period_seconds, 0);
  EXPECT_EQ(request->precondition_uid, "u");
  EXPECT_EQ(request->propagation, kube::Propagation::Orphan);
}

TEST(ProtoRequestBody, MalformedBytesAreRefused) {
  const auto request = parse_call(request_of("POST", "k8s"), deployments(""), {});
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().reason, Reason::BadRequest);
}

}  // namespace
}  // namespace basalt::apiserver
