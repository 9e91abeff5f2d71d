#include "json/strategic_merge.h"

#include <gtest/gtest.h>

#include "json/strategic_core.h"
#include "json/testing/random_value.h"

namespace basalt::json {
namespace {

Value parsed(std::string_view text) {
  auto value = Value::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *std::move(value) : Value();
}

std::string merged(std::string_view kind, std::string_view live, std::string_view patch) {
  const std::string_view group = kind == "Deployment" ? "apps" : kind == "PodDisruptionBudget" ? "policy" : "";
  const auto result = apply_strategic_merge(parsed(live), parsed(patch), *core_strategic_schema(group, kind));
  return result.ok() ? result->to_text()
                     : std::string(to_string(result.error().reason)) + ": " + result.error().message;
}

struct Case {
  const char* kind;
  const char* live;
  const char* patch;
  const char* result;
};

void check(std::initializer_list<Case> cases) {
  for (const Case& c : cases) EXPECT_EQ(merged(c.kind, c.live, c.patch), c.result) << c.patch;
}

TEST(StrategicMergeTest, Objects) {
  check({
      {"Pod", R"({"metadata":{"labels":{"a":"1","b":"2"}}})", R"({"metadata":{"labels":{"b":null,"c":"3"}}})",
       R"({"metadata":{"labels":{"a":"1","c":"3"}}})"},
      {"Pod", R"({"a":1})", R"({"a":{"b":{"c":null,"d":1}}})", R"({"a":{"b":{"d":1}}})"},
      {"Pod", R"({"spec":{"x":{"a":1,"b":2}}})", R"({"spec":{"x":{"$patch":"replace","c":3}}})",
       R"({"spec":{"x":{"c":3}}})"},
      {"Pod", R"({"spec":{"x":{"a":1}}})", R"({"spec":{"x":{"$patch":"delete"}}})", R"({"spec":{"x":{}}})"},
      {"Pod", R"({"spec":{"x":{"a":1}}})", R"({"spec":{"x":{"$patch":"merge","b":2}}})",
       R"({"spec":{"x":{"a":1,"b":2}}})"},
      {"Pod", R"({"spec":{}})", R"({"spec":{"x":{"$patch":"delete"},"y":{"$patch":"replace","a":1}}})",
       R"({"spec":{"y":{"a":1}}})"},
      {"Pod", R"({"spec":{"x":{}}})", R"({"spec":{"x":{"$patch":"frob"}}})",
       "BadRequest: spec.x: $patch must be replace, delete or merge"},
      // A map that is replaced as a whole.
      {"PodDisruptionBudget", R"({"spec":{"selector":{"matchLabels":{"a":"1"}}}})",
       R"({"spec":{"selector":{"matchLabels":{"b":"2"}}}})", R"({"spec":{"selector":{"matchLabels":{"b":"2"}}}})"},
      {"Pod", R"(1)", R"({"a":1})", R"({"a":1})"},
      {"Pod", R"({})", R"([])", "BadRequest: a strategic merge patch must be an object"},
  });
}

TEST(StrategicMergeTest, KeyedLists) {
  check({
      {"Pod", R"({"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"2"}]}})",
       R"({"spec":{"containers":[{"name":"b","image":"3","env":[{"name":"X","value":"y"}]}]}})",
       R"({"spec":{"containers":[{"image":"1","name":"a"},{"env":[{"name":"X","value":"y"}],"image":"3","name":"b"}]}})"},
      // The lists of lists.
      {"Deployment",
       R"({"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"x"},{"containerPort":81}]}]}}}})",
       R"({"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"y"}]}]}}}})",
       R"({"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":80,"name":"y"},{"containerPort":81}]}]}}}})"},
      // A new element goes behind the one that precedes it in the patch.
      {"Pod", R"({"spec":{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}})",
       R"({"spec":{"containers":[{"name":"b"},{"name":"x"}]}})",
       R"({"spec":{"containers":[{"name":"a"},{"name":"b"},{"name":"x"},{"name":"c"}]}})"},
      {"Pod", R"({"spec":{"containers":[{"name":"a"},{"name":"b"}]}})",
       R"({"spec":{"containers":[{"name":"a","$patch":"delete"},{"name":"nope","$patch":"delete"}]}})",
       R"({"spec":{"containers":[{"name":"b"}]}})"},
      {"Pod", R"({"spec":{"containers":[{"name":"a"},{"name":"b"}]}})",
       R"({"spec":{"containers":[{"$patch":"replace"},{"name":"c","x":null}]}})",
       R"({"spec":{"containers":[{"name":"c"}]}})"},
      {"Pod", R"({"spec":{}})", R"({"spec":{"containers":[{"name":"a","x":null},{"name":"b","$patch":"delete"}]}})",
       R"({"spec":{"containers":[{"name":"a"}]}})"},
      {"Pod", R"({"spec":{"containers":[{"name":"a"}]}})", R"({"spec":{"containers":[{"image":"x"}]}})",
       "BadRequest: spec.containers: an element of the patch lacks the merge key \"name\""},
      {"Pod", R"({"spec":{"containers":[{"image":"a"}]}})", R"({"spec":{"containers":[{"name":"x"}]}})",
       "BadRequest: spec.containers: an element of the live list lacks the merge key \"name\""},
      {"Pod", R"({"spec":{"containers":[{"name":"a"}]}})", R"({"spec":{"containers":["x"]}})",
       "BadRequest: spec.containers: an element of the patch is no object"},
      {"Pod", R"({"spec":{"containers":[{"name":"a"}]}})", R"({"spec":{"containers":null}})", R"({"spec":{}})"},
      {"Service", R"({"spec":{"ports":[{"port":80,"name":"a"}]}})",
       R"({"spec":{"ports":[{"port":80,"name":"b"},{"port":81}]}})",
       R"({"spec":{"ports":[{"name":"b","port":80},{"port":81}]}})"},
      {"Pod", R"({"status":{"conditions":[{"type":"Ready","status":"False","reason":"x"}]}})",
       R"({"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Other","status":"True"}]}})",
       R"({"status":{"conditions":[{"reason":"x","status":"True","type":"Ready"},{"status":"True","type":"Other"}]}})"},
  });
}

TEST(StrategicMergeTest, ListsThatAreReplaced) {
  check({
      {"Pod", R"({"spec":{"tolerations":[{"key":"a"},{"key":"b"}]}})", R"({"spec":{"tolerations":[{"key":"c"}]}})",
       R"({"spec":{"tolerations":[{"key":"c"}]}})"},
      {"Pod", R"({"spec":{"containers":[{"name":"a","args":["1","2"]}]}})",
       R"({"spec":{"containers":[{"name":"a","args":["3"]}]}})",
       R"({"spec":{"containers":[{"args":["3"],"name":"a"}]}})"},
      {"Pod", R"({"spec":{"x":[1]}})", R"({"spec":{"x":{"a":1}}})", R"({"spec":{"x":{"a":1}}})"},
  });
}

TEST(StrategicMergeTest, ListsOfScalars) {
  check({
      {"Pod", R"({"metadata":{"finalizers":["a","b"]}})", R"({"metadata":{"finalizers":["c","a"]}})",
       R"({"metadata":{"finalizers":["c","a","b"]}})"},
      {"Pod", R"({"metadata":{"finalizers":["a","b","c"]}})",
       R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["b","x"]}})", R"({"metadata":{"finalizers":["a","c"]}})"},
      {"Pod", R"({"metadata":{"finalizers":["a"]}})",
       R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["a","b"],"finalizers":["b"]}})",
       R"({"metadata":{"finalizers":["b"]}})"},
      {"Pod", R"({"metadata":{}})", R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["a"]}})",
       R"({"metadata":{}})"},
      {"Pod", R"({"metadata":{"finalizers":["a"]}})", R"({"metadata":{"$deleteFromPrimitiveList/finalizers":1}})",
       "BadRequest: metadata.finalizers: $deleteFromPrimitiveList must be a list"},
      {"Pod", R"({"metadata":{"finalizers":["a","b"]}})",
       R"({"metadata":{"$setElementOrder/finalizers":["b","c","a"],"finalizers":["c"]}})",
       R"({"metadata":{"finalizers":["b","c","a"]}})"},
      {"Pod", R"({"metadata":{"finalizers":["a"]}})", R"({"metadata":{"finalizers":[{}]}})",
       "BadRequest: metadata.finalizers: an element is no scalar"},
  });
}

TEST(StrategicMergeTest, ElementOrder) {
  check({
      {"Pod", R"({"spec":{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}})",
       R"({"spec":{"$setElementOrder/containers":[{"name":"c"},{"name":"a"}]}})",
       R"({"spec":{"containers":[{"name":"b"},{"name":"c"},{"name":"a"}]}})"},
      {"Pod", R"({"spec":{"containers":[{"name":"a"},{"name":"b"}]}})",
       R"({"spec":{"$setElementOrder/containers":[{"name":"x"},{"name":"b"},{"name":"a"}],"containers":[{"name":"x"}]}})",
       R"({"spec":{"containers":[{"name":"x"},{"name":"b"},{"name":"a"}]}})"},
      {"Pod", R"({"spec":{}})",
       R"({"spec":{"$setElementOrder/containers":[{"name":"x"},{"name":"y"}],"containers":[{"name":"x"},{"name":"y"}]}})",
       R"({"spec":{"containers":[{"name":"x"},{"name":"y"}]}})"},
      {"Pod", R"({"spec":{"containers":[{"name":"a"}]}})",
       R"({"spec":{"$setElementOrder/containers":[{"name":"y"},{"name":"x"}],"containers":[{"name":"x"},{"name":"y"}]}})",
       "BadRequest: spec.containers: $setElementOrder does not agree with the order of the patch's list"},
      {"Pod", R"({"spec":{"containers":[{"name":"a"}]}})",
       R"({"spec":{"$setElementOrder/containers":[{"image":"y"}]}})",
       "BadRequest: spec.containers: $setElementOrder lacks the merge key \"name\""},
      {"Pod", R"({"spec":{"tolerations":[{"key":"a"}]}})", R"({"spec":{"$setElementOrder/tolerations":[{"key":"a"}]}})",
       "BadRequest: spec.tolerations: $setElementOrder names a list that is not merged"},
      {"Pod", R"({"spec":{}})", R"({"spec":{"$setElementOrder/containers":[{"name":"x"}]}})", R"({"spec":{}})"},
  });
}

TEST(StrategicMergeTest, RetainKeys) {
  check({
      {"Deployment", R"({"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}})",
       R"({"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}})",
       R"({"spec":{"strategy":{"type":"Recreate"}}})"},
      {"Pod", R"({"spec":{"volumes":[{"name":"v","emptyDir":{}},{"name":"w","emptyDir":{}}]}})",
       R"({"spec":{"volumes":[{"name":"v","$retainKeys":["name","hostPath"],"hostPath":{"path":"/x"}}]}})",
       R"({"spec":{"volumes":[{"hostPath":{"path":"/x"},"name":"v"},{"emptyDir":{},"name":"w"}]}})"},
      {"Deployment", R"({"spec":{"strategy":{}}})", R"({"spec":{"strategy":{"$retainKeys":["type"],"other":1}}})",
       "BadRequest: spec.strategy: $retainKeys does not name \"other\", which the patch sets"},
      {"Deployment", R"({"spec":{"strategy":{}}})", R"({"spec":{"strategy":{"$retainKeys":"type"}}})",
       "BadRequest: spec.strategy: $retainKeys must be a list of field names"},
  });
}

TEST(StrategicMergeTest, CoreSchemas) {
  using Kind = FieldStrategy::Kind;
  const auto strategy = [](std::string_view group, std::string_view kind,
                           std::initializer_list<std::string_view> path) {
    return core_strategic_schema(group, kind)->strategy_of(std::span(path.begin(), path.size()));
  };
  EXPECT_EQ(strategy("", "Pod", {"spec", "containers", "env"}).merge_key, "name");
  EXPECT_EQ(strategy("batch", "CronJob", {"spec", "jobTemplate", "spec", "template", "spec", "volumes"}).merge_key,
            "name");
  EXPECT_TRUE(strategy("batch", "CronJob", {"spec", "jobTemplate", "spec", "template", "spec", "volumes"}).retain_keys);
  EXPECT_EQ(strategy("batch", "CronJob", {"spec", "jobTemplate", "metadata", "finalizers"}).kind,
            Kind::MergePrimitives);
  EXPECT_EQ(strategy("", "PodTemplate", {"template", "spec", "hostAliases"}).merge_key, "ip");
  EXPECT_EQ(strategy("", "ConfigMap", {"metadata", "ownerReferences"}).merge_key, "uid");
  EXPECT_EQ(strategy("", "ConfigMap", {"data", "metadata", "ownerReferences"}).kind, Kind::Default);
  EXPECT_EQ(strategy("", "Node", {"spec", "taints"}).kind, Kind::Default);
  EXPECT_EQ(strategy("coordination.k8s.io", "Lease", {"metadata", "finalizers"}).kind, Kind::MergePrimitives);
  EXPECT_EQ(strategy("apiregistration.k8s.io", "APIService", {"status", "conditions"}).merge_key, "type");
  constexpr std::string_view kPolicies = "admissionregistration.k8s.io";
  EXPECT_EQ(strategy(kPolicies, "MutatingAdmissionPolicy", {"spec", "matchConditions"}).merge_key, "name");
  EXPECT_EQ(strategy(kPolicies, "MutatingAdmissionPolicy", {"spec", "variables"}).kind, Kind::Default);
  EXPECT_EQ(strategy(kPolicies, "ValidatingAdmissionPolicy", {"spec", "variables"}).merge_key, "name");
  EXPECT_EQ(core_strategic_schema("batch.volcano.sh", "Job"), nullptr);
}

// Applied again, a patch changes nothing more. (The second time still may: a list taken over as it came is merged
// then.)
TEST(StrategicMergeTest, RandomPatchesAreIdempotent) {
  class Everything final : public StrategicSchema {
   public:
    [[nodiscard]] FieldStrategy strategy_of(std::span<const std::string_view> path) const override {
      switch (path.back().empty() ? 0 : path.back()[0] % 4) {
        case 0:
          return {.kind = FieldStrategy::Kind::Replace};
        case 1:
          return {.kind = FieldStrategy::Kind::MergeByKey, .merge_key = "a"};
        case 2:
          return {.kind = FieldStrategy::Kind::MergePrimitives};
        default:
          return {};
      }
    }
  };
  testing::RandomValues random(23);
  int applied = 0;
  for (int round = 0; round < 2000; ++round) {
    const Value live = random.object(4);
    const Value patch = random.changed(live, 4);
    const auto once = apply_strategic_merge(live, patch, Everything());
    if (!once.ok()) continue;
    const auto twice = apply_strategic_merge(*once, patch, Everything());
    if (!twice.ok()) continue;
    ++applied;
    const auto thrice = apply_strategic_merge(*twice, patch, Everything());
    ASSERT_TRUE(thrice.ok());
    ASSERT_EQ(thrice->to_text(), twice->to_text()) << live.to_text() << "\n" << patch.to_text();
  }
  EXPECT_GT(applied, 200);
}

}  // namespace
}  // namespace basalt::json
