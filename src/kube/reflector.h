#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/log.h"
#include "kube/client.h"
#include "kube/identity.h"
#include "kube/metrics.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::kube {

struct ReflectorOptions {
  Resource resource;
  std::string ns;  // "" for all namespaces
  std::string label_selector;
  std::string field_selector;
  std::int64_t page_size = 500;  // what kubectl uses: large enough that the overhead vanishes, small for the server
  bool streaming_list = true;    // try sendInitialEvents first; a server that refuses it is asked once only
  // A watch is asked to end after a random time between these, so that a server's restart does not align all of them.
  rt::Duration watch_timeout_min = std::chrono::minutes(5);
  rt::Duration watch_timeout_max = std::chrono::minutes(10);
  // API servers send a bookmark about every minute. A watch silent for longer than this is taken for dead and begun
  // again where it stood, which costs little if it was not.
  rt::Duration idle_timeout = std::chrono::minutes(3);
  // A streaming list that shows nothing for this long is given up for a paged list: servers before 1.27 ignore the
  // request for it and never say that the initial events have ended.
  rt::Duration streaming_list_silence_max = std::chrono::seconds(20);
  rt::Duration backoff_min = std::chrono::milliseconds(800);
  rt::Duration backoff_max = std::chrono::seconds(30);
  Metrics* metrics = nullptr;
};

// What a reflector tells its owner. Called on the thread that runs the reflector.
class ReflectorSink {
 public:
  virtual ~ReflectorSink() = default;
  // A complete list comes in pieces between begin and end; abandoned (begin again, or nothing) if it fails half-way.
  virtual void list_begin() = 0;
  virtual void list_items(std::span<const Bytes> items) = 0;
  virtual void list_remove(const Bytes& item) = 0;  // a streaming list may go on past deletions of what it sent
  virtual void list_end(Revision revision) = 0;
  // Events after the list, in order.
  virtual void apply(const WatchEvent& event) = 0;
  // All events up to here have been applied.
  virtual void progress(Revision revision) = 0;
};

// Keeps a sink equal to a collection of objects: list, then watch from there; goes on where it stood after a broken
// watch, lists again after 410 Gone. Lists are always consistent reads ("most recent"): a list from a server that lags
// would hide the writes of a former leader. Retries for ever with backoff and jitter; logs a failure when it begins
// and when it ends, not while it lasts.
class Reflector {
 public:
  struct Counts {
    std::uint64_t lists = 0;
    std::uint64_t streaming_lists = 0;
    std::uint64_t watches = 0;
    std::uint64_t events = 0;
    std::uint64_t bookmarks = 0;
    std::uint64_t expired = 0;  // 410
    std::uint64_t failures = 0;
    std::uint64_t idle_breaks = 0;
  };

  Reflector(rt::Runtime& runtime, Client& client, Logger log, ReflectorOptions options, ReflectorSink& sink);
  // Returns when stopped.
  void run(const rt::StopToken& stop);
  [[nodiscard]] Counts counts() const;

 private:
  Done list(const rt::StopToken& stop);
  Done list_paged(const rt::StopToken& stop);
  Done list_streaming(const rt::StopToken& stop);
  Done watch(const rt::StopToken& stop);
  Done follow(WatchStream& stream, const rt::StopToken& stop);
  Done take(const WatchEvent& event);
  [[nodiscard]] rt::Duration watch_timeout();
  void advance(std::string resource_version);
  void note_success();
  void note_failure(const Error& error);
  [[nodiscard]] bool pause(const std::optional<Error>& error, const rt::StopToken& stop);

  rt::Runtime& runtime_;
  Client& client_;
  const Logger log_;
  const ReflectorOptions options_;
  ReflectorSink& sink_;

  // Self-locking.
  std::atomic<std::uint64_t> lists_{0}, streaming_lists_{0}, watches_{0}, events_{0}, bookmarks_{0}, expired_{0},
      failures_{0}, idle_breaks_{0};
  Counter list_counter_, watch_counter_, event_counter_, failure_counter_;

  // Used by run() only.
  std::string position_;  // resource version that the next watch starts from; "" = list first
  bool streaming_works_ = true;
  std::uint32_t failures_in_row_ = 0;
  std::optional<Reason> logged_failure_;  // the failure that has been logged and still lasts
};

}  // namespace basalt::kube
