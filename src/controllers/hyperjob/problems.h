#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/gen/meta.h"

namespace basalt::controllers::hyperjob {

// Why a hyper job, or one child of it, does not get on. All of a pass become one condition of type Stalled, which goes
// when they do. It is no end: only Completed and Failed are.
inline constexpr std::string_view kStalled = "Stalled";

namespace problem_reasons {
inline constexpr std::string_view kInvalidSpec = "InvalidSpec";              // admission would have refused it
inline constexpr std::string_view kTooManyJobs = "TooManyJobs";              // more than kChildrenMax
inline constexpr std::string_view kNameConflict = "NameConflict";            // somebody else has a child's name
inline constexpr std::string_view kTemplateImmutable = "TemplateImmutable";  // the job API cannot take the change
inline constexpr std::string_view kChildRefused = "ChildRefused";            // the API server refuses a child
inline constexpr std::string_view kUnknownCluster = "UnknownCluster";        // a name that no cluster has
inline constexpr std::string_view kNotScheduled = "NotScheduled";            // Karmada finds no cluster
inline constexpr std::string_view kHeldBack = "HeldBack";                    // the binding is suspended
inline constexpr std::string_view kMemberRefused = "MemberRefused";          // the member does not take the job
}  // namespace problem_reasons

struct Problem {
  std::string_view reason;  // one of the above
  std::string about;        // the child or the group
  std::string message;
};

// The condition that tells of all of them: the reason of the gravest (in the order above), then one line for each, at
// most kProblemsShown. Nothing if there are none.
inline constexpr std::size_t kProblemsShown = 8;
inline constexpr std::size_t kProblemTextMax = 400;
[[nodiscard]] std::optional<api::meta::Condition> stalled_condition(const std::vector<Problem>& problems);

}  // namespace basalt::controllers::hyperjob
