#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// Structured logs:
//
//   Logger log = base_log.with({{"controller", "job"}});
//   log.info("job synced", {{"job", key.to_string()}, {"phase", phase}, {"pods", 12}});
//
// A Logger is a cheap handle that is passed by value through constructors; there is no global one, so that many
// clusters live in one process and a test sees its own records. Every function may be called from any thread and none
// throws. Whatever a value contains, a record is one line. Limits: kLogFieldsMax fields a record (the rest is counted
// in the field "dropped_fields"), kLogValueBytesMax bytes a message or value (cut, with "...").

namespace basalt {

struct Error;

enum class LogLevel : std::uint8_t { Debug, Info, Warn, Error, Off };

[[nodiscard]] std::string_view to_string(LogLevel level);  // "debug", "info", "warn", "error", "off"
// Takes those words in any case, "warning" too; false if it is none.
[[nodiscard]] bool log_level_from_string(std::string_view text, LogLevel& level);

inline constexpr std::size_t kLogFieldsMax = 32;
inline constexpr std::size_t kLogValueBytesMax = 4096;

// A key and a value, as written at the call. Holds views only: it lives as long as the call.
class LogField {
 public:
  using Value =
      std::variant<std::string_view, std::int64_t, std::uint64_t, double, bool, std::chrono::nanoseconds, const Error*>;

  LogField(std::string_view key, std::string_view value) : key_(key), value_(value) {}
  LogField(std::string_view key, const char* value) : key_(key), value_(std::string_view(value)) {}
  LogField(std::string_view key, const std::string& value) : key_(key), value_(std::string_view(value)) {}
  LogField(std::string_view key, bool value) : key_(key), value_(value) {}
  LogField(std::string_view key, double value) : key_(key), value_(value) {}
  template <std::signed_integral T>
  LogField(std::string_view key, T value) : key_(key), value_(static_cast<std::int64_t>(value)) {}
  template <std::unsigned_integral T>
  LogField(std::string_view key, T value) : key_(key), value_(static_cast<std::uint64_t>(value)) {}
  template <class Rep, class Period>
  LogField(std::string_view key, std::chrono::duration<Rep, Period> value)
      : key_(key), value_(std::chrono::duration_cast<std::chrono::nanoseconds>(value)) {}
  LogField(std::string_view key, const Error& error) : key_(key), value_(&error) {}

  [[nodiscard]] std::string_view key() const { return key_; }
  [[nodiscard]] const Value& value() const { return value_; }

 private:
  std::string_view key_;
  Value value_;
};

using LogFields = std::initializer_list<LogField>;

// A field as sinks get it: the text of the value, and whether it is written without quotes (numbers, booleans).
struct LogRecordField {
  std::string key;
  std::string value;
  bool bare = false;
};

struct LogRecord {
  LogLevel level = LogLevel::Info;
  std::chrono::system_clock::time_point time;
  std::string message;
  std::vector<LogRecordField> fields;  // keys are unique: a call's field replaces the handle's of the same key

  // The value of a field, "" if absent.
  [[nodiscard]] std::string_view field(std::string_view key) const;
};

// Where records go. Called from any thread, at any time; must not throw and must not log.
class LogSink {
 public:
  LogSink() = default;
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;
  virtual ~LogSink() = default;
  virtual void write(const LogRecord& record) noexcept = 0;
  virtual void flush() noexcept {}
};

enum class LogFormat : std::uint8_t {
  Text,  // I0102 15:04:05.000000 job synced job="default/a" pods=12
  Json,  // {"ts":"2026-01-02T15:04:05.000000Z","level":"info","msg":"job synced","job":"default/a","pods":12}
};

[[nodiscard]] std::string format_log_record(const LogRecord& record, LogFormat format);  // without the line end

// To standard error, each line written at once.
[[nodiscard]] std::shared_ptr<LogSink> make_stderr_sink(LogFormat format);
// Appends to the file (made with mode 0600), flushed after each warning and error. Null, with the reason in `problem`,
// if it cannot be opened.
[[nodiscard]] std::shared_ptr<LogSink> make_file_sink(const std::string& path, LogFormat format, std::string& problem);

// Keeps what it is given: for tests, and for simulations, where an error-level record fails the run. Holds the first
// `records_max` records and goes on counting beyond.
class CollectingLogSink final : public LogSink {
 public:
  explicit CollectingLogSink(std::size_t records_max = 10'000);
  ~CollectingLogSink() override;
  void write(const LogRecord& record) noexcept override;

  [[nodiscard]] std::vector<LogRecord> records() const;
  [[nodiscard]] std::size_t count(LogLevel level) const;
  // The first error-level record, as text; "" if there was none.
  [[nodiscard]] std::string first_error() const;
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Logger {
 public:
  using Now = std::function<std::chrono::system_clock::time_point()>;

  Logger() = default;  // discards everything
  // `now` gives the records' times (a simulation gives its own); without it the system's clock does.
  explicit Logger(std::shared_ptr<LogSink> sink, LogLevel level = LogLevel::Info, Now now = {});

  void debug(std::string_view message, LogFields fields = {}) const { log(LogLevel::Debug, message, fields); }
  void info(std::string_view message, LogFields fields = {}) const { log(LogLevel::Info, message, fields); }
  void warn(std::string_view message, LogFields fields = {}) const { log(LogLevel::Warn, message, fields); }
  void error(std::string_view message, LogFields fields = {}) const { log(LogLevel::Error, message, fields); }
  void log(LogLevel level, std::string_view message, LogFields fields = {}) const noexcept {
    if (is_enabled(level)) write(level, message, fields);
  }

  // A handle whose records carry these fields, too.
  [[nodiscard]] Logger with(LogFields fields) const;

  // To avoid the cost of fields that nobody will see.
  [[nodiscard]] bool is_enabled(LogLevel level) const noexcept;
  [[nodiscard]] LogLevel level() const noexcept;
  // For this handle and every one that shares its origin, at once.
  void set_level(LogLevel level) const noexcept;
  void flush() const noexcept;

 private:
  struct Core;
  void write(LogLevel level, std::string_view message, LogFields fields) const noexcept;

  std::shared_ptr<Core> core_;
  std::shared_ptr<const std::vector<LogRecordField>> context_;
};

}  // namespace basalt
