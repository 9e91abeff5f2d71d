// Random calls on a store, compared with a model that is too simple to be wrong: a copy of everything at each revision.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "apiserver/store/store.h"
#include "apiserver/store/store_test_support.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

using testing::data_of;
using testing::object_text;
using testing::open_or_fail;
using testing::TemporaryDirectory;
using testing::TestWrite;

struct ModelObject {
  std::string data;
  Revision create_revision = 0;
  Revision mod_revision = 0;
};
// By "ns/name"; one map for each of two resources.
using ModelState = std::vector<std::map<std::string, ModelObject>>;

struct ModelEvent {
  Revision revision = 0;
  std::size_t resource = 0;
  EventType type = EventType::Created;
  std::string key;
  std::string data;
  std::string previous;
};

struct ModelWatch {
  std::unique_ptr<Watcher> watcher;
  std::size_t resource = 0;
  std::string ns;
  Revision seen = 0;
  bool is_expired = false;
};

constexpr std::size_t kResources = 2;
const char* const kNames[kResources] = {"/pods", "batch.volcano.sh/jobs"};

class ModelTest {
 public:
  ModelTest(Durability durability, std::uint64_t seed) : durability_(durability), random_(seed) {
    options_.durability = durability;
    options_.directory = directory_.path() / "data";
    options_.history_events_max = std::vector<std::size_t>{3, 40, 100'000}[below(3)];
    options_.history_bytes_max = std::vector<std::size_t>{2'000, 1U << 30}[below(2)];
    options_.log_bytes_max = 1U << 18;
    states_.push_back(ModelState(kResources));  // revision 0 never was
    states_.push_back(ModelState(kResources));
    open();
  }
  ~ModelTest() {
    watches_.clear();
    if (store_) {
      EXPECT_TRUE(store_->close().ok());
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps && !::testing::Test::HasFailure(); ++i) step();
    check_all();
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }
  Revision current() const { return static_cast<Revision>(states_.size()) - 1; }
  std::string some_ns() { return std::vector<std::string>{"a", "b", "a-b"}[below(3)]; }
  std::string some_name() { return "n" + std::to_string(below(6)); }
  std::string some_data() { return std::string(below(200), 'd') + std::to_string(random_() % 1000); }

  void open() {
    store_ = open_or_fail(*runtime_, options_);
    ASSERT_TRUE(store_);
    ids_.clear();
    for (const char* name : kNames) ids_.push_back(store_->resource(name));
  }

  void step() {
    switch (below(20)) {
      case 0:
        return list();
      case 1:
        return start_watch();
      case 2:
        if (below(5) == 0) return compact();
        return get();
      case 3:
        if (below(10) == 0) return reopen();
        return write_many();
      case 4:
      case 5:
      case 6:
        return poll();
      default:
        return write_one();
    }
  }

  TestWrite some_write(std::size_t resource) {
    const std::string ns = some_ns();
    const std::string name = some_name();
    const auto& objects = states_.back()[resource];
    const auto there = objects.find(ns + "/" + name);
    Revision expected = 0;
    if (below(2) == 0 && there != objects.end()) expected = there->second.mod_revision;
    if (below(8) == 0) expected = 1 + static_cast<Revision>(below(static_cast<std::size_t>(current()) + 1));
    const std::size_t kind = below(5);
    if (kind < 2) return TestWrite::create(ids_[resource], ns, name, some_data());
    if (kind < 4) return TestWrite::update(ids_[resource], ns, name, some_data(), expected);
    return TestWrite::remove(ids_[resource], ns, name, expected);
  }

  // Carries out the write in the model and compares what the store said.
  void expect(std::size_t resource, const Write& write, const Result<EntryRef>& result) {
    const std::string key = std::string(write.ns) + "/" + std::string(write.name);
    ModelState next = states_.back();
    auto& objects = next[resource];
    const auto there = objects.find(key);
    const bool exists = there != objects.end();
    std::optional<Reason> reason;
    if (write.kind == WriteKind::Create) {
      if (exists) reason = Reason::AlreadyExists;
    } else if (!exists) {
      reason = Reason::NotFound;
    } else if (write.expected != 0 && write.expected != there->second.mod_revision) {
      reason = Reason::Conflict;
    }
    if (reason) {
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(result.error().reason, *reason) << result.error().to_string();
      return;
    }
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    const Entry& entry = **result;
    const Revision revision = current() + 1;
    ModelEvent event{revision, resource, EventType::Created, key, "", exists ? there->second.data : ""};
    const Revision created = exists ? there->second.create_revision : revision;
    if (write.kind == WriteKind::Delete) {
      event.type = EventType::Deleted;
      event.data = there->second.data;
      objects.erase(there);
    } else {
      event.type = exists ? EventType::Updated : EventType::Created;
      event.data = Attributes(write.attributes).label("data").value_or("?");
      objects[key] = {event.data, created, revision};
    }
    EXPECT_EQ(entry.mod_revision(), revision);
    EXPECT_EQ(entry.create_revision(), created);
    EXPECT_EQ(entry.is_deleted(), write.kind == WriteKind::Delete);
    EXPECT_EQ(*entry.object(), object_text(revision, event.data));
    events_.push_back(std::move(event));
    states_.push_back(std::move(next));
  }

  void write_one() {
    const std::size_t resource = below(kResources);
    const TestWrite write = some_write(resource);
    expect(resource, write.view(), write.on(*store_));
  }

  void write_many() {
    std::vector<std::size_t> resources;
    std::vector<TestWrite> writes;
    std::vector<Write> views;
    for (std::size_t i = below(20); i > 0; --i) {
      resources.push_back(below(kResources));
      writes.push_back(some_write(resources.back()));
    }
    for (const TestWrite& write : writes) views.push_back(write.view());
    const auto results = store_->write_all(views);
    ASSERT_EQ(results.size(), views.size());
    replay_group(resources, views, results);
  }

  // Of one key the writes are in the order of the call; between keys the revisions say the order.
  void replay_group(const std::vector<std::size_t>& resources, const std::vector<Write>& views,
                    const std::vector<Result<EntryRef>>& results) {
    std::vector<bool> done(views.size());
    for (std::size_t left = views.size(); left > 0;) {
      bool moved = false;
      for (std::size_t i = 0; i < views.size(); ++i) {
        if (done[i] || !is_first_of_key(i, resources, views, done)) continue;
        if (results[i].ok() && (*results[i])->mod_revision() != current() + 1) continue;
        expect(resources[i], views[i], results[i]);
        if (::testing::Test::HasFailure()) return;
        done[i] = true;
        moved = true;
        --left;
      }
      ASSERT_TRUE(moved) << "the revisions of a group have a gap or break the order of a key";
    }
  }
  static bool is_first_of_key(std::size_t at, const std::vector<std::size_t>& resources,
                              const std::vector<Write>& views, const std::vector<bool>& done) {
    for (std::size_t i = 0; i < at; ++i) {
      const bool same = resources[i] == resources[at] && views[i].ns == views[at].ns && views[i].name == views[at].name;
      if (!done[i] && same) return false;
    }
    return true;
  }

  void get() {
    const std::size_t resource = below(kResources);
    const std::string ns = some_ns();
    const std::string name = some_name();
    const EntryRef entry = store_->get(ids_[resource], ns, name);
    const auto& objects = states_.back()[resource];
    const auto there = objects.find(ns + "/" + name);
    ASSERT_EQ(entry != nullptr, there != objects.end());
    if (entry) compare(*entry, there->first, there->second);
  }

  static void compare(const Entry& entry, const std::string& key, const ModelObject& object) {
    EXPECT_EQ(entry.key(), key);
    EXPECT_EQ(entry.mod_revision(), object.mod_revision);
    EXPECT_EQ(entry.create_revision(), object.create_revision);
    EXPECT_EQ(*entry.object(), object_text(object.mod_revision, object.data));
  }

  void list() {
    const std::size_t resource = below(kResources);
    ListQuery query;
    const std::string ns = below(2) == 0 ? "" : some_ns();
    const std::string after = below(3) == 0 ? some_ns() + "/" + some_name() : "";
    query.resource = ids_[resource];
    query.ns = ns;
    query.after = after;
    query.limit = below(2) == 0 ? 0 : 1 + below(10);
    query.revision = below(2) == 0 ? 0 : 1 + static_cast<Revision>(below(states_.size()));
    const auto listing = store_->list(query);
    if (query.revision > current()) {
      ASSERT_FALSE(listing.ok());
      return;
    }
    const Revision wanted = query.revision == 0 ? current() : query.revision;
    if (wanted < store_->oldest_revision(ids_[resource])) {
      ASSERT_FALSE(listing.ok());
      EXPECT_EQ(listing.error().reason, Reason::Expired);
      return;
    }
    ASSERT_TRUE(listing.ok()) << listing.error().to_string();
    EXPECT_EQ(listing->revision, wanted);
    std::size_t at = 0;
    bool more = false;
    for (const auto& [key, object] : states_[static_cast<std::size_t>(wanted)][resource]) {
      if (key <= after || (!ns.empty() && !key.starts_with(ns + "/"))) continue;
      if (query.limit != 0 && at == query.limit) {
        more = true;
        break;
      }
      ASSERT_LT(at, listing->entries.size());
      compare(*listing->entries[at++], key, object);
    }
    EXPECT_EQ(at, listing->entries.size());
    EXPECT_EQ(more, listing->more);
  }

  void start_watch() {
    if (watches_.size() > 8) watches_.erase(watches_.begin() + static_cast<std::ptrdiff_t>(below(watches_.size())));
    ModelWatch watch;
    watch.resource = below(kResources);
    watch.ns = below(2) == 0 ? "" : some_ns();
    watch.seen = 1 + static_cast<Revision>(below(static_cast<std::size_t>(current())));
    WatchQuery query;
    query.resource = ids_[watch.resource];
    query.ns = watch.ns;
    query.after = watch.seen;
    auto watcher = store_->watch(query);
    if (watch.seen < store_->oldest_revision(ids_[watch.resource])) {
      ASSERT_FALSE(watcher.ok());
      EXPECT_EQ(watcher.error().reason, Reason::Expired);
      return;
    }
    ASSERT_TRUE(watcher.ok()) << watcher.error().to_string();
    watch.watcher = std::move(watcher).value();
    watches_.push_back(std::move(watch));
  }

  void poll() {
    if (!watches_.empty()) poll(watches_[below(watches_.size())], 1 + below(10));
  }

  // The next event of the model for a watch; null if there is none.
  const ModelEvent* next_event(const ModelWatch& watch) const {
    for (const ModelEvent& event : events_) {
      if (event.revision <= watch.seen || event.resource != watch.resource) continue;
      if (watch.ns.empty() || event.key.starts_with(watch.ns + "/")) return &event;
    }
    return nullptr;
  }

  void poll(ModelWatch& watch, std::size_t max) {
    std::vector<Event> events;
    const auto count = watch.watcher->poll(events, max);
    if (!count.ok()) {
      EXPECT_EQ(count.error().reason, Reason::Expired);
      EXPECT_LT(watch.seen, store_->oldest_revision(ids_[watch.resource]));
      watch.is_expired = true;
      return;
    }
    EXPECT_FALSE(watch.is_expired);
    ASSERT_EQ(*count, events.size());
    ASSERT_LE(events.size(), max);
    for (const Event& event : events) {
      const ModelEvent* expected = next_event(watch);
      ASSERT_NE(expected, nullptr);
      EXPECT_EQ(event.type, expected->type);
      EXPECT_EQ(event.entry->mod_revision(), expected->revision);
      EXPECT_EQ(event.entry->key(), expected->key);
      EXPECT_EQ(*event.entry->object(), object_text(expected->revision, expected->data));
      EXPECT_EQ(event.previous ? data_of(*event.previous) : "", expected->previous);
      watch.seen = expected->revision;
    }
    if (events.empty()) {
      EXPECT_EQ(next_event(watch), nullptr);
      EXPECT_EQ(watch.watcher->progress(), current());
    } else {
      EXPECT_GE(watch.watcher->progress(), watch.seen);
      const ModelEvent* next = next_event(watch);
      if (next != nullptr) {
        EXPECT_LT(watch.watcher->progress(), next->revision);
      }
    }
  }

  void compact() {
    EXPECT_TRUE(store_->compact(1 + static_cast<Revision>(below(static_cast<std::size_t>(current())))).ok());
  }

  void reopen() {
    if (durability_ == Durability::Memory) return;
    check_all();
    watches_.clear();
    ASSERT_TRUE(store_->close().ok());
    store_.reset();
    open();
    EXPECT_EQ(store_->revision(), current());
    for (const ResourceId id : ids_) EXPECT_EQ(store_->oldest_revision(id), current());
    check_all();
  }

  void check_all() {
    ASSERT_EQ(store_->revision(), current());
    std::size_t objects = 0;
    for (std::size_t resource = 0; resource < kResources; ++resource) {
      ListQuery query;
      query.resource = ids_[resource];
      const auto listing = store_->list(query);
      ASSERT_TRUE(listing.ok());
      const auto& expected = states_.back()[resource];
      ASSERT_EQ(listing->entries.size(), expected.size());
      EXPECT_EQ(store_->count(ids_[resource], ""), expected.size());
      std::size_t at = 0;
      for (const auto& [key, object] : expected) compare(*listing->entries[at++], key, object);
      objects += expected.size();
    }
    const StoreStats stats = store_->stats();
    EXPECT_EQ(stats.objects, objects);
    EXPECT_LE(stats.history_events, options_.history_events_max);
    EXPECT_LE(stats.history_bytes, options_.history_bytes_max);
    EXPECT_EQ(stats.watchers, watches_.size());
    for (ModelWatch& watch : watches_) {
      for (int i = 0; i < 1000 && !watch.is_expired && next_event(watch) != nullptr; ++i) poll(watch, 100);
    }
  }

  const Durability durability_;
  std::mt19937_64 random_;
  TemporaryDirectory directory_;
  std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  StoreOptions options_;
  std::unique_ptr<Store> store_;
  std::vector<ResourceId> ids_;
  std::vector<ModelState> states_;  // by revision
  std::vector<ModelEvent> events_;
  std::vector<ModelWatch> watches_;
};

void run_model(Durability durability, int seeds, int steps) {
  for (int seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ModelTest(durability, static_cast<std::uint64_t>(seed)).run(steps);
  }
}

TEST(StoreModel, InMemory) { run_model(Durability::Memory, 30, 600); }

TEST(StoreModel, OnDisk) { run_model(Durability::Full, 10, 600); }

}  // namespace
}  // namespace basalt::apiserver
