#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/log.h"
#include "kube/client.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::kube {

// The object that an event is about.
struct ObjectReference {
  std::string api_version;
  std::string kind;
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::string field_path;
  auto operator<=>(const ObjectReference&) const = default;
};

enum class EventType : std::uint8_t { Normal, Warning };

// Core/v1 Events, written by a thread of its own. event() never blocks and never fails: the queue is bounded, at its
// limit the oldest is dropped and counted. A repetition becomes a count on the event that is there; many events of one
// reason about one object that differ only in the message become one ("combined from similar events"); an object that
// talks without end is rate limited. The rules and numbers are those of client-go's correlator (tools/record,
// events_cache.go, v0.33), so that an operator sees what they are used to.
class EventRecorder {
 public:
  struct Options {
    std::string component;  // source.component and reportingComponent, "vc-controller-manager"
    std::string host;
    std::size_t queue_max = 1000;
    std::size_t cache_max = 4096;                            // events and objects that are remembered
    std::size_t similar_max = 10;                            // different messages of one reason and object ...
    rt::Duration similar_window = std::chrono::minutes(10);  // ... within this, then they are combined
    int burst_per_object = 25;
    rt::Duration refill_per_object = std::chrono::seconds(300);  // one more event each
    int attempts_max = 4;                                        // of one write; then it is dropped and counted
    rt::Duration retry_delay = std::chrono::seconds(2);
    Metrics* metrics = nullptr;
  };
  struct Counts {
    std::uint64_t created = 0;
    std::uint64_t patched = 0;
    std::uint64_t dropped_full = 0;    // the queue was full
    std::uint64_t dropped_spam = 0;    // the object talked too much
    std::uint64_t dropped_failed = 0;  // the server did not take it
  };

  EventRecorder(rt::Runtime& runtime, Client& client, Logger log, Options options);
  ~EventRecorder();  // stop() has been called if start() was
  void start();
  // Writes what is queued for at most `grace`, then ends the thread.
  void stop(rt::Duration grace = std::chrono::seconds(1));

  // `message` is cut at 1024 bytes, the limit of the API. `reason` is a word in CamelCase.
  void event(const ObjectReference& object, EventType type, std::string_view reason, std::string_view message);
  [[nodiscard]] Counts counts() const;

  static constexpr std::size_t kMessageMax = 1024;
  static constexpr std::size_t kReasonMax = 128;

 private:
  struct Item;
  struct Correlator;

  enum class Verdict : std::uint8_t { Created, Patched, Spam, Failed };

  void run();
  Verdict write(const Item& item, const rt::StopToken& stop);
  std::string combine(const Item& item);
  std::string event_name(const Item& item);
  static std::string patch_body(std::int64_t count, std::string_view time, std::string_view message);
  [[nodiscard]] std::string event_body(const Item& item, std::string_view name, std::string_view ns,
                                       std::string_view time, std::string_view message) const;
  Done send(const Request& request, const rt::StopToken& stop);

  // Fixed after construction.
  rt::Runtime& runtime_;
  Client& client_;
  const Logger log_;
  const Options options_;
  Counter dropped_counter_;

  // Self-locking.
  rt::StopSource stop_now_;

  mutable rt::Mutex mutex_;
  rt::Condition changed_;
  std::deque<Item> queue_ BASALT_GUARDED_BY(mutex_);
  bool stopping_ BASALT_GUARDED_BY(mutex_) = false;
  bool idle_ BASALT_GUARDED_BY(mutex_) = true;
  Counts counts_ BASALT_GUARDED_BY(mutex_);

  // Used only by the recorder's thread.
  std::unique_ptr<Correlator> correlator_;
  std::int64_t last_stamp_ = 0;
  bool is_failing_ = false;

  rt::Thread thread_;
};

}  // namespace basalt::kube
