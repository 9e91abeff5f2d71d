#include "controllers/job/state_machine.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace basalt::controllers::job {
namespace {

using api::batch::JobSpec;
using api::batch::JobStatus;

// The whole table, one line a phase and group of actions. What is not listed for a phase is its "else".
struct Row {
  Phase phase;
  std::vector<Action> actions;  // empty: all that were not named before
  Step::Kind kind;
  Rule rule;
  std::optional<Phase> enters;
  Retain retain;
  bool counts_retry;
  bool counts_resume;
};

constexpr auto kSync = Step::Kind::Sync;
constexpr auto kKill = Step::Kind::Kill;
constexpr auto kTarget = Step::Kind::KillTarget;
constexpr auto kSoft = Retain::Finished;
const std::vector<Action> kTargeted = {Action::RestartTask, Action::RestartPod, Action::RestartPartition};

const std::vector<Row>& table() {
  using enum Phase;
  static const std::vector<Row> rows = {
      {Pending, {Action::RestartJob}, kKill, Rule::None, Restarting, Retain::None, true, false},
      {Pending, kTargeted, kTarget, Rule::None, Restarting, kSoft, true, false},
      {Pending, {Action::AbortJob}, kKill, Rule::None, Aborting, kSoft, false, false},
      {Pending, {Action::CompleteJob}, kKill, Rule::None, Completing, kSoft, false, false},
      {Pending, {Action::TerminateJob}, kKill, Rule::None, Terminating, kSoft, false, false},
      {Pending, {}, kSync, Rule::Pending, {}, kSoft, false, false},
      {Running, {Action::RestartJob}, kKill, Rule::None, Restarting, Retain::None, true, false},
      {Running, kTargeted, kTarget, Rule::None, Restarting, kSoft, true, false},
      {Running, {Action::AbortJob}, kKill, Rule::None, Aborting, kSoft, false, false},
      {Running, {Action::CompleteJob}, kKill, Rule::None, Completing, kSoft, false, false},
      {Running, {Action::TerminateJob}, kKill, Rule::None, Terminating, kSoft, false, false},
      {Running, {}, kSync, Rule::Running, {}, kSoft, false, false},
      {Restarting, {Action::RestartJob}, kKill, Rule::None, Restarting, Retain::None, false, false},
      {Restarting, kTargeted, kTarget, Rule::None, Restarting, kSoft, false, false},
      {Restarting, {Action::AbortJob}, kKill, Rule::None, Aborting, kSoft, false, false},
      {Restarting, {Action::CompleteJob}, kKill, Rule::None, Completing, kSoft, false, false},
      {Restarting, {Action::TerminateJob}, kKill, Rule::None, Terminating, kSoft, false, false},
      {Restarting, {}, kSync, Rule::Restarting, {}, kSoft, false, false},
      {Aborting, {Action::ResumeJob}, kKill, Rule::None, Restarting, kSoft, true, true},
      {Aborting, {}, kKill, Rule::Drain, {}, kSoft, false, false},
      {Aborted, {Action::ResumeJob}, kKill, Rule::None, Restarting, kSoft, true, true},
      {Aborted, {}, kKill, Rule::None, {}, kSoft, false, false},
      {Completing, {}, kKill, Rule::Drain, {}, kSoft, false, false},
      {Terminating, {}, kKill, Rule::Drain, {}, kSoft, false, false},
      {Completed, {}, kKill, Rule::None, {}, kSoft, false, false},
      {Terminated, {}, kKill, Rule::None, {}, kSoft, false, false},
      {Failed, {}, kKill, Rule::None, {}, kSoft, false, false},
  };
  return rows;
}

TEST(JobStateMachine, EveryPhaseAndAction) {
  std::map<std::pair<Phase, Action>, Step> expected;
  for (const Row& row : table()) {
    const Step step{.kind = row.kind,
                    .rule = row.rule,
                    .retain = row.retain,
                    .enters = row.enters,
                    .counts_retry = row.counts_retry,
                    .counts_resume = row.counts_resume};
    for (const Action action : row.actions) expected[{row.phase, action}] = step;
    if (!row.actions.empty()) continue;
    for (const Action action : kAllActions) expected.try_emplace({row.phase, action}, step);
  }
  ASSERT_EQ(expected.size(), kAllPhases.size() * kAllActions.size()) << "the table has a gap";
  for (const auto& [at, step] : expected)
    EXPECT_TRUE(step_of(at.first, at.second) == step) << to_string(at.first) << " x " << to_string(at.second);
}

TEST(JobStateMachine, WordsGoBothWays) {
  for (const Phase phase : kAllPhases) EXPECT_EQ(phase_of(to_string(phase)), phase);
  for (const Action action : kAllActions) EXPECT_EQ(action_of(to_string(action)), action);
  EXPECT_EQ(phase_of(""), Phase::Pending);
  EXPECT_EQ(phase_of("Dreaming"), Phase::Pending);
  EXPECT_EQ(action_of("EnqueueJob"), Action::Other);
}

// --- rules: every distribution of a few pods over their outcomes ---

struct Counts {
  int pending = 0;
  int running = 0;
  int succeeded = 0;
  int failed = 0;
  int terminating = 0;
};

template <class Visit>
int for_all_counts(int pods, Visit&& visit) {
  int cases = 0;
  for (int p = 0; p <= pods; ++p)
    for (int r = 0; p + r <= pods; ++r)
      for (int s = 0; p + r + s <= pods; ++s)
        for (int f = 0; p + r + s + f <= pods; ++f) {
          visit(Counts{p, r, s, f, pods - p - r - s - f});
          ++cases;
        }
  return cases;
}

JobStatus status_of(const Counts& counts) {
  JobStatus status;
  status.pending = counts.pending;
  status.running = counts.running;
  status.succeeded = counts.succeeded;
  status.failed = counts.failed;
  status.terminating = counts.terminating;
  if (counts.succeeded > 0) status.task_status_count["t"].phase["Succeeded"] = counts.succeeded;
  if (counts.failed > 0) status.task_status_count["t"].phase["Failed"] = counts.failed;
  return status;
}

JobSpec spec_of(int replicas, int min_available, std::optional<int> task_minimum, std::optional<int> min_success) {
  JobSpec spec;
  spec.min_available = min_available;
  spec.tasks.resize(1);
  spec.tasks[0].name = "t";
  spec.tasks[0].replicas = replicas;
  spec.tasks[0].min_available = task_minimum;
  spec.min_success = min_success;
  return spec;
}

// The sheet's tests in its order, written down once more in its own words.
std::optional<Phase> running_by_the_sheet(const JobSpec& spec, const Counts& c) {
  const int replicas = spec.tasks[0].replicas;
  const int minimum = spec.tasks[0].min_available.value_or(replicas);
  if (replicas == 0) return std::nullopt;
  if (spec.min_success && c.succeeded >= *spec.min_success) return Phase::Completed;
  if (c.succeeded + c.failed == replicas) {
    if (spec.min_available >= minimum && spec.tasks[0].min_available && c.succeeded < minimum) return Phase::Failed;
    if (spec.min_success && c.succeeded < *spec.min_success) return Phase::Failed;
    return c.succeeded >= spec.min_available ? Phase::Completed : Phase::Failed;
  }
  if (c.pending > replicas - spec.min_available) return Phase::Pending;
  return std::nullopt;
}

TEST(JobStateMachine, RunningRuleForEveryOutcome) {
  int cases = 0;
  for (int replicas = 0; replicas <= 4; ++replicas) {
    for (int min_available = 0; min_available <= replicas; ++min_available) {
      for (int task_minimum = -1; task_minimum <= replicas; ++task_minimum) {
        for (int min_success = 0; min_success <= replicas; ++min_success) {
          const JobSpec spec =
              spec_of(replicas, min_available, task_minimum < 0 ? std::nullopt : std::optional<int>(task_minimum),
                      min_success == 0 ? std::nullopt : std::optional<int>(min_success));
          cases += for_all_counts(replicas, [&](const Counts& counts) {
            EXPECT_EQ(apply_rule(Rule::Running, Phase::Running, spec, status_of(counts)),
                      running_by_the_sheet(spec, counts))
                << replicas << " pods, minAvailable " << min_available << "/" << task_minimum << ", minSuccess "
                << min_success << ": " << counts.pending << " " << counts.running << " " << counts.succeeded << " "
                << counts.failed << " " << counts.terminating;
          });
        }
      }
    }
  }
  EXPECT_GT(cases, 3000);
}

TEST(JobStateMachine, OtherRulesForEveryOutcome) {
  for (int min_available = 0; min_available <= 4; ++min_available) {
    const JobSpec spec = spec_of(4, min_available, std::nullopt, std::nullopt);
    for_all_counts(4, [&](const Counts& c) {
      JobStatus status = status_of(c);
      status.min_available = min_available;
      const auto is_up = apply_rule(Rule::Pending, Phase::Pending, spec, status);
      EXPECT_EQ(is_up.has_value(), min_available <= c.running + c.succeeded + c.failed);
      EXPECT_EQ(is_up.value_or(Phase::Running), Phase::Running);
      EXPECT_EQ(apply_rule(Rule::None, Phase::Completed, spec, status), std::nullopt);
      const bool is_alive = c.pending + c.running + c.terminating > 0;
      for (const auto& [from, to] : std::map<Phase, Phase>{{Phase::Aborting, Phase::Aborted},
                                                           {Phase::Completing, Phase::Completed},
                                                           {Phase::Terminating, Phase::Terminated}})
        EXPECT_EQ(apply_rule(Rule::Drain, from, spec, status), is_alive ? std::nullopt : std::optional<Phase>(to));
      for (int retries = 0; retries <= 4; ++retries) {
        status.retry_count = retries;
        const auto expected = retries >= 3                         ? std::optional<Phase>(Phase::Failed)
                              : 4 - c.terminating >= min_available ? std::optional<Phase>(Phase::Pending)
                                                                   : std::nullopt;
        EXPECT_EQ(apply_rule(Rule::Restarting, Phase::Restarting, spec, status), expected);
      }
    });
  }
}

// Issues 1519 and 3067 of Volcano: 0 stands for 3, and a resume spends nothing.
TEST(JobStateMachine, UsersF_1519_RetryArithmetic) {
  JobSpec spec = spec_of(1, 1, std::nullopt, std::nullopt);
  EXPECT_EQ(max_retry_of(spec), 3);
  spec.max_retry = 1;
  JobStatus status;
  status.min_available = 1;
  status.retry_count = 5;
  status.controlled_resources.set(records::kResumes, "5");
  EXPECT_EQ(retries_spent(status), 0);
  EXPECT_EQ(apply_rule(Rule::Restarting, Phase::Restarting, spec, status), Phase::Pending);
  status.retry_count = 6;
  EXPECT_EQ(apply_rule(Rule::Restarting, Phase::Restarting, spec, status), Phase::Failed);
  status.controlled_resources.set(records::kResumes, "-7");  // nonsense gives nothing away
  EXPECT_EQ(retries_spent(status), 6);
}

TEST(JobStateMachine, FinalPhasesAbsorb) {
  for (const Phase phase : kAllPhases) {
    if (!is_terminal(phase)) continue;
    for (const Action action : kAllActions) {
      const Step step = step_of(phase, action);
      EXPECT_FALSE(step.enters);
      EXPECT_EQ(step.rule, Rule::None);
    }
  }
}

}  // namespace
}  // namespace basalt::controllers::job
