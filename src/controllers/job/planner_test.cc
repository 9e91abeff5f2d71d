#include "controllers/job/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "api/gen/names.h"
#include "json/reader.h"

// The planner without a cluster: every phase x action x outcome of a pod, each carried out on paper until nothing is
// left to do.
namespace basalt::controllers::job {
namespace {

using namespace std::chrono_literals;
using api::batch::Job;

// What a pod of the job can be when the planner looks.
enum class Outcome : std::uint8_t { Pending, Running, Succeeded, Failed, Unknown, Terminating, Marked, Gone, GoneWell };
constexpr std::array kOutcomes = {Outcome::Pending, Outcome::Running, Outcome::Succeeded,
                                  Outcome::Failed,  Outcome::Unknown, Outcome::Terminating,
                                  Outcome::Marked,  Outcome::Gone,    Outcome::GoneWell};

ObservedPod pod_of(std::int32_t index, Outcome outcome, std::int32_t version) {
  ObservedPod pod;
  pod.name = "j-t-" + std::to_string(index);
  pod.uid = "pod-" + std::to_string(index) + "-v" + std::to_string(version);
  pod.task = 0;
  pod.index = index;
  pod.version = version;
  pod.partition = std::to_string(index);
  switch (outcome) {
    case Outcome::Pending:
      break;
    case Outcome::Succeeded:
      pod.phase = PodPhase::Succeeded;
      break;
    case Outcome::Failed:
      pod.phase = PodPhase::Failed;
      pod.exit_code = 1;
      break;
    case Outcome::Unknown:
      pod.phase = PodPhase::Unknown;
      break;
    default:
      pod.phase = PodPhase::Running;
      pod.is_ready = true;
      pod.is_terminating = outcome == Outcome::Terminating;
      pod.is_marked = outcome == Outcome::Marked;
      break;
  }
  return pod;
}

// A job of two pods: number 0 runs, number 1 is what the case says.
class Paper {
 public:
  Paper(Phase phase, Outcome outcome, std::string_view policies = "[]") {
    auto job = json::from_text<Job>(
        R"({"metadata":{"name":"j","namespace":"n","uid":"u"},"spec":{"minAvailable":2,"maxRetry":3,"queue":"q","policies":)" +
        std::string(policies) +
        R"(,"tasks":[{"name":"t","replicas":2,"partitionPolicy":{"totalPartitions":2,"partitionSize":1},"template":{"spec":{"containers":[{"name":"c"}]}}}]},
           "status":{"minAvailable":2,"running":2,"taskStatusCount":{"t":{"phase":{"Running":2}}},"state":{"phase":")" +
        std::string(to_string(phase)) + R"("}}})");
    EXPECT_TRUE(job.ok());
    observed_.job = std::make_shared<const Job>(*job);
    auto queue = std::make_shared<api::scheduling::Queue>();
    queue->status.state = "Open";
    observed_.queue = queue;
    set_group("group-1", "Running");
    observed_.pods.push_back(pod_of(0, Outcome::Running, 0));
    if (outcome != Outcome::Gone && outcome != Outcome::GoneWell) {
      observed_.pods.push_back(pod_of(1, outcome, 0));
    } else {
      observed_.memory.vanished.push_back({.task = "t",
                                           .name = "j-t-1",
                                           .uid = "pod-1-v0",
                                           .index = 1,
                                           .version = 0,
                                           .partition = "1",
                                           .is_marked = false,
                                           .succeeded = outcome == Outcome::GoneWell});
    }
    auto plugins = PluginSet::make(observed_.job->spec);
    EXPECT_TRUE(plugins.ok());
    plugins_ = std::move(plugins).value();
  }

  void command(std::string_view action) {
    auto command = std::make_shared<api::bus::Command>();
    command->metadata.name = "c";
    command->metadata.uid = "command-1";
    command->action = std::string(action);
    command->target.emplace();
    command->target->kind = "Job";
    command->target->name = "j";
    observed_.commands.push_back(command);
  }

  JobPlan plan() {
    time_.now += 2s;  // beyond every delay of counters
    time_.wall += 2s;
    PlanInputs inputs;
    inputs.plugins = &plugins_;
    return plan_job(observed_, inputs, time_, {});
  }

  // As the executor would, with a cluster that answers at once.
  void carry_out(const JobPlan& plan) {
    EXPECT_EQ(plan.job_patch, "");
    Job job = *observed_.job;
    if (plan.status) job.status = *plan.status;
    for (const auto* marks : {&plan.marks, &plan.marks_last}) {
      for (ObservedPod& pod : observed_.pods) {
        for (const PodRef& mark : *marks) pod.is_marked |= mark.uid == pod.uid;
      }
    }
    observed_.memory = plan.memory;
    if (!plan.consumed_commands.empty()) observed_.commands.clear();
    for (const PodRef& gone : plan.deletes) {
      std::erase_if(observed_.pods, [&](const ObservedPod& pod) { return pod.uid == gone.uid; });
      deleted.insert(gone.uid);
    }
    // Whoever terminates is gone by now.
    std::erase_if(observed_.pods, [](const ObservedPod& pod) { return pod.is_terminating; });
    if (plan.delete_pod_group) observed_.pod_group.reset();
    if (plan.create_pod_group) set_group("group-" + std::to_string(++groups_), "Inqueue");
    for (const PlannedPod& create : plan.creates) {
      EXPECT_TRUE(std::none_of(observed_.pods.begin(), observed_.pods.end(), [&](const ObservedPod& pod) {
        return pod.index == create.index;
      })) << "a second pod for one index";
      ObservedPod pod = pod_of(create.index, Outcome::Running, job.status.version);
      pod.uid += "-" + std::to_string(++made);
      observed_.pods.push_back(pod);
      created.insert(create.index);
    }
    sort_pods(observed_.pods);
    observed_.job = std::make_shared<const Job>(std::move(job));
  }

  // Until nothing is left to do. Returns the phases on the way.
  std::vector<Phase> settle() {
    std::vector<Phase> phases;
    for (int round = 0; round < 20; ++round) {
      const JobPlan next = plan();
      const bool is_idle = !next.status && next.deletes.empty() && next.creates.empty() && next.marks.empty() &&
                           next.marks_last.empty() && !next.create_pod_group && !next.delete_pod_group &&
                           next.consumed_commands.empty() && next.pod_group_patch.empty() &&
                           (!next.wake_after || *next.wake_after > 2s);
      if (is_idle && observed_.pods.end() == std::find_if(observed_.pods.begin(), observed_.pods.end(),
                                                          [](const auto& pod) { return pod.is_terminating; }))
        return phases;
      carry_out(next);
      if (next.status) ++writes;
      if (phases.empty() || phases.back() != phase()) phases.push_back(phase());
    }
    ADD_FAILURE() << "never comes to rest; it is " << to_string(phase());
    return phases;
  }

  [[nodiscard]] Phase phase() const { return phase_of(observed_.job->status.state.phase); }
  [[nodiscard]] const api::batch::JobStatus& status() const { return observed_.job->status; }
  [[nodiscard]] const std::vector<ObservedPod>& pods() const { return observed_.pods; }
  std::set<std::string> deleted;
  std::set<std::int32_t> created;
  int writes = 0;
  int made = 0;

 private:
  void set_group(const std::string& uid, std::string_view phase) {
    auto built = build_pod_group(*observed_.job, {});
    EXPECT_TRUE(built.ok());
    auto group = std::make_shared<api::scheduling::PodGroup>(std::move(built).value());
    group->metadata.uid = uid;
    group->status.phase = std::string(phase);
    observed_.pod_group = group;
  }

  ObservedJob observed_;
  PluginSet plugins_;
  PlanTime time_{rt::Instant(rt::Duration(1h)), rt::WallTime(std::chrono::seconds(1'800'000'000))};
  int groups_ = 1;
};

std::string policy_for(std::string_view event, Action action) {
  return R"([{"event":")" + std::string(event) + R"(","action":")" + std::string(to_string(action)) + R"("}])";
}

struct Case {
  Phase phase;
  Action action;
  Outcome outcome;
};
template <class Check>
int for_all_cases(Check&& check) {
  int cases = 0;
  for (const Phase phase : kAllPhases) {
    for (const Action action : kAllActions) {
      for (const Outcome outcome : kOutcomes) {
        SCOPED_TRACE(std::string(to_string(phase)) + " x " + std::string(to_string(action)) + " x outcome " +
                     std::to_string(static_cast<int>(outcome)));
        check(Case{phase, action, outcome});
        ++cases;
      }
    }
  }
  return cases;
}

// What must hold whatever comes in.
void check_always(const Case& one, const Paper& paper) {
  if (is_terminal(one.phase)) {
    EXPECT_EQ(paper.phase(), one.phase);
    EXPECT_EQ(paper.status().version, 0);
    EXPECT_EQ(paper.status().retry_count, 0);
  }
  if (!wants_pods(one.phase) && !(one.action == Action::ResumeJob && !is_terminal(one.phase))) {
    EXPECT_TRUE(paper.created.empty());
  }
  if (!wants_pods(paper.phase())) {
    for (const ObservedPod& pod : paper.pods()) EXPECT_TRUE(pod.is_finished()) << pod.name << " is left over";
  }
  // A pod that succeeded runs again only if everything shall.
  const bool succeeded = one.outcome == Outcome::Succeeded || one.outcome == Outcome::GoneWell;
  const bool restarts = one.action == Action::RestartJob || is_targeted(one.action);
  if (succeeded && !restarts) {
    EXPECT_FALSE(paper.created.contains(1));
    EXPECT_FALSE(paper.deleted.contains("pod-1-v0"));
  }
}

TEST(JobPlanner, CommandsInEveryPhaseForEveryOutcome) {
  const int cases = for_all_cases([](const Case& one) {
    Paper paper(one.phase, one.outcome);
    paper.command(to_string(one.action));
    paper.settle();
    check_always(one, paper);
    const Step step = step_of(one.phase, one.action);
    if (is_targeted(one.action) || one.action == Action::Other || !step.enters) {
      EXPECT_LE(paper.status().retry_count, one.outcome == Outcome::Marked ? 1 : 0)
          << "a refused command did something";
      return;
    }
    EXPECT_EQ(paper.status().version, 1);
    EXPECT_EQ(paper.status().retry_count, step.counts_retry ? 1 : 0);
    switch (*step.enters) {
      case Phase::Aborting:
        EXPECT_EQ(paper.phase(), Phase::Aborted);
        break;
      case Phase::Terminating:
        EXPECT_EQ(paper.phase(), Phase::Terminated);
        break;
      case Phase::Completing:
        EXPECT_EQ(paper.phase(), Phase::Completed);
        break;
      default:
        EXPECT_EQ(paper.phase(), Phase::Running) << "a restarted job does not run";
    }
  });
  std::printf("commands: %d cases of phase, action and outcome\n", cases);
}

TEST(JobPlanner, PoliciesInEveryPhaseForEveryOutcome) {
  int acted = 0;
  const int cases = for_all_cases([&](const Case& one) {
    const bool is_failure = one.outcome == Outcome::Failed;
    const bool is_eviction = one.outcome == Outcome::Gone || one.outcome == Outcome::Terminating;
    Paper paper(one.phase, one.outcome, policy_for(is_failure ? "PodFailed" : "PodEvicted", one.action));
    paper.settle();
    check_always(one, paper);
    if (one.outcome == Outcome::Marked) return;  // a restart that was under way; it has its own test
    const Step step = step_of(one.phase, one.action);
    // A partition without any pod is not restarted; its pods are just made again.
    const bool has_target = one.action != Action::RestartPartition || one.outcome != Outcome::Gone;
    const bool acts =
        wants_pods(one.phase) && (is_failure || is_eviction) && step.kind != Step::Kind::Sync && has_target;
    if (!acts) {
      EXPECT_EQ(paper.status().retry_count, 0);
      EXPECT_EQ(paper.status().version, 0);
      return;
    }
    ++acted;
    EXPECT_EQ(paper.status().retry_count, step.counts_retry ? 1 : 0) << "once, not twice";
    EXPECT_EQ(paper.status().version, step.kind == Step::Kind::Kill ? 1 : 0);
    if (is_targeted(one.action) || one.action == Action::RestartJob) {
      EXPECT_EQ(paper.phase(), Phase::Running);
      EXPECT_TRUE(paper.created.contains(1));
      EXPECT_EQ(paper.created.contains(0), one.action == Action::RestartJob || one.action == Action::RestartTask);
    }
  });
  EXPECT_GT(acted, 20);
  std::printf("policies: %d cases of phase, action and outcome, %d with an action\n", cases, acted);
}

// A restart of pods that came no further than the marks is done, and counted, once.
TEST(JobPlanner, InterruptedRestartIsCountedOnce) {
  for (const Phase phase : {Phase::Pending, Phase::Running, Phase::Restarting}) {
    Paper paper(phase, Outcome::Marked);
    paper.settle();
    EXPECT_EQ(paper.status().retry_count, phase == Phase::Restarting ? 0 : 1);
    EXPECT_EQ(paper.created, std::set<std::int32_t>{1});
    EXPECT_EQ(paper.phase(), Phase::Running);
  }
}

// D12, and issue 3080 of Volcano: what is at rest is not written again.
TEST(JobPlanner, UsersD_NoWriteWithoutChange) {
  for (const Phase phase : kAllPhases) {
    for (const Outcome outcome : kOutcomes) {
      Paper paper(phase, outcome);
      paper.settle();
      const int before = paper.writes;
      for (int i = 0; i < 5; ++i) paper.settle();
      EXPECT_EQ(paper.writes, before);
    }
  }
}

// Reading the templates costs more than the rest of a pass, so a group that fits is looked at again only when it or the
// job has changed.
TEST(PlannerGroupTest, IsComparedAgainWhenAVersionChanges) {
  const auto job_with = [](std::int64_t generation, int minimum, std::string_view priority) {
    auto job = json::from_text<Job>(
        R"({"metadata":{"name":"j","namespace":"n","uid":"u","generation":)" + std::to_string(generation) +
        R"(},"spec":{"queue":"q","minAvailable":)" + std::to_string(minimum) +
        R"(,"tasks":[{"name":"t","replicas":2,"template":{"spec":{)" + std::string(priority) +
        R"("containers":[{"name":"c"}]}}}]},"status":{"minAvailable":2,"state":{"phase":"Pending"}}})");
    EXPECT_TRUE(job.ok());
    return std::make_shared<const Job>(*job);
  };
  const auto group_of = [](const Job& job, std::string_view version) {
    auto built = build_pod_group(job, {});
    EXPECT_TRUE(built.ok());
    auto group = std::make_shared<api::scheduling::PodGroup>(*built);
    group->metadata.uid = "g";
    group->metadata.resource_version = version;
    group->status.phase = "Pending";
    return group;
  };
  const auto plan = [](const ObservedJob& observed) {
    const auto plugins = PluginSet::make(observed.job->spec);
    PlanInputs inputs;
    inputs.plugins = &*plugins;
    return plan_job(observed, inputs, {}, {});
  };
  ObservedJob observed;
  observed.job = job_with(1, 2, "");
  auto queue = std::make_shared<api::scheduling::Queue>();
  queue->status.state = "Open";
  observed.queue = queue;
  observed.pod_group = group_of(*observed.job, "5");
  const JobPlan first = plan(observed);
  EXPECT_EQ("", first.pod_group_patch);
  EXPECT_NE("", first.memory.group_checked);
  observed.memory = first.memory;

  // Another content under the same version does not happen; that it goes unseen shows that nothing was compared.
  auto other = group_of(*observed.job, "5");
  other->spec.min_member = 7;
  observed.pod_group = other;
  EXPECT_EQ("", plan(observed).pod_group_patch);
  auto changed = std::make_shared<api::scheduling::PodGroup>(*other);
  changed->metadata.resource_version = "6";
  observed.pod_group = changed;
  EXPECT_NE("", plan(observed).pod_group_patch);

  observed.pod_group = group_of(*observed.job, "5");
  observed.job = job_with(2, 1, "");
  EXPECT_NE("", plan(observed).pod_group_patch);

  // Priority classes come and go without a new version of either.
  observed.job = job_with(3, 2, R"("priorityClassName":"p",)");
  observed.pod_group = group_of(*observed.job, "8");
  EXPECT_NE(plan(observed).memory.group_checked, "3 g 8");
}

}  // namespace
}  // namespace basalt::controllers::job
