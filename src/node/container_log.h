#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/time.h"
#include "base/result.h"
#include "node/process_runner.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::node {

struct LogLimits {
  std::uint64_t file_bytes_max = 10u << 20;  // as kubelet's containerLogMaxSize
  std::size_t files_max = 5;                 // of one run; the oldest goes
};

// What `kubectl logs` asks for.
struct LogOptions {
  bool follow = false;
  bool previous = false;  // the run before the current one
  bool timestamps = false;
  std::optional<rt::WallTime> since;  // not older than this
  std::optional<std::int64_t> tail_lines;
  std::optional<std::int64_t> limit_bytes;
};

// Gets pieces of the log, in order; false means that nobody wants more.
using LogSink = std::function<bool(std::string_view bytes)>;

// The output of one run of a container: files "<run>.<number>.log" in a folder, each line as
// "2026-01-02T03:04:05.000000006Z stdout F text". A line above kLineBytesMax is cut into pieces marked P instead of F;
// so is what stood before the end without a line end. Written by one thread, read by any.
class ContainerLog {
 public:
  static constexpr std::size_t kLineBytesMax = 16 * 1024;  // as container runtimes do

  // Files of runs before `run - 1` are removed.
  ContainerLog(rt::Runtime& runtime, std::string folder, std::int32_t run, LogLimits limits);
  ~ContainerLog();
  ContainerLog(const ContainerLog&) = delete;
  ContainerLog& operator=(const ContainerLog&) = delete;

  void append(OutputStream stream, std::string_view bytes);
  // After the last output: writes incomplete lines and lets followers end.
  void close();

  // Waits until there is more than the reader has seen, or the end, or a stop. A reader starts with 0.
  std::uint64_t wait_for_change(std::uint64_t seen, const rt::StopToken& stop);
  [[nodiscard]] bool is_closed();

 private:
  void add_line(std::string& out, std::string_view stamp, OutputStream stream, bool full, std::string_view text) const;
  void write(const std::string& lines);
  void open_next();

  // Fixed after construction.
  rt::Runtime& runtime_;
  const std::string folder_;
  const std::int32_t run_;
  const LogLimits limits_;

  rt::Mutex mutex_;
  rt::Condition changed_;
  std::uint64_t version_ BASALT_GUARDED_BY(mutex_) = 1;
  bool closed_ BASALT_GUARDED_BY(mutex_) = false;

  // Used only by the writer.
  std::array<std::string, 2> partial_;
  int fd_ = -1;
  std::uint64_t file_bytes_ = 0;
  int file_number_ = 0;
};

// Sends a run's log to the sink. `live` is the log of a run that may still write, for following; null if it is over.
// A run without files is an empty log.
[[nodiscard]] Done read_container_log(const std::string& folder, std::int32_t run, ContainerLog* live,
                                      const LogOptions& options, const LogSink& sink, const rt::StopToken& stop);

// "2026-01-02T03:04:05.000000006Z", always of this length, so that texts compare as times do.
[[nodiscard]] std::string log_stamp(rt::WallTime time);

// The last `bytes_max` bytes of the text of a run, at most `lines_max` lines: for termination messages.
[[nodiscard]] std::string log_end(const std::string& folder, std::int32_t run, std::size_t bytes_max, int lines_max);

}  // namespace basalt::node
