// Prints the store's figures: writes a second, latency of watches, memory and start-up. It is a program of its own, not
// a set of micro-benchmarks, because each figure is about many threads or a whole process.
//
//   store_bench [name...]       name: memory sync durable fast watch idle list bytes load; all without names
//   STORE_BENCH_DIR             where the durable stores lie; the current directory without it

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "apiserver/store/store.h"
#include "base/check.h"
#include "base/heap_bytes.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kPodBytes = 1536;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Of the whole process, on all cores: what a figure costs even where other programs take the cores away.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::size_t heap_bytes() {
  malloc_trim(0);
  return base::heap_bytes();
}

// A pod's text around its resource version, and its attributes, as a registry would hand them over.
struct Pod {
  std::string name;
  std::string before;
  std::string after;
  AttributesWriter attributes;

  void make(std::size_t number) {
    name = "training-job-worker-" + std::to_string(number);
    before = R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":")" + name +
             R"(","namespace":"default","resourceVersion":")";
    after = R"(","uid":"0b8f8dc2-5b6c-4a53-8a5f-2f6b1c1d7a10"},"spec":{"filler":")";
    after.append(kPodBytes - before.size() - after.size() - 10, 'x');
    after += "\"}}";
    attributes.reset("0b8f8dc2-5b6c-4a53-8a5f-2f6b1c1d7a10");
    attributes.add_label("volcano.sh/job-name", "training-job");
    attributes.add_label("volcano.sh/task-spec", "worker");
    attributes.add_label("volcano.sh/queue-name", "default");
    attributes.add_field("spec.nodeName", "node-17");
    attributes.add_field("status.phase", "Running");
  }
  [[nodiscard]] Write create(ResourceId pods) const {
    Write write;
    write.resource = pods;
    write.ns = "default";
    write.name = name;
    write.object = {before, after};
    write.attributes = attributes.packed();
    return write;
  }
};

struct Directory {
  fs::path path;
  Directory() {
    const char* base = std::getenv("STORE_BENCH_DIR");
    std::string pattern = (fs::path(base != nullptr ? base : ".") / "store_bench.XXXXXX").string();
    BASALT_CHECK(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~Directory() { fs::remove_all(path); }
};

std::unique_ptr<Store> open(rt::Runtime& runtime, Durability durability, const fs::path& directory = {}) {
  StoreOptions options;
  options.durability = durability;
  options.directory = directory;
  auto store = Store::open(runtime, std::move(options));
  BASALT_CHECK_MSG(store.ok(), store.ok() ? "" : store.error().to_string());
  return std::move(store).value();
}

void print_latencies(const StoreStats& stats) {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < stats.commit_latency.size(); ++i) {
    const std::uint64_t before = seen;
    seen += stats.commit_latency[i];
    for (const double share : {0.5, 0.99}) {
      const auto rank = static_cast<std::uint64_t>(share * static_cast<double>(stats.commits));
      if (before <= rank && rank < seen) std::printf("    commit p%.0f < %llu us\n", share * 100, 1ULL << i);
    }
  }
}

struct Rate {
  double per_second = 0;
  double cpu_us = 0;  // for each, the making of the pod's text included
};

Rate create_all(rt::Runtime& runtime, Store& store, std::size_t writers, std::size_t total) {
  const ResourceId pods = store.resource("/pods");
  const double cpu_before = cpu_seconds();
  std::vector<rt::Thread> threads;
  const auto begin = Clock::now();
  for (std::size_t w = 0; w < writers; ++w) {
    threads.emplace_back(runtime, "writer", [&, w] {
      Pod pod;
      for (std::size_t i = w; i < total; i += writers) {
        pod.make(i);
        BASALT_CHECK(store.write(pod.create(pods)).ok());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const auto count = static_cast<double>(total);
  return {count / seconds_since(begin), (cpu_seconds() - cpu_before) * 1e6 / count};
}

void memory() {
  const auto runtime = rt::make_real_runtime();
  for (const std::size_t writers : {1, 2, 64}) {
    const auto store = open(*runtime, Durability::Memory);
    const Rate rate = create_all(*runtime, *store, writers, 300'000);
    std::printf("memory   %2zu writers: %9.0f creates/s, %.1f us of CPU each\n", writers, rate.per_second, rate.cpu_us);
    BASALT_CHECK(store->close().ok());
  }
}

// How long the disk takes for one sync of 64 KiB that overwrite what is there: the floor under a durable commit.
void disk_sync() {
  const Directory directory;
  const fs::path file = directory.path / "sync";
  const std::string text(64U << 10, 'x');
  const int descriptor = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  BASALT_CHECK(descriptor >= 0);
  std::vector<double> times;
  for (int i = 0; i < 210; ++i) {
    const auto begin = Clock::now();
    BASALT_CHECK(::pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    BASALT_CHECK(::fdatasync(descriptor) == 0);
    if (i >= 10) times.push_back(seconds_since(begin) * 1e6);
  }
  ::close(descriptor);
  std::sort(times.begin(), times.end());
  std::printf("sync     64 KiB: p50 %.0f us, p99 %.0f us\n", times[times.size() / 2], times[times.size() * 99 / 100]);
}

void on_disk(Durability durability, const char* name) {
  const auto runtime = rt::make_real_runtime();
  for (const std::size_t writers : {1, 16, 64}) {
    const Directory directory;
    const auto store = open(*runtime, durability, directory.path);
    const Rate rate = create_all(*runtime, *store, writers, writers == 1 ? 5'000 : 200'000);
    const StoreStats stats = store->stats();
    std::printf("%-8s %2zu writers: %9.0f creates/s, %.1f us of CPU each, %.1f writes a commit\n", name, writers,
                rate.per_second, rate.cpu_us, static_cast<double>(stats.writes) / static_cast<double>(stats.commits));
    print_latencies(stats);
    BASALT_CHECK(store->close().ok());
  }
  const Directory directory;
  const auto store = open(*runtime, durability, directory.path);
  const ResourceId pods = store->resource("/pods");
  std::vector<Pod> batch(64);
  const auto begin = Clock::now();
  constexpr std::size_t kTotal = 128'000;
  for (std::size_t i = 0; i < kTotal; i += batch.size()) {
    std::vector<Write> writes;
    for (std::size_t j = 0; j < batch.size(); ++j) {
      batch[j].make(i + j);
      writes.push_back(batch[j].create(pods));
    }
    for (const auto& result : store->write_all(writes)) BASALT_CHECK(result.ok());
  }
  std::printf("%-8s write_all of 64: %7.0f creates/s\n", name, kTotal / seconds_since(begin));
  BASALT_CHECK(store->close().ok());
}

// Writes with 100 watchers that wait in next(); how long until each has the event.
void watch() {
  const auto runtime = rt::make_real_runtime();
  const auto store = open(*runtime, Durability::Memory);
  const ResourceId pods = store->resource("/pods");
  constexpr std::size_t kWatchers = 100;
  constexpr std::size_t kWrites = 2'000;
  std::vector<Clock::time_point> written(kWrites);
  std::vector<std::vector<double>> latencies(kWatchers);
  std::atomic<std::size_t> received{0};
  std::vector<rt::Thread> threads;
  for (std::size_t w = 0; w < kWatchers; ++w) {
    threads.emplace_back(*runtime, "watcher", [&, w] {
      WatchQuery query;
      query.resource = pods;
      query.after = 1;
      auto watcher = store->watch(std::move(query));
      BASALT_CHECK(watcher.ok());
      std::vector<Event> events;
      std::size_t seen = 0;
      while (seen < kWrites) {
        events.clear();
        BASALT_CHECK((*watcher)->next(events, 100, rt::kNever).ok());
        const auto now = Clock::now();
        for (std::size_t i = 0; i < events.size(); ++i) {
          latencies[w].push_back(std::chrono::duration<double, std::micro>(now - written[seen++]).count());
        }
        received.fetch_add(events.size());
      }
    });
  }
  runtime->sleep_for(std::chrono::milliseconds(200));
  Pod pod;
  for (std::size_t i = 0; i < kWrites; ++i) {
    pod.make(i);
    written[i] = Clock::now();
    BASALT_CHECK(store->write(pod.create(pods)).ok());
    while (received.load() < (i + 1) * kWatchers) runtime->sleep_for(std::chrono::microseconds(50));
  }
  for (auto& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& some : latencies) all.insert(all.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  const auto at = [&](double share) {
    return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
  };
  std::printf("watch    one write to 100 blocked watchers: p50 %.0f us, p99 %.0f us, max %.0f us\n", at(0.5), at(0.99),
              all.back());
  BASALT_CHECK(store->close().ok());
}

// Writes with 100 subscriptions that are called back, and with 1,000 that look elsewhere.
void idle() {
  const auto runtime = rt::make_real_runtime();
  for (const bool elsewhere : {false, true}) {
    const auto store = open(*runtime, Durability::Memory);
    const ResourceId pods = store->resource("/pods");
    std::vector<std::unique_ptr<Watcher>> watchers;
    std::atomic<std::size_t> called{0};
    for (int i = 0; i < (elsewhere ? 1'000 : 100); ++i) {
      WatchQuery query;
      query.resource = elsewhere && i % 2 == 0 ? store->resource("/nodes") : pods;
      if (elsewhere && i % 2 == 1) query.ns = "other-" + std::to_string(i);
      query.after = 1;
      query.on_ready = [&called] { called.fetch_add(1, std::memory_order_relaxed); };
      watchers.push_back(store->watch(std::move(query)).value());
      std::vector<Event> events;
      BASALT_CHECK(*watchers.back()->poll(events, 1) == 0);
    }
    const double rate = create_all(*runtime, *store, 2, 100'000).per_second;
    std::printf("idle     %s: %9.0f creates/s, %zu calls\n",
                elsewhere ? "1,000 watchers of other things" : "100 watchers told once      ", rate, called.load());
    watchers.clear();
    BASALT_CHECK(store->close().ok());
  }
}

// A listing of 100,000 pods while two threads write: how long the listing takes, and how long writes take meanwhile.
void list() {
  const auto runtime = rt::make_real_runtime();
  const auto store = open(*runtime, Durability::Memory);
  const ResourceId pods = store->resource("/pods");
  create_all(*runtime, *store, 2, 100'000);
  std::atomic<bool> stop{false};
  double slowest_us = 0;
  rt::Thread writer(*runtime, "writer", [&] {
    Pod pod;
    for (std::size_t i = 1'000'000; !stop.load(); ++i) {
      pod.make(i);
      const auto begin = Clock::now();
      BASALT_CHECK(store->write(pod.create(pods)).ok());
      slowest_us = std::max(slowest_us, seconds_since(begin) * 1e6);
      runtime->sleep_for(std::chrono::microseconds(20));
    }
  });
  const auto begin = Clock::now();
  const double cpu_before = cpu_seconds();
  constexpr int kLists = 20;
  for (int i = 0; i < kLists; ++i) {
    ListQuery query;
    query.resource = pods;
    BASALT_CHECK(store->list(query)->entries.size() >= 100'000);
  }
  const double each_ms = seconds_since(begin) * 1e3 / kLists;
  const double cpu_ms = (cpu_seconds() - cpu_before) * 1e3 / kLists;
  stop = true;
  writer.join();
  std::printf(
      "list     100,000 pods: %.1f ms, %.1f ms of CPU with the writer's; the slowest write meanwhile: %.0f us\n",
      each_ms, cpu_ms, slowest_us);
  BASALT_CHECK(store->close().ok());
}

void bytes() {
  const auto runtime = rt::make_real_runtime();
  const auto store = open(*runtime, Durability::Memory);
  const std::size_t before = heap_bytes();
  constexpr std::size_t kPods = 200'000;
  create_all(*runtime, *store, 1, kPods);
  Pod pod;
  pod.make(kPods);
  std::printf("bytes    %zu a pod of %zu with %zu of attributes, its event in the history included\n",
              (heap_bytes() - before) / kPods, pod.before.size() + pod.after.size() + 6,
              pod.attributes.packed().size());
  BASALT_CHECK(store->close().ok());
}

void load() {
  const auto runtime = rt::make_real_runtime();
  const Directory directory;
  {
    const auto begin = Clock::now();
    const auto store = open(*runtime, Durability::Full, directory.path);
    std::printf("load     empty store: %.3f s\n", seconds_since(begin));
    create_all(*runtime, *store, 64, 200'000);
    BASALT_CHECK(store->close().ok());
  }
  const std::size_t before = heap_bytes();
  const double cpu_before = cpu_seconds();
  const auto begin = Clock::now();
  const auto store = open(*runtime, Durability::Full, directory.path);
  const double seconds = seconds_since(begin);
  std::printf("load     200,000 objects: %.2f s, %.2f s of CPU; %zu bytes each in memory, %ju in the file\n", seconds,
              cpu_seconds() - cpu_before, (heap_bytes() - before) / 200'000,
              fs::file_size(directory.path / "store.db") / 200'000);
  BASALT_CHECK(store->close().ok());
}

}  // namespace
}  // namespace basalt::apiserver

int main(int argc, char** argv) {
  using namespace basalt::apiserver;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::vector<std::pair<std::string, std::function<void()>>> all = {
      {"memory", memory},
      {"sync", disk_sync},
      {"durable", [] { on_disk(Durability::Full, "durable"); }},
      {"fast", [] { on_disk(Durability::Fast, "fast"); }},
      {"watch", watch},
      {"idle", idle},
      {"list", list},
      {"bytes", bytes},
      {"load", load},
  };
  for (const auto& [name, run] : all) {
    if (argc == 1 || std::find(argv + 1, argv + argc, name) != argv + argc) run();
  }
  return 0;
}
