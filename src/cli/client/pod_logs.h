#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/client/host.h"
#include "cli/client/terminal.h"

namespace basalt::cli {

// One container's log, read piece by piece: each poll asks for what came since the last line that was seen. The server
// rounds that time down to the second, so lines that were seen before are told by their own time and position.
class ContainerLog {
 public:
  struct Options {
    std::optional<std::int64_t> tail_lines;     // of the first poll
    std::optional<std::int64_t> since_seconds;  // of the first poll
    bool previous = false;                      // of the container before its last restart
    bool shows_times = false;
  };
  ContainerLog(std::string ns, std::string pod, std::string container, Options options);

  // New complete lines, oldest first; at the end of the log (`is_over`) an unfinished last line as well.
  [[nodiscard]] Result<std::vector<std::string>> poll(Session& session, bool is_over, const rt::StopToken& stop);

 private:
  [[nodiscard]] std::string path() const;
  std::vector<std::string> take_new_lines(std::string_view body, bool is_over);

  const std::string ns_;
  const std::string pod_;
  const std::string container_;
  const Options options_;
  std::string last_time_;          // as the server wrote it, "" before the first line
  std::string last_key_;           // the same in a form that can be compared
  std::size_t lines_at_last_ = 0;  // lines with that very time that were seen
  bool has_polled_ = false;
  bool has_times_ = true;       // false: the server ignores `timestamps`, so the whole log is read again
  std::size_t bytes_seen_ = 0;  // then
  std::size_t limit_bytes_ = 1u << 20;
};

// A time of a log line in a form whose text order is the order of time; "" if it is none.
[[nodiscard]] std::string sortable_time(std::string_view rfc3339);

struct LogLine {
  std::string prefix;     // "worker-0", "worker-0/sidecar"
  std::size_t index = 0;  // of the pod, for its colour
  std::string text;
};
[[nodiscard]] std::string format_log_line(const Terminal& terminal, const LogLine& line, std::size_t prefix_width);

// The logs of all pods that a selector selects, as they come and go.
class PodSetLogs {
 public:
  struct Options {
    std::string label_selector;
    std::string pod;        // only this one
    std::string container;  // only this one; all if empty
    std::string strip;      // begin of pod names that prefixes leave out: "job-"
    std::size_t pods_max = 32;
    ContainerLog::Options log;
  };
  PodSetLogs(Session& session, std::string ns, Options options);

  // New lines of all pods. `is_over`: nothing more will come.
  [[nodiscard]] Result<std::vector<LogLine>> poll(bool is_over, const rt::StopToken& stop);
  [[nodiscard]] bool all_ended() const { return pods_seen_ > 0 && open_ == 0; }
  [[nodiscard]] std::size_t pods_seen() const { return pods_seen_; }
  [[nodiscard]] std::size_t pods_left_out() const { return pods_left_out_; }
  [[nodiscard]] std::size_t prefix_width() const { return prefix_width_; }

 private:
  struct Followed {
    ContainerLog log;
    std::string prefix;
    std::size_t index = 0;
    bool is_done = false;
  };
  Session& session_;
  const std::string ns_;
  const Options options_;
  std::map<std::string, Followed> followed_;  // by pod UID, container and restart count
  std::map<std::string, std::size_t> index_of_pod_;
  std::size_t pods_seen_ = 0;
  std::size_t pods_left_out_ = 0;
  std::size_t open_ = 0;
  std::size_t prefix_width_ = 0;
};

}  // namespace basalt::cli
