#include "cli/up/pod_exec_handler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "cli/up/exec_client.h"
#include "cli/up/test_responder.h"
#include "net/websocket.h"
#include "rt/mutex.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

using namespace std::chrono_literals;

// A node with one pod, "p". Commands: "say OUT ERR CODE", "flood" (1,000 times 64 KiB), "cat", "wait" (until it
// is stopped).
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
    if (command.argv[0] == "flood") return flood(*command.io, on_output, stop);
    if (command.argv[0] == "cat") return cat(*command.io, on_output, stop);
    static_cast<void>(stop.wait_until(runtime_, rt::kNever));
    return node::ProcessExit{137, 9, false};
  }
  std::atomic<bool> is_lazy{false};  // "cat" takes nothing

  // A follower that wants no old lines gets "line" and, until it goes, silence; the container "over" has ended.
  Done read_log(const std::string&, const std::string&, const std::string& container, const node::LogOptions& options,
                const node::LogSink& sink, const rt::StopToken& stop) override {
    if (container == "zz") return Error::make(Reason::BadRequest, "container zz is not valid for pod p");
    EXPECT_TRUE(options.follow);
    EXPECT_EQ(options.tail_lines, 0);
    if (!sink({}) || !sink("line\n") || container == "over") return Ok{};
    static_cast<void>(stop.wait_until(runtime_, rt::kNever));
    return Error::make(Reason::Cancelled, "stopped");
  }

 private:
  static constexpr rt::Duration kPause = 5ms;

  Result<node::ProcessExit> flood(node::CommandIo& io, const node::ProcessRunner::OnOutput& on_output,
                                  const rt::StopToken& stop) {
    for (int i = 0; i < 1000; ++i) {
      while (io.take(false).is_output_held) {
        if (stop.wait_for(runtime_, kPause)) return node::ProcessExit{137, 9, false};
      }
      on_output(node::OutputStream::Out, std::string(64 * 1024, 'x'));
    }
    return node::ProcessExit{};
  }
  Result<node::ProcessExit> cat(node::CommandIo& io, const node::ProcessRunner::OnOutput& on_output,
                                const rt::StopToken& stop) {
    while (!stop.wait_for(runtime_, kPause)) {
      auto change = io.take(!is_lazy);
      if (change.size) change.input += std::to_string(change.size->columns) + "x" + std::to_string(change.size->rows);
      if (!change.input.empty()) on_output(node::OutputStream::Out, change.input);
      if (change.is_input_over) return node::ProcessExit{};
    }
    return node::ProcessExit{137, 9, false};
  }

  rt::Runtime& runtime_;
};

struct Bench {
  explicit Bench(rt::SimRuntime& sim) : runtime(sim) {
    auto one = std::make_unique<ObedientNode>(runtime);
    node = one.get();
    nodes.push_back(std::move(one));
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

  std::shared_ptr<TestResponder> ask(std::string_view query, bool reads = true) {
    auto answer = std::make_shared<TestResponder>();
    if (!reads) answer->stop_reading();
    EXPECT_TRUE(commands->handler()({http, path, *net::parse_query(query), user}, answer));
    return answer;
  }
  std::shared_ptr<TestResponder> finished(std::string_view query, bool reads = true) {
    auto answer = ask(query, reads);
    wait_for([&] { return answer->is_over(); });
    return answer;
  }
  void wait_for(const std::function<bool()>& holds) {
    for (int i = 0; i < 1000 && !holds(); ++i) runtime.sleep_for(10ms);
    EXPECT_TRUE(holds());
  }

  rt::SimRuntime& runtime;
  ObedientNode* node = nullptr;
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
    refused("", "no command is given");
    bench.path.name = "q";
    refused("command=sh", "does not run on a node of this program");
    bench.path.name = "p";
    bench.http.headers.back().second = "base64.channel.k8s.io";
    refused("command=sh", "v5.channel.k8s.io");
    bench.http.method = "POST";
    refused("command=sh", "not SPDY");
    bench.path.subresource = "attach";
    refused("stdin=true&stdout=true", "kubectl exec -it p -- COMMAND");
    bench.path.ns = "other";
    refused("stdin=true", "kubectl exec -it p -n other -- COMMAND");
    bench.path.ns = "default";
    bench.path.subresource = "log";
    EXPECT_FALSE(
        bench.commands->handler()({bench.http, bench.path, {}, bench.user}, std::make_shared<TestResponder>()));
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

TEST(PodExecHandler, InputEndAndSizeReachTheCommand) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto answer = bench.ask("command=cat&stdin=true&tty=true");
    bench.wait_for([&] { return answer->code() == 101; });
    const auto send = [&](std::string_view text) { answer->send(net::WebSocketOpcode::Binary, text); };
    send(std::string("\0hello", 6));
    bench.wait_for([&] { return answer->has_message(1, "hello"); });
    send("\x04{\"Width\":80,\"Height\":24}\n");
    bench.wait_for([&] { return answer->has_message(1, "80x24"); });
    for (const std::string_view nonsense : {"\x04{\"Width\":-1}", "\x04no", "\x07other", "", "\xff\x01"})
      send(nonsense);
    send(std::string("\xff\0", 2));
    bench.wait_for([&] { return answer->is_over(); });
    EXPECT_TRUE(answer->has("Success"));
    // Without -i there is none.
    const auto deaf = bench.ask("command=cat");
    bench.wait_for([&] { return deaf->code() == 101; });
    deaf->send(net::WebSocketOpcode::Binary, std::string("\0hello", 6));
    deaf->send(net::WebSocketOpcode::Binary, std::string("\xff\0", 2));
    bench.wait_for([&] { return deaf->is_over(); });
    EXPECT_FALSE(deaf->has("hello"));
  });
}

TEST(PodExecHandler, AMessageMayComeInPieces) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto answer = bench.ask("command=cat&stdin=true");
    bench.wait_for([&] { return answer->code() == 101; });
    answer->send(net::WebSocketOpcode::Binary, std::string("\0one ", 5), /*is_final=*/false);
    answer->send(net::WebSocketOpcode::Ping);
    answer->send(net::WebSocketOpcode::Continuation, "two");
    answer->send(net::WebSocketOpcode::Binary, "\xff", /*is_final=*/false);
    answer->send(net::WebSocketOpcode::Continuation, std::string(1, '\0'));
    bench.wait_for([&] { return answer->is_over(); });
    EXPECT_TRUE(answer->has("one ") && answer->has("two") && answer->has("Success"));
    const auto chatty = bench.ask("command=cat&stdin=true");
    bench.wait_for([&] { return chatty->code() == 101; });
    chatty->send(net::WebSocketOpcode::Binary, "\x04" + std::string(5000, ' '));
    bench.wait_for([&] { return chatty->is_over(); });
  });
}

std::string ping() { return net::websocket_frame(net::WebSocketOpcode::Ping, ""); }

TEST(PodExecHandler, ACommandThatDoesNotReadHoldsItsClient) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    bench.node->is_lazy = true;
    const auto answer = bench.ask("command=cat&stdin=true");
    bench.wait_for([&] { return answer->code() == 101; });
    const std::string piece = std::string(1, '\0') + std::string(256 * 1024, 'y');
    for (int i = 0; i < 4; ++i) {
      EXPECT_FALSE(answer->is_held()) << i;
      answer->send(net::WebSocketOpcode::Binary, piece);
    }
    EXPECT_TRUE(answer->is_held());
    EXPECT_FALSE(answer->has(ping()));
    runtime.sleep_for(6s);
    EXPECT_TRUE(answer->has(ping())) << "which finds out that it is gone";
    bench.node->is_lazy = false;
    bench.wait_for([&] { return !answer->is_held(); });
    answer->send(net::WebSocketOpcode::Binary, std::string("\xff\0", 2));
    bench.wait_for([&] { return answer->is_over(); });
    EXPECT_GT(answer->bytes().size(), 1u << 20);
  });
}

TEST(PodExecHandler, AClientThatDoesNotReadHoldsItsCommand) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto slow = bench.ask("command=flood", false);
    runtime.sleep_for(10s);
    EXPECT_FALSE(slow->is_over());
    EXPECT_LE(slow->most_waiting(), ExecClient::kBacklogBytesMax + 65 * 1024);
    slow->read_all();
    bench.wait_for([&] { return slow->is_over(); });
    EXPECT_GT(slow->bytes().size(), 64'000'000u);
    const auto gone = bench.ask("command=flood", false);
    runtime.sleep_for(10s);
    gone->go_away();
    bench.wait_for([&] { return gone->is_over(); });
  });
}

TEST(PodExecHandler, AttachingShowsTheOutputFromNowOn) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    bench.path.subresource = "attach";
    const auto answer = bench.ask("stdout=true&stderr=true");
    bench.wait_for([&] { return answer->has_message(1, "line\n"); });
    EXPECT_FALSE(answer->is_over());
    const auto over = bench.finished("container=over&stdout=true");
    EXPECT_TRUE(over->has_message(1, "line\n") && over->has("Success"));
    EXPECT_TRUE(bench.finished("container=zz&stdout=true")->has("container zz is not valid for pod p"));
    answer->go_away();
    bench.wait_for([&] { return answer->is_over(); });
  });
}

TEST(PodExecHandler, TooManyAreRefused) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    std::vector<std::shared_ptr<TestResponder>> running;
    for (std::size_t i = 0; i < PodExecHandler::kCommandsMax; ++i) running.push_back(bench.ask("command=wait"));
    EXPECT_EQ(bench.finished("command=wait")->code(), 429);
  });
}

}  // namespace
}  // namespace basalt::cli
