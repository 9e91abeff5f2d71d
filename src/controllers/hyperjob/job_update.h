#pragma once

#include <cstdint>
#include <string>

#include "json/value.h"

namespace basalt::controllers::hyperjob {

// What a changed template means for a job that exists already. Pure.
//
// The job webhook lets only minAvailable, priorityClassName, tasks[].replicas and tasks[].minAvailable of an existing
// job change, and fills in defaults when a job is made, never again.

// The specification that the live job would have, had it been made of the new template: what the webhook and the job
// controller filled in is taken from the live job; gang sizes that the template leaves open follow the new replicas.
[[nodiscard]] json::Value wanted_spec(const json::Value& template_spec, const json::Value& live_spec);

struct JobUpdate {
  enum class Kind : std::uint8_t {
    Same,     // the live job is what the template says
    Allowed,  // `patch` makes it so
    Refused   // the job API would refuse it: `path` differs
  };
  Kind kind = Kind::Same;
  json::Value patch;  // a merge patch of spec
  std::string path;   // "spec.tasks[0].template.spec.containers[0].image"
};
[[nodiscard]] JobUpdate plan_job_update(const json::Value& template_spec, const json::Value& live_spec);

}  // namespace basalt::controllers::hyperjob
