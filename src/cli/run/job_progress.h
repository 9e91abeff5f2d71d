#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/terminal.h"
#include "rt/time.h"

namespace basalt::api::batch {
struct Job;
}

namespace basalt::cli {

// Pods of one task by phase.
struct TaskProgress {
  std::string name;
  std::int64_t replicas = 0;
  std::map<std::string, std::int64_t> pods;  // by phase, none with 0
  [[nodiscard]] std::int64_t count(std::string_view phase) const;
};

// What there is to see of a job.
struct JobProgress {
  std::string ns;
  std::string name;
  std::string phase;    // "" before a controller has seen it
  std::string reason;   // of the state, one word
  std::string message;  // of the state
  std::vector<TaskProgress> tasks;
  std::int64_t retries = 0;
  std::string newest_event;  // "Reason: message"
  rt::Duration elapsed{};
  [[nodiscard]] std::string full_name() const { return ns + "/" + name; }
};
[[nodiscard]] JobProgress progress_of(const api::batch::Job& job);

// Completed, Failed, Terminated, Aborted.
[[nodiscard]] bool is_final(std::string_view phase);

// What `basalt run`, `wait` and `watch` end with.
inline constexpr int kExitJobCompleted = 0;
inline constexpr int kExitJobFailed = 1;
inline constexpr int kExitJobTerminated = 3;
inline constexpr int kExitJobAborted = 4;
inline constexpr int kExitJobDeleted = 5;
inline constexpr int kExitTimeout = 124;  // as timeout(1)
[[nodiscard]] int exit_code_of(std::string_view final_phase);

// One line: "job default/a Running: worker 2/3 running, 1 pending".
[[nodiscard]] std::string plain_line(const JobProgress& job);
// A few lines for a display that is redrawn; none is wider than the terminal.
[[nodiscard]] std::vector<std::string> live_lines(const JobProgress& job, const Terminal& terminal);

}  // namespace basalt::cli
