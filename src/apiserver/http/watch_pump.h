#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "apiserver/http/accept.h"
#include "apiserver/registry/api_server.h"
#include "base/log.h"
#include "net/http_server.h"
#include "rt/mutex.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// Carries events from watch sessions to HTTP responses, all on one thread: an idle watch costs a few hundred bytes and
// nothing else. A reader that lets more than `backlog_bytes_max` wait is cut off; it resumes from the last version it
// saw, others do not notice. Owned by the HTTP front; stop() before destruction.
class WatchPump {
 public:
  struct Options {
    std::size_t watches_max = 10'000;  // more are refused with TooManyRequests
    std::size_t backlog_bytes_max = 16u << 20;
  };
  struct Stream {
    std::unique_ptr<WatchSession> session;
    std::shared_ptr<net::Responder> responder;
    std::shared_ptr<const ResourceType> type;
    Answer answer;
    std::string include_object = "Metadata";
    rt::Instant ends_at;
    // Used by the pump alone.
    bool columns_sent = false;
  };

  WatchPump(rt::Runtime& runtime, Logger log, Options options);
  ~WatchPump();

  // Takes the stream over, its response already started.
  Done add(Stream stream);
  [[nodiscard]] std::size_t watches() const;
  void stop();

 private:
  using Id = std::uint64_t;
  void run();
  void mark_ready(Id id);
  void drop(Id id);
  // False if the stream is at its end.
  bool pump(Stream& stream);
  [[nodiscard]] std::shared_ptr<const std::string> frame_of(Stream& stream, const kube::WatchEvent& event) const;

  rt::Runtime& runtime_;
  Logger log_;
  Options options_;

  mutable rt::Mutex mutex_;
  rt::Condition wake_;
  std::map<Id, std::shared_ptr<Stream>> streams_ BASALT_GUARDED_BY(mutex_);
  std::set<Id> ready_ BASALT_GUARDED_BY(mutex_);
  std::set<std::pair<rt::Instant, Id>> timers_ BASALT_GUARDED_BY(mutex_);
  Id next_id_ BASALT_GUARDED_BY(mutex_) = 1;
  bool stopping_ BASALT_GUARDED_BY(mutex_) = false;

  rt::Thread thread_;
};

// {"type":"ADDED","object":...} and a line end, or what stands for it in protobuf.
[[nodiscard]] std::string watch_frame(const Answer& answer, std::string_view type, std::string_view object);
// The event that tells why a watch ends.
[[nodiscard]] std::string error_frame(const Answer& answer, const Error& error);

}  // namespace basalt::apiserver
