#include "api/string_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "json/reader.h"
#include "json/writer.h"

namespace basalt::api {
namespace {

TEST(StringMap, EmptyIsEightBytesAndNoHeap) {
  const StringMap map;
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.size(), 0);
  EXPECT_EQ(map.begin(), map.end());
  EXPECT_EQ(map.memory_bytes(), 0);
  EXPECT_EQ(map.get("a"), "");
  EXPECT_EQ(map, StringMap());
}

TEST(StringMap, IsSortedAndTheLastOfAKeyWins) {
  const StringMap map{{"b", "2"}, {"a", "1"}, {"b", "3"}, {"", "empty"}, {"c", ""}};
  EXPECT_EQ(map.to_string(), "=empty,a=1,b=3,c=");
  EXPECT_EQ(map.size(), 4);
  EXPECT_EQ(map.find("c"), "");
  EXPECT_EQ(map.find("d"), std::nullopt);
  EXPECT_EQ(map.get("b"), "3");
  EXPECT_TRUE(map.contains(""));
  EXPECT_EQ(map.memory_bytes(), 8 + 4 * 8 + 10);
}

TEST(StringMap, CopiesShareUntilOneChanges) {
  StringMap a{{"x", "1"}};
  const StringMap b = a;
  const std::string_view view = b.get("x");
  EXPECT_EQ(a.get("x").data(), view.data());
  a.set("x", "2");
  EXPECT_EQ(a.get("x"), "2");
  EXPECT_EQ(b.get("x"), "1");
  a = b;
  EXPECT_EQ(a, b);
  a = StringMap(b);
  StringMap moved = std::move(a);
  EXPECT_EQ(moved, b);
  EXPECT_EQ(view, "1");
  StringMap& self = moved;
  moved = self;
  EXPECT_EQ(moved.get("x"), "1");
}

TEST(StringMap, SetTakesViewsOfItself) {
  StringMap map{{"a", "value"}};
  map.set(map.get("a"), map.get("a"));
  map.set("a", map.get("value").substr(1));
  EXPECT_EQ(map.to_string(), "a=alue,value=value");
  EXPECT_TRUE(map.erase(map.begin().operator*().first));
  EXPECT_EQ(map.to_string(), "value=value");
}

TEST(StringMap, EraseAndMerge) {
  StringMap map{{"a", "1"}, {"b", "2"}};
  EXPECT_FALSE(map.erase("c"));
  EXPECT_TRUE(map.erase("a"));
  EXPECT_TRUE(map.erase("b"));
  EXPECT_TRUE(map.empty());
  map.merge({{"a", "1"}, {"b", "2"}});
  map.merge({{"b", "3"}, {"c", "4"}});
  EXPECT_EQ(map.to_string(), "a=1,b=3,c=4");
  map.clear();
  EXPECT_TRUE(map.empty());
}

TEST(StringMap, Subset) {
  const StringMap labels{{"app", "x"}, {"tier", "db"}};
  EXPECT_TRUE(StringMap().is_subset_of(labels));
  EXPECT_TRUE((StringMap{{"tier", "db"}}).is_subset_of(labels));
  EXPECT_FALSE((StringMap{{"tier", "web"}}).is_subset_of(labels));
  EXPECT_FALSE((StringMap{{"a", ""}}).is_subset_of(labels));
  EXPECT_FALSE(labels.is_subset_of(StringMap{{"tier", "db"}}));
}

TEST(StringMap, EqualityLooksAtBoundariesToo) {
  EXPECT_NE((StringMap{{"ab", "c"}}), (StringMap{{"a", "bc"}}));
  EXPECT_EQ((StringMap{{"a", "b"}, {"c", "d"}}), (StringMap{{"c", "d"}, {"a", "b"}}));
  EXPECT_NE((StringMap{{"a", "b"}}), (StringMap{{"a", "c"}}));
  EXPECT_NE((StringMap{{"a", "b"}}), StringMap());
}

TEST(StringMap, Codec) {
  const auto map = json::from_text<StringMap>(R"({"b":"2","a":"x\ny","c":null,"b":"3"})");
  ASSERT_TRUE(map.ok()) << map.error().message;
  EXPECT_EQ(json::to_text(*map), R"({"a":"x\ny","b":"3","c":""})");
  EXPECT_EQ(json::to_text(StringMap()), "{}");
  EXPECT_TRUE(json::from_text<StringMap>("null")->empty());
  EXPECT_TRUE(json::from_text<StringMap>("{}")->empty());
  for (const char* bad : {"[]", R"({"a":1})", R"({"a":{}})", "1"}) EXPECT_FALSE(json::from_text<StringMap>(bad).ok());
}

TEST(StringMap, BehavesLikeAStdMap) {
  std::mt19937 random(3);
  StringMap map;
  std::map<std::string, std::string> model;
  std::vector<std::pair<StringMap, std::map<std::string, std::string>>> snapshots;
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = "k" + std::to_string(random() % 30);
    const std::string value(random() % 5, static_cast<char>('a' + random() % 26));
    switch (random() % 4) {
      case 0:
      case 1:
        map.set(key, value);
        model[key] = value;
        break;
      case 2:
        ASSERT_EQ(map.erase(key), model.erase(key) > 0);
        break;
      default:
        ASSERT_EQ(map.find(key).has_value(), model.contains(key));
    }
    ASSERT_EQ(map.size(), model.size());
    if (i % 1000 == 0) snapshots.emplace_back(map, model);
  }
  for (const auto& [shared, expected] : snapshots) {
    std::map<std::string, std::string> actual;
    for (const auto [key, value] : shared) actual.emplace(key, value);
    EXPECT_EQ(actual, expected);
  }
}

TEST(StringMap, CopiesMayBeUsedFromManyThreads) {
  const StringMap shared{{"a", "1"}, {"b", "2"}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([copy = shared] {
      for (int j = 0; j < 1000; ++j) {
        StringMap mine = copy;
        mine.set("a", std::to_string(j));
        ASSERT_EQ(copy.get("a"), "1");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Labels and annotations of a pod of a gang job: the budget of a cached pod is 1.5 KB in all.
TEST(StringMap, MemoryOfAPodsLabels) {
  const StringMap labels{{"volcano.sh/job-name", "resnet-training"},
                         {"volcano.sh/job-namespace", "team-a"},
                         {"volcano.sh/queue-name", "default"},
                         {"volcano.sh/task-index", "17"},
                         {"volcano.sh/task-spec", "worker"}};
  EXPECT_LE(labels.memory_bytes(), 220);
}

}  // namespace
}  // namespace basalt::api
