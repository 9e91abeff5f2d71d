#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/http/api_path.h"
#include "apiserver/registry/api_server.h"
#include "base/log.h"
#include "base/result.h"
#include "base/thread_annotations.h"
#include "net/http_server.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// A file with one line of JSON for each request, an audit.k8s.io/v1 Event of level Metadata: who did what to which
// object, when, and what came of it; never a body. Lines are handed to one thread, so no request waits for the disk.
//
// Limits: `file_bytes_max` for a file, after which it is renamed to FILE.1, and what was FILE.1 is gone; 16 MiB of
// lines that wait. What does not fit, and what the disk does not take (full, or FILE cannot be renamed), is lost: the
// log says so once a minute with the count, and requests go on. Thread-safe.
class AuditLog {
 public:
  struct Options {
    std::string path;
    std::size_t file_bytes_max = 100u << 20;
    std::size_t waiting_bytes_max = 16u << 20;
  };
  // The file is made if it is absent, readable by its owner only, and appended to otherwise.
  static Result<std::unique_ptr<AuditLog>> open(rt::Runtime& runtime, Logger log, Options options);
  ~AuditLog();  // writes what waits

  void write(std::string line);
  [[nodiscard]] std::uint64_t lost() const;

 private:
  AuditLog(rt::Runtime& runtime, Logger log, Options options);
  Done open_file();
  void run();
  void put(const std::string& lines);
  void lose(std::uint64_t count, std::string_view why);

  rt::Runtime& runtime_;
  const Logger log_;
  const Options options_;

  mutable rt::Mutex mutex_;
  rt::Condition ready_;
  std::string waiting_ BASALT_GUARDED_BY(mutex_);
  bool ending_ BASALT_GUARDED_BY(mutex_) = false;
  std::uint64_t lost_ BASALT_GUARDED_BY(mutex_) = 0;
  std::optional<rt::Instant> told_at_ BASALT_GUARDED_BY(mutex_);  // when the log last said that lines are lost

  // Of the thread.
  int file_ = -1;
  std::size_t file_bytes_ = 0;
  rt::Thread thread_;
};

// What is known of one request, filled in while it is worked on. One thread at a time.
struct AuditRecord {
  std::string id;
  std::string uri;
  std::string verb;
  std::string user_agent;
  std::string source_address;  // without a port
  std::optional<UserInfo> user;
  std::optional<UserInfo> impersonated;
  std::optional<ApiPath> path;
  rt::WallTime received;
  bool is_allowed = false;
  std::shared_ptr<AuditAnnotations> annotations;  // of admission
};

// The line of a request that has been answered with this code, or (Started) whose answer has begun and goes on.
enum class AuditStage : std::uint8_t { Started, Complete };
[[nodiscard]] std::string audit_line(const AuditRecord& record, AuditStage stage, int code, rt::WallTime now);

// A responder that writes the record when the answer begins to stream, and when it is complete.
[[nodiscard]] std::shared_ptr<net::Responder> audited(rt::Runtime& runtime, std::shared_ptr<AuditLog> log,
                                                      std::shared_ptr<net::Responder> responder,
                                                      std::shared_ptr<AuditRecord> record);

}  // namespace basalt::apiserver
