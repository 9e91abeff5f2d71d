#include "net/tcp_dialer.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/test_support.h"
#include "rt/mutex.h"
#include "rt/real_runtime.h"

namespace basalt::net {
namespace {

using namespace std::chrono_literals;
using testing::RawConnection;
using testing::ScriptedServer;

// What came of a connection.
class Seen {
 public:
  [[nodiscard]] TcpEvents events() {
    return {.on_bytes =
                [this](std::string_view bytes) {
                  rt::MutexLock lock(mutex_);
                  bytes_ += bytes;
                },
            .on_written = {},
            .on_ended =
                [this](const Done& how) {
                  rt::MutexLock lock(mutex_);
                  end_ = how.ok() ? "" : how.error().message;
                }};
  }
  std::string bytes() {
    rt::MutexLock lock(mutex_);
    return bytes_;
  }
  std::optional<std::string> end() {
    rt::MutexLock lock(mutex_);
    return end_;
  }

 private:
  rt::Mutex mutex_;
  std::string bytes_ BASALT_GUARDED_BY(mutex_);
  std::optional<std::string> end_ BASALT_GUARDED_BY(mutex_);
};

struct Bench {
  ~Bench() { dialer->stop(); }
  void wait_for(const std::function<bool()>& holds) {
    const rt::Instant deadline = runtime.now() + testing::kPatience;
    while (!holds() && runtime.now() < deadline) runtime.sleep_for(1ms);
    EXPECT_TRUE(holds());
  }
  std::unique_ptr<rt::Runtime> owned_runtime = rt::make_real_runtime();
  rt::Runtime& runtime = *owned_runtime;
  std::unique_ptr<TcpDialer> dialer = make_tcp_dialer(runtime);
};

TEST(TcpDialer, BytesGoBothWaysAndEachSideEndsItself) {
  Bench bench;
  ScriptedServer server(bench.runtime, [](RawConnection& connection, int) {
    connection.send("got " + connection.read_to_end() + ", ");
    connection.send("bye");
  });
  Seen seen;
  const auto connection = bench.dialer->dial("127.0.0.1", server.port(), seen.events());
  connection->write("a");  // before it is connected
  connection->write("");
  connection->write("b");
  connection->end_output();
  bench.wait_for([&] { return seen.end().has_value(); });
  EXPECT_EQ(seen.bytes(), "got ab, bye");
  EXPECT_EQ(seen.end(), "");
  EXPECT_EQ(connection->waiting(), 0u);
  connection->write("into the void");
  bench.wait_for([&] { return connection->waiting() == 0; });
}

TEST(TcpDialer, WhereNobodyListensAnErrorSaysSo) {
  Bench bench;
  std::uint16_t port = 0;
  {
    port = ScriptedServer(bench.runtime, [](RawConnection&, int) {}).port();
  }
  Seen refused;
  Seen nowhere;
  bench.dialer->dial("127.0.0.1", port, refused.events());
  bench.dialer->dial("no-address", 80, nowhere.events());
  bench.wait_for([&] { return refused.end().has_value() && nowhere.end().has_value(); });
  EXPECT_EQ(refused.end(), "Connection refused");
  EXPECT_EQ(nowhere.end(), "\"no-address\" is not an address");
}

TEST(TcpDialer, MuchIsCompleteAndWhoIsHeldMakesThePeerWait) {
  Bench bench;
  const std::string much(20'000'000, 'x');
  ScriptedServer server(bench.runtime,
                        [](RawConnection& connection, int) { connection.send(connection.read_to_end()); });
  Seen seen;
  const auto connection = bench.dialer->dial("127.0.0.1", server.port(), seen.events());
  connection->hold(true);
  connection->write(much);
  EXPECT_GT(connection->waiting(), 0u);
  connection->end_output();
  bench.wait_for([&] { return connection->waiting() == 0; });
  EXPECT_EQ(seen.bytes(), "");
  connection->hold(false);
  bench.wait_for([&] { return seen.end().has_value(); });
  EXPECT_TRUE(seen.bytes() == much);
}

TEST(TcpDialer, AConnectionThatBreaksEndsWithAnError) {
  Bench bench;
  ScriptedServer server(bench.runtime, [](RawConnection& connection, int) {
    connection.read_exactly(1);
    connection.reset();
  });
  Seen seen;
  const auto connection = bench.dialer->dial("127.0.0.1", server.port(), seen.events());
  connection->write("x");
  bench.wait_for([&] { return seen.end().has_value(); });
  EXPECT_EQ(seen.end(), "Connection reset by peer");
}

TEST(TcpDialer, ClosingTellsThePeerAndNobodyElse) {
  Bench bench;
  rt::Mutex mutex;
  int ended = 0;
  const auto count = [&] {
    rt::MutexLock lock(mutex);
    return ended;
  };
  ScriptedServer server(bench.runtime, [&](RawConnection& connection, int) {
    connection.send("hello");
    connection.read_to_end();
    rt::MutexLock lock(mutex);
    ++ended;
  });
  Seen closed;
  Seen stopped;
  const auto one = bench.dialer->dial("127.0.0.1", server.port(), closed.events());
  bench.wait_for([&] { return closed.bytes() == "hello"; });
  one->close();
  one->close();
  bench.wait_for([&] { return count() == 1; });
  bench.dialer->dial("127.0.0.1", server.port(), stopped.events());
  bench.wait_for([&] { return stopped.bytes() == "hello"; });
  bench.dialer->stop();
  bench.wait_for([&] { return count() == 2; });
  bench.dialer->dial("127.0.0.1", server.port(), stopped.events())->write("x");
  one->write("x");
  EXPECT_FALSE(closed.end().has_value() || stopped.end().has_value());
}

}  // namespace
}  // namespace basalt::net
