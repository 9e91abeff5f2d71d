#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/object_key.h"
#include "kube/client.h"
#include "kube/identity.h"
#include "kube/metrics.h"
#include "rt/runtime.h"

namespace basalt::kube {

class InformerCore;

// Read-your-writes for one controller: what its own writes were, and whether the caches show them yet. A worker that
// finds its key not current returns and waits; when the last awaited write is seen, `ready` is called with the key (on
// an informer's thread: only enqueue it).
//
//   if (!expectations.is_current(key)) return Outcome::retry_after(*expectations.time_left(key));
//   auto written = client.call(...);
//   if (written.ok()) expectations.note_write(key, kPods, resource_version_of(*written));
//
// An expectation that is not met in `expiry` (a write that was undone before our watch saw it, a selector that hides
// it) is dropped and counted, so that nothing waits for ever. At `entries_max` the oldest is dropped the same way. The
// worker of a key is the only one to note its writes, before it lets go of the key. Thread-safe.
class Expectations {
 public:
  struct Options {
    rt::Duration expiry = std::chrono::minutes(5);
    std::size_t entries_max = 200'000;  // two creates for each pod of the largest jobs
    std::string name;                   // label of the metrics
    Metrics* metrics = nullptr;
  };
  Expectations(rt::Runtime& runtime, Options options, std::function<void(const api::ObjectKey&)> ready);

  // Connects the cache of one resource type, before it is started; the informer must not outlive this object's use of
  // it. Writes of a resource that is not connected are current at once.
  void connect(InformerCore& informer);

  // A create, update or patch that the server acknowledged with this resource version; "" is ignored.
  void note_write(const api::ObjectKey& key, const Resource& resource, std::string_view resource_version);
  // A delete that the server accepted: the object with this UID is to vanish. For objects that a finalizer or grace
  // period holds, note the write of the deletion mark instead (the answer carries the object).
  void note_delete(const api::ObjectKey& key, const Resource& resource, std::string_view uid);
  // The same, by the server's answer to the delete: if that is the object with its deletion mark, the mark is awaited.
  void note_delete(const api::ObjectKey& key, const Resource& resource, std::string_view uid, const Response& answer);
  // True if the caches show all that was noted.
  [[nodiscard]] bool is_current(const api::ObjectKey& key);
  // When the first expectation of the key expires; nothing if it is current.
  [[nodiscard]] std::optional<rt::Duration> time_left(const api::ObjectKey& key);
  // The key's object is gone.
  void forget(const api::ObjectKey& key);

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::uint64_t expired() const;

 private:
  using ResourceIndex = std::size_t;
  struct PerResource {
    Resource resource;
    Revision seen = 0;
    // Oldest awaited first. A key awaits at most one revision a resource: the highest.
    std::set<std::pair<Revision, api::ObjectKey>> awaited;
    std::map<std::string, api::ObjectKey, std::less<>> deletions;  // UID -> key
    // The last deletions seen, for those that are noted after the event came.
    std::set<std::string, std::less<>> recent_set;
    std::deque<const std::string*> recent;  // the same, oldest first
  };
  struct PerKey {
    rt::Instant expires{};
    std::map<ResourceIndex, Revision> writes;
    std::set<std::pair<ResourceIndex, std::string>> deletions;
    [[nodiscard]] bool empty() const { return writes.empty() && deletions.empty(); }
  };
  static constexpr std::size_t kRecentMax = 4096;

  void on_progress(ResourceIndex index, Revision revision);
  void on_deleted(ResourceIndex index, std::string_view uid);
  [[nodiscard]] std::optional<ResourceIndex> find_resource(const Resource& resource) const BASALT_REQUIRES(mutex_);
  PerKey& entry(const api::ObjectKey& key) BASALT_REQUIRES(mutex_);
  void drop(const api::ObjectKey& key) BASALT_REQUIRES(mutex_);
  bool drop_if_expired(const api::ObjectKey& key) BASALT_REQUIRES(mutex_);

  // Fixed after construction.
  rt::Runtime& runtime_;
  const Options options_;
  const std::function<void(const api::ObjectKey&)> ready_;
  Counter expired_counter_;

  mutable rt::Mutex mutex_;
  std::vector<PerResource> resources_ BASALT_GUARDED_BY(mutex_);
  std::map<api::ObjectKey, PerKey> keys_ BASALT_GUARDED_BY(mutex_);
  std::set<std::pair<rt::Instant, api::ObjectKey>> by_expiry_ BASALT_GUARDED_BY(mutex_);
  std::uint64_t expired_ BASALT_GUARDED_BY(mutex_) = 0;
};

}  // namespace basalt::kube
