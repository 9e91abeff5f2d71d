#include <gtest/gtest.h>

#include "json/reader.h"
#include "node/prober.h"

namespace basalt::node {
namespace {

api::core::Container container(std::string_view probe) {
  const std::string text =
      R"({"name":"c","ports":[{"name":"web","containerPort":8080},{"containerPort":9090}],"livenessProbe":)" +
      std::string(probe) + "}";
  json::Reader reader(text);
  api::core::Container made;
  decode(reader, made);
  EXPECT_TRUE(reader.finish().ok()) << probe;
  return made;
}

Result<NetworkCheck> check_of(std::string_view probe, std::string_view address = "127.64.0.9") {
  const api::core::Container made = container(probe);
  EXPECT_TRUE(has_network_check(*made.liveness_probe)) << probe;
  return network_check(*made.liveness_probe, made, address);
}

std::string url_of(std::string_view probe) {
  const auto check = check_of(probe);
  if (!check.ok()) return "error: " + check.error().message;
  const auto* http = std::get_if<HttpCheck>(&*check);
  return http != nullptr ? http->url : "not http";
}

TEST(ProbeChecks, HttpRequestsGoToThePodUnlessToldOtherwise) {
  EXPECT_EQ(url_of(R"({"httpGet":{"port":80}})"), "http://127.64.0.9:80/");
  EXPECT_EQ(url_of(R"({"httpGet":{"port":"web","path":"/healthz?full=1"}})"), "http://127.64.0.9:8080/healthz?full=1");
  EXPECT_EQ(url_of(R"({"httpGet":{"port":"9090","path":"ready","scheme":"HTTPS"}})"), "https://127.64.0.9:9090/ready");
  EXPECT_EQ(url_of(R"({"httpGet":{"port":1,"host":"db.example"}})"), "http://db.example:1/");
  EXPECT_EQ(url_of(R"({"httpGet":{"port":1,"host":"::1"}})"), "http://[::1]:1/");
  EXPECT_EQ(url_of(R"({"httpGet":{"port":1,"path":"/a b#c"}})"), "http://127.64.0.9:1/a%20b");
  const auto on_host = check_of(R"({"httpGet":{"port":1}})", "");
  ASSERT_TRUE(on_host.ok());
  EXPECT_EQ(std::get_if<HttpCheck>(&*on_host)->url, "http://127.0.0.1:1/");
}

TEST(ProbeChecks, HeadersAreSentAsTheyStand) {
  const auto check =
      check_of(R"({"httpGet":{"port":1,"httpHeaders":[{"name":"Host","value":"shop"},{"name":"X-A","value":""}]}})");
  ASSERT_TRUE(check.ok());
  EXPECT_EQ(std::get_if<HttpCheck>(&*check)->headers, (net::Headers{{"Host", "shop"}, {"X-A", ""}}));
}

TEST(ProbeChecks, OtherKinds) {
  const auto tcp = check_of(R"({"tcpSocket":{"port":"web"}})");
  ASSERT_TRUE(tcp.ok());
  EXPECT_EQ(*tcp, NetworkCheck(TcpCheck{"127.64.0.9", 8080}));
  const auto grpc = check_of(R"({"grpc":{"port":9000,"service":"store"}})");
  ASSERT_TRUE(grpc.ok());
  EXPECT_EQ(*grpc, NetworkCheck(GrpcCheck{"127.64.0.9", 9000, "store"}));
  const api::core::Container command = container(R"({"exec":{"command":["true"]}})");
  EXPECT_FALSE(has_network_check(*command.liveness_probe));
  const api::core::Container unknown = container(R"({"carrierPigeon":{"port":1}})");
  EXPECT_FALSE(has_network_check(*unknown.liveness_probe));
}

TEST(ProbeChecks, WrongOnesAreErrorsThatNameTheField) {
  EXPECT_EQ(url_of(R"({"httpGet":{"port":"nope"}})"),
            "error: port \"nope\" is neither a number from 1 to 65535 nor the name of one of the ports of container c");
  EXPECT_NE(url_of(R"({"httpGet":{"port":0}})").find("error: port \"0\""), std::string::npos);
  EXPECT_NE(url_of(R"({"httpGet":{"port":65536}})").find("error: port \"65536\""), std::string::npos);
  EXPECT_NE(url_of(R"({"httpGet":{"port":1,"scheme":"FTP"}})").find("\"FTP\""), std::string::npos);
  EXPECT_FALSE(check_of(R"({"tcpSocket":{"port":"x"}})").ok());
  EXPECT_FALSE(check_of(R"({"grpc":{"port":70000}})").ok());
}

}  // namespace
}  // namespace basalt::node
