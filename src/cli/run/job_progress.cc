#include "cli/run/job_progress.h"

#include <algorithm>
#include <array>

#include "api/gen/batch_job.h"
#include "base/strings.h"
#include "cli/client/table.h"

namespace basalt::cli {
namespace {

constexpr std::array<std::string_view, 5> kPodPhases = {"Running", "Pending", "Succeeded", "Failed", "Unknown"};
constexpr std::size_t kTasksShown = 8;
constexpr std::size_t kBarWidth = 20;
constexpr std::size_t kNarrow = 60;  // below this there is no room for bars

// "2 running, 1 pending"
std::string counts_text(const TaskProgress& task) {
  std::string text;
  for (const std::string_view phase : kPodPhases) {
    const std::int64_t count = task.count(phase);
    if (count == 0) continue;
    if (!text.empty()) text += ", ";
    text += std::to_string(count) + " " + base::to_lower_ascii(phase);
  }
  return text.empty() ? "no pods" : text;
}

std::string shown_phase(const JobProgress& job) { return job.phase.empty() ? "Submitted" : job.phase; }

}  // namespace

std::int64_t TaskProgress::count(std::string_view phase) const {
  const auto found = pods.find(std::string(phase));
  return found == pods.end() ? 0 : found->second;
}

JobProgress progress_of(const api::batch::Job& job) {
  JobProgress progress;
  progress.ns = job.metadata.namespace_;
  progress.name = job.metadata.name;
  progress.phase = job.status.state.phase;
  progress.reason = job.status.state.reason;
  progress.message = job.status.state.message;
  progress.retries = job.status.retry_count;
  for (std::size_t i = 0; i < job.spec.tasks.size(); ++i) {
    const auto& task = job.spec.tasks[i];
    TaskProgress shown;
    shown.name = task.name.empty() ? "default" + std::to_string(i) : task.name;
    shown.replicas = task.replicas;
    if (const auto found = job.status.task_status_count.find(shown.name); found != job.status.task_status_count.end()) {
      for (const auto& [phase, count] : found->second.phase) {
        if (count > 0) shown.pods[phase] = count;
      }
    }
    progress.tasks.push_back(std::move(shown));
  }
  return progress;
}

bool is_final(std::string_view phase) {
  namespace job_phase = api::batch::job_phase;
  return phase == job_phase::kCompleted || phase == job_phase::kFailed || phase == job_phase::kTerminated ||
         phase == job_phase::kAborted;
}

int exit_code_of(std::string_view final_phase) {
  namespace job_phase = api::batch::job_phase;
  if (final_phase == job_phase::kCompleted) return kExitJobCompleted;
  if (final_phase == job_phase::kTerminated) return kExitJobTerminated;
  if (final_phase == job_phase::kAborted) return kExitJobAborted;
  return kExitJobFailed;
}

std::string plain_line(const JobProgress& job) {
  std::string text = "job " + job.full_name() + " " + shown_phase(job);
  if (is_final(job.phase)) text += " after " + elapsed_text(job.elapsed);
  std::string details;
  for (const TaskProgress& task : job.tasks) {
    if (!details.empty()) details += "; ";
    details += task.name + " " + counts_text(task);
  }
  if (!details.empty()) text += ": " + details;
  if (job.phase != api::batch::job_phase::kRunning && job.phase != api::batch::job_phase::kCompleted &&
      !job.message.empty()) {
    text += " (" + (job.reason.empty() ? "" : job.reason + ": ") + job.message + ")";
  }
  return base::escape_controls(text);
}

std::vector<std::string> live_lines(const JobProgress& job, const Terminal& terminal) {
  const std::size_t width = terminal.width;
  const bool is_narrow = width != 0 && width < kNarrow;
  std::vector<std::string> lines;
  std::string head = paint(terminal, Colour::Bold, job.full_name()) + "  " +
                     paint(terminal, colour_of_phase(shown_phase(job)), shown_phase(job)) + "  " +
                     elapsed_text(job.elapsed);
  if (job.retries > 0) head += "  retries " + std::to_string(job.retries);
  lines.push_back(fit(head, width));
  std::size_t name_width = 0;
  for (const TaskProgress& task : job.tasks) name_width = std::max(name_width, display_width(task.name));
  for (std::size_t i = 0; i < job.tasks.size() && i < kTasksShown; ++i) {
    const TaskProgress& task = job.tasks[i];
    const auto done = static_cast<std::size_t>(std::max<std::int64_t>(0, task.count("Succeeded")));
    const auto total = static_cast<std::size_t>(std::max<std::int64_t>(0, task.replicas));
    std::string line = "  " + pad(task.name, name_width) + "  ";
    if (!is_narrow) line += progress_bar(done, total, kBarWidth) + " ";
    line += std::to_string(done) + "/" + std::to_string(total) + "  " + counts_text(task);
    lines.push_back(fit(line, width));
  }
  if (job.tasks.size() > kTasksShown)
    lines.push_back(fit("  and " + std::to_string(job.tasks.size() - kTasksShown) + " more tasks", width));
  const bool is_waiting = job.phase != api::batch::job_phase::kRunning && !job.message.empty();
  if (is_waiting) {
    lines.push_back(
        fit("  " + base::escape_controls((job.reason.empty() ? "" : job.reason + ": ") + job.message), width));
  } else if (!job.newest_event.empty()) {
    lines.push_back(paint(terminal, Colour::Faint, fit("  " + base::escape_controls(job.newest_event), width)));
  }
  return lines;
}

}  // namespace basalt::cli
