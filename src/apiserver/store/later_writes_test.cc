// Writes for which no thread waits.

#include "apiserver/store/later_writes.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apiserver/store/store_test_support.h"
#include "rt/mutex.h"
#include "rt/real_runtime.h"

namespace basalt::apiserver {
namespace {

using testing::describe;
using testing::open_or_fail;
using testing::TemporaryDirectory;
using testing::TestWrite;

// Collects what is told, and waits for it.
class Results {
 public:
  explicit Results(rt::Runtime& runtime) : changed_(runtime) {}

  LaterWrites::Told for_write(const std::string& label) {
    return [this, label](const Result<EntryRef>& result) {
      const std::string text = result.ok() ? describe(**result) : std::string(to_string(result.error().reason));
      rt::MutexLock lock(mutex_);
      told_[label].push_back(text);
      ++count_;
      changed_.notify_all();
    };
  }
  std::map<std::string, std::vector<std::string>> wait_for(std::size_t count) {
    rt::MutexLock lock(mutex_);
    while (count_ < count) changed_.wait(mutex_);
    return told_;
  }

 private:
  rt::Mutex mutex_;
  rt::Condition changed_;
  std::map<std::string, std::vector<std::string>> told_ BASALT_GUARDED_BY(mutex_);
  std::size_t count_ BASALT_GUARDED_BY(mutex_) = 0;
};

class LaterWritesTest : public ::testing::Test {
 protected:
  LaterWritesTest() { open(); }
  ~LaterWritesTest() override { EXPECT_TRUE(store_->close().ok()); }

  void open() {
    StoreOptions options;
    options.durability = Durability::Full;
    options.directory = folder_.path();
    store_ = open_or_fail(*runtime_, options);
    later_ = dynamic_cast<LaterWrites*>(store_.get());
    ASSERT_NE(later_, nullptr);
    pods_ = store_->resource("/pods");
  }

  const std::unique_ptr<rt::Runtime> runtime_ = rt::make_real_runtime();
  TemporaryDirectory folder_;
  std::unique_ptr<Store> store_;
  LaterWrites* later_ = nullptr;
  ResourceId pods_{};
};

TEST_F(LaterWritesTest, AreVisibleAndDurableWhenTold) {
  constexpr int kCount = 300;
  Results results(*runtime_);
  for (int i = 0; i < kCount; ++i) {
    const std::string name = "p" + std::to_string(i);
    // The write's texts are gone when write_later() has returned.
    later_->write_later(TestWrite::create(pods_, "ns", name, "d").view(), results.for_write(name));
  }
  const auto told = results.wait_for(kCount);
  for (int i = 0; i < kCount; ++i) {
    const std::string name = "p" + std::to_string(i);
    const EntryRef entry = store_->get(pods_, "ns", name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(told.at(name), std::vector<std::string>{describe(*entry)});
  }
  EXPECT_TRUE(store_->close().ok());
  store_.reset();
  open();
  EXPECT_EQ(store_->count(pods_, "ns"), static_cast<std::size_t>(kCount));
}

TEST_F(LaterWritesTest, AreRefusedAsOthersAre) {
  Results results(*runtime_);
  ASSERT_TRUE(TestWrite::create(pods_, "ns", "a", "1").on(*store_).ok());
  later_->write_later(TestWrite::create(pods_, "ns", "a", "2").view(), results.for_write("taken"));
  later_->write_later(TestWrite::update(pods_, "ns", "b", "2").view(), results.for_write("missing"));
  later_->write_later(TestWrite::update(pods_, "ns", "a", "2", 999).view(), results.for_write("old"));
  later_->write_later(TestWrite::create(pods_, "ns", "with/slash", "2").view(), results.for_write("name"));
  const auto told = results.wait_for(4);
  EXPECT_EQ(told.at("taken"), std::vector<std::string>{"AlreadyExists"});
  EXPECT_EQ(told.at("missing"), std::vector<std::string>{"NotFound"});
  EXPECT_EQ(told.at("old"), std::vector<std::string>{"Conflict"});
  EXPECT_EQ(told.at("name"), std::vector<std::string>{"BadRequest"});
}

// Several of one key come into one group: those after the first are put off, and are told once all the same.
TEST_F(LaterWritesTest, OfOneKeyAreCarriedOutInOrder) {
  constexpr int kCount = 50;
  Results results(*runtime_);
  ASSERT_TRUE(TestWrite::create(pods_, "ns", "a", "start").on(*store_).ok());
  for (int i = 0; i < kCount; ++i) {
    const std::string data = std::to_string(i);
    later_->write_later(TestWrite::update(pods_, "ns", "a", data).view(), results.for_write(data));
  }
  const auto told = results.wait_for(kCount);
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(told.at(std::to_string(i)).size(), 1u) << i;
    EXPECT_EQ(told.at(std::to_string(i)).front(), "ns/a=" + std::to_string(i) + "@" + std::to_string(3 + i));
  }
  EXPECT_EQ(store_->get(pods_, "ns", "a")->mod_revision(), 2 + kCount);
}

TEST_F(LaterWritesTest, MayBeMadeByWhoIsTold) {
  Results results(*runtime_);
  auto told_second = results.for_write("second");
  later_->write_later(TestWrite::create(pods_, "ns", "first", "1").view(),
                      [this, told_second](const Result<EntryRef>& result) {
                        EXPECT_TRUE(result.ok());
                        later_->write_later(TestWrite::create(pods_, "ns", "second", "2").view(), told_second);
                      });
  EXPECT_EQ(results.wait_for(1).at("second"), std::vector<std::string>{"ns/second=2@3"});
}

TEST_F(LaterWritesTest, AreAllToldWhenTheStoreCloses) {
  constexpr int kCount = 200;
  Results results(*runtime_);
  for (int i = 0; i < kCount; ++i) {
    later_->write_later(TestWrite::create(pods_, "ns", "p" + std::to_string(i), "d").view(), results.for_write("any"));
  }
  EXPECT_TRUE(store_->close().ok());
  EXPECT_EQ(results.wait_for(kCount).at("any").size(), static_cast<std::size_t>(kCount));
  later_->write_later(TestWrite::create(pods_, "ns", "late", "d").view(), results.for_write("late"));
  EXPECT_EQ(results.wait_for(kCount + 1).at("late"), std::vector<std::string>{"ServiceUnavailable"});
}

}  // namespace
}  // namespace basalt::apiserver
