#include "apiserver/http/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "api/time.h"
#include "apiserver/http/observed_responder.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr rt::Duration kTellEvery = std::chrono::minutes(1);
constexpr mode_t kOwnerOnly = 0600;

std::uint64_t count_lines(std::string_view text) {
  return static_cast<std::uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

json::Value user_json(const UserInfo& user) {
  json::Array groups;
  for (const std::string& group : user.groups) groups.emplace_back(group);
  json::Object object{{"username", user.name}};
  if (!user.uid.empty()) object.set("uid", user.uid);
  if (!groups.empty()) object.set("groups", std::move(groups));
  return object;
}

json::Value object_json(const ApiPath& path) {
  json::Object object{{"resource", path.plural}, {"apiVersion", path.version}};
  const auto add = [&](std::string_view key, const std::string& value) {
    if (!value.empty()) object.set(key, value);
  };
  add("apiGroup", path.group);
  add("namespace", path.ns);
  add("name", path.name);
  add("subresource", path.subresource);
  return object;
}

// What an answer came to is what the log tells.
class AuditedResponder final : public ObservedResponder {
 public:
  AuditedResponder(rt::Runtime& runtime, std::shared_ptr<AuditLog> log, std::shared_ptr<net::Responder> inner,
                   std::shared_ptr<AuditRecord> record)
      : ObservedResponder(std::move(inner)), runtime_(runtime), log_(std::move(log)), record_(std::move(record)) {}
  ~AuditedResponder() override { end(500); }

 private:
  void on_start(int code) override {
    log_->write(audit_line(*record_, AuditStage::Started, code, runtime_.wall_now()));
  }
  void on_end(int code) override { log_->write(audit_line(*record_, AuditStage::Complete, code, runtime_.wall_now())); }

  rt::Runtime& runtime_;
  const std::shared_ptr<AuditLog> log_;
  const std::shared_ptr<AuditRecord> record_;
};

}  // namespace

AuditLog::AuditLog(rt::Runtime& runtime, Logger log, Options options)
    : runtime_(runtime), log_(std::move(log)), options_(std::move(options)), ready_(runtime) {}

Result<std::unique_ptr<AuditLog>> AuditLog::open(rt::Runtime& runtime, Logger log, Options options) {
  std::unique_ptr<AuditLog> audit(new AuditLog(runtime, std::move(log), std::move(options)));
  BASALT_TRY_DONE(audit->open_file());
  audit->thread_ = rt::Thread(runtime, "audit-log", [raw = audit.get()] { raw->run(); });
  return audit;
}

AuditLog::~AuditLog() {
  {
    rt::MutexLock lock(mutex_);
    ending_ = true;
    ready_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (file_ >= 0) ::close(file_);
}

Done AuditLog::open_file() {
  file_ = ::open(options_.path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, kOwnerOnly);
  if (file_ < 0) {
    return Error::invalid_input("the audit log " + options_.path + " cannot be written: " + std::strerror(errno));
  }
  struct stat state{};
  file_bytes_ = ::fstat(file_, &state) == 0 ? static_cast<std::size_t>(state.st_size) : 0;
  return Ok{};
}

void AuditLog::write(std::string line) {
  bool is_full = false;
  {
    rt::MutexLock lock(mutex_);
    is_full = waiting_.size() + line.size() > options_.waiting_bytes_max;
    if (!is_full) {
      waiting_.append(line).push_back('\n');
      ready_.notify_all();
    }
  }
  if (is_full) lose(1, "they come faster than they can be written");
}

std::uint64_t AuditLog::lost() const {
  rt::MutexLock lock(mutex_);
  return lost_;
}

void AuditLog::run() {
  for (bool is_last = false; !is_last;) {
    std::string lines;
    {
      rt::MutexLock lock(mutex_);
      while (waiting_.empty() && !ending_) ready_.wait_until(mutex_, rt::kNever);
      lines.swap(waiting_);
      is_last = ending_;
    }
    if (!lines.empty()) put(lines);
  }
}

void AuditLog::put(const std::string& lines) {
  if (file_bytes_ > 0 && file_bytes_ + lines.size() > options_.file_bytes_max) {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
    if (std::rename(options_.path.c_str(), (options_.path + ".1").c_str()) != 0) {
      return lose(count_lines(lines),
                  "the file is full, and cannot be renamed to " + options_.path + ".1: " + std::strerror(errno));
    }
  }
  if (file_ < 0) {
    if (const Done opened = open_file(); !opened.ok()) return lose(count_lines(lines), opened.error().message);
  }
  std::size_t done = 0;
  while (done < lines.size()) {
    const ssize_t count = ::write(file_, lines.data() + done, lines.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  const int problem = errno;
  file_bytes_ += done;
  if (done == lines.size()) return;
  // The next lines begin on a line of their own.
  const std::size_t rest = lines.find('\n', done);
  const bool cut = done > 0 && lines[done - 1] != '\n';
  if (cut && ::write(file_, "\n", 1) == 1) ++file_bytes_;
  lose(count_lines(std::string_view(lines).substr(std::min(rest, lines.size()))), std::strerror(problem));
}

void AuditLog::lose(std::uint64_t count, std::string_view why) {
  std::uint64_t all = 0;
  {
    rt::MutexLock lock(mutex_);
    lost_ += count;
    all = lost_;
    const rt::Instant now = runtime_.now();
    if (told_at_ && now < *told_at_ + kTellEvery) return;
    told_at_ = now;
  }
  log_.error("events of the audit log are lost",
             {{"file", options_.path}, {"lost", std::to_string(all)}, {"problem", std::string(why)}});
}

std::string audit_line(const AuditRecord& record, AuditStage stage, int code, rt::WallTime now) {
  json::Object event{{"kind", "Event"},
                     {"apiVersion", "audit.k8s.io/v1"},
                     {"level", "Metadata"},
                     {"auditID", record.id},
                     {"stage", stage == AuditStage::Started ? "ResponseStarted" : "ResponseComplete"},
                     {"requestURI", record.uri},
                     {"verb", record.verb},
                     {"sourceIPs", json::Array{json::Value(record.source_address)}},
                     {"userAgent", record.user_agent},
                     {"requestReceivedTimestamp", api::MicroTime::from(record.received).to_string()},
                     {"stageTimestamp", api::MicroTime::from(now).to_string()},
                     {"responseStatus", json::Object{{"metadata", json::Object()}, {"code", code}}}};
  event.set("user", record.user ? user_json(*record.user) : json::Value(json::Object()));
  if (record.impersonated) event.set("impersonatedUser", user_json(*record.impersonated));
  if (record.path) event.set("objectRef", object_json(*record.path));
  json::Object annotations;
  if (record.user) annotations.set("authorization.k8s.io/decision", record.is_allowed ? "allow" : "forbid");
  if (record.annotations) {
    for (const auto& [key, value] : *record.annotations) annotations.set(key, value);
  }
  if (!annotations.empty()) event.set("annotations", std::move(annotations));
  return json::Value(std::move(event)).to_text();
}

std::shared_ptr<net::Responder> audited(rt::Runtime& runtime, std::shared_ptr<AuditLog> log,
                                        std::shared_ptr<net::Responder> responder,
                                        std::shared_ptr<AuditRecord> record) {
  return std::make_shared<AuditedResponder>(runtime, std::move(log), std::move(responder), std::move(record));
}

}  // namespace basalt::apiserver
