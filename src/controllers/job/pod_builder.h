#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/batch_job.h"
#include "base/result.h"
#include "controllers/job/plugins/plugin.h"

namespace basalt::controllers::job {

// What becomes of a job volume without a claim, or whose claim does not exist.
struct PodBuildOptions {
  bool forwarding = false;                    // the queue has extendClusters
  std::vector<std::string> empty_dir_claims;  // claim names that are mounted as emptyDir (option "missing claim")
};

// "J-T-i"
[[nodiscard]] std::string pod_name(std::string_view job, std::string_view task, std::int32_t index);

// Name of a job volume inside the pods: "J-" and 12 letters that follow from the job's UID and the claim (of a volume
// without claim: its mount path), so that a pod that is built again is the same. A long job name is cut to fit.
[[nodiscard]] std::string volume_name(const api::batch::Job& job, const api::batch::VolumeSpec& volume);

// Makes the pods of one task. make() does the work: it builds one pod, plugins included, and finds the places where the
// index stands; build() only writes the number there. Immutable; any thread; keeps nothing of its arguments.
class PodBuilder {
 public:
  // An error is the user's to fix (a plugin that misses a task, a template that is no object) and names the job and
  // task.
  [[nodiscard]] static Result<PodBuilder> make(const api::batch::Job& job, std::size_t task, const PluginSet& plugins,
                                               PodBuildOptions options);
  // The JSON text of pod number `index`, for a Create. Fails only for an index below zero.
  [[nodiscard]] Result<std::string> build(std::int32_t index) const;

 private:
  // Where a number belongs: index + operand, or index / operand.
  struct Gap {
    std::size_t position = 0;  // in text_
    bool is_quotient = false;
    std::int64_t operand = 0;
  };

  PodBuilder() = default;

  std::string text_;  // the pod without the numbers
  std::vector<Gap> gaps_;
};

}  // namespace basalt::controllers::job
