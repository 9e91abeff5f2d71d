#include "controllers/hyperjob/problems.h"

#include <algorithm>
#include <array>

namespace basalt::controllers::hyperjob {
namespace {

constexpr std::array kOrder = {
    problem_reasons::kInvalidSpec,       problem_reasons::kTooManyJobs,  problem_reasons::kNameConflict,
    problem_reasons::kTemplateImmutable, problem_reasons::kChildRefused, problem_reasons::kUnknownCluster,
    problem_reasons::kNotScheduled,      problem_reasons::kHeldBack,     problem_reasons::kMemberRefused,
};

std::size_t rank_of(std::string_view reason) {
  return static_cast<std::size_t>(std::find(kOrder.begin(), kOrder.end(), reason) - kOrder.begin());
}

// At most kProblemTextMax bytes, cut between characters.
std::string shortened(const std::string& text) {
  if (text.size() <= kProblemTextMax) return text;
  std::size_t end = kProblemTextMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

std::optional<api::meta::Condition> stalled_condition(const std::vector<Problem>& problems) {
  if (problems.empty()) return std::nullopt;
  api::meta::Condition condition;
  condition.type = kStalled;
  condition.status = "True";
  std::size_t gravest = kOrder.size();
  std::size_t shown = 0;
  for (const Problem& problem : problems) {
    if (const std::size_t rank = rank_of(problem.reason); rank < gravest) {
      gravest = rank;
      condition.reason = problem.reason;
    }
    if (shown++ >= kProblemsShown) continue;
    if (!condition.message.empty()) condition.message += "; ";
    condition.message += problem.about + ": " + shortened(problem.message);
  }
  if (shown > kProblemsShown) condition.message += "; and " + std::to_string(shown - kProblemsShown) + " more";
  return condition;
}

}  // namespace basalt::controllers::hyperjob
