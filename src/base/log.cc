#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>

#include <fmt/format.h>
#include <spdlog/details/log_msg.h>
#include <spdlog/details/os.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "base/error.h"
#include "base/strings.h"

namespace basalt {

namespace {

constexpr std::size_t kKeyBytesMax = 64;

// Keys are written bare in both formats, so only letters that need no quotes pass.
std::string clean_key(std::string_view key) {
  std::string out(key.substr(0, kKeyBytesMax));
  for (char& c : out) {
    if (!base::is_alphanumeric(c) && c != '_' && c != '-' && c != '.' && c != '/') c = '_';
  }
  return out.empty() ? "_" : out;
}

struct RenderValue {
  LogRecordField& field;
  void operator()(std::string_view value) const { field.value = base::ellipsize(value, kLogValueBytesMax); }
  void operator()(std::int64_t value) const { bare(fmt::format("{}", value)); }
  void operator()(std::uint64_t value) const { bare(fmt::format("{}", value)); }
  void operator()(bool value) const { bare(value ? "true" : "false"); }
  void operator()(double value) const {
    field.value = fmt::format("{}", value);
    field.bare = std::isfinite(value);
  }
  void operator()(std::chrono::nanoseconds value) const {
    field.value = fmt::format("{}s", std::chrono::duration<double>(value).count());
  }
  void operator()(const Error* error) const { (*this)(std::string_view(error->to_string())); }
  void bare(std::string text) const {
    field.value = std::move(text);
    field.bare = true;
  }
};

// Adds the fields, a later one replacing an earlier one of its key; returns how many found no room.
std::size_t add_fields(std::vector<LogRecordField>& to, LogFields fields) {
  std::size_t dropped = 0;
  for (const LogField& field : fields) {
    LogRecordField rendered{clean_key(field.key()), {}, false};
    std::visit(RenderValue{rendered}, field.value());
    const auto same = std::find_if(to.begin(), to.end(), [&](const auto& other) { return other.key == rendered.key; });
    if (same != to.end()) {
      *same = std::move(rendered);
    } else if (to.size() < kLogFieldsMax) {
      to.push_back(std::move(rendered));
    } else {
      ++dropped;
    }
  }
  return dropped;
}

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = base::utf8_sequence_length(text);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out.append("\\n");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out.append(fmt::format("\\u{:04x}", static_cast<unsigned char>(c)));
    } else if (length == 0) {
      out.append("\\ufffd");
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out.push_back('"');
}

struct BrokenDownTime {
  std::chrono::year_month_day date;
  std::chrono::hh_mm_ss<std::chrono::microseconds> clock;

  explicit BrokenDownTime(std::chrono::system_clock::time_point time)
      : date(std::chrono::floor<std::chrono::days>(time)),
        clock(std::chrono::floor<std::chrono::microseconds>(time) - std::chrono::floor<std::chrono::days>(time)) {}

  [[nodiscard]] std::string date_text(bool with_year) const {
    const unsigned month = static_cast<unsigned>(date.month());
    const unsigned day = static_cast<unsigned>(date.day());
    if (with_year) return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), month, day);
    return fmt::format("{:02}{:02}", month, day);
  }
  [[nodiscard]] std::string clock_text() const {
    return fmt::format("{:02}:{:02}:{:02}.{:06}", clock.hours().count(), clock.minutes().count(),
                       clock.seconds().count(), clock.subseconds().count());
  }
};

std::string format_text(const LogRecord& record) {
  static constexpr std::string_view kLetters = "DIWE?";
  const BrokenDownTime time(record.time);
  std::string out;
  out.push_back(kLetters[static_cast<std::size_t>(record.level)]);
  out.append(time.date_text(false)).append(" ").append(time.clock_text()).append(" ");
  out.append(base::escape_controls(record.message));
  for (const LogRecordField& field : record.fields) {
    out.append(" ").append(field.key).append("=");
    out.append(field.bare ? field.value : base::quote(field.value));
  }
  return out;
}

std::string format_json(const LogRecord& record) {
  const BrokenDownTime time(record.time);
  std::string out = "{\"ts\":\"";
  out.append(time.date_text(true)).append("T").append(time.clock_text()).append("Z\",\"level\":\"");
  out.append(to_string(record.level)).append("\",\"msg\":");
  append_json_string(out, record.message);
  for (const LogRecordField& field : record.fields) {
    const bool taken = field.key == "ts" || field.key == "level" || field.key == "msg";
    out.append(",\"").append(field.key).append(taken ? "_\":" : "\":");
    if (field.bare) {
      out.append(field.value);
    } else {
      append_json_string(out, field.value);
    }
  }
  out.push_back('}');
  return out;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return spdlog::level::debug;
    case LogLevel::Info:
      return spdlog::level::info;
    case LogLevel::Warn:
      return spdlog::level::warn;
    case LogLevel::Error:
      return spdlog::level::err;
    case LogLevel::Off:
      break;
  }
  return spdlog::level::off;
}

// One of spdlog's sinks, given whole lines. A line that cannot be written (disk full, closed pipe) is lost: a log must
// not stop the work it reports on.
class SpdlogSink final : public LogSink {
 public:
  SpdlogSink(std::shared_ptr<spdlog::sinks::sink> sink, LogFormat format, bool flush_each)
      : sink_(std::move(sink)), format_(format), flush_each_(flush_each) {
    sink_->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v", spdlog::pattern_time_type::utc, "\n"));
  }
  ~SpdlogSink() override { flush(); }

  void write(const LogRecord& record) noexcept override {
    try {
      const std::string line = format_log_record(record, format_);
      sink_->log(spdlog::details::log_msg("", spdlog_level(record.level), line));
      if (flush_each_ || record.level >= LogLevel::Warn) sink_->flush();
    } catch (...) {}
  }
  void flush() noexcept override {
    try {
      sink_->flush();
    } catch (...) {}
  }

 private:
  const std::shared_ptr<spdlog::sinks::sink> sink_;
  const LogFormat format_;
  const bool flush_each_;
};

}  // namespace

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::Debug:
      return "debug";
    case LogLevel::Info:
      return "info";
    case LogLevel::Warn:
      return "warn";
    case LogLevel::Error:
      return "error";
    case LogLevel::Off:
      break;
  }
  return "off";
}

bool log_level_from_string(std::string_view text, LogLevel& level) {
  const std::string word = base::to_lower_ascii(text);
  for (const LogLevel each : {LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error, LogLevel::Off}) {
    if (word == to_string(each) || (each == LogLevel::Warn && word == "warning")) {
      level = each;
      return true;
    }
  }
  return false;
}

std::string_view LogRecord::field(std::string_view key) const {
  for (const LogRecordField& each : fields) {
    if (each.key == key) return each.value;
  }
  return {};
}

std::string format_log_record(const LogRecord& record, LogFormat format) {
  return format == LogFormat::Json ? format_json(record) : format_text(record);
}

std::shared_ptr<LogSink> make_stderr_sink(LogFormat format) {
  return std::make_shared<SpdlogSink>(std::make_shared<spdlog::sinks::stderr_sink_mt>(), format, true);
}

std::shared_ptr<LogSink> make_file_sink(const std::string& path, LogFormat format, std::string& problem) {
  // spdlog would create the file for all to read; logs name users' objects.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) {
    problem = "cannot open the log file " + base::quote(path) + ": " + std::strerror(errno);
    return nullptr;
  }
  ::close(fd);
  try {
    return std::make_shared<SpdlogSink>(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path), format, false);
  } catch (const std::exception& exception) {
    problem = "cannot open the log file " + base::quote(path) + ": " + exception.what();
    return nullptr;
  }
}

struct CollectingLogSink::State {
  const std::size_t records_max;
  mutable std::mutex mutex;
  // Guarded by mutex:
  std::vector<LogRecord> records;
  std::array<std::size_t, 5> counts{};
  std::optional<LogRecord> first_error;

  explicit State(std::size_t limit) : records_max(limit) {}
};

CollectingLogSink::CollectingLogSink(std::size_t records_max) : state_(std::make_unique<State>(records_max)) {}
CollectingLogSink::~CollectingLogSink() = default;

void CollectingLogSink::write(const LogRecord& record) noexcept {
  const std::lock_guard lock(state_->mutex);
  ++state_->counts[static_cast<std::size_t>(record.level)];
  if (record.level == LogLevel::Error && !state_->first_error) state_->first_error = record;
  if (state_->records.size() < state_->records_max) state_->records.push_back(record);
}

std::vector<LogRecord> CollectingLogSink::records() const {
  const std::lock_guard lock(state_->mutex);
  return state_->records;
}

std::size_t CollectingLogSink::count(LogLevel level) const {
  const std::lock_guard lock(state_->mutex);
  return state_->counts[static_cast<std::size_t>(level)];
}

std::string CollectingLogSink::first_error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->first_error ? format_log_record(*state_->first_error, LogFormat::Text) : std::string();
}

void CollectingLogSink::clear() {
  const std::lock_guard lock(state_->mutex);
  state_->records.clear();
  state_->counts.fill(0);
  state_->first_error.reset();
}

struct Logger::Core {
  // Fixed after construction:
  const std::shared_ptr<LogSink> sink;
  const Now now;
  // Does its own locking:
  std::atomic<LogLevel> level;

  Core(std::shared_ptr<LogSink> to, LogLevel from, Now clock)
      : sink(std::move(to)), now(std::move(clock)), level(from) {}
};

Logger::Logger(std::shared_ptr<LogSink> sink, LogLevel level, Now now)
    : core_(sink ? std::make_shared<Core>(std::move(sink), level, std::move(now)) : nullptr) {}

Logger Logger::with(LogFields fields) const {
  Logger copy = *this;
  if (!core_) return copy;
  auto context = context_ ? std::make_shared<std::vector<LogRecordField>>(*context_)
                          : std::make_shared<std::vector<LogRecordField>>();
  add_fields(*context, fields);
  copy.context_ = std::move(context);
  return copy;
}

bool Logger::is_enabled(LogLevel level) const noexcept {
  return core_ && level >= core_->level.load(std::memory_order_relaxed) && level != LogLevel::Off;
}

LogLevel Logger::level() const noexcept { return core_ ? core_->level.load(std::memory_order_relaxed) : LogLevel::Off; }

void Logger::set_level(LogLevel level) const noexcept {
  if (core_) core_->level.store(level, std::memory_order_relaxed);
}

void Logger::flush() const noexcept {
  if (core_) core_->sink->flush();
}

void Logger::write(LogLevel level, std::string_view message, LogFields fields) const noexcept {
  try {
    LogRecord record;
    record.level = level;
    record.time = core_->now ? core_->now() : spdlog::details::os::now();
    record.message = base::ellipsize(message, kLogValueBytesMax);
    if (context_) record.fields = *context_;
    if (const std::size_t dropped = add_fields(record.fields, fields); dropped > 0) {
      record.fields.push_back({"dropped_fields", std::to_string(dropped), true});
    }
    core_->sink->write(record);
  } catch (...) {
    // Formatting failed or the caller's clock threw: the record is lost, the caller goes on.
  }
}

}  // namespace basalt
