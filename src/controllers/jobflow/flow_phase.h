#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

// Where a flow is and where it goes next. Pure, and small enough that a test goes through all of it.
namespace basalt::controllers::jobflow {

enum class FlowPhase : std::uint8_t { None, Pending, Running, Succeed, Failed, Terminating };
inline constexpr std::array kFlowPhases = {FlowPhase::None,    FlowPhase::Pending, FlowPhase::Running,
                                           FlowPhase::Succeed, FlowPhase::Failed,  FlowPhase::Terminating};
[[nodiscard]] std::string_view to_string(FlowPhase phase);  // as status.state.phase has it
// Nothing for a word that we do not know: such a flow is left alone.
[[nodiscard]] std::optional<FlowPhase> parse_flow_phase(std::string_view text);

// The list of the status that a job is named in.
enum class JobList : std::uint8_t { Nowhere, Pending, Running, Failed, Completed, Terminated, Unknown };
// What a job means to its flow.
enum class JobFate : std::uint8_t {
  Waiting,  // it has not started, or is on its way between two phases
  Started,
  Done,
  Lost  // it ended without success, or was aborted: the flow cannot go on without a person
};
struct JobPhaseMeaning {
  JobList list = JobList::Unknown;
  JobFate fate = JobFate::Waiting;
  bool operator==(const JobPhaseMeaning&) const = default;
};
// Of any text: a phase that we do not know is a job that waits.
[[nodiscard]] JobPhaseMeaning meaning_of(std::string_view job_phase);

// All that decides about the phase of a flow.
struct FlowFacts {
  bool all_done = false;  // there are steps, and the job of each is done
  bool any_lost = false;
  bool any_started = false;  // or done
};
// The one transition function. It is stable: applied again to its result with the same facts it changes nothing, so no
// flow waits for another event to get where it belongs.
[[nodiscard]] FlowPhase next_phase(FlowPhase current, FlowFacts facts);

}  // namespace basalt::controllers::jobflow
