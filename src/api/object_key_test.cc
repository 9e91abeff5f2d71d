#include "api/object_key.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace basalt::api {
namespace {

TEST(ObjectKey, TextAndBack) {
  EXPECT_EQ((ObjectKey{"ns", "a"}.to_string()), "ns/a");
  EXPECT_EQ((ObjectKey{"", "node-1"}.to_string()), "node-1");
  for (const ObjectKey& key : {ObjectKey{"ns", "a"}, ObjectKey{"", "node-1"}, ObjectKey{}}) {
    EXPECT_EQ(ObjectKey::parse(key.to_string()), key);
  }
  EXPECT_TRUE(ObjectKey().empty());
}

TEST(ObjectKey, OrderAndHash) {
  EXPECT_LT((ObjectKey{"a", "z"}), (ObjectKey{"b", "a"}));
  EXPECT_LT((ObjectKey{"a", "a"}), (ObjectKey{"a", "b"}));
  const std::unordered_set<ObjectKey> keys = {{"a", "b"}, {"b", "a"}, {"a", "b"}};
  EXPECT_EQ(keys.size(), 2);
  EXPECT_NE(std::hash<ObjectKey>()({"a", "b"}), std::hash<ObjectKey>()({"b", "a"}));
}

}  // namespace
}  // namespace basalt::api
