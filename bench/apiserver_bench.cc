// Prints the embedded API server's figures in one process: creates a second (in memory and durable), the way of one
// write to 100 watchers, memory per pod, start-up. What goes over HTTPS is in apiserver_https_bench, with a real
// kube-apiserver beside it.
//
//   apiserver_bench [creates] [durable] [watches] [memory]

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "apiserver/registry/api_server.h"
#include "base/heap_bytes.h"
#include "rt/mutex.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

using Clock = std::chrono::steady_clock;
const kube::Resource kPods{"", "v1", "pods"};

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string pod_body(std::size_t number) {
  std::string body =
      R"({"metadata":{"name":"pod-)" + std::to_string(number) +
      R"(","labels":{"volcano.sh/job-name":"bench","volcano.sh/task-spec":"worker"},"annotations":{"note":")";
  body += std::string(420, 'x');
  return body +
         R"("}},"spec":{"restartPolicy":"Never","schedulerName":"volcano","containers":[{"name":"main","image":"busybox",
    "command":["sh","-c","true"],"resources":{"requests":{"cpu":"100m","memory":"16Mi"}}}]}})";
}

kube::Request create_pod(std::size_t number) {
  kube::Request request;
  request.verb = kube::Verb::Create;
  request.resource = kPods;
  request.ns = "default";
  request.body = pod_body(number);
  return request;
}

std::unique_ptr<ApiServer> open_server(rt::Runtime& runtime, Durability durability, const std::string& folder) {
  ApiServer::Options options;
  options.store.durability = durability;
  options.store.directory = folder;
  auto server = ApiServer::open(runtime, Logger(), std::move(options));
  if (!server.ok()) {
    std::printf("the server did not open: %s\n", server.error().to_string().c_str());
    std::exit(1);
  }
  if (Done started = (*server)->start(); !started.ok()) {
    std::printf("the server did not start: %s\n", started.error().to_string().c_str());
    std::exit(1);
  }
  return std::move(*server);
}

// Creates `count` pods from `writers` threads and returns how many a second.
double create_rate(rt::Runtime& runtime, ApiServer& server, std::size_t count, int writers) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> failed{0};
  std::vector<kube::Request> requests;
  requests.reserve(count);
  for (std::size_t i = 0; i < count; ++i) requests.push_back(create_pod(i));
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < writers; ++t) {
    threads.emplace_back([&] {
      const auto client = make_direct_client(runtime, server, RequestContext{{"bench", "", {}}, "bench"});
      for (std::size_t i = next++; i < count; i = next++) {
        if (!client->call(requests[i], {}).ok()) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double rate = static_cast<double>(count) / seconds_since(begin);
  if (failed > 0) std::printf("  %zu creates failed\n", failed.load());
  return rate;
}

// Many watches on one thread, as whoever serves several of them does it (http/watch_pump): sessions that have something
// say so, and are read until they are empty.
class WatchReader {
 public:
  WatchReader(rt::Runtime& runtime, ApiServer& server, int watches) : changed_(runtime) {
    kube::WatchRequest request;
    request.resource = kPods;
    request.allow_bookmarks = false;
    for (int i = 0; i < watches; ++i) {
      auto session = server.watch(request, RequestContext{{"bench", "", {}}, "bench"});
      if (!session.ok()) continue;
      WatchSession& added = *sessions_.emplace_back(std::move(*session));
      added.on_ready([this, index = sessions_.size() - 1] { mark_ready(index); });
      (void)added.poll().ok();  // from now on it tells
    }
  }

  // Reads `events` events of every session; `on_event` gets the number of each.
  void read(std::size_t events, const std::function<void(std::size_t)>& on_event) {
    std::vector<std::size_t> seen(sessions_.size());
    std::size_t open = sessions_.size();
    std::vector<std::size_t> turn;
    while (open > 0) {
      turn.clear();
      {
        rt::MutexLock lock(mutex_);
        while (ready_.empty()) changed_.wait(mutex_);
        turn.swap(ready_);
      }
      for (const std::size_t index : turn) {
        for (auto event = sessions_[index]->poll(); event.ok() && *event; event = sessions_[index]->poll()) {
          on_event(seen[index]++);
          if (seen[index] == events) --open;
        }
      }
    }
  }

 private:
  void mark_ready(std::size_t index) {
    rt::MutexLock lock(mutex_);
    ready_.push_back(index);
    if (ready_.size() == 1) changed_.notify_one();
  }

  std::vector<std::unique_ptr<WatchSession>> sessions_;
  rt::Mutex mutex_;
  rt::Condition changed_;
  std::vector<std::size_t> ready_;
};

// From the call of a create to each of 100 watches, in one process.
void watch_latency(rt::Runtime& runtime) {
  auto server = open_server(runtime, Durability::Memory, "");
  const auto client = make_direct_client(runtime, *server, RequestContext{{"bench", "", {}}, "bench"});
  constexpr int kWatchers = 100;
  constexpr std::size_t kWrites = 1000;
  std::vector<std::atomic<std::int64_t>> sent(kWrites);
  std::vector<double> micros;
  micros.reserve(kWatchers * kWrites);
  {
    WatchReader reader(runtime, *server, kWatchers);
    std::thread thread([&] {
      reader.read(kWrites, [&](std::size_t write) {
        micros.push_back(static_cast<double>(Clock::now().time_since_epoch().count() - sent[write].load()) / 1e3);
      });
    });
    for (std::size_t i = 0; i < kWrites; ++i) {
      const kube::Request request = create_pod(i);
      sent[i] = Clock::now().time_since_epoch().count();
      (void)client->call(request, {}).ok();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    thread.join();
  }
  std::sort(micros.begin(), micros.end());
  if (!micros.empty()) {
    std::printf("one write to %d watchers: p50 %.0f us, p99 %.0f us   (bar: p99 <= 1000 us)\n", kWatchers,
                micros[micros.size() / 2], micros[micros.size() * 99 / 100]);
  }
  server->stop();
}

void memory_and_start(rt::Runtime& runtime, const std::string& folder) {
  constexpr std::size_t kPodCount = 200'000;
  {
    auto server = open_server(runtime, Durability::Fast, folder);
    malloc_trim(0);
    const std::size_t before = base::heap_bytes();
    create_rate(runtime, *server, kPodCount, 2);
    malloc_trim(0);
    const std::size_t after = base::heap_bytes();
    const auto object = server->store().get(server->store().resource("/pods"), "default", "pod-1");
    std::printf("memory per stored pod of %zu bytes, history included: %zu bytes   (bar: 2560)\n",
                object ? object->object()->size() : 0, (after - before) / kPodCount);
    server->stop();
  }
  const auto begin = Clock::now();
  auto server = open_server(runtime, Durability::Fast, folder);
  std::printf("start with %zu objects: %.2f s   (bar: 3 s)\n", kPodCount, seconds_since(begin));
  server->stop();
}

// Which parts to run: those that are named, or all.
class Parts {
 public:
  Parts(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string_view argument = argv[i];
      if (!argument.starts_with("--")) names_.emplace_back(argument);
    }
  }
  [[nodiscard]] bool has(std::string_view name) const {
    return names_.empty() || std::find(names_.begin(), names_.end(), name) != names_.end();
  }

 private:
  std::vector<std::string> names_;
};

}  // namespace
}  // namespace basalt::apiserver

int main(int argc, char** argv) {
  using namespace basalt;
  using namespace basalt::apiserver;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Parts parts(argc, argv);
  const auto runtime = rt::make_real_runtime();
  const std::string folder = std::filesystem::temp_directory_path() / ("basalt-bench-" + std::to_string(getpid()));
  if (parts.has("creates")) {
    const auto begin = Clock::now();
    auto server = open_server(*runtime, Durability::Memory, "");
    std::printf("ready when empty: %.3f s   (bar: 0.3 s)\n", seconds_since(begin));
    std::printf("creates in process, in memory, 2 writers: %.0f/s   (bar: 100,000/s)\n",
                create_rate(*runtime, *server, 200'000, 2));
    server->stop();
  }
  if (parts.has("durable")) {
    auto server = open_server(*runtime, Durability::Full, folder + "/durable");
    std::printf("creates in process, durable, 64 writers: %.0f/s   (bar: 30,000/s)\n",
                create_rate(*runtime, *server, 50'000, 64));
    server->stop();
  }
  if (parts.has("watches")) watch_latency(*runtime);
  if (parts.has("memory")) memory_and_start(*runtime, folder + "/memory");
  std::filesystem::remove_all(folder);
  return 0;
}
