#include "cli/up/pod_log_handler.h"

#include <gtest/gtest.h>

#include "cli/up/test_responder.h"
#include "rt/real_runtime.h"
#include "rt/sim_test_support.h"

namespace basalt::cli {
namespace {

using namespace std::chrono_literals;

// A node with one pod, "p", whose log says what was asked for; a follower waits for its token.
class TalkingNode final : public node::Node {
 public:
  explicit TalkingNode(rt::Runtime& runtime) : runtime_(runtime) {}
  void start() override {}
  void stop() override {}
  bool has_pod(const std::string& ns, const std::string& name) override { return ns == "default" && name == "p"; }
  Done read_log(const std::string&, const std::string&, const std::string& container, const node::LogOptions& options,
                const node::LogSink& sink, const rt::StopToken& stop) override {
    if (container == "zz") return Error::make(Reason::BadRequest, "container zz is not valid for pod p");
    if (!sink({})) return Ok{};
    std::string text = "container=" + container;
    if (options.follow) text += " follow";
    if (options.previous) text += " previous";
    if (options.timestamps) text += " timestamps";
    if (options.tail_lines) text += " tail=" + std::to_string(*options.tail_lines);
    if (options.limit_bytes) text += " limit=" + std::to_string(*options.limit_bytes);
    if (options.since) {
      const auto age = std::chrono::round<std::chrono::seconds>(runtime_.wall_now() - *options.since);
      text += " since=" + std::to_string(age.count());
    }
    for (int i = 0; i < pieces; ++i) {
      if (!sink(i == 0 ? text : std::string(64 * 1024, 'x'))) return Ok{};
    }
    if (options.follow && stop.wait_until(runtime_, rt::kNever)) return Error::make(Reason::Cancelled, "stopped");
    return Ok{};
  }
  Result<node::ProcessExit> run_command(const Command&, node::ProcessRunner::OnOutput, const rt::StopToken&) override {
    return node::ProcessExit();
  }
  int pieces = 1;

 private:
  rt::Runtime& runtime_;
};

struct Bench {
  explicit Bench(rt::SimRuntime& sim) : runtime(sim) {
    auto one = std::make_unique<TalkingNode>(runtime);
    node = one.get();
    nodes.push_back(std::move(one));
    logs = std::make_unique<PodLogHandler>(runtime, nodes);
  }
  ~Bench() { logs->stop(); }
  std::shared_ptr<TestResponder> ask(std::string_view query, std::string pod = "p") {
    auto answer = std::make_shared<TestResponder>();
    apiserver::ApiPath path;
    path.version = "v1";
    path.ns = "default";
    path.plural = "pods";
    path.name = std::move(pod);
    path.subresource = "log";
    EXPECT_TRUE(logs->handler()({{}, path, *net::parse_query(query), {}}, answer));
    return answer;
  }
  // Until it is over.
  std::string text(std::string_view query, std::string pod = "p") {
    const auto answer = ask(query, std::move(pod));
    for (int i = 0; i < 1000 && !answer->is_over(); ++i) runtime.sleep_for(10ms);
    return answer->text();
  }

  rt::SimRuntime& runtime;
  TalkingNode* node = nullptr;
  std::vector<std::unique_ptr<node::Node>> nodes;
  std::unique_ptr<PodLogHandler> logs;
};

TEST(PodLogHandler, ParametersReachTheNode) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    EXPECT_EQ(bench.text(""), "200 container=");
    EXPECT_EQ(bench.text("container=c&previous=true&timestamps=1&tailLines=7&limitBytes=99&sinceSeconds=60"),
              "200 container=c previous timestamps tail=7 limit=99 since=60");
    EXPECT_EQ(bench.text("follow=false&pretty=true"), "200 container=");
  });
}

TEST(PodLogHandler, MistakesAreNamed) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto has = [&](std::string_view query, std::string_view code, std::string_view words) {
      const std::string text = bench.text(query);
      EXPECT_TRUE(text.starts_with(code)) << text;
      EXPECT_NE(text.find(words), std::string::npos) << text;
    };
    has("tailLines=-1", "400", "tailLines");
    has("limitBytes=0", "400", "limitBytes");
    has("sinceSeconds=x", "400", "sinceSeconds");
    has("sinceTime=soon", "400", "sinceTime");
    has("sinceTime=2026-01-01T00:00:00Z&sinceSeconds=3", "400", "at most one");
    has("follow=perhaps", "400", "follow");
    has("container=zz", "400", "container zz is not valid for pod p");
    EXPECT_TRUE(bench.text("", "nope").starts_with("404"));
    apiserver::ApiPath other;
    other.plural = "pods";
    other.subresource = "exec";
    EXPECT_FALSE(bench.logs->handler()({{}, other, {}, {}}, std::make_shared<TestResponder>()));
  });
}

TEST(PodLogHandler, AFollowerEndsWithItsClientOrTheStop) {
  rt::run_seeds(1, 10, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    const auto first = bench.ask("follow=true");
    const auto second = bench.ask("follow=true");
    runtime.sleep_for(1min);
    EXPECT_EQ(first->text(), "200 container= follow");
    EXPECT_FALSE(first->is_over());
    first->go_away();
    runtime.sleep_for(1s);
    EXPECT_TRUE(first->is_over());
    EXPECT_FALSE(second->is_over());
    bench.logs->stop();
    EXPECT_TRUE(second->is_over());
    EXPECT_TRUE(bench.text("").starts_with("503"));
  });
}

TEST(PodLogHandler, AClientThatDoesNotReadHoldsLittle) {
  rt::run_seeds(1, 2, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    bench.node->pieces = 100;
    const auto answer = bench.ask("container=c");
    answer->stop_reading();
    runtime.sleep_for(10s);
    EXPECT_FALSE(answer->is_over());
    EXPECT_LE(answer->most_waiting(), PodLogHandler::kBacklogBytesMax + 64 * 1024);
    answer->read_all();
    runtime.sleep_for(10s);
    EXPECT_TRUE(answer->is_over());
  });
}

TEST(PodLogHandler, TooManyReadersAreToldToComeAgain) {
  rt::run_seeds(1, 1, [](rt::SimRuntime& runtime) {
    Bench bench(runtime);
    std::vector<std::shared_ptr<TestResponder>> followers;
    for (std::size_t i = 0; i < PodLogHandler::kReadersMax; ++i) followers.push_back(bench.ask("follow=true"));
    EXPECT_TRUE(bench.text("").starts_with("429"));
    followers.front()->go_away();
    runtime.sleep_for(1s);
    EXPECT_EQ(bench.text(""), "200 container=");
  });
}

}  // namespace
}  // namespace basalt::cli
