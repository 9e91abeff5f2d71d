#include "cli/up/pod_exec_handler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "json/value.h"
#include "net/websocket.h"
#include "rt/mutex.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

using namespace std::chrono_literals;

// A node with one pod, "p". Commands: "say OUT ERR CODE", "flood", "wait" (until it is stopped).
class ObedientNode final : public node::Node {
 public:
  explicit ObedientNode(rt::Runtime& runtime) : runtime_(runtime) {}
  void start() override {}
  void stop() override {}
  bool has_pod(const std::string& ns, const std::string& name) override { return ns == "default" && name == "p"; }
  Result<node::ProcessExit> run_command(const Command& command, node::ProcessRunner::OnOutput on_output,
                                        const rt::StopToken& stop) override {
    if (command.container == "zz") return Error::make(Reason::BadRequest, "container zz is not valid for pod p");
    if (command.argv[0] == "say") {
      on_output(node::OutputStream::Out, command.argv[1]);
      on_output(node::OutputStream::Err, command.argv[2]);
      return node::ProcessExit{std::stoi(command.argv[3]), 0, false};
    }
    while (command.argv[0] == "flood" && !stop.stop_requested())
      on_output(node::OutputStream::Out, std::string(64 * 1024, 'x'));
    static_cast<void>(stop.wait_until(runtime_, rt::kNever));
    return node::ProcessExit{137, 9, false};
  }
  Done read_log(const std::string&, const std::string&, const std::string&, const node::LogOptions&,
                const node::LogSink&, const rt::StopToken&) override {
    return Ok{};
  }

 private:
  rt::Runtime& runtime_;
};

class Answer final : public net::Responder {
 public:
  void respond(int status, net::Headers, std::shared_ptr<const std::string> body) override {
    rt::MutexLock lock(mutex_);
    code_ = status;
    bytes_ = *body;
    is_over_ = true;
  }
  void start(int status, net::Headers) override {
    rt::MutexLock lock(mutex_);
    code_ = status;
  }
  std::optional<std::size_t> write(std::shared_ptr<const std::string> piece) override {
    rt::MutexLock lock(mutex_);
    if (is_over_) return std::nullopt;
    bytes_ += *piece;
    waiting_ += reads ? 0 : piece->size();
    return waiting_;
  }
  void finish() override {
    rt::MutexLock lock(mutex_);
    is_over_ = true;
  }
  void abort() override { finish(); }
  [[nodiscard]] bool is_closed() const override { return false; }
  void on_close(std::function<void()> callback) override {
    rt::MutexLock lock(mutex_);
    on_close_ = std::move(callback);
  }
  void on_bytes(std::function<void(std::string_view)> callback) override {
    rt::MutexLock lock(mutex_);
    on_bytes_ = std::move(callback);
  }

  // What the client sends: a masked frame without a payload.
  void send(net::WebSocketOpcode opcode) {
    std::function<void(std::string_view)> callback;
    {
      rt::MutexLock lock(mutex_);
      callback = on_bytes_;
    }
    std::string frame = net::websocket_frame(opcode, "");
    frame[1] = static_cast<char>(0x80);
    callback(frame + "mask");
  }
  void go_away() {
    std::function<void()> callback;
    {
      rt::MutexLock lock(mutex_);
      callback = on_close_;
    }
    callback();
  }
  bool is_over() {
    rt::MutexLock lock(mutex_);
    return is_over_;
  }
  bool has(std::string_view text) {
    rt::MutexLock lock(mutex_);
    return bytes_.find(text) != std::string::npos;
  }
  bool has_message(char channel, const std::string& text) {
    return has(net::websocket_frame(net::WebSocketOpcode::Binary, std::string(1, channel) + text));
  }
  int code() {
    rt::MutexLock lock(mutex_);
    return code_;
  }
  std::string bytes() {
    rt::MutexLock lock(mutex_);
    return bytes_;
  }
  bool reads = true;  // set before the request

 private:
  rt::Mutex mutex_;
  int code_ BASALT_GUARDED_BY(mutex_) = 0;
  std::string bytes_ BASALT_GUARDED_BY(mutex_);
  std::size_t waiting_ BASALT_GUARDED_BY(mutex_) = 0;
  bool is_over_ BASALT_GUARDED_BY(mutex_) = false;
  std::function<void()> on_close_ BASALT_GUARDED_BY(mutex_);
  std::function<void(std::string_view)> on_bytes_ BASALT_GUARDED_BY(mutex_);
};

struct Bench {
  explicit Bench(rt::SimRuntime& sim) : runtime(sim) {
    nodes.push_back(std::make_unique<ObedientNode>(runtime));
    commands = std::make_unique<PodExecHandler>(runtime, nodes);
    http.method = "GET";
    http.headers = {{"Connection", "Upgrade"},
                    {"Upgrade", "websocket"},
                    {"Sec-WebSocket-Version", "13"},
                    {"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="},
                    {"Sec-WebSocket-Protocol", "v5.channel.k8s.io"}};
    path.version = "v1";
    path.ns = "default";
    path.plural = "pods";
    path.name = "p";
    path.subresource = "exec";
  }
  ~Bench() { commands->stop(); }

  std::shared_ptr<Answer> ask(std::string_view query, bool reads = true) {
    auto answer = std::make_shared<Answer>();
    answer->reads = reads;
    EXPECT_TRUE(commands->handler()({http, path, *net::parse_query(query), user}, answer));
    return answer;
  }
  std::shared_ptr<Answer> finished(std::string_view query, bool reads = true) {
    auto answer = ask(query, reads);
    wait_for([&] { return answer->is_over(); });
    return answer;
  }
  void wait_for(const std::function<bool()>& holds) {
    for (int i = 0; i < 1000 && !holds(); ++i) runtime.sleep_for(10ms);
    EXPECT_TRUE(holds());
  }

  rt::SimRuntime& runtime;
  std::vector<std::unique_ptr<node::Node>> nodes;
  std::unique_ptr<PodExecHandler> commands;
  net::ServerRequest http;
  apiserver::ApiPath path;
  apiserver::UserInfo user;
};

TEST(PodExecHandler, OutputAndExitCodeReachTheClient) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto good = bench.finished("command=say&command=hello&command=oops&command=0&stdout=true&stderr=true");
    EXPECT_EQ(good->code(), 101);
    EXPECT_TRUE(good->has_message(1, "hello"));
    EXPECT_TRUE(good->has_message(2, "oops"));
    EXPECT_TRUE(good->has_message(3, R"({"metadata":{},"status":"Success"})"));
    EXPECT_TRUE(good->bytes().ends_with(std::string("\x88\x02\x03\xe8", 4))) << "closed properly";
    const auto bad = bench.finished("command=say&command=a&command=b&command=3");
    EXPECT_TRUE(bad->has(R"("causes":[{"message":"3","reason":"ExitCode"}])")) << bad->bytes();
    EXPECT_TRUE(bad->has(R"("reason":"NonZeroExitCode")"));
    EXPECT_TRUE(bench.finished("container=zz&command=say")->has("container zz is not valid for pod p"));
  });
}

TEST(PodExecHandler, WhatIsNotServedIsRefusedInWords) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto refused = [&](std::string_view query, std::string_view words) {
      const auto answer = bench.finished(query);
      EXPECT_EQ(answer->code(), 400) << query;
      EXPECT_TRUE(answer->has(words)) << answer->bytes();
    };
    refused("", "at least one command");
    refused("command=sh&stdin=true", "leave out -i and -t");
    refused("command=sh&tty=true", "leave out -i and -t");
    bench.path.name = "q";
    refused("command=sh", "does not have a host assigned");
    bench.path.name = "p";
    bench.http.headers.back().second = "base64.channel.k8s.io";
    refused("command=sh", "v5.channel.k8s.io");
    bench.http.method = "POST";
    refused("command=sh", "not SPDY");
    bench.path.subresource = "attach";
    refused("stdin=true", "kubectl logs -f p");
    bench.path.subresource = "log";
    EXPECT_FALSE(bench.commands->handler()({bench.http, bench.path, {}, bench.user}, std::make_shared<Answer>()));
  });
}

TEST(PodExecHandler, ACommandEndsWithItsClientOrTheStop) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto gone = bench.ask("command=wait");
    const auto closing = bench.ask("command=wait");
    const auto left = bench.ask("command=wait");
    bench.wait_for([&] { return gone->code() == 101 && closing->code() == 101 && left->code() == 101; });
    closing->send(net::WebSocketOpcode::Ping);
    EXPECT_TRUE(closing->has(net::websocket_frame(net::WebSocketOpcode::Pong, "")));
    EXPECT_FALSE(closing->is_over());
    closing->send(net::WebSocketOpcode::Close);
    gone->go_away();
    bench.wait_for([&] { return gone->is_over() && closing->is_over(); });
    EXPECT_FALSE(left->is_over());
    bench.commands->stop();
    EXPECT_TRUE(left->is_over());
    EXPECT_EQ(bench.finished("command=wait")->code(), 503);
  });
}

TEST(PodExecHandler, WhoDoesNotReadIsCutOffAndTooManyAreRefused) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto slow = bench.finished("command=flood", false);
    EXPECT_TRUE(slow->has("MiB of its output waited"));
    std::vector<std::shared_ptr<Answer>> running;
    for (std::size_t i = 0; i < PodExecHandler::kCommandsMax; ++i) running.push_back(bench.ask("command=wait"));
    EXPECT_EQ(bench.finished("command=wait")->code(), 429);
  });
}

}  // namespace
}  // namespace basalt::cli
