#include "cli/up/pod_port_forward_handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/up/test_one_pod.h"
#include "cli/up/test_responder.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

using namespace std::chrono_literals;

// A connection to a program that the test plays. Thread-safe.
class TestConnection final : public net::TcpConnection {
 public:
  TestConnection(std::string address, std::uint16_t port, net::TcpEvents events)
      : place(address + ":" + std::to_string(port)), events_(std::move(events)) {}

  void write(std::string bytes) override {
    rt::MutexLock lock(mutex_);
    taken_ += bytes;
    waiting_ += is_lazy_ ? bytes.size() : 0;
  }
  void end_output() override {
    rt::MutexLock lock(mutex_);
    taken_ += "<end>";
  }
  [[nodiscard]] std::size_t waiting() const override {
    rt::MutexLock lock(mutex_);
    return waiting_;
  }
  void hold(bool is_held) override {
    rt::MutexLock lock(mutex_);
    is_held_ = is_held;
  }
  void close() override {
    rt::MutexLock lock(mutex_);
    is_closed_ = true;
    events_ = {};
  }

  // The program.
  void say(std::string_view bytes) { events().on_bytes(bytes); }
  void end(const Done& how) {
    const net::TcpEvents last = events();
    {
      rt::MutexLock lock(mutex_);
      events_ = {};  // as a real one: nothing comes after the end
    }
    last.on_ended(how);
  }
  void be_lazy() {
    rt::MutexLock lock(mutex_);
    is_lazy_ = true;
  }
  void take_all() {
    {
      rt::MutexLock lock(mutex_);
      is_lazy_ = false;
      waiting_ = 0;
    }
    events().on_written();
  }
  std::string taken() {
    rt::MutexLock lock(mutex_);
    return taken_;
  }
  bool is_held() {
    rt::MutexLock lock(mutex_);
    return is_held_;
  }
  bool is_closed() {
    rt::MutexLock lock(mutex_);
    return is_closed_;
  }
  const std::string place;

 private:
  net::TcpEvents events() {
    rt::MutexLock lock(mutex_);
    return events_;
  }

  mutable rt::Mutex mutex_;
  net::TcpEvents events_ BASALT_GUARDED_BY(mutex_);
  std::string taken_ BASALT_GUARDED_BY(mutex_);
  std::size_t waiting_ BASALT_GUARDED_BY(mutex_) = 0;
  bool is_lazy_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_held_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_closed_ BASALT_GUARDED_BY(mutex_) = false;
};

class TestDialer final : public net::TcpDialer {
 public:
  std::shared_ptr<net::TcpConnection> dial(const std::string& address, std::uint16_t port,
                                           net::TcpEvents events) override {
    rt::MutexLock lock(mutex_);
    dialed_.push_back(std::make_shared<TestConnection>(address, port, std::move(events)));
    return dialed_.back();
  }
  void stop() override {}
  std::vector<std::shared_ptr<TestConnection>> dialed() {
    rt::MutexLock lock(mutex_);
    return dialed_;
  }

 private:
  rt::Mutex mutex_;
  std::vector<std::shared_ptr<TestConnection>> dialed_ BASALT_GUARDED_BY(mutex_);
};

// The far end of SPDY on the connection itself.
struct TestClient {
  std::shared_ptr<TestResponder> answer = std::make_shared<TestResponder>();
  net::SpdyWriter writer;

  void open(std::uint32_t stream, const std::string& type, const std::string& request, const std::string& port = "80",
            bool is_final = false) {
    answer->send_bytes(
        writer.syn_stream(stream, {{"streamtype", type}, {"port", port}, {"requestid", request}}, is_final));
  }
  // Both streams of a connection: the errors on `stream`, the data on the next.
  void connect(std::uint32_t stream, const std::string& request) {
    open(stream, "error", request);
    answer->send_bytes(net::spdy_data(stream, "", true));
    open(stream + 2, "data", request);
  }
  void say(std::uint32_t stream, std::string_view bytes, bool is_final = false) const {
    answer->send_bytes(net::spdy_data(stream, bytes, is_final));
  }
  // What was heard on a stream: "+" for the reply, "<end>", "<reset N>".
  [[nodiscard]] std::string heard(std::uint32_t stream) const {
    net::SpdyReader reader({.frame_bytes_max = 1u << 22});
    const auto frames = reader.take(answer->bytes());
    EXPECT_TRUE(frames.ok());
    std::string text;
    for (const net::SpdyFrame& frame : *frames) {
      if (frame.stream != stream) continue;
      if (frame.type == net::SpdyType::SynReply) text += "+";
      if (frame.type == net::SpdyType::RstStream) text += "<reset " + std::to_string(frame.code) + ">";
      if (frame.type == net::SpdyType::Data) text += frame.data + (frame.is_final ? "<end>" : "");
    }
    return text;
  }
};

struct Bench {
  explicit Bench(rt::SimRuntime& sim) : runtime(sim) {
    auto one = std::make_unique<TestDialer>();
    dialer = one.get();
    forwards = std::make_unique<PodPortForwardHandler>(runtime, kube, std::move(one));
    kube.set("u1", "Running", "127.64.0.7");
    http.method = "POST";
    http.headers = {{"Connection", "Upgrade"},
                    {"Upgrade", "SPDY/3.1"},
                    {"X-Stream-Protocol-Version", "other.k8s.io, portforward.k8s.io"}};
    path.version = "v1";
    path.ns = "default";
    path.plural = "pods";
    path.name = "p";
    path.subresource = "portforward";
  }
  ~Bench() { forwards->stop(); }

  void ask(const std::shared_ptr<TestResponder>& answer) {
    EXPECT_TRUE(forwards->handler()({http, path, query, user}, answer));
    wait_for([&] { return answer->code() != 0; });
  }
  void wait_for(const std::function<bool()>& holds) {
    for (int i = 0; i < 1000 && !holds(); ++i) runtime.sleep_for(10ms);
    EXPECT_TRUE(holds());
  }
  std::shared_ptr<TestConnection> dialed(std::size_t index) {
    const auto all = dialer->dialed();
    EXPECT_GT(all.size(), index);
    return all.at(index);
  }

  rt::SimRuntime& runtime;
  OnePod kube;
  TestDialer* dialer = nullptr;
  std::unique_ptr<PodPortForwardHandler> forwards;
  net::ServerRequest http;
  apiserver::ApiPath path;
  net::Query query;
  apiserver::UserInfo user;
};

TEST(PodPortForwardHandler, BytesGoBothWays) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    TestClient client;
    bench.ask(client.answer);
    EXPECT_EQ(client.answer->code(), 101);
    client.connect(1, "0");
    client.connect(5, "1");
    EXPECT_EQ(bench.dialed(0)->place, "127.64.0.7:80");
    client.say(3, "hello ");
    client.say(7, "other");
    client.say(3, "world", true);
    EXPECT_EQ(bench.dialed(0)->taken(), "hello world<end>");
    EXPECT_EQ(bench.dialed(1)->taken(), "other");
    bench.dialed(0)->say("an");
    bench.dialed(0)->say("swer");
    bench.dialed(0)->end(Ok{});
    EXPECT_EQ(client.heard(3), "+answer<end>");
    EXPECT_EQ(client.heard(1), "+<end>");
    EXPECT_EQ(client.heard(7), "+");
    client.say(3, "too late");
    client.answer->send_bytes(net::spdy_ping(1) + net::spdy_ping(2));
    EXPECT_TRUE(client.answer->has(net::spdy_ping(1)));
    EXPECT_FALSE(client.answer->has(net::spdy_ping(2))) << "an answer has none";
    // A stream that says all at once.
    client.open(9, "error", "2");
    client.open(11, "data", "2", "81", true);
    EXPECT_EQ(bench.dialed(2)->place, "127.64.0.7:81");
    EXPECT_EQ(bench.dialed(2)->taken(), "<end>");
  });
}

TEST(PodPortForwardHandler, AWebSocketCarriesTheSame) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    bench.http.method = "GET";
    bench.http.headers = {{"Connection", "Upgrade"},
                          {"Upgrade", "websocket"},
                          {"Sec-WebSocket-Version", "13"},
                          {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
                          {"Sec-WebSocket-Protocol", "SPDY/3.1+portforward.k8s.io"}};
    const auto answer = std::make_shared<TestResponder>();
    bench.ask(answer);
    net::SpdyWriter writer;
    const net::Headers error{{"streamtype", "error"}, {"port", "80"}, {"requestid", "0"}};
    const net::Headers data{{"streamtype", "data"}, {"port", "80"}, {"requestid", "0"}};
    std::string bytes = writer.syn_stream(1, error, false);
    bytes += writer.syn_stream(3, data, false);
    bytes += net::spdy_data(3, "hello", false);
    // However the frames are cut into messages.
    answer->send(net::WebSocketOpcode::Binary, bytes.substr(0, 20));
    answer->send(net::WebSocketOpcode::Ping, "x");
    answer->send(net::WebSocketOpcode::Binary, bytes.substr(20, 50), /*is_final=*/false);
    answer->send(net::WebSocketOpcode::Continuation, bytes.substr(70));
    EXPECT_EQ(bench.dialed(0)->taken(), "hello");
    EXPECT_TRUE(answer->has(net::websocket_frame(net::WebSocketOpcode::Pong, "x")));
    bench.dialed(0)->say("answer");
    EXPECT_TRUE(answer->has(net::websocket_frame(net::WebSocketOpcode::Binary, net::spdy_data(3, "answer", false))));
    answer->send(net::WebSocketOpcode::Close);
    bench.wait_for([&] { return answer->is_over(); });
    EXPECT_TRUE(answer->bytes().ends_with(std::string("\x88\x02\x03\xe8", 4))) << "closed properly";
    EXPECT_TRUE(bench.dialed(0)->is_closed());
  });
}

TEST(PodPortForwardHandler, ChannelsCarryOneConnectionAPort) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    bench.http.method = "GET";
    bench.http.headers = {{"Connection", "Upgrade"},
                          {"Upgrade", "websocket"},
                          {"Sec-WebSocket-Version", "13"},
                          {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
                          {"Sec-WebSocket-Protocol", "v4.channel.k8s.io"}};
    bench.query = {{"ports", "80,443"}, {"ports", "258"}};
    const auto answer = std::make_shared<TestResponder>();
    bench.ask(answer);
    bench.wait_for([&] { return bench.dialer->dialed().size() == 3 && !answer->is_held(); });
    EXPECT_EQ(bench.dialed(2)->place, "127.64.0.7:258");
    for (const char channel : {'\4', '\5'}) EXPECT_TRUE(answer->has_message(channel, "\x02\x01"));
    answer->send(net::WebSocketOpcode::Binary, std::string("\0hello", 6));
    answer->send(net::WebSocketOpcode::Binary, "\x02 to", /*is_final=*/false);
    answer->send(net::WebSocketOpcode::Continuation, " 443");
    for (const std::string_view nonsense : {"", "\x01 on errors", "\x09 nobody", "\xff"})
      answer->send(net::WebSocketOpcode::Binary, nonsense);
    EXPECT_EQ(bench.dialed(0)->taken(), "hello");
    EXPECT_EQ(bench.dialed(1)->taken(), " to 443");
    bench.dialed(0)->say("answer");
    EXPECT_TRUE(answer->has_message(0, "answer"));
    runtime.sleep_for(2 * PodPortForwardHandler::kLookPeriod);
    EXPECT_TRUE(answer->has(net::websocket_frame(net::WebSocketOpcode::Ping, "")));
    // It is over when all are.
    bench.dialed(0)->end(Ok{});
    bench.dialed(2)->end(Error::make(Reason::ConnectionLost, "Connection reset by peer"));
    EXPECT_FALSE(answer->is_over());
    bench.dialed(1)->end(Error::make(Reason::Unreachable, "Connection refused"));
    EXPECT_TRUE(
        answer->has("\x03"
                    "error forwarding port 443 to pod default/p"));
    bench.wait_for([&] { return answer->is_over(); });
    EXPECT_TRUE(answer->bytes().ends_with(std::string("\x88\x02\x03\xe8", 4))) << "closed properly";
  });
}

TEST(PodPortForwardHandler, ErrorsReachTheClientAndTheOtherConnectionsGoOn) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    TestClient client;
    bench.ask(client.answer);
    client.connect(1, "0");
    client.connect(5, "1");
    client.connect(9, "2");
    bench.dialed(0)->end(Error::make(Reason::Unreachable, "Connection refused"));
    EXPECT_EQ(client.heard(1),
              "+error forwarding port 80 to pod default/p: nobody answers at 127.64.0.7:80 (Connection refused); its "
              "program has to listen there or at 0.0.0.0, and one at 127.0.0.1 is reached without forwarding<end>");
    EXPECT_EQ(client.heard(3), "+<end>");
    // That a program broke off is no error of the forwarding.
    bench.dialed(1)->say("half");
    bench.dialed(1)->end(Error::make(Reason::ConnectionLost, "Connection reset by peer"));
    EXPECT_EQ(client.heard(5), "+<end>");
    EXPECT_EQ(client.heard(7), "+half<reset 5>");
    // The client breaks off.
    client.answer->send_bytes(net::spdy_reset(11, net::SpdyReset::Cancel));
    EXPECT_TRUE(bench.dialed(2)->is_closed());
    EXPECT_EQ(client.heard(9), "+<end>");
    client.connect(13, "0");  // the number of a request that is over is free
    bench.dialed(3)->say("fine");
    EXPECT_EQ(client.heard(15), "+fine");
    EXPECT_FALSE(client.answer->is_over());
  });
}

TEST(PodPortForwardHandler, StreamsThatFitNowhereAreReset) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    TestClient client;
    bench.ask(client.answer);
    client.open(1, "data", "0");
    EXPECT_EQ(client.heard(1), "<reset 1>") << "the stream of errors comes first";
    client.open(3, "error", "");
    client.open(5, "error", "0", "0");
    client.open(7, "error", "0", "65536");
    client.open(9, "status", "0");
    for (const std::uint32_t stream : {3u, 5u, 7u, 9u}) EXPECT_EQ(client.heard(stream), "<reset 1>") << stream;
    client.connect(11, "0");
    client.open(11, "error", "1");
    client.open(15, "error", "0");
    client.open(17, "data", "0");
    for (const std::uint32_t stream : {15u, 17u}) EXPECT_EQ(client.heard(stream), "<reset 1>") << stream;
    EXPECT_EQ(client.heard(11), "+<reset 1>");
    for (std::uint32_t i = 1; i < PortForwardClient::kConnectionsMax; ++i)
      client.open(101 + 2 * i, "error", std::to_string(i));
    client.open(1001, "error", "one more");
    EXPECT_EQ(client.heard(1001), "<reset 3>");
    bench.dialed(0)->end(Ok{});
    client.open(1003, "error", "one more");
    EXPECT_EQ(client.heard(1003), "+");
    EXPECT_EQ(bench.dialer->dialed().size(), 1u);
  });
}

TEST(PodPortForwardHandler, WhoDoesNotReadMakesTheOtherWait) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    TestClient client;
    bench.ask(client.answer);
    client.connect(1, "0");
    const auto program = bench.dialed(0);
    program->be_lazy();
    const std::string piece(300'000, 'x');
    for (int i = 0; i < 4; ++i) {
      EXPECT_FALSE(client.answer->is_held()) << i;
      client.say(3, piece);
    }
    EXPECT_TRUE(client.answer->is_held());
    program->take_all();
    EXPECT_FALSE(client.answer->is_held());
    // A connection that ends with bytes which nobody took holds nobody.
    program->be_lazy();
    for (int i = 0; i < 4; ++i) client.say(3, piece);
    EXPECT_TRUE(client.answer->is_held());
    program->end(Ok{});
    EXPECT_FALSE(client.answer->is_held());

    client.connect(5, "1");
    client.answer->stop_reading();
    const auto chatty = bench.dialed(1);
    for (int i = 0; i < 4; ++i) {
      EXPECT_FALSE(chatty->is_held()) << i;
      chatty->say(piece);
    }
    EXPECT_TRUE(chatty->is_held());
    client.answer->read_all();
    EXPECT_FALSE(chatty->is_held());
  });
}

TEST(PodPortForwardHandler, AllEndsWithTheClientThePodOrTheCluster) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    TestClient gone;
    TestClient rude;
    TestClient leaving;
    TestClient left;
    for (TestClient* one : {&gone, &rude, &leaving, &left}) {
      bench.ask(one->answer);
      one->connect(1, "0");
    }
    gone.answer->go_away();
    rude.answer->send_bytes("GET / HTTP/1.1\r\n\r\n");
    leaving.answer->send_bytes(net::spdy_go_away(0));
    bench.wait_for([&] { return gone.answer->is_over() && rude.answer->is_over(); });
    EXPECT_TRUE(bench.dialed(0)->is_closed() && bench.dialed(1)->is_closed());
    EXPECT_THAT(rude.heard(1), ::testing::StartsWith("+the client broke the protocol: "));
    EXPECT_FALSE(leaving.answer->is_over()) << "its connection goes on";
    bench.dialed(2)->end(Ok{});
    bench.wait_for([&] { return leaving.answer->is_over(); });

    EXPECT_FALSE(left.answer->is_over());
    runtime.sleep_for(2 * PodPortForwardHandler::kLookPeriod);
    EXPECT_TRUE(left.answer->has(net::spdy_ping(2))) << "which finds out that it is gone";
    bench.kube.set("u2", "Running", "127.64.0.8");
    bench.wait_for([&] { return left.answer->is_over(); });
    EXPECT_EQ(left.heard(1), "+pod default/p is gone; another has its name<end>");
    EXPECT_EQ(left.heard(3), "+<end>");
    EXPECT_TRUE(bench.dialed(3)->is_closed());
    EXPECT_TRUE(left.answer->has(net::spdy_go_away(3)));

    TestClient over;
    TestClient deleted;
    TestClient last;
    bench.ask(over.answer);
    over.connect(1, "0");
    bench.kube.set("u2", "Failed", "127.64.0.8");
    bench.wait_for([&] { return over.answer->is_over(); });
    EXPECT_EQ(over.heard(1), "+pod default/p is over: its phase is Failed<end>");
    bench.kube.set("u2", "Running", "127.64.0.8");
    bench.ask(deleted.answer);
    bench.kube.set("");
    bench.wait_for([&] { return deleted.answer->is_over(); });
    bench.kube.set("u3", "Running", "127.64.0.8");
    bench.ask(last.answer);
    last.connect(1, "0");
    bench.forwards->stop();
    EXPECT_TRUE(last.answer->is_over());
    EXPECT_EQ(last.heard(1), "+the cluster is stopping<end>");
    const auto late = std::make_shared<TestResponder>();
    bench.ask(late);
    EXPECT_EQ(late->code(), 503);
  });
}

TEST(PodPortForwardHandler, WhatIsNotServedIsRefusedInWords) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto refused = [&](int code, std::string_view words) {
      const auto answer = std::make_shared<TestResponder>();
      bench.ask(answer);
      EXPECT_EQ(answer->code(), code) << words;
      EXPECT_TRUE(answer->has(words)) << answer->bytes();
    };
    bench.kube.set("u1", "Pending", "");
    refused(400, "pod default/p is not running: its phase is Pending");
    bench.kube.set("u1", "Running", "127.0.0.1");
    refused(400, "has the address 127.0.0.1, at which no process node has a pod");
    bench.kube.set("");
    refused(404, "not found");
    bench.kube.set("u1", "Running", "127.64.0.7");
    bench.http.headers[2].second = "other.k8s.io";
    refused(400, "in the protocol portforward.k8s.io only");
    bench.http.headers = {};
    refused(400, "Upgrade request required");
    bench.http.method = "GET";
    bench.http.headers = {{"Connection", "Upgrade"},
                          {"Upgrade", "websocket"},
                          {"Sec-WebSocket-Version", "13"},
                          {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
                          {"Sec-WebSocket-Protocol", "v4.channel.k8s.io"}};
    refused(400, "ports: none is given");
    bench.query = {{"ports", "80,0"}};
    refused(400, "is not a port; it takes 1 to 65535");
    bench.query = net::Query(PortForwardClient::kPortsMax + 1, {"ports", "80"});
    refused(400, "ports: there are more than 64");
    bench.http.headers.back().second = "v5.channel.k8s.io";
    refused(400, "in the WebSocket protocols SPDY/3.1+portforward.k8s.io and v4.channel.k8s.io only");
    bench.path.subresource = "exec";
    EXPECT_FALSE(
        bench.forwards->handler()({bench.http, bench.path, {}, bench.user}, std::make_shared<TestResponder>()));
  });
}

TEST(PodPortForwardHandler, TooManyAreRefused) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    std::vector<std::shared_ptr<TestResponder>> all;
    for (std::size_t i = 0; i <= PodPortForwardHandler::kClientsMax; ++i) {
      all.push_back(std::make_shared<TestResponder>());
      bench.ask(all.back());
    }
    EXPECT_EQ(all[0]->code(), 101);
    EXPECT_EQ(all.back()->code(), 429);
  });
}

}  // namespace
}  // namespace basalt::cli
