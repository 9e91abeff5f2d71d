#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "controllers/job/planner.h"

namespace basalt::controllers::job {

// One plan on its way: made for one pass, used by one thread, thrown away. Its functions lie in one file a phase:
//
//   planner.cc          the order of things, and what all of them use
//   planner_choose.cc   which action: commands, policies
//   planner_prepare.cc  what pods need first: queue, claims, objects of plugins, pod group
//   planner_sync.cc     pods to the specification
//   planner_kill.cc     pods away
//   planner_status.cc   what is written, and when
class Planner {
 public:
  Planner(const ObservedJob& observed, const PlanInputs& inputs, const PlanTime& time, const PlanOptions& options)
      : observed_(observed),
        job_(*observed.job),
        inputs_(inputs),
        time_(time),
        options_(options),
        phase_(phase_of(job_.status.state.phase)) {
    plan_.memory = observed.memory;
    plan_.memory.uid = job_.metadata.uid;
  }

  JobPlan run();

 private:
  struct Waiting {
    std::string_view reason;
    std::string message;
    std::string_view event_reason;  // "" without an event
  };

  // The first pass: the phase only, so that everybody sees the job being looked after.
  void begin();

  // Everything that is known to have succeeded now: recorded, seen, or seen before it was deleted.
  void learn_completed();

  [[nodiscard]] bool is_wanted(const ObservedPod& pod) const;

  // The restart that is under way, as the status records it.
  [[nodiscard]] std::string_view restart_record() const;
  [[nodiscard]] bool restart_unfinished() const;
  [[nodiscard]] std::string_view restarted_group() const;
  // Of an older version, and the restart takes it away.
  [[nodiscard]] bool is_restarted(const ObservedPod& pod) const;

  // Commands first, then policies in the order of the pods, then a plain sync.
  void choose();

  // What the watch told about deletions is kept while somebody still waits for it.
  void remember(const Decisions& decisions);

  // A targeted restart marks its pods, then writes the status, then deletes. If it came no further than the marks, it
  // is done again as a whole, and so counted.
  void resume_interrupted();

  bool choose_command();

  void refuse(const PlannedCommand& command, std::string why);

  // --- counting ---

  // The counters, with the pods of `going_` as if they were already being deleted.
  [[nodiscard]] api::batch::JobStatus counted() const;

  void go(const ObservedPod& pod);

  // --- kill ---

  void kill();

  void end_pod_group();

  // Their objects go once nothing is alive that could still mount or resolve them.
  void clean_plugins(api::batch::JobStatus& status);

  void kill_target();

  // --- sync ---

  void sync();

  [[nodiscard]] std::string result_text(Phase next, const api::batch::JobStatus& status) const;

  // The group of the job lets pods start.
  [[nodiscard]] bool group_is_admitted() const;
  [[nodiscard]] bool group_is_going() const;

  // Claims, plugin objects, pod group: what has to be there before pods. False if pods have to wait for it.
  bool initiate();
  [[nodiscard]] bool observed_needs_group() const;

  bool has_queue();

  // What the job itself must say first: forwarding, and the names of its claims.
  bool patch_job();

  bool check_claims();

  // Recorded in the status, or known to this process.
  bool check_plugins();

  // Pods that do not start may wait for an object that somebody deleted: look once a minute.
  bool should_verify();

  [[nodiscard]] std::string group_versions() const;
  void check_group();

  // The last pass met something that only a change from outside can cure.
  void wait_for_problem();
  void wait_for_group();

  // The newest true statement about the group, if it is not good news.
  [[nodiscard]] const api::scheduling::PodGroupCondition* condition_of_group() const;

  [[nodiscard]] bool dependency_is_ready(const std::string& name) const;

  [[nodiscard]] bool may_start(const api::batch::TaskSpec& task);

  void create_missing();

  // --- status ---

  void count_restart(api::batch::JobStatus& status) const;

  void record_resources(api::batch::JobStatus& status);

  void drop_completed(api::batch::JobStatus& status);

  void state_waiting(api::batch::JobStatus& status);

  void write(api::batch::JobStatus status);
  [[nodiscard]] rt::Instant due(const api::batch::JobStatus& status) const;
  [[nodiscard]] rt::Duration reword_pause() const;
  [[nodiscard]] bool is_reworded(const api::batch::JobStatus& status) const;
  // An event about waiting belongs to the status that says so.
  void settle_events();

  [[nodiscard]] bool command_is_present(std::string_view uid) const;

  void finish_status(api::batch::JobStatus& status);

  void wait(std::string_view reason, std::string message, std::string_view event_reason);
  void wake(std::optional<rt::Duration> after);
  void tell(kube::EventType type, std::string_view reason, std::string message);

  const ObservedJob& observed_;
  const api::batch::Job& job_;
  const PlanInputs& inputs_;
  const PlanTime& time_;
  const PlanOptions& options_;
  const Phase phase_;

  JobPlan plan_;
  Step step_;
  Action action_ = Action::SyncJob;
  std::string cause_;
  std::string command_uid_;
  std::vector<Target> targets_;
  bool is_disruption_ = false;  // the restart is not the job's own doing
  std::vector<CompletedIndexes> completed_;
  bool has_learned_ = false;            // a success that is in no record
  bool is_witness_ = false;             // and its pod is gone or going: nobody else knows of it
  std::int64_t floor_ = 0;              // pods of older versions were restarted
  std::set<std::string> going_;         // names of pods that are deleted by this plan
  std::vector<VanishedPod> explained_;  // that have their answer, or need none
  std::optional<Waiting> waiting_;
  std::optional<PlannedEvent> waiting_event_;
};

}  // namespace basalt::controllers::job
