#include "node/container_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <filesystem>

#include "base/strings.h"

namespace basalt::node {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kStampBytes = 30;

std::string file_name(std::int32_t run, int number) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%d.%06d.log", run, number);
  return text.data();
}

struct LogFile {
  std::int64_t run = 0;
  std::int64_t number = 0;
};

std::optional<LogFile> parse_file_name(std::string_view name) {
  const auto parts = base::split(name, '.');
  if (parts.size() != 3 || parts[2] != "log") return std::nullopt;
  const auto run = base::parse_int64(parts[0]);
  const auto number = base::parse_int64(parts[1]);
  if (!run || !number) return std::nullopt;
  return LogFile{*run, *number};
}

// Numbers of the files of a run, in order.
std::vector<int> files_of(const std::string& folder, std::int32_t run) {
  std::vector<int> numbers;
  std::error_code error;
  for (fs::directory_iterator entries(folder, error), end; !error && entries != end; entries.increment(error)) {
    const auto file = parse_file_name(entries->path().filename().native());
    if (file && file->run == run) numbers.push_back(static_cast<int>(file->number));
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// One line of a log file without its end.
struct Line {
  std::string_view stamp;
  bool full = true;
  std::string_view text;
};

Line parse_line(std::string_view line) {
  if (line.size() < kStampBytes + 10) return {{}, true, line};
  const std::string_view stamp = line.substr(0, kStampBytes);
  const std::string_view rest = line.substr(kStampBytes + 1);  // "stdout F text"
  if (rest.size() < 9) return {stamp, true, {}};
  return {stamp, rest[7] == 'F', rest.substr(9)};
}

// Reads the files of a run from beginning to end, and what comes later.
class LogReader {
 public:
  LogReader(const std::string& folder, std::int32_t run) : folder_(folder), run_(run) {
    numbers_ = files_of(folder, run);
  }
  ~LogReader() { close_file(); }
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;

  // The next complete line; none at the end of what is there now.
  std::optional<std::string_view> next() {
    while (true) {
      const std::size_t end = buffer_.find('\n', position_);
      if (end != std::string::npos) {
        const std::string_view line = std::string_view(buffer_).substr(position_, end - position_);
        position_ = end + 1;
        return line;
      }
      buffer_.erase(0, position_);
      position_ = 0;
      if (!fill()) return std::nullopt;
    }
  }
  // Files that were begun since.
  void look_again() {
    for (const int number : files_of(folder_, run_)) {
      if (numbers_.empty() || number > numbers_.back()) numbers_.push_back(number);
    }
  }

 private:
  bool fill() {
    while (true) {
      if (fd_ < 0) {
        if (index_ >= numbers_.size()) return false;
        fd_ = ::open((folder_ + "/" + file_name(run_, numbers_[index_])).c_str(), O_RDONLY | O_CLOEXEC);
        if (fd_ < 0) {  // removed by rotation
          ++index_;
          continue;
        }
      }
      const std::size_t before = buffer_.size();
      buffer_.resize(before + 64 * 1024);
      const ssize_t got = ::read(fd_, buffer_.data() + before, 64 * 1024);
      buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
      if (got > 0) return true;
      if (index_ + 1 >= numbers_.size()) return false;  // stays open for what will be appended
      close_file();
      ++index_;
    }
  }
  void close_file() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  const std::string folder_;
  const std::int32_t run_;
  std::vector<int> numbers_;
  std::size_t index_ = 0;
  int fd_ = -1;
  std::string buffer_;
  std::size_t position_ = 0;
};

// Counts what is sent and applies the options to each line.
class LogFilter {
 public:
  LogFilter(const LogOptions& options, const LogSink& sink) : sink_(sink), timestamps_(options.timestamps) {
    if (options.since) since_ = log_stamp(*options.since);
    if (options.limit_bytes) left_ = *options.limit_bytes;
  }
  [[nodiscard]] bool wants(const Line& line) const { return since_.empty() || line.stamp >= since_; }
  // False when nothing more is wanted.
  bool send(const Line& line) {
    std::string out;
    if (timestamps_ && !continues_) out.append(line.stamp).push_back(' ');
    out += line.text;
    if (line.full) out += '\n';
    continues_ = !line.full;
    if (left_) {
      if (static_cast<std::int64_t>(out.size()) > *left_) out.resize(static_cast<std::size_t>(*left_));
      *left_ -= static_cast<std::int64_t>(out.size());
    }
    batch_ += out;
    const bool more = !left_ || *left_ > 0;
    if (batch_.size() < 32 * 1024 && more) return true;
    return flush() && more;
  }
  bool flush() {
    if (batch_.empty()) return true;
    const bool wanted = sink_(batch_);
    batch_.clear();
    return wanted;
  }

 private:
  const LogSink& sink_;
  const bool timestamps_;
  std::string since_;
  std::optional<std::int64_t> left_;
  std::string batch_;
  bool continues_ = false;  // the last piece had no line end
};

}  // namespace

std::string log_stamp(rt::WallTime time) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(time);
  std::string text =
      api::MicroTime::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(micros)).to_string();
  text.pop_back();  // the Z
  std::array<char, 8> nanos{};
  std::snprintf(nanos.data(), nanos.size(), "%03dZ", static_cast<int>((time - micros).count()));
  return text + nanos.data();
}

ContainerLog::ContainerLog(rt::Runtime& runtime, std::string folder, std::int32_t run, LogLimits limits)
    : runtime_(runtime), folder_(std::move(folder)), run_(run), limits_(limits), changed_(runtime) {
  std::error_code error;
  fs::create_directories(folder_, error);
  for (fs::directory_iterator entries(folder_, error), end; !error && entries != end; entries.increment(error)) {
    const auto file = parse_file_name(entries->path().filename().native());
    // A run of this number was begun by an agent that died before it wrote so down.
    if (file && (file->run < run - 1 || file->run >= run)) fs::remove(entries->path(), error);
  }
}

ContainerLog::~ContainerLog() {
  if (fd_ >= 0) ::close(fd_);
}

void ContainerLog::add_line(std::string& out, std::string_view stamp, OutputStream stream, bool full,
                            std::string_view text) const {
  out += stamp;
  out += stream == OutputStream::Out ? " stdout " : " stderr ";
  out += full ? "F " : "P ";
  out += text;
  out += '\n';
}

void ContainerLog::append(OutputStream stream, std::string_view bytes) {
  const std::string stamp = log_stamp(runtime_.wall_now());
  std::string& partial = partial_[static_cast<std::size_t>(stream)];
  std::string lines;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = kLineBytesMax - partial.size();
    if (end != std::string_view::npos && end <= room) {
      partial += bytes.substr(0, end);
      add_line(lines, stamp, stream, true, partial);
      partial.clear();
      bytes.remove_prefix(end + 1);
    } else if (bytes.size() <= room) {
      partial += bytes;
      break;
    } else {
      partial += bytes.substr(0, room);
      add_line(lines, stamp, stream, false, partial);
      partial.clear();
      bytes.remove_prefix(room);
    }
  }
  write(lines);
}

void ContainerLog::close() {
  const std::string stamp = log_stamp(runtime_.wall_now());
  std::string lines;
  for (const OutputStream stream : {OutputStream::Out, OutputStream::Err}) {
    std::string& partial = partial_[static_cast<std::size_t>(stream)];
    if (!partial.empty()) add_line(lines, stamp, stream, false, partial);
    partial.clear();
  }
  write(lines);
  rt::MutexLock lock(mutex_);
  closed_ = true;
  ++version_;
  changed_.notify_all();
}

void ContainerLog::open_next() {
  if (fd_ >= 0) ::close(fd_);
  ++file_number_;
  file_bytes_ = 0;
  const std::string path = folder_ + "/" + file_name(run_, file_number_);
  fd_ = ::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0640);
  const int oldest = file_number_ - static_cast<int>(limits_.files_max);
  std::error_code error;
  if (oldest > 0) fs::remove(folder_ + "/" + file_name(run_, oldest), error);
}

void ContainerLog::write(const std::string& lines) {
  if (lines.empty()) return;
  if (fd_ < 0 || file_bytes_ >= limits_.file_bytes_max) open_next();
  // A full disk loses output; it must not stop the pod.
  std::string_view left = lines;
  while (fd_ >= 0 && !left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  file_bytes_ += lines.size();
  rt::MutexLock lock(mutex_);
  ++version_;
  changed_.notify_all();
}

std::uint64_t ContainerLog::wait_for_change(std::uint64_t seen, const rt::StopToken& stop) {
  const auto registration = stop.on_stop([this] { changed_.notify_all(); });
  rt::MutexLock lock(mutex_);
  // A stop that comes between the test and the wait is seen at the deadline.
  while (version_ == seen && !closed_ && !stop.stop_requested())
    changed_.wait_until(mutex_, runtime_.now() + std::chrono::seconds(1));
  return version_;
}

bool ContainerLog::is_closed() {
  rt::MutexLock lock(mutex_);
  return closed_;
}

Done read_container_log(const std::string& folder, std::int32_t run, ContainerLog* live, const LogOptions& options,
                        const LogSink& sink, const rt::StopToken& stop) {
  std::uint64_t skip = 0;
  if (options.tail_lines) {
    LogReader counter(folder, run);
    std::uint64_t lines = 0;
    bool continues = false;
    // Pieces of one line count once; what is skipped is counted in pieces.
    std::deque<std::uint64_t> newest;  // piece number at which each of the last lines begins
    while (const auto text = counter.next()) {
      const Line line = parse_line(*text);
      if (!continues) {
        newest.push_back(lines);
        if (static_cast<std::int64_t>(newest.size()) > *options.tail_lines) newest.pop_front();
      }
      continues = !line.full;
      ++lines;
    }
    skip = newest.empty() ? lines : newest.front();
  }
  LogReader reader(folder, run);
  LogFilter filter(options, sink);
  std::uint64_t seen = 0;
  while (true) {
    const bool over = live == nullptr || !options.follow || live->is_closed();
    reader.look_again();
    while (const auto text = reader.next()) {
      if (skip > 0) {
        --skip;
        continue;
      }
      const Line line = parse_line(*text);
      if (filter.wants(line) && !filter.send(line)) return Ok{};
    }
    if (!filter.flush() || over) return Ok{};
    seen = live->wait_for_change(seen, stop);
    if (stop.stop_requested()) return Error::make(Reason::Cancelled, "stopped while following a log");
  }
}

std::string log_end(const std::string& folder, std::int32_t run, std::size_t bytes_max, int lines_max) {
  std::string text;
  const LogOptions options{.tail_lines = lines_max};
  (void)read_container_log(folder, run, nullptr, options,
                           [&](std::string_view bytes) {
                             text += bytes;
                             return true;
                           },
                           {});
  if (text.size() > bytes_max) text.erase(0, text.size() - bytes_max);
  return text;
}

}  // namespace basalt::node
