#include "cli/run/display.h"

#include <ostream>

#include "base/strings.h"

namespace basalt::cli {
namespace {

constexpr std::size_t kJobsShown = 6;

// What changed enough to be worth a line: not the time that passed.
std::string without_time(JobProgress job) {
  job.elapsed = {};
  job.newest_event.clear();
  return plain_line(job);
}

}  // namespace

Display::Display(Host& host, std::ostream& out) : host_(host), out_(out), is_live_(host.terminal().out_is_terminal) {}

void Display::clear() {
  // Up to the first line of the block, then everything below it away.
  if (lines_drawn_ > 0) out_ << "\x1b[" << lines_drawn_ << "A\r\x1b[J";
  lines_drawn_ = 0;
}

void Display::draw(const std::vector<std::string>& lines) {
  clear();
  for (const std::string& line : lines) out_ << line << "\n";
  lines_drawn_ = lines.size();
  last_block_ = lines;
  out_.flush();
}

void Display::log_lines(const std::vector<LogLine>& lines, std::size_t prefix_width) {
  if (lines.empty()) return;
  const Terminal terminal = host_.terminal();
  const std::vector<std::string> block = lines_drawn_ > 0 ? last_block_ : std::vector<std::string>();
  clear();
  for (const LogLine& line : lines) out_ << format_log_line(terminal, line, prefix_width) << "\n";
  if (!block.empty()) draw(block);
  out_.flush();
}

void Display::note(std::string_view line) {
  const std::vector<std::string> block = lines_drawn_ > 0 ? last_block_ : std::vector<std::string>();
  clear();
  out_ << line << "\n";
  if (!block.empty()) draw(block);
  out_.flush();
}

void Display::update(const std::vector<JobProgress>& jobs) {
  if (!is_live_) {
    for (const JobProgress& job : jobs) {
      std::string line = without_time(job);
      std::string& last = last_plain_[job.full_name()];
      if (line == last) continue;
      last = std::move(line);
      out_ << plain_line(job) << "\n";
    }
    out_.flush();
    return;
  }
  const Terminal terminal = host_.terminal();
  std::vector<std::string> block;
  for (std::size_t i = 0; i < jobs.size() && i < kJobsShown; ++i) {
    for (std::string& line : live_lines(jobs[i], terminal)) block.push_back(std::move(line));
  }
  if (jobs.size() > kJobsShown)
    block.push_back(fit("and " + std::to_string(jobs.size() - kJobsShown) + " more jobs", terminal.width));
  if (lines_drawn_ > 0 && block == last_block_) return;
  draw(block);
}

void Display::finish(const std::vector<JobProgress>& jobs) {
  if (is_live_) clear();
  const Terminal terminal = host_.terminal();
  for (const JobProgress& job : jobs) {
    const std::string line = plain_line(job);
    if (!is_live_ && last_plain_[job.full_name()] == without_time(job)) continue;
    out_ << paint(terminal, colour_of_phase(job.phase), line) << "\n";
  }
  out_.flush();
}

}  // namespace basalt::cli
