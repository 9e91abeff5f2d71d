#include <cstring>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>

#include "net/http_server.h"
#include "net/test_server.h"
#include "net/test_support.h"

// HTTP/2 of the server, with a client made of the same library (frame by frame, over plain TCP) and with curl.

namespace basalt::net {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::piece;
using testing::RawConnection;
using ::testing::StartsWith;
using testing::TemporaryFolder;
using testing::TestCertificates;
using testing::TestServer;
using namespace std::chrono_literals;

// A client on one connection. wait_for() moves bytes until the condition holds.
class Http2Client {
 public:
  struct Answer {
    std::map<std::string, std::string> headers;
    std::string body;
    bool is_closed = false;
    std::uint32_t code = 0;
    std::string status() { return headers[":status"]; }
  };

  explicit Http2Client(std::uint16_t port, bool is_auto_window = true) : connection_(RawConnection::connect(port)) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_option* option = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, is_auto_window ? 0 : 1);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_client_new2(&session_, callbacks, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~Http2Client() { nghttp2_session_del(session_); }
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // `body_bytes` are sent as far as the windows allow; `is_endless` never ends the stream.
  std::int32_t request(const std::string& method, const std::string& path, std::size_t body_bytes = 0,
                       bool is_endless = false, const std::map<std::string, std::string>& headers = {}) {
    std::vector<nghttp2_nv> fields = {field(":method", method), field(":scheme", "http"), field(":authority", "x"),
                                      field(":path", path)};
    for (const auto& [name, value] : headers) fields.push_back(field(name, value));
    nghttp2_data_provider provider{};
    provider.read_callback = read_body;
    const bool has_body = body_bytes > 0 || is_endless;
    const std::int32_t id = nghttp2_submit_request(session_, nullptr, fields.data(), fields.size(),
                                                   has_body ? &provider : nullptr, nullptr);
    bodies_[id] = {body_bytes, is_endless};
    return id;
  }
  void reset(std::int32_t id) { nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL); }
  Answer& answer(std::int32_t id) { return answers_[id]; }
  [[nodiscard]] bool has_goaway() const { return has_goaway_; }
  [[nodiscard]] bool is_ended() const { return is_ended_; }
  RawConnection& connection() { return connection_; }

  template <class Condition>
  bool wait_for(Condition condition) {
    for (int i = 0; i < 30'000; ++i) {
      send();
      if (condition()) return true;
      if (is_ended_) return false;
      receive();
    }
    return false;
  }
  bool wait_for_answer(std::int32_t id) {
    return wait_for([&] { return answers_[id].is_closed; });
  }
  bool wait_for_end() {
    return wait_for([&] { return is_ended_; });
  }
  void send() {
    const std::uint8_t* data = nullptr;
    for (ssize_t size = 0; (size = nghttp2_session_mem_send(session_, &data)) > 0;) {
      connection_.send({reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)});
    }
  }

 private:
  static nghttp2_nv field(std::string_view name, std::string_view value) {
    return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
            reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(), value.size(),
            NGHTTP2_NV_FLAG_NONE};
  }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
                       const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* user) {
    static_cast<Http2Client*>(user)
        ->answers_[frame->hd.stream_id]
        .headers[std::string(reinterpret_cast<const char*>(name), name_size)]
        .assign(reinterpret_cast<const char*>(value), value_size);
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data, std::size_t size,
                     void* user) {
    static_cast<Http2Client*>(user)->answers_[id].body.append(reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t code, void* user) {
    Answer& answer = static_cast<Http2Client*>(user)->answers_[id];
    answer.is_closed = true;
    answer.code = code;
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_GOAWAY) static_cast<Http2Client*>(user)->has_goaway_ = true;
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, std::int32_t id, std::uint8_t* buffer, std::size_t size,
                           std::uint32_t* flags, nghttp2_data_source*, void* user) {
    auto& [left, is_endless] = static_cast<Http2Client*>(user)->bodies_[id];
    const std::size_t part = std::min(left, size);
    std::memset(buffer, 'b', part);
    left -= part;
    if (left == 0 && !is_endless) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return part == 0 && is_endless ? static_cast<ssize_t>(NGHTTP2_ERR_DEFERRED) : static_cast<ssize_t>(part);
  }
  void receive() {
    char buffer[16384];
    pollfd entry{.fd = connection_.fd(), .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, 1) != 1) return;
    const ssize_t size = ::recv(connection_.fd(), buffer, sizeof buffer, 0);
    if (size <= 0 || nghttp2_session_mem_recv(session_, reinterpret_cast<std::uint8_t*>(buffer),
                                              static_cast<std::size_t>(size)) < 0) {
      is_ended_ = true;
    }
  }

  RawConnection connection_;
  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, Answer> answers_;
  std::map<std::int32_t, std::pair<std::size_t, bool>> bodies_;
  bool has_goaway_ = false;
  bool is_ended_ = false;
};

class Http2Test : public ::testing::Test {
 protected:
  void expect_alive(const TestServer& server) {
    Http2Client client(server.port());
    const auto id = client.request("GET", "/echo");
    EXPECT_TRUE(client.wait_for_answer(id));
    EXPECT_EQ("200", client.answer(id).status());
  }
  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
};

TEST_F(Http2Test, CarriesRequestsAndAnswers) {
  TestServer server(*runtime_);
  Http2Client client(server.port());
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i) {
    ids.push_back(client.request("POST", "/echo?i=" + std::to_string(i), static_cast<std::size_t>(i) * 1000));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ASSERT_TRUE(client.wait_for_answer(ids[i]));
    auto& answer = client.answer(ids[i]);
    EXPECT_EQ("200", answer.status());
    EXPECT_THAT(answer.body, StartsWith("POST /echo?i=" + std::to_string(i) + " HTTP/2\nhost=x\n"));
    EXPECT_THAT(answer.body, EndsWith("\n\n" + std::string(i * 1000, 'b')));
    EXPECT_EQ(std::to_string(answer.body.size()), answer.headers["content-length"]);
  }
}

TEST_F(Http2Test, SpecialAnswers) {
  TestServer server(*runtime_);
  Http2Client client(server.port());
  const auto head = client.request("HEAD", "/bytes?n=10");
  const auto none = client.request("GET", "/status?code=204");
  const auto not_modified = client.request("GET", "/status?code=304");
  const auto empty = client.request("GET", "/bytes?n=0");
  const auto dropped = client.request("GET", "/drop");
  const auto aborted = client.request("GET", "/abort");
  const auto large = client.request("GET", "/bytes?n=5000000");
  for (const auto id : {head, none, not_modified, empty, dropped, aborted, large}) {
    ASSERT_TRUE(client.wait_for_answer(id));
  }
  EXPECT_EQ("10", client.answer(head).headers["content-length"]);
  EXPECT_EQ("", client.answer(head).body);
  EXPECT_EQ("204", client.answer(none).status());
  EXPECT_EQ("304", client.answer(not_modified).status());
  EXPECT_EQ("0", client.answer(empty).headers["content-length"]);
  EXPECT_EQ("500", client.answer(dropped).status());
  EXPECT_NE(0u, client.answer(aborted).code);
  EXPECT_EQ(5'000'000u, client.answer(large).body.size());
}

TEST_F(Http2Test, RefusesWhatIsNoRequest) {
  TestServer server(*runtime_);
  Http2Client client(server.port());
  const auto relative = client.request("GET", "echo");
  ASSERT_TRUE(client.wait_for_answer(relative));
  EXPECT_NE("200", client.answer(relative).status());
  EXPECT_EQ(0, server.handled());
}

TEST_F(Http2Test, LimitsTheHeader) {
  HttpServerOptions options;
  options.header_bytes_max = 1000;
  TestServer server(*runtime_, options);
  Http2Client client(server.port());
  const auto id = client.request("GET", "/echo", 0, false, {{"x-large", std::string(2000, 'x')}});
  ASSERT_TRUE(client.wait_for_answer(id));
  EXPECT_EQ("431", client.answer(id).status());
  const auto next = client.request("GET", "/echo");
  ASSERT_TRUE(client.wait_for_answer(next));
  EXPECT_EQ("200", client.answer(next).status());
}

TEST_F(Http2Test, LimitsTheBody) {
  HttpServerOptions options;
  options.body_bytes_max = 100'000;
  TestServer server(*runtime_, options);
  Http2Client client(server.port());
  const auto id = client.request("POST", "/echo", 50'000'000);
  ASSERT_TRUE(client.wait_for_answer(id));
  EXPECT_EQ("413", client.answer(id).status());
  EXPECT_EQ(std::uint32_t{NGHTTP2_NO_ERROR}, client.answer(id).code);
  EXPECT_EQ(0, server.handled());
  const auto just = client.request("POST", "/echo", 100'000);
  ASSERT_TRUE(client.wait_for_answer(just));
  EXPECT_EQ("200", client.answer(just).status());
}

TEST_F(Http2Test, BodiesThatDoNotEndAreBoundedTogether) {
  HttpServerOptions options;
  options.body_timeout = 500ms;
  TestServer server(*runtime_, options);
  Http2Client client(server.port());
  // 3 MB each would be 300 MB; the window of the connection lets 16 MiB in, then they time out.
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(client.request("POST", "/echo", 3'000'000, /*is_endless=*/true));
  for (const auto id : ids) ASSERT_TRUE(client.wait_for_answer(id));
  EXPECT_EQ("408", client.answer(ids.front()).status());
  const auto next = client.request("POST", "/echo", 1000);
  ASSERT_TRUE(client.wait_for_answer(next));
  EXPECT_EQ("200", client.answer(next).status());
}

TEST_F(Http2Test, LimitsStreams) {
  HttpServerOptions options;
  options.http2_streams_max = 3;
  TestServer server(*runtime_, options);
  Http2Client client(server.port());
  // The client knows the limit once it has the settings; then it keeps the fourth back until one has ended.
  const auto first = client.request("GET", "/echo");
  ASSERT_TRUE(client.wait_for_answer(first));
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(client.request("GET", "/stream"));
  std::vector<std::shared_ptr<Responder>> streams;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.wait_for([&] { return client.answer(ids[static_cast<std::size_t>(i)]).status() == "200"; }));
    streams.push_back(server.take_stream());
  }
  EXPECT_EQ("", client.answer(ids[3]).status());
  streams[0]->finish();
  EXPECT_TRUE(client.wait_for([&] { return client.answer(ids[3]).status() == "200"; }));
}

TEST_F(Http2Test, RefusesWhenTooManyWait) {
  HttpServerOptions options;
  options.handler_threads = 1;
  options.handler_queue_max = 2;
  TestServer server(*runtime_, options);
  Http2Client client(server.port());
  const auto held = client.request("GET", "/hold");
  ASSERT_TRUE(client.wait_for([] { return true; }));
  ASSERT_TRUE(server.wait_for_held(1));
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(client.request("GET", "/echo"));
  for (std::size_t i = 2; i < 5; ++i) {
    ASSERT_TRUE(client.wait_for_answer(ids[i]));
    EXPECT_EQ("429", client.answer(ids[i]).status());
    EXPECT_EQ("1", client.answer(ids[i]).headers["retry-after"]);
  }
  server.release();
  for (const auto id : {held, ids[0], ids[1]}) {
    ASSERT_TRUE(client.wait_for_answer(id));
    EXPECT_EQ("200", client.answer(id).status());
  }
}

TEST_F(Http2Test, RefusesBeforeTheBodyHasCome) {
  HttpServerOptions options;
  options.handler_threads = 1;
  options.handler_queue_bytes_max = 50'000;
  TestServer server(*runtime_, options);
  Http2Client client(server.port());
  const auto late = client.request("POST", "/echo", 1, /*is_endless=*/true, {{"content-length", "100000"}});
  ASSERT_TRUE(client.wait_for_answer(late));
  EXPECT_EQ("429", client.answer(late).status());
  EXPECT_EQ("1", client.answer(late).headers["retry-after"]);
  EXPECT_EQ(std::uint32_t{NGHTTP2_NO_ERROR}, client.answer(late).code);
  const auto next = client.request("POST", "/echo", 1000);
  ASSERT_TRUE(client.wait_for_answer(next));
  EXPECT_EQ("200", client.answer(next).status());
}

TEST_F(Http2Test, StreamsAndHearsOfResets) {
  TestServer server(*runtime_);
  Http2Client client(server.port());
  const auto first = client.request("GET", "/stream");
  const auto second = client.request("GET", "/stream");
  client.send();
  const auto first_stream = server.take_stream();
  const auto second_stream = server.take_stream();
  for (int i = 0; i < 100; ++i) {
    first_stream->write(piece("a"));
    second_stream->write(piece("b"));
  }
  ASSERT_TRUE(client.wait_for(
      [&] { return client.answer(first).body.size() == 100 && client.answer(second).body.size() == 100; }));
  client.reset(first);
  client.send();
  EXPECT_TRUE(server.wait_for_closed(1));
  second_stream->finish();
  first_stream->finish();
  EXPECT_TRUE(client.wait_for_answer(second));
  EXPECT_EQ(0u, client.answer(second).code);
}

TEST_F(Http2Test, StreamThatIsNotReadIsCutOff) {
  HttpServerOptions options;
  options.write_timeout = 100ms;
  TestServer server(*runtime_, options);
  Http2Client client(server.port(), /*is_auto_window=*/false);
  const auto id = client.request("GET", "/stream");
  client.send();
  const auto stream = server.take_stream();
  const auto event = piece(std::string(200'000, 'x'));  // more than the window of 64 KiB
  stream->write(event);
  EXPECT_TRUE(client.wait_for_answer(id));
  EXPECT_EQ(std::uint32_t{NGHTTP2_CANCEL}, client.answer(id).code);
  EXPECT_TRUE(server.wait_for_closed(1));
  const auto next = client.request("GET", "/status?code=204");
  EXPECT_TRUE(client.wait_for_answer(next));
}

TEST_F(Http2Test, SlowHeaderEndsTheConnection) {
  HttpServerOptions options;
  options.header_timeout = 50ms;
  TestServer server(*runtime_, options);
  Http2Client client(server.port());
  client.send();
  // HEADERS of stream 1 without END_HEADERS: everything else has to wait for its continuation.
  ASSERT_TRUE(client.connection().send(std::string_view("\x00\x00\x01\x01\x00\x00\x00\x00\x01\x82", 10)));
  EXPECT_TRUE(client.wait_for_end());
  // One that says nothing at all.
  auto silent = RawConnection::connect(server.port());
  ASSERT_TRUE(silent.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
  EXPECT_TRUE(silent.is_closed_by_peer());
  expect_alive(server);
}

TEST_F(Http2Test, IdleConnectionIsClosed) {
  HttpServerOptions options;
  options.idle_timeout = 50ms;
  TestServer server(*runtime_, options);
  Http2Client client(server.port());
  const auto id = client.request("GET", "/echo");
  ASSERT_TRUE(client.wait_for_answer(id));
  EXPECT_TRUE(client.wait_for_end());
  EXPECT_TRUE(client.has_goaway());
}

TEST_F(Http2Test, SurvivesBrokenFrames) {
  TestServer server(*runtime_);
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const std::string settings("\x00\x00\x00\x04\x00\x00\x00\x00\x00", 9);
  const std::vector<std::string> broken = {
      std::string(100, '\xff'),
      settings + std::string(100, '\0'),
      settings + std::string("\x00\x00\x01\x00\x00\x00\x00\x00\x01x", 10),             // DATA on an idle stream
      settings + std::string("\x00\x00\x04\x08\x00\x00\x00\x00\x00\0\0\0\0", 13),      // WINDOW_UPDATE by nothing
      settings + std::string("\x00\x00\x03\x01\x05\x00\x00\x00\x01\xff\xff\xff", 12),  // broken compression
      settings + std::string("\x00\x00\x01\x01\x05\x00\x00\x00\x02\x82", 10),          // even stream
  };
  for (const std::string& bytes : broken) {
    auto connection = RawConnection::connect(server.port());
    ASSERT_TRUE(connection.send(preface + bytes));
    EXPECT_TRUE(connection.is_closed_by_peer());
  }
  expect_alive(server);
}

TEST_F(Http2Test, SurvivesAFloodOfResets) {
  TestServer server(*runtime_);
  Http2Client client(server.port());
  for (int i = 0; i < 5000 && !client.is_ended(); ++i) {
    const auto id = client.request("GET", "/echo");
    client.reset(id);
    client.wait_for([] { return true; });
  }
  expect_alive(server);
}

TEST_F(Http2Test, StopSaysGoodbye) {
  TestServer server(*runtime_);
  Http2Client client(server.port());
  const auto held = client.request("GET", "/hold");
  const auto streaming = client.request("GET", "/stream");
  client.send();
  const auto stream = server.take_stream();
  ASSERT_TRUE(server.wait_for_held(1));
  rt::Thread stopper(*runtime_, "stopper", [&] { server.stop_without_release(kPatience); });
  EXPECT_TRUE(client.wait_for([&] { return client.has_goaway(); }));
  EXPECT_TRUE(client.wait_for_answer(streaming));
  EXPECT_EQ(0u, client.answer(streaming).code);
  EXPECT_TRUE(server.wait_for_closed(1));
  server.release();
  EXPECT_TRUE(client.wait_for_answer(held));
  EXPECT_EQ("released", client.answer(held).body);
  EXPECT_TRUE(client.wait_for_end());
  client.connection().close();
  stopper.join();
}

TEST_F(Http2Test, CanBeSwitchedOff) {
  HttpServerOptions options;
  options.http2 = false;
  TestServer server(*runtime_, options);
  Http2Client client(server.port());
  EXPECT_TRUE(client.wait_for_end());
}

// What the program prints on standard output.
std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  for (std::size_t size = 0; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, size);
  ::pclose(pipe);
  return output;
}

TEST_F(Http2Test, SpeaksWithCurl) {
  const TestCertificates certificates(*runtime_);
  TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder.file("ca.crt"), certificates.authority.certificate_pem, 0644).ok());
  ASSERT_TRUE(write_file_atomically(folder.file("body"), std::string(1'000'000, 'c'), 0644).ok());
  HttpServerOptions options;
  options.tls =
      TlsServerOptions{.certificate_pem = certificates.server.certificate_pem, .key_pem = certificates.server.key_pem};
  TestServer secure(*runtime_, options);
  TestServer plain(*runtime_);
  const std::string curl = "curl --silent --max-time 30 --noproxy '*' -w '\\n%{http_version} %{http_code}' ";
  const std::string with_ca = curl + "--cacert " + folder.file("ca.crt") + " ";
  EXPECT_THAT(output_of(with_ca + "--http2 " + secure.url("/echo")), EndsWith("\n2 200"));
  EXPECT_THAT(output_of(with_ca + "--http1.1 " + secure.url("/echo")), EndsWith("\n1.1 200"));
  const std::string posted =
      output_of(with_ca + "--http2 --data-binary @" + folder.file("body") + " " + secure.url("/echo"));
  EXPECT_THAT(posted, EndsWith(std::string(1'000'000, 'c') + "\n2 200"));
  EXPECT_THAT(output_of(curl + "--http2-prior-knowledge " + plain.url("/echo")), EndsWith("\n2 200"));
  EXPECT_THAT(output_of(curl + "--http2 " + plain.url("/echo")), EndsWith("\n1.1 200"));
  EXPECT_EQ(3'000'000u + 6, output_of(with_ca + "--http2 " + secure.url("/bytes?n=3000000")).size());
}

}  // namespace
}  // namespace basalt::net
