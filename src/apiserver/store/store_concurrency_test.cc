// Many threads on one store; with ThreadSanitizer these tests also show that the locking is right.

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "apiserver/store/store.h"
#include "apiserver/store/store_test_support.h"
#include "rt/real_runtime.h"
#include "rt/sim_test_support.h"

namespace basalt::apiserver {
namespace {

using testing::data_of;
using testing::open_or_fail;
using testing::TemporaryDirectory;
using testing::TestWrite;

// Counters that everybody increments with optimistic locking, while others list and watch. In the end each counter has
// counted every increment, watchers have seen each revision once and in order, and lists never showed a mixture.
class Workload {
 public:
  Workload(rt::Runtime& runtime, StoreOptions options)
      : runtime_(runtime), store_(open_or_fail(runtime, std::move(options))) {
    counters_ = store_->resource("/counters");
    noise_ = store_->resource("/noise");
    for (int i = 0; i < kCounters; ++i) {
      EXPECT_TRUE(TestWrite::create(counters_, ns_of(i), name_of(i), "0").on(*store_).ok());
    }
    start_revision_ = store_->revision();
  }

  void run(int increments) {
    std::vector<rt::Thread> writers;
    std::vector<rt::Thread> readers;
    for (int i = 0; i < kWatchers; ++i) readers.emplace_back(runtime_, "watcher", [this, i] { watch(i); });
    readers.emplace_back(runtime_, "lister", [this] { list(); });
    for (int i = 0; i < kWriters; ++i) {
      writers.emplace_back(runtime_, "writer", [this, increments] { increment(increments); });
    }
    writers.emplace_back(runtime_, "noise", [this, increments] { make_noise(increments); });
    for (auto& thread : writers) thread.join();
    // The mark that ends the watches.
    EXPECT_TRUE(TestWrite::create(counters_, "even", "end", "end").on(*store_).ok());
    EXPECT_TRUE(TestWrite::create(counters_, "odd", "end", "end").on(*store_).ok());
    stop_ = true;
    for (auto& thread : readers) thread.join();
    int sum = 0;
    for (int i = 0; i < kCounters; ++i) sum += value_of(*store_->get(counters_, ns_of(i), name_of(i)));
    EXPECT_EQ(sum, kWriters * increments);
    EXPECT_EQ(store_->stats().watchers, 0u);
    EXPECT_TRUE(store_->close().ok());
  }

 private:
  static constexpr int kCounters = 4;
  static constexpr int kWriters = 4;
  static constexpr int kWatchers = 3;

  static std::string ns_of(int counter) { return counter % 2 == 0 ? "even" : "odd"; }
  static std::string name_of(int counter) { return "c" + std::to_string(counter); }
  static int value_of(const Entry& entry) { return std::stoi(data_of(entry)); }

  void increment(int increments) {
    for (int done = 0; done < increments;) {
      const auto counter = static_cast<int>(runtime_.random_below(kCounters));
      const EntryRef before = store_->get(counters_, ns_of(counter), name_of(counter));
      runtime_.yield();
      const auto after = TestWrite::update(counters_, ns_of(counter), name_of(counter),
                                           std::to_string(value_of(*before) + 1), before->mod_revision())
                             .on(*store_);
      if (after.ok()) {
        ++done;
      } else {
        ASSERT_EQ(after.error().reason, Reason::Conflict) << after.error().to_string();
      }
    }
  }

  void make_noise(int rounds) {
    for (int i = 0; i < rounds; ++i) {
      ASSERT_TRUE(TestWrite::create(noise_, "n", "x", "y").on(*store_).ok());
      runtime_.yield();
      ASSERT_TRUE(TestWrite::remove(noise_, "n", "x").on(*store_).ok());
      if (i % 16 == 0) store_->trim();
    }
  }

  void watch(int which) {
    WatchQuery query;
    query.resource = counters_;
    query.ns = which == 0 ? "" : which == 1 ? "even" : "odd";
    query.after = start_revision_;
    auto watcher = store_->watch(query);
    ASSERT_TRUE(watcher.ok());
    std::map<std::string, int> values;
    Revision last = start_revision_;
    int ends = which == 0 ? 2 : 1;
    std::vector<Event> events;
    while (ends > 0) {
      events.clear();
      const auto count = (*watcher)->next(events, 3, runtime_.now() + std::chrono::seconds(600));
      ASSERT_TRUE(count.ok()) << count.error().to_string();
      ASSERT_GT(*count, 0u);
      for (const Event& event : events) {
        ASSERT_GT(event.entry->mod_revision(), last);
        last = event.entry->mod_revision();
        if (!query.ns.empty()) {
          ASSERT_EQ(event.entry->ns(), query.ns);
        }
        if (event.entry->name() == "end") {
          --ends;
          continue;
        }
        // Each version follows the one before it: none is missing, none comes twice.
        ASSERT_TRUE(event.previous);
        ASSERT_EQ(value_of(*event.entry), value_of(*event.previous) + 1);
        int& value = values[std::string(event.entry->key())];
        ASSERT_EQ(value_of(*event.entry), value + 1);
        value = value_of(*event.entry);
      }
    }
    ASSERT_GE((*watcher)->progress(), last);
  }

  void list() {
    Revision last = 0;
    int last_sum = 0;
    while (!stop_) {
      ListQuery query;
      query.resource = counters_;
      query.limit = 2;
      std::string after;
      int sum = 0;
      std::size_t entries = 0;
      bool is_expired = false;
      while (true) {
        query.after = after;
        const auto page = store_->list(query);
        if (!page.ok()) {
          ASSERT_EQ(page.error().reason, Reason::Expired);
          is_expired = true;
          break;
        }
        query.revision = page->revision;
        for (const EntryRef& entry : page->entries) {
          ASSERT_LE(entry->mod_revision(), page->revision);
          if (entry->name() != "end") sum += value_of(*entry), ++entries;
        }
        if (!page->more) break;
        after = page->entries.back()->key();
        runtime_.yield();
      }
      if (is_expired) continue;
      ASSERT_EQ(entries, static_cast<std::size_t>(kCounters));
      ASSERT_GE(query.revision, last);
      ASSERT_GE(sum, last_sum) << "the sum of one state never goes back";
      last = query.revision;
      last_sum = sum;
      runtime_.sleep_for(std::chrono::milliseconds(1));
    }
  }

  rt::Runtime& runtime_;
  std::unique_ptr<Store> store_;
  ResourceId counters_{};
  ResourceId noise_{};
  Revision start_revision_ = 0;
  std::atomic<bool> stop_{false};
};

TEST(StoreConcurrency, InMemory) {
  const auto runtime = rt::make_real_runtime();
  Workload(*runtime, StoreOptions()).run(2'000);
}

TEST(StoreConcurrency, OnDisk) {
  TemporaryDirectory directory;
  const auto runtime = rt::make_real_runtime();
  StoreOptions options;
  options.durability = Durability::Full;
  options.directory = directory.path();
  options.log_bytes_max = 300'000;
  Workload(*runtime, options).run(300);
}

TEST(StoreConcurrency, Simulated) {
  rt::run_seeds(1, 100, [](rt::SimRuntime& runtime) { Workload(runtime, StoreOptions()).run(20); });
}

TEST(StoreConcurrency, TheHistoryIsBoundedByAge) {
  rt::run_seeds(1, 3, [](rt::SimRuntime& runtime) {
    auto store = open_or_fail(runtime, StoreOptions());
    const ResourceId pods = store->resource("/pods");
    ASSERT_TRUE(TestWrite::create(pods, "ns", "a", "x").on(*store).ok());
    runtime.sleep_for(std::chrono::minutes(3));
    ASSERT_TRUE(TestWrite::create(pods, "ns", "b", "x").on(*store).ok());
    EXPECT_EQ(store->oldest_revision(pods), 1);
    runtime.sleep_for(std::chrono::minutes(3));
    ASSERT_TRUE(TestWrite::create(pods, "ns", "c", "x").on(*store).ok());
    EXPECT_EQ(store->oldest_revision(pods), 2) << "a write drops what is too old";
    runtime.sleep_for(std::chrono::minutes(10));
    store->trim();
    EXPECT_EQ(store->oldest_revision(pods), 4) << "so does trim";
    EXPECT_EQ(store->count(pods, ""), 3u);
    EXPECT_TRUE(store->close().ok());
  });
}

// Watchers that come, go, are cancelled and are called back while writers write and the store is closed.
TEST(StoreConcurrency, WatchersComeAndGo) {
  rt::run_everywhere(1, 50, [](rt::Runtime& runtime) {
    StoreOptions options;
    options.history_events_max = 50;
    auto store = open_or_fail(runtime, options);
    const ResourceId pods = store->resource("/pods");
    std::atomic<int> called{0};
    std::vector<rt::Thread> threads;
    for (int writer = 0; writer < 2; ++writer) {
      threads.emplace_back(runtime, "writer", [&, writer] {
        for (int i = 0; i < 300; ++i) {
          const std::string ns = i % 2 == 0 ? "a" : "b";
          ASSERT_TRUE(
              TestWrite::create(pods, ns, std::to_string(writer) + "-" + std::to_string(i), "x").on(*store).ok());
          if (i % 4 == 0) runtime.yield();
        }
      });
    }
    for (int watcher = 0; watcher < 4; ++watcher) {
      threads.emplace_back(runtime, "watcher", [&, watcher] {
        for (int i = 0; i < 20; ++i) {
          WatchQuery query;
          query.resource = pods;
          query.ns = watcher % 2 == 0 ? "" : "a";
          query.after = store->revision();
          query.on_ready = [&called] { ++called; };
          auto subscribed = store->watch(query);
          if (!subscribed.ok()) {
            ASSERT_EQ(subscribed.error().reason, Reason::Expired);
            continue;
          }
          std::vector<Event> events;
          rt::Thread canceller(runtime, "canceller", [&] {
            runtime.yield();
            if (i % 3 == 0) (*subscribed)->cancel();
          });
          const auto count = (*subscribed)->next(events, 10, runtime.now() + std::chrono::milliseconds(1));
          if (!count.ok()) {
            EXPECT_TRUE(count.error().is(Reason::Expired) || count.error().is(Reason::Cancelled));
          }
          canceller.join();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(store->stats().watchers, 0u);
    EXPECT_EQ(store->count(pods, ""), 600u);
    EXPECT_TRUE(store->close().ok());
  });
}

TEST(StoreConcurrency, AFullQueueRefusesWrites) {
  TemporaryDirectory directory;
  const auto runtime = rt::make_real_runtime();
  StoreOptions options;
  options.durability = Durability::Full;
  options.directory = directory.path();
  options.queued_writes_max = 4;
  auto store = open_or_fail(*runtime, options);
  const ResourceId pods = store->resource("/pods");
  std::vector<TestWrite> writes;
  std::vector<Write> views;
  for (int i = 0; i < 10; ++i) writes.push_back(TestWrite::create(pods, "ns", "p" + std::to_string(i), "x"));
  for (const TestWrite& write : writes) views.push_back(write.view());
  int refused = 0;
  for (const auto& result : store->write_all(views)) {
    if (result.ok()) continue;
    EXPECT_EQ(result.error().reason, Reason::TooManyRequests);
    EXPECT_TRUE(result.error().is_transient());
    ++refused;
  }
  EXPECT_EQ(refused, 6);
  EXPECT_EQ(store->count(pods, ""), 4u);
  EXPECT_TRUE(store->close().ok());
}

}  // namespace
}  // namespace basalt::apiserver
