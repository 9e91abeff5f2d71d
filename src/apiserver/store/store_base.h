#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/store/entry_maker.h"
#include "apiserver/store/store.h"
#include "apiserver/store/version_table.h"
#include "apiserver/store/watch_channels.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

// All of a store but the way in which writes are committed: MemoryStore and DurableStore add that. Reads, watches and
// the steps of a write that both need, under the one lock.
class StoreBase : public Store {
 public:
  StoreBase(rt::Runtime& runtime, StoreOptions options);
  ~StoreBase() override;
  StoreBase(const StoreBase&) = delete;
  StoreBase& operator=(const StoreBase&) = delete;

  ResourceId resource(std::string_view name) override;
  [[nodiscard]] std::string resource_name(ResourceId id) const override;
  [[nodiscard]] std::vector<ResourceId> resources() const override;
  [[nodiscard]] EntryRef get(ResourceId resource, std::string_view ns, std::string_view name) const override;
  [[nodiscard]] Result<Listing> list(const ListQuery& query) const override;
  [[nodiscard]] std::size_t count(ResourceId resource, std::string_view ns) const override;
  Result<std::unique_ptr<Watcher>> watch(WatchQuery query) override;
  [[nodiscard]] Revision revision() const override;
  [[nodiscard]] Revision oldest_revision(ResourceId resource) const override;
  Done compact(Revision revision) override;
  void trim() override;
  [[nodiscard]] StoreStats stats() const override;

 protected:
  // The text of a write, assembled without the lock; empty for a delete. An error if the write makes no sense.
  Result<EntryMaker> assemble(const Write& write, std::string_view key) const;

  // Whether a write may be carried out on what is at its place: the version it replaces (null for a new object), or why
  // not.
  Result<EntryRef> decide(const Write& write, std::string_view key, const VersionTable::Place& place) const
      BASALT_REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t now_second() const;
  // Makes a version visible. Versions come in the order of their revisions.
  void publish(const VersionTable::Slot& slot, EntryRef entry, std::uint32_t second, Aftermath& aftermath)
      BASALT_REQUIRES(mutex_);
  // Drops some of what the history has too much, more than a write adds.
  void evict(std::uint32_t second, std::size_t published, Aftermath& aftermath) BASALT_REQUIRES(mutex_);
  void count_commit(rt::Duration duration, std::size_t writes) BASALT_REQUIRES(mutex_);
  // Ends all watches; from now on is_closed().
  void close_watches() BASALT_EXCLUDES(mutex_);

  static Error closed_error();

  // Fixed after construction.
  rt::Runtime& runtime_;
  const StoreOptions options_;

  mutable rt::Mutex mutex_;
  VersionTable table_ BASALT_GUARDED_BY(mutex_);
  WatchChannels channels_ BASALT_GUARDED_BY(mutex_);
  Revision revision_ BASALT_GUARDED_BY(mutex_) = 1;
  bool is_closed_ BASALT_GUARDED_BY(mutex_) = false;
  StoreStats counters_ BASALT_GUARDED_BY(mutex_);                   // only what is counted, not what is derived
  mutable std::vector<Revision> pinned_ BASALT_GUARDED_BY(mutex_);  // of the listings that are going on

  // About the next revision: how many digits to leave room for. Needs no order with anything.
  std::atomic<Revision> revision_hint_{2};

 private:
  // What was interned, under a lock of its own: every request asks for it.
  rt::Mutex names_mutex_;
  std::map<std::string, ResourceId, std::less<>> names_ BASALT_GUARDED_BY(names_mutex_);

  class WatcherImpl;
  friend class WatcherImpl;
  class Pin;

  [[nodiscard]] Revision pinned_min() const BASALT_REQUIRES(mutex_);
  Error refusal(const Write& write, Reason reason, std::string_view key, std::string_view why) const
      BASALT_REQUIRES(mutex_);
  Error expired(ResourceId resource, Revision wanted) const BASALT_REQUIRES(mutex_);
};

[[nodiscard]] std::unique_ptr<Store> make_memory_store(rt::Runtime& runtime, StoreOptions options);
[[nodiscard]] Result<std::unique_ptr<Store>> open_durable_store(rt::Runtime& runtime, StoreOptions options);

}  // namespace basalt::apiserver
