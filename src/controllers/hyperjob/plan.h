#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "api/gen/karmada_policy.h"
#include "api/gen/training.h"
#include "controllers/hyperjob/problems.h"
#include "json/value.h"

namespace basalt::controllers::hyperjob {

using JobPtr = std::shared_ptr<const api::batch::Job>;
using PolicyPtr = std::shared_ptr<const api::karmada::PropagationPolicy>;
using JobStates = std::map<std::string, api::batch::JobState>;

// What the caches show about one hyper job.
struct Observed {
  std::map<std::string, JobPtr> jobs;         // by name: those we control
  std::map<std::string, PolicyPtr> policies;  // likewise
  std::map<std::string, JobPtr> others;       // jobs of wanted names that we do not control
  std::map<std::string, PolicyPtr> other_policies;
  // Children whose success we saw although they are gone and the status does not say it yet.
  JobStates completed;
};

// What is to be done about one of the two objects of a child.
enum class Step : std::uint8_t {
  Nothing,
  Create,
  Label,     // only our labels are missing or old
  Check,     // it may not be what we want: read it and decide
  Repair,    // its fields are not what we want (policies)
  Wait,      // it is going, or its predecessor is; we look again when it is gone
  Conflict,  // somebody else has the name
};
[[nodiscard]] std::string_view to_string(Step step);

// One entry of spec.replicatedJobs, read once a pass.
struct Group {
  std::string name;
  std::int64_t replicas = 0;
  std::vector<std::string> clusters;
  json::Value template_spec;
  std::string template_hash;
  bool is_usable = true;  // false: it has a problem, and its children are left as they are
};

struct ChildPlan {
  std::string name;
  std::size_t group = 0;  // index into Plan::groups
  std::int64_t index = 0;
  std::string policy_hash;
  std::string job_uid;  // of the job that is there
  Step policy = Step::Nothing;
  Step job = Step::Nothing;
};

struct StaleChild {
  std::string name;
  std::string uid;
};

struct Plan {
  std::vector<Group> groups;  // in the order of the specification
  std::vector<ChildPlan> children;
  std::vector<StaleChild> stale_jobs;  // by name
  std::vector<StaleChild> stale_policies;
  std::vector<Problem> problems;
  [[nodiscard]] bool has_writes() const;
};

[[nodiscard]] bool is_terminal(const api::training::HyperJobStatus& status);
// Completed, Failed, Aborted or Terminated.
[[nodiscard]] bool is_finished_phase(std::string_view phase);
// What the hyper job's status says about a child; "" if nothing.
[[nodiscard]] std::string_view recorded_phase(const api::training::HyperJobStatus& status, std::string_view child);
// The jobs that the specification asks for.
[[nodiscard]] std::int32_t split_count(const api::training::HyperJobSpec& spec);

// Children wanted against children observed. Pure.
//
// A child that is finished is left alone: a write to it, or to where it may run, could make it run again. A child that
// succeeded is not made again even if it is gone.
[[nodiscard]] Plan plan_children(const api::training::HyperJob& hyper_job, const Observed& observed);

}  // namespace basalt::controllers::hyperjob
