#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/store/entry.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// Those who watch the same: a resource, or a namespace of it.
struct WatchChannel;

// The place of one watcher in a history. Guarded by the store's lock.
struct Subscriber {
  // Fixed when subscribed.
  ResourceId resource{};
  std::string ns;
  Revision after = 0;
  std::shared_ptr<const std::function<void()>> on_ready;  // null if none
  std::shared_ptr<WatchChannel> channel;

  // Idle: has seen everything; no place is kept, and the next event that concerns it sets `next_sequence`.
  bool is_idle = false;
  bool is_cancelled = false;
  bool is_expired = false;
  std::uint64_t next_sequence = 0;  // the next event to look at, unless idle
  Revision returned = 0;            // all up to here has been looked at, unless idle
};

struct WatchChannel {
  explicit WatchChannel(rt::Runtime& runtime) : changed(runtime) {}
  rt::Condition changed;
  std::vector<Subscriber*> idle;  // in no order that matters
  std::size_t waiting = 0;        // threads in changed.wait
  std::size_t subscribers = 0;
};

// What is left to do when the store's lock is released: wake those who wait, call those who asked for it, free memory.
struct Aftermath {
  std::vector<std::shared_ptr<WatchChannel>> channels;
  std::vector<std::shared_ptr<const std::function<void()>>> callbacks;
  std::vector<EntryRef> garbage;
  void carry_out();
};

// All subscriptions of a store; guarded by its lock. An event costs those who are idle on its channels, once each,
// and nobody else: a watcher that has not caught up is not told again, one of another namespace is not told at all.
class WatchChannels {
 public:
  explicit WatchChannels(rt::Runtime& runtime) : runtime_(runtime) {}

  // Sets the subscriber's channel. It stays where it is until remove().
  void add(Subscriber& subscriber);
  void remove(Subscriber& subscriber);
  void set_idle(Subscriber& subscriber);
  void cancel(Subscriber& subscriber, Aftermath& aftermath);
  void cancel_all(Aftermath& aftermath);
  // An event was appended to its resource's history.
  void announce(const Entry& entry, std::uint64_t sequence, Aftermath& aftermath);
  [[nodiscard]] std::size_t size() const { return subscribers_.size(); }

 private:
  using ByNamespace = std::map<std::string, std::shared_ptr<WatchChannel>, std::less<>>;
  static void leave_idle(Subscriber& subscriber);
  static void rouse(const std::shared_ptr<WatchChannel>& channel, const Entry& entry, std::uint64_t sequence,
                    Aftermath& aftermath);

  rt::Runtime& runtime_;
  std::map<ResourceId, ByNamespace> channels_;
  std::vector<Subscriber*> subscribers_;
};

}  // namespace basalt::apiserver
