#pragma once

#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/host.h"
#include "cli/client/pod_logs.h"
#include "cli/run/job_progress.h"

namespace basalt::cli {

// Shows jobs and their logs: on a terminal a block of lines at the bottom that is redrawn, with the logs scrolling
// above it; elsewhere a line for every change. One thread.
class Display {
 public:
  Display(Host& host, std::ostream& out);

  void log_lines(const std::vector<LogLine>& lines, std::size_t prefix_width);
  void note(std::string_view line);  // stays in the scrolled part
  // The state of all jobs. Elsewhere than on a terminal only what changed is printed.
  void update(const std::vector<JobProgress>& jobs);
  // Before something else is printed or asked, and at the end: the block goes (or stays, once) and is not redrawn.
  void clear();
  void finish(const std::vector<JobProgress>& jobs);

 private:
  void draw(const std::vector<std::string>& lines);

  Host& host_;
  std::ostream& out_;
  const bool is_live_;
  std::size_t lines_drawn_ = 0;
  std::vector<std::string> last_block_;
  std::map<std::string, std::string> last_plain_;  // by job
};

}  // namespace basalt::cli
