#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/up/pod_port_forward_handler.h"
#include "cli/up/test_one_pod.h"
#include "net/test_server.h"
#include "rt/real_runtime.h"

// The whole way on real threads and sockets: a client's connection, the server's loop, the dialer's, a program.

namespace basalt::cli {
namespace {

using namespace std::chrono_literals;

net::HttpServerOptions at_pod_address() {
  net::HttpServerOptions options;
  options.address = "127.64.0.10";
  return options;
}

class PortForwardThreads : public ::testing::Test {
 protected:
  PortForwardThreads() : program_(*runtime_, at_pod_address()) {
    kube_.set("u1", "Running", "127.64.0.10");
    path_.version = "v1";
    path_.ns = "default";
    path_.plural = "pods";
    path_.name = "p";
    path_.subresource = "portforward";
    forwards_ = std::make_unique<PodPortForwardHandler>(*runtime_, kube_, net::make_tcp_dialer(*runtime_));
    server_ = net::start_http_server(*runtime_, Logger(), {}, [this](auto request, auto responder) {
                EXPECT_TRUE(forwards_->handler()({*request, path_, {}, {}}, responder));
              }).value();
  }
  ~PortForwardThreads() override {
    forwards_->stop();
    server_->stop(0s);
  }

  net::testing::RawConnection client() {
    auto connection = net::testing::RawConnection::connect(server_->port());
    connection.send(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        "X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n");
    EXPECT_TRUE(connection.read_until("\r\n\r\n").starts_with("HTTP/1.1 101"));
    return connection;
  }
  // Both streams of a connection, as they are sent: the errors on `stream`, the data on the next but one.
  std::string opened(net::SpdyWriter& writer, std::uint32_t stream, std::uint16_t port) {
    net::Headers headers{
        {"streamtype", "error"}, {"port", std::to_string(port)}, {"requestid", std::to_string(stream)}};
    std::string bytes = writer.syn_stream(stream, headers, true);
    headers[0].second = "data";
    return bytes += writer.syn_stream(stream + 2, headers, false);
  }
  // What comes on each stream, until so many have ended.
  static std::map<std::uint32_t, std::string> heard(net::testing::RawConnection& connection, std::size_t ends) {
    net::SpdyReader reader({.frame_bytes_max = 1u << 20});
    std::map<std::uint32_t, std::string> texts;
    while (ends > 0) {
      const std::string bytes = connection.read_exactly(1);
      const auto frames = reader.take(bytes);
      if (!frames.ok() || bytes.empty()) break;
      for (const auto& frame : *frames) {
        texts[frame.stream] += frame.data;
        ends -= frame.is_final ? 1 : 0;
      }
    }
    EXPECT_EQ(ends, 0u);
    return texts;
  }

  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  net::testing::TestServer program_;
  OnePod kube_;
  apiserver::ApiPath path_;
  std::unique_ptr<PodPortForwardHandler> forwards_;
  std::unique_ptr<net::HttpServer> server_;
};

TEST_F(PortForwardThreads, ManyConnectionsAtOnce) {
  auto connection = client();
  net::SpdyWriter writer;
  std::string bytes;
  const std::string request = "GET /bytes?n=3000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  for (std::uint32_t i = 0; i < 40; ++i) {
    bytes += opened(writer, 4 * i + 1, program_.port());
    bytes += net::spdy_data(4 * i + 3, request, false);
  }
  ASSERT_TRUE(connection.send(bytes));
  auto texts = heard(connection, 80);
  for (std::uint32_t i = 0; i < 40; ++i) {
    EXPECT_EQ(texts[4 * i + 1], "") << i;
    EXPECT_TRUE(texts[4 * i + 3].starts_with("HTTP/1.1 200") && texts[4 * i + 3].size() > 3000) << texts[4 * i + 3];
  }
}

TEST_F(PortForwardThreads, ClientsComeAndGoAndTheStopEndsTheRest) {
  std::vector<net::testing::RawConnection> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(client());
    net::SpdyWriter writer;
    std::string bytes = opened(writer, 1, program_.port());
    bytes += opened(writer, 5, 1);  // where nobody listens
    ASSERT_TRUE(clients.back().send(bytes += net::spdy_data(3, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n", false)));
    EXPECT_NE(heard(clients.back(), 2)[5].find("Connection refused"), std::string::npos);
  }
  ASSERT_TRUE(program_.wait_for_held(4));  // it has four threads
  clients[0].close();
  clients[1].reset();
  clients[2].send("nonsense that is no frame of SPDY");
  EXPECT_TRUE(clients[2].is_closed_by_peer());
  forwards_->stop();
  EXPECT_EQ(heard(clients[3], 2)[1], "the cluster is stopping");
  for (std::size_t i = 3; i < 6; ++i) EXPECT_TRUE(clients[i].is_closed_by_peer()) << i;
}

}  // namespace
}  // namespace basalt::cli
