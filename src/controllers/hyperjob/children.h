#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "api/gen/karmada_policy.h"
#include "api/gen/training.h"
#include "base/result.h"
#include "json/value.h"

namespace basalt::controllers::hyperjob {

// The content of the two children that a hyper job has for each of its jobs: the job itself and the propagation policy
// that takes it to one cluster. Pure.

// A label value has at most 63 characters, and so has a job's name.
inline constexpr std::size_t kNameMax = 63;
// Jobs of one hyper job. More are refused with a condition: a typing error must not fill the control plane.
inline constexpr std::int64_t kChildrenMax = 5'000;

// "<hyper job>-<group>-<index>": the name of the job and of its policy.
[[nodiscard]] std::string child_name(std::string_view hyper_job, std::string_view group, std::int64_t index);
// The binding that Karmada makes for a job of this name.
[[nodiscard]] std::string binding_name(std::string_view job);

// The job's specification: the template without what a Go program would leave out. What is inside pod templates stays.
[[nodiscard]] json::Value job_spec_of_template(const json::Value& template_spec);
// The policy's specification, as it is hashed and written.
[[nodiscard]] json::Value policy_spec(std::string_view job, const std::vector<std::string>& clusters);

// What a child is made of.
struct ChildText {
  std::string_view name;
  std::string_view group;
  std::string_view hash;
};
[[nodiscard]] json::Value job_body(const api::training::HyperJob& owner, const ChildText& child, json::Value spec);
[[nodiscard]] json::Value policy_body(const api::training::HyperJob& owner, const ChildText& child, json::Value spec);

// Whether the policy says what we want it to. What Karmada or others added beside our fields does not matter.
[[nodiscard]] bool policy_matches(const api::karmada::PropagationSpec& found, std::string_view job,
                                  const std::vector<std::string>& clusters);
// Whether it sends the job elsewhere than we want.
[[nodiscard]] bool placement_matches(const api::karmada::Placement& found, const std::vector<std::string>& clusters);
// A merge patch that restores our fields of a policy and leaves the others alone.
[[nodiscard]] json::Value policy_spec_patch(std::string_view job, const std::vector<std::string>& clusters);

}  // namespace basalt::controllers::hyperjob
