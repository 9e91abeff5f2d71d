#pragma once

// Helpers of this folder's tests: objects from YAML, a cluster of a few queues, reviews by path.

#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json/patch.h"
#include "webhooks/admission_rules.h"
#include "webhooks/cluster_view.h"
#include "webhooks/fields.h"
#include "webhooks/resource_groups.h"
#include "webhooks/review.h"
#include "webhooks/rule_context.h"
#include "yaml/reader.h"

namespace basalt::webhooks::testing {

inline json::Value from_yaml(std::string_view text) {
  auto value = yaml::read(text);
  EXPECT_TRUE(value.ok()) << value.error().message << "\n" << text;
  return value.ok() ? std::move(*value) : json::Value();
}

// One queue of the cluster, as flow YAML: "{metadata: {name: a}, spec: {...}, status: {state: Open}}".
inline void put_queue(StoredClusterView& cluster, std::string_view text) {
  const Done done = cluster.put_queue(from_yaml(text));
  EXPECT_TRUE(done.ok()) << done.error().message;
}

class RulesTest : public ::testing::Test {
 protected:
  RulesTest() {
    put_queue(cluster_, "{metadata: {name: root}, spec: {weight: 1}, status: {state: Open}}");
    put_queue(cluster_, "{metadata: {name: default}, spec: {parent: root}, status: {state: Open}}");
  }

  ReviewAnswer send(std::string_view path, Operation operation, const json::Value* object,
                    const json::Value* old_object = nullptr) {
    const Hook* hook = find_hook(path);
    EXPECT_NE(nullptr, hook) << path;
    ReviewRequest request;
    request.operation = operation;
    request.group = hook->group;
    request.version = hook->version;
    request.resource = hook->resource;
    request.ns = "team";
    const json::Value* named = object != nullptr ? object : old_object;
    if (named != nullptr) request.name = named->string_at({"metadata", "name"});
    request.object = object;
    request.old_object = old_object;
    const RuleContext context{options_, cluster_, groups_, probes_};
    return review(*hook, context, request);
  }
  ReviewAnswer create(std::string_view path, std::string_view object) {
    const json::Value value = from_yaml(object);
    return send(path, Operation::Create, &value);
  }
  ReviewAnswer update(std::string_view path, std::string_view before, std::string_view after) {
    const json::Value old_value = from_yaml(before);
    const json::Value value = from_yaml(after);
    return send(path, Operation::Update, &value, &old_value);
  }
  ReviewAnswer remove(std::string_view path, std::string_view name) {
    json::Value old_value = json::Object{{"metadata", json::Object{{"name", std::string(name)}}}};
    return send(path, Operation::Delete, nullptr, &old_value);
  }
  // The object after the patch of a mutating hook.
  json::Value mutated(std::string_view path, std::string_view object) {
    const json::Value value = from_yaml(object);
    const ReviewAnswer answer = send(path, Operation::Create, &value);
    EXPECT_TRUE(answer.allowed) << answer.message;
    const auto result = json::apply_json_patch(value, json::Value(answer.patch));
    EXPECT_TRUE(result.ok()) << result.error().message << "\n" << json::Value(answer.patch).to_pretty_text();
    return result.ok() ? *result : json::Value();
  }

  RuleOptions options_;
  StoredClusterView cluster_;
  ResourceGroups* groups_ = nullptr;
  std::vector<TemplateProbe*> probes_;
};

// A job with one task, into which a test writes what it needs: `extra` lines stand below spec.
inline std::string job_yaml(std::string_view spec_lines, std::string_view name = "j") {
  return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: " + std::string(name) +
         ", namespace: team}\nspec:\n" + std::string(spec_lines);
}
inline const std::string kTemplate = "template: {spec: {containers: [{name: c, image: busybox}]}}";
inline const std::string kOneTask = "  tasks: [{name: worker, replicas: 2, " + kTemplate + "}]\n";

#define EXPECT_ALLOWED(answer)                   \
  do {                                           \
    const ReviewAnswer& given = (answer);        \
    EXPECT_TRUE(given.allowed) << given.message; \
  } while (false)
#define EXPECT_DENIED(answer, fragment)                         \
  do {                                                          \
    const ReviewAnswer& given = (answer);                       \
    EXPECT_FALSE(given.allowed) << "expected: " << fragment;    \
    EXPECT_THAT(given.message, ::testing::HasSubstr(fragment)); \
    EXPECT_EQ(400, given.code);                                 \
  } while (false)

}  // namespace basalt::webhooks::testing
