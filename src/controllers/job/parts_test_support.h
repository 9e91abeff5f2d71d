#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "api/gen/batch_job.h"
#include "controllers/job/plugins/plugin.h"
#include "controllers/job/pod_builder.h"
#include "json/reader.h"
#include "json/value.h"

// What the tests of pods, pod groups and plugins share.
namespace basalt::controllers::job::testing {

inline api::batch::Job job_of(std::string_view text) {
  auto job = json::from_text<api::batch::Job>(text);
  EXPECT_TRUE(job.ok()) << (job.ok() ? "" : job.error().to_string());
  return job.ok() ? std::move(job).value() : api::batch::Job();
}

// A job "train" in "ml" with this spec.
inline api::batch::Job job_with_spec(std::string_view spec) {
  return job_of(R"({"metadata":{"name":"train","namespace":"ml","uid":"u-1"},"spec":)" + std::string(spec) + "}");
}

inline std::string pretty(std::string_view text) {
  auto value = json::Value::parse(text);
  EXPECT_TRUE(value.ok()) << (value.ok() ? "" : value.error().to_string() + " in\n" + std::string(text));
  return value.ok() ? value->to_pretty_text() : std::string();
}

inline PluginSet plugins_of(const api::batch::Job& job) {
  auto set = PluginSet::make(job.spec);
  EXPECT_TRUE(set.ok()) << (set.ok() ? "" : set.error().to_string());
  return std::move(set).value();
}

inline json::Value pod_of(const api::batch::Job& job, std::size_t task, std::int32_t index,
                          PodBuildOptions options = {}) {
  auto builder = PodBuilder::make(job, task, plugins_of(job), std::move(options));
  EXPECT_TRUE(builder.ok()) << (builder.ok() ? "" : builder.error().to_string());
  if (!builder.ok()) return {};
  auto text = builder->build(index);
  EXPECT_TRUE(text.ok());
  return json::Value::parse(text.value()).value();
}

inline const json::Value& container_of(const json::Value& pod, std::size_t number = 0,
                                       std::string_view list = "containers") {
  const json::Value* const containers = pod.find_path({"spec", list});
  static const json::Value none;
  EXPECT_TRUE(containers != nullptr && containers->is_array() && containers->as_array().size() > number);
  if (containers == nullptr || !containers->is_array() || containers->as_array().size() <= number) return none;
  return containers->as_array()[number];
}

// The value of a variable; "absent" if there is none, "reference" if it is no literal.
inline std::string env_of(const json::Value& container, std::string_view name) {
  std::string value = "absent";
  if (const json::Value* const env = container.find("env")) {
    for (const json::Value& variable : env->as_array()) {
      if (variable.string_at({"name"}) != name) continue;
      const json::Value* const literal = variable.find("value");
      value = literal == nullptr ? "reference" : literal->as_string();
    }
  }
  return value;
}

}  // namespace basalt::controllers::job::testing
