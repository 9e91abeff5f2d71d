#include "apiserver/http/watch_pump.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "rt/mutex.h"
#include "rt/sim_test_support.h"

namespace basalt::apiserver {
namespace {

// What was written to the client.
struct Client final : public net::Responder {
  using Responder::respond;
  void respond(int, net::Headers, std::shared_ptr<const std::string>) override {}
  void start(int, net::Headers) override {}
  std::optional<std::size_t> write(std::shared_ptr<const std::string> piece) override {
    rt::MutexLock lock(mutex);
    got += *piece;
    return 0;
  }
  void finish() override {}
  void abort() override {}
  [[nodiscard]] bool is_closed() const override { return false; }
  void on_close(std::function<void()>) override {}

  std::string text() {
    rt::MutexLock lock(mutex);
    return got;
  }
  rt::Mutex mutex;
  std::string got BASALT_GUARDED_BY(mutex);
};

// As the store does: it says once that there is something, and only after poll() has returned nothing. The event comes
// while the callback is being set.
class HastySession final : public WatchSession {
 public:
  explicit HastySession(rt::Runtime& runtime) : runtime_(runtime) {}

  Result<std::optional<kube::WatchEvent>> poll() override {
    rt::MutexLock lock(mutex_);
    std::optional<kube::WatchEvent> event;
    if (has_event_) {
      event = kube::WatchEvent{kube::WatchEventType::Modified, kube::make_bytes(std::string("{}"))};
      has_event_ = false;
    } else {
      is_armed_ = true;
    }
    return event;
  }
  [[nodiscard]] rt::Instant wake_at() const override { return rt::kNever; }
  void on_ready(std::function<void()> callback) override {
    if (callback) {
      runtime_.sleep_for(std::chrono::milliseconds(5));  // others have their turn
      happen();
    }
    rt::MutexLock lock(mutex_);
    callback_ = std::move(callback);
  }

 private:
  void happen() {
    std::function<void()> callback;
    {
      rt::MutexLock lock(mutex_);
      has_event_ = true;
      if (is_armed_) callback = callback_;
      is_armed_ = false;
    }
    if (callback) callback();
  }

  rt::Runtime& runtime_;
  rt::Mutex mutex_;
  bool has_event_ BASALT_GUARDED_BY(mutex_) = false;
  bool is_armed_ BASALT_GUARDED_BY(mutex_) = false;
  std::function<void()> callback_ BASALT_GUARDED_BY(mutex_);
};

TEST(WatchPump, AnEventThatComesWithTheWatchIsNotLost) {
  rt::run_seeds(1, 5, [](rt::SimRuntime& runtime) {
    WatchPump pump(runtime, Logger(), WatchPump::Options());
    const auto client = std::make_shared<Client>();
    WatchPump::Stream stream;
    stream.session = std::make_unique<HastySession>(runtime);
    stream.responder = client;
    stream.ends_at = rt::kNever;
    ASSERT_TRUE(pump.add(std::move(stream)).ok());
    runtime.sleep_for(std::chrono::minutes(5));
    EXPECT_EQ(client->text(), "{\"type\":\"MODIFIED\",\"object\":{}}\n");
    pump.stop();
  });
}

}  // namespace
}  // namespace basalt::apiserver
