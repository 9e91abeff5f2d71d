#include "apiserver/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/store/store_test_support.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

using testing::data_of;
using testing::describe;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::object_text;
using testing::open_or_fail;
using testing::TemporaryDirectory;
using testing::TestWrite;

// What holds for every store, with and without a file.
class StoreTest : public ::testing::TestWithParam<Durability> {
 protected:
  void SetUp() override { open(StoreOptions()); }
  void TearDown() override {
    watchers_.clear();
    if (store_) {
      EXPECT_TRUE(store_->close().ok());
    }
  }

  void open(StoreOptions options) {
    if (store_) {
      EXPECT_TRUE(store_->close().ok());
      store_.reset();
    }
    options.durability = GetParam();
    options.directory = directory_.path() / "data";
    store_ = open_or_fail(*runtime_, std::move(options));
    ASSERT_TRUE(store_);
    pods_ = store_->resource("/pods");
    nodes_ = store_->resource("/nodes");
  }

  Revision create(const std::string& ns, const std::string& name, const std::string& data = "x") {
    const auto entry = TestWrite::create(pods_, ns, name, data).on(*store_);
    EXPECT_TRUE(entry.ok()) << entry.error().to_string();
    return entry.ok() ? (*entry)->mod_revision() : 0;
  }
  Revision update(const std::string& ns, const std::string& name, const std::string& data, Revision expected = 0) {
    const auto entry = TestWrite::update(pods_, ns, name, data, expected).on(*store_);
    EXPECT_TRUE(entry.ok()) << entry.error().to_string();
    return entry.ok() ? (*entry)->mod_revision() : 0;
  }
  Revision remove(const std::string& ns, const std::string& name) {
    const auto entry = TestWrite::remove(pods_, ns, name).on(*store_);
    EXPECT_TRUE(entry.ok()) << entry.error().to_string();
    return entry.ok() ? (*entry)->mod_revision() : 0;
  }
  std::vector<std::string> list(Revision revision = 0, std::string_view ns = "") {
    ListQuery query;
    query.resource = pods_;
    query.ns = ns;
    query.revision = revision;
    auto listing = store_->list(query);
    EXPECT_TRUE(listing.ok()) << listing.error().to_string();
    return listing.ok() ? describe(listing->entries) : std::vector<std::string>();
  }
  Watcher& watch(Revision after, std::string ns = "", std::function<void()> on_ready = nullptr) {
    WatchQuery query;
    query.resource = pods_;
    query.ns = std::move(ns);
    query.after = after;
    query.on_ready = std::move(on_ready);
    auto watcher = store_->watch(std::move(query));
    EXPECT_TRUE(watcher.ok()) << watcher.error().to_string();
    watchers_.push_back(std::move(watcher).value());
    return *watchers_.back();
  }
  static std::vector<std::string> poll(Watcher& watcher, std::size_t max = 100) {
    std::vector<Event> events;
    const auto count = watcher.poll(events, max);
    EXPECT_TRUE(count.ok()) << count.error().to_string();
    EXPECT_EQ(events.size(), count.value_or(0));
    std::vector<std::string> texts;
    for (const Event& event : events) {
      const char* type = event.type == EventType::Created ? "+" : event.type == EventType::Updated ? "~" : "-";
      texts.push_back(type + describe(*event.entry) + (event.previous ? " was " + data_of(*event.previous) : ""));
    }
    return texts;
  }

  TemporaryDirectory directory_;
  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  std::unique_ptr<Store> store_;
  std::vector<std::unique_ptr<Watcher>> watchers_;
  ResourceId pods_{};
  ResourceId nodes_{};
};

INSTANTIATE_TEST_SUITE_P(Durabilities, StoreTest,
                         ::testing::Values(Durability::Memory, Durability::Fast, Durability::Full),
                         [](const auto& tested) {
                           return tested.param == Durability::Memory ? "Memory"
                                  : tested.param == Durability::Fast ? "Fast"
                                                                     : "Full";
                         });

TEST_P(StoreTest, ANewStoreIsEmptyAtRevisionOne) {
  EXPECT_EQ(store_->revision(), 1);
  EXPECT_THAT(list(), IsEmpty());
  EXPECT_EQ(store_->get(pods_, "default", "a"), nullptr);
  EXPECT_EQ(store_->count(pods_, ""), 0u);
}

TEST_P(StoreTest, AResourceHasOneId) {
  EXPECT_EQ(store_->resource("/pods"), pods_);
  EXPECT_NE(pods_, nodes_);
  EXPECT_EQ(store_->resource_name(nodes_), "/nodes");
  EXPECT_EQ(store_->resources().size(), 2u);
}

TEST_P(StoreTest, CreatePutsTheRevisionIntoTheText) {
  EXPECT_EQ(create("default", "a", "one"), 2);
  const EntryRef entry = store_->get(pods_, "default", "a");
  ASSERT_TRUE(entry);
  EXPECT_EQ(*entry->object(), object_text(2, "one"));
  EXPECT_EQ(entry->create_revision(), 2);
  EXPECT_EQ(entry->mod_revision(), 2);
  EXPECT_EQ(entry->key(), "default/a");
  EXPECT_EQ(entry->ns(), "default");
  EXPECT_EQ(entry->name(), "a");
  EXPECT_EQ(entry->resource(), pods_);
  EXPECT_EQ(entry->attributes().uid(), "uid-of-a");
  EXPECT_FALSE(entry->is_deleted());
}

TEST_P(StoreTest, ATextTakesNoMoreRoomThanItNeeds) {
  create("default", "a", std::string(1000, 'x'));
  const Bytes object = store_->get(pods_, "default", "a")->object();
  EXPECT_EQ(object->capacity(), object->size());
}

TEST_P(StoreTest, ClusterScopedObjectsHaveNoNamespace) {
  ASSERT_TRUE(TestWrite::create(nodes_, "", "n1", "x").on(*store_).ok());
  const EntryRef entry = store_->get(nodes_, "", "n1");
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->key(), "n1");
  EXPECT_EQ(entry->ns(), "");
  EXPECT_EQ(entry->name(), "n1");
}

TEST_P(StoreTest, CreateFailsIfTheObjectIsThere) {
  create("default", "a");
  const auto again = TestWrite::create(pods_, "default", "a", "y").on(*store_);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().reason, Reason::AlreadyExists);
  EXPECT_THAT(again.error().message, HasSubstr("default/a"));
  EXPECT_EQ(store_->revision(), 2);
}

TEST_P(StoreTest, UpdateNeedsTheExpectedRevision) {
  const Revision first = create("default", "a", "one");
  const Revision second = update("default", "a", "two", first);
  const auto stale = TestWrite::update(pods_, "default", "a", "three", first).on(*store_);
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.error().reason, Reason::Conflict);
  EXPECT_EQ(store_->revision(), second);
  const EntryRef entry = store_->get(pods_, "default", "a");
  EXPECT_EQ(*entry->object(), object_text(second, "two"));
  EXPECT_EQ(entry->create_revision(), first);
  EXPECT_EQ(update("default", "a", "four"), second + 1);
  const auto absent = TestWrite::update(pods_, "default", "b", "x").on(*store_);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().reason, Reason::NotFound);
}

TEST_P(StoreTest, DeleteReturnsTheLastStateWithItsOwnRevision) {
  const Revision first = create("default", "a", "one");
  const auto stale = TestWrite::remove(pods_, "default", "a", first + 7).on(*store_);
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.error().reason, Reason::Conflict);
  const auto deleted = TestWrite::remove(pods_, "default", "a", first).on(*store_);
  ASSERT_TRUE(deleted.ok());
  EXPECT_TRUE((*deleted)->is_deleted());
  EXPECT_EQ(*(*deleted)->object(), object_text(first + 1, "one"));
  EXPECT_EQ((*deleted)->create_revision(), first);
  EXPECT_EQ(store_->get(pods_, "default", "a"), nullptr);
  const auto again = TestWrite::remove(pods_, "default", "a").on(*store_);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().reason, Reason::NotFound);
  const Revision second = create("default", "a", "two");
  EXPECT_EQ(store_->get(pods_, "default", "a")->create_revision(), second);
}

TEST_P(StoreTest, RevisionsGrowIntoMoreDigits) {
  for (int i = 0; i < 120; ++i) create("default", "p" + std::to_string(i), "d");
  for (int i = 0; i < 120; ++i) {
    const EntryRef entry = store_->get(pods_, "default", "p" + std::to_string(i));
    EXPECT_EQ(*entry->object(), object_text(i + 2, "d"));
  }
}

TEST_P(StoreTest, NonsenseIsRefused) {
  for (const auto& [ns, name] :
       std::vector<std::pair<std::string, std::string>>{{"a", ""}, {"a", "b/c"}, {"a/b", "c"}}) {
    const auto entry = TestWrite::create(pods_, ns, name, "x").on(*store_);
    ASSERT_FALSE(entry.ok());
    EXPECT_EQ(entry.error().reason, Reason::BadRequest);
  }
}

TEST_P(StoreTest, ManyWritesInOneCallSeeEachOther) {
  const std::vector<TestWrite> writes = {
      TestWrite::create(pods_, "default", "a", "1"), TestWrite::create(pods_, "default", "a", "2"),
      TestWrite::update(pods_, "default", "a", "3"), TestWrite::create(pods_, "default", "", "bad"),
      TestWrite::remove(pods_, "default", "a"),      TestWrite::create(pods_, "default", "a", "4"),
      TestWrite::create(pods_, "default", "b", "5")};
  std::vector<Write> views;
  for (const TestWrite& write : writes) views.push_back(write.view());
  const auto results = store_->write_all(views);
  ASSERT_EQ(results.size(), 7u);
  EXPECT_TRUE(results[0].ok());
  EXPECT_EQ(results[1].error().reason, Reason::AlreadyExists);
  EXPECT_TRUE(results[2].ok());
  EXPECT_EQ(results[3].error().reason, Reason::BadRequest);
  EXPECT_TRUE(results[4].ok());
  EXPECT_TRUE(results[5].ok());
  EXPECT_TRUE(results[6].ok());
  EXPECT_EQ(store_->revision(), 6);
  EXPECT_EQ(data_of(*store_->get(pods_, "default", "a")), "4");
  EXPECT_TRUE(store_->write_all({}).empty());
}

TEST_P(StoreTest, ListsAreInTheOrderOfKeys) {
  // As in etcd the slash behind the namespace takes part in the order: '-' sorts before it.
  for (const char* ns : {"b", "a", "a-b"}) create(ns, "x");
  create("a", "w");
  EXPECT_THAT(list(), ElementsAre("a-b/x=x@4", "a/w=x@5", "a/x=x@3", "b/x=x@2"));
  EXPECT_THAT(list(0, "a"), ElementsAre("a/w=x@5", "a/x=x@3"));
  EXPECT_THAT(list(0, "c"), IsEmpty());
  EXPECT_EQ(store_->count(pods_, "a"), 2u);
  EXPECT_EQ(store_->count(pods_, ""), 4u);
}

TEST_P(StoreTest, ListsShowAPastRevisionExactly) {
  create("default", "a", "1");
  create("default", "b", "1");
  update("default", "a", "2");
  remove("default", "b");
  create("default", "b", "3");
  EXPECT_THAT(list(1), IsEmpty());
  EXPECT_THAT(list(2), ElementsAre("default/a=1@2"));
  EXPECT_THAT(list(3), ElementsAre("default/a=1@2", "default/b=1@3"));
  EXPECT_THAT(list(4), ElementsAre("default/a=2@4", "default/b=1@3"));
  EXPECT_THAT(list(5), ElementsAre("default/a=2@4"));
  EXPECT_THAT(list(6), ElementsAre("default/a=2@4", "default/b=3@6"));
  ListQuery query;
  query.resource = pods_;
  query.revision = 7;
  const auto future = store_->list(query);
  ASSERT_FALSE(future.ok());
  EXPECT_EQ(future.error().reason, Reason::BadRequest);
}

TEST_P(StoreTest, PagesShowOneState) {
  for (int i = 0; i < 10; ++i) create("default", "p" + std::to_string(i), "old");
  ListQuery query;
  query.resource = pods_;
  query.limit = 4;
  const auto first = store_->list(query);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->entries.size(), 4u);
  EXPECT_TRUE(first->more);
  EXPECT_EQ(first->total, 10u);
  update("default", "p7", "new");
  remove("default", "p8");
  create("default", "p55", "new");
  query.revision = first->revision;
  query.after = first->entries.back()->key();
  const auto second = store_->list(query);
  EXPECT_TRUE(second->more);
  EXPECT_EQ(second->total, std::nullopt);
  query.after = second->entries.back()->key();
  const auto third = store_->list(query);
  EXPECT_FALSE(third->more);
  EXPECT_EQ(third->entries.size(), 2u);
  for (const auto* page : {&first, &second, &third}) {
    EXPECT_EQ((*page)->revision, first->revision);
    for (const EntryRef& entry : (*page)->entries) EXPECT_EQ(data_of(*entry), "old");
  }
}

TEST_P(StoreTest, ALimitThatEndsWithTheListHasNoMore) {
  for (int i = 0; i < 4; ++i) create("a", "p" + std::to_string(i));
  create("b", "p");
  ListQuery query;
  query.resource = pods_;
  query.ns = "a";
  query.limit = 4;
  EXPECT_FALSE(store_->list(query)->more);
  query.limit = 3;
  EXPECT_TRUE(store_->list(query)->more);
}

TEST_P(StoreTest, AFilterCountsOnlyWhatMatches) {
  std::vector<TestWrite> writes;
  for (int i = 0; i < 1000; ++i) {
    writes.push_back(TestWrite::create(pods_, "ns", "p" + std::to_string(i), i % 100 == 0 ? "rare" : "common"));
  }
  std::vector<Write> views;
  for (const TestWrite& write : writes) views.push_back(write.view());
  for (const auto& result : store_->write_all(views)) ASSERT_TRUE(result.ok());
  ListQuery query;
  query.resource = pods_;
  query.limit = 7;
  query.matches = [](const Entry& entry) { return data_of(entry) == "rare"; };
  auto listing = store_->list(query);
  EXPECT_EQ(listing->entries.size(), 7u);
  EXPECT_TRUE(listing->more);
  const std::string last(listing->entries.back()->key());
  query.after = last;
  query.revision = listing->revision;
  listing = store_->list(query);
  EXPECT_EQ(listing->entries.size(), 3u);
  EXPECT_FALSE(listing->more);
}

TEST_P(StoreTest, AWatchSeesWhatFollows) {
  create("default", "a", "1");
  Watcher& all = watch(1);
  Watcher& later = watch(2);
  Watcher& one = watch(1, "other");
  EXPECT_THAT(poll(all), ElementsAre("+default/a=1@2"));
  EXPECT_THAT(poll(later), IsEmpty());
  update("default", "a", "2");
  create("other", "b", "3");
  remove("default", "a");
  ASSERT_TRUE(TestWrite::create(nodes_, "", "n", "x").on(*store_).ok());
  create("default", "a", "4");
  EXPECT_THAT(poll(all), ElementsAre("~default/a=2@3 was 1", "+other/b=3@4", "-default/a=2@5 was 2", "+default/a=4@7"));
  EXPECT_THAT(poll(later, 1), ElementsAre("~default/a=2@3 was 1"));
  EXPECT_THAT(poll(later, 2), ElementsAre("+other/b=3@4", "-default/a=2@5 was 2"));
  EXPECT_THAT(poll(one), ElementsAre("+other/b=3@4"));
  EXPECT_EQ(store_->stats().watchers, 3u);
}

TEST_P(StoreTest, AWatchFromTheFutureWaitsForIt) {
  Watcher& watcher = watch(3);
  create("default", "a");
  create("default", "b");
  EXPECT_THAT(poll(watcher), IsEmpty());
  create("default", "c");
  EXPECT_THAT(poll(watcher), ElementsAre("+default/c=x@4"));
}

TEST_P(StoreTest, ProgressIsTheRevisionUpToWhichAllIsSeen) {
  Watcher& watcher = watch(1, "default");
  EXPECT_EQ(watcher.progress(), 1);
  EXPECT_THAT(poll(watcher), IsEmpty());
  create("other", "a");
  EXPECT_EQ(watcher.progress(), 2);
  create("default", "a");
  EXPECT_EQ(watcher.progress(), 2);
  create("default", "b");
  EXPECT_EQ(poll(watcher, 1).size(), 1u);
  EXPECT_EQ(watcher.progress(), 3);
  EXPECT_EQ(poll(watcher, 1).size(), 1u);
  create("other", "b");
  EXPECT_EQ(watcher.progress(), 4);
  EXPECT_THAT(poll(watcher), IsEmpty());
  EXPECT_EQ(watcher.progress(), 5);
}

TEST_P(StoreTest, ReadinessIsToldOnceUntilAllIsTaken) {
  std::atomic<int> calls{0};
  Watcher& watcher = watch(1, "default", [&calls] { ++calls; });
  create("default", "a");
  EXPECT_EQ(calls, 0) << "a watch that was never polled is not told: it has to look first";
  EXPECT_EQ(poll(watcher).size(), 1u);
  EXPECT_THAT(poll(watcher), IsEmpty());
  create("other", "a");
  EXPECT_EQ(calls, 0);
  create("default", "b");
  create("default", "c");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(poll(watcher).size(), 2u);
  create("default", "d");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(poll(watcher).size(), 1u);
  EXPECT_THAT(poll(watcher), IsEmpty());
  create("default", "e");
  EXPECT_EQ(calls, 2);
}

TEST_P(StoreTest, NextWaitsForTheDeadlineOnly) {
  Watcher& watcher = watch(1);
  std::vector<Event> events;
  const auto none = watcher.next(events, 10, runtime_->now() + std::chrono::milliseconds(1));
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, 0u);
  rt::Thread writer(*runtime_, "writer", [this] { create("default", "a"); });
  const auto one = watcher.next(events, 10, rt::kNever);
  writer.join();
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(*one, 1u);
}

TEST_P(StoreTest, CancelEndsAWait) {
  Watcher& watcher = watch(1);
  Watcher& other = watch(1);
  std::vector<Event> ignored;
  EXPECT_EQ(*other.poll(ignored, 1), 0u);
  rt::Thread canceller(*runtime_, "canceller", [&watcher] { watcher.cancel(); });
  std::vector<Event> events;
  const auto ended = watcher.next(events, 10, rt::kNever);
  canceller.join();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().reason, Reason::Cancelled);
  create("default", "a");
  EXPECT_EQ(poll(other).size(), 1u);
}

TEST_P(StoreTest, ClosingEndsWatchesAndRefusesWrites) {
  std::atomic<int> calls{0};
  Watcher& told = watch(1, "", [&calls] { ++calls; });
  Watcher& waits = watch(1);
  EXPECT_THAT(poll(told), IsEmpty());
  rt::Thread closer(*runtime_, "closer", [this] { EXPECT_TRUE(store_->close().ok()); });
  std::vector<Event> events;
  const auto ended = waits.next(events, 10, rt::kNever);
  closer.join();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().reason, Reason::Cancelled);
  EXPECT_EQ(calls, 1);
  const auto refused = TestWrite::create(pods_, "default", "a", "x").on(*store_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, Reason::ServiceUnavailable);
  WatchQuery query;
  query.resource = pods_;
  query.after = 1;
  EXPECT_FALSE(store_->watch(query).ok());
  watchers_.clear();
  store_.reset();
}

TEST_P(StoreTest, CompactionExpiresWhatIsOlder) {
  create("default", "a", "1");
  update("default", "a", "2");
  remove("default", "a");
  create("default", "b", "3");
  Watcher& slow = watch(1);
  Watcher& quick = watch(4);
  ASSERT_TRUE(store_->compact(4).ok());
  EXPECT_EQ(store_->oldest_revision(pods_), 4);
  EXPECT_EQ(store_->stats().history_events, 1u);
  EXPECT_EQ(store_->stats().history_bytes, 0u);
  EXPECT_THAT(poll(quick), ElementsAre("+default/b=3@5"));
  std::vector<Event> events;
  for (int i = 0; i < 2; ++i) {
    const auto cut = slow.poll(events, 10);
    ASSERT_FALSE(cut.ok());
    EXPECT_EQ(cut.error().reason, Reason::Expired);
    EXPECT_THAT(cut.error().message, HasSubstr("oldest is 4"));
    EXPECT_THAT(cut.error().message, HasSubstr("current 5"));
  }
  EXPECT_EQ(store_->stats().watchers_expired, 1u);
  WatchQuery query;
  query.resource = pods_;
  query.after = 3;
  const auto refused = store_->watch(query);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason, Reason::Expired);
  ListQuery past;
  past.resource = pods_;
  past.revision = 3;
  EXPECT_EQ(store_->list(past).error().reason, Reason::Expired);
  EXPECT_THAT(list(4), IsEmpty());
  EXPECT_THAT(list(), ElementsAre("default/b=3@5"));
  EXPECT_EQ(store_->compact(9).error().reason, Reason::BadRequest);
}

TEST_P(StoreTest, TheHistoryIsBoundedByCount) {
  StoreOptions options;
  options.history_events_max = 10;
  open(options);
  ASSERT_TRUE(TestWrite::create(nodes_, "", "n", "x").on(*store_).ok());
  create("default", "a", "0");
  for (int i = 1; i < 50; ++i) update("default", "a", std::to_string(i));
  EXPECT_EQ(store_->stats().history_events, 10u);
  EXPECT_EQ(store_->oldest_revision(pods_), store_->revision() - 10);
  EXPECT_EQ(store_->oldest_revision(nodes_), 2) << "a quiet resource loses only its own events";
  EXPECT_EQ(list(store_->revision() - 10).size(), 1u);
}

TEST_P(StoreTest, TheHistoryIsBoundedByBytes) {
  StoreOptions options;
  options.history_bytes_max = 10'000;
  open(options);
  create("default", "a", "0");
  for (int i = 1; i < 50; ++i) update("default", "a", std::string(1000, 'x'));
  EXPECT_LE(store_->stats().history_bytes, 10'000u);
  EXPECT_GT(store_->stats().history_bytes, 7'000u);
  for (int i = 0; i < 50; ++i) create("default", "p" + std::to_string(i));
  EXPECT_LE(store_->stats().history_bytes, 10'000u) << "objects that are current cost the history nothing";
  EXPECT_GT(store_->stats().history_events, 50u);
}

// The filter runs without the lock, so it can do to the store what other threads might do meanwhile.
TEST_P(StoreTest, AListingHoldsItsStateWhileItRuns) {
  StoreOptions options;
  options.history_events_max = 10;
  open(options);
  std::vector<TestWrite> writes;
  std::vector<Write> views;
  for (int i = 0; i < 1000; ++i) {
    writes.push_back(TestWrite::create(pods_, "ns", "p" + std::to_string(1000 + i), "old"));
  }
  for (const TestWrite& write : writes) views.push_back(write.view());
  for (const auto& result : store_->write_all(views)) ASSERT_TRUE(result.ok());
  const Revision before = store_->revision();
  int looked_at = 0;
  ListQuery query;
  query.resource = pods_;
  query.matches = [&](const Entry&) {
    if (++looked_at == 1) {
      for (int i = 990; i < 1000; ++i) update("ns", "p" + std::to_string(1000 + i), "new");
      for (int i = 500; i < 600; ++i) remove("ns", "p" + std::to_string(1000 + i));
      EXPECT_TRUE(store_->compact(store_->revision()).ok());
    }
    return true;
  };
  const auto listing = store_->list(query);
  ASSERT_TRUE(listing.ok());
  EXPECT_EQ(listing->revision, before);
  EXPECT_EQ(listing->entries.size(), 1000u);
  for (const EntryRef& entry : listing->entries) ASSERT_EQ(data_of(*entry), "old");
  store_->trim();
  EXPECT_EQ(store_->stats().history_events, 0u) << "what a listing held is dropped after it";
  EXPECT_EQ(list().size(), 900u);
}

TEST_P(StoreTest, AnIdleWatcherOfAnotherNamespaceDoesNotExpire) {
  StoreOptions options;
  options.history_events_max = 10;
  open(options);
  Watcher& watcher = watch(1, "quiet");
  EXPECT_THAT(poll(watcher), IsEmpty());
  for (int i = 0; i < 100; ++i) create("busy", "p" + std::to_string(i));
  create("quiet", "a");
  EXPECT_THAT(poll(watcher), ElementsAre("+quiet/a=x@102"));
}

TEST_P(StoreTest, DeletedObjectsAreForgottenWithTheHistory) {
  for (int i = 0; i < 100; ++i) create("default", "p" + std::to_string(i));
  for (int i = 0; i < 100; ++i) remove("default", "p" + std::to_string(i));
  EXPECT_GT(store_->stats().history_bytes, 0u);
  ASSERT_TRUE(store_->compact(store_->revision()).ok());
  const StoreStats stats = store_->stats();
  EXPECT_EQ(stats.history_bytes, 0u);
  EXPECT_EQ(stats.history_events, 0u);
  EXPECT_EQ(stats.objects, 0u);
  EXPECT_EQ(stats.object_bytes, 0u);
  create("default", "p1");
  EXPECT_EQ(list().size(), 1u);
}

TEST_P(StoreTest, StatsCount) {
  create("default", "a");
  create("default", "b");
  const StoreStats stats = store_->stats();
  EXPECT_EQ(stats.objects, 2u);
  EXPECT_GT(stats.object_bytes, 100u);
  EXPECT_EQ(stats.revision, 3);
  EXPECT_EQ(stats.writes, 2u);
  EXPECT_EQ(stats.commits, 2u);
  EXPECT_EQ(stats.history_events, 2u);
  EXPECT_EQ(stats.writes_failed, 0u);
  EXPECT_FALSE(stats.is_read_only);
  if (GetParam() != Durability::Memory) {
    EXPECT_GT(stats.file_bytes, 0u);
    std::uint64_t counted = 0;
    for (const std::uint64_t bucket : stats.commit_latency) counted += bucket;
    EXPECT_EQ(counted, 2u);
  }
}

}  // namespace
}  // namespace basalt::apiserver
