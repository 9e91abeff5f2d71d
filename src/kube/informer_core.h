#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/object_key.h"
#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"
#include "kube/identity.h"
#include "kube/metrics.h"
#include "kube/reflector.h"
#include "rt/runtime.h"
#include "rt/stop.h"

namespace basalt::kube {

using api::ObjectKey;

// The part of an informer that does not depend on the type of its objects, so that it is compiled once. Used through
// Informer<T>; Expectations and the manager hold it by this type.
//
// One thread (started by start()) lists, watches, decodes, changes the cache and calls the handlers. Readers lock for
// at most kChunk entries at a time, so none of them delays that thread for long; a list is therefore not a snapshot of
// one revision, but each of its objects is the latest at the time it was read.
//
// Identity is the UID. An object that was deleted and made again under its name shows as Deleted, then Added, even if
// only a relist tells. An event older than the cached object, or about an object whose deletion was seen, is counted
// and changes nothing.
class InformerCore : private ReflectorSink {
 public:
  using Object = std::shared_ptr<const void>;

  struct Meta {  // views into the object
    std::string_view ns;
    std::string_view name;
    std::string_view uid;
    std::string_view resource_version;
  };
  struct Type {
    Result<Object> (*decode)(std::string_view text);
    Meta (*meta)(const void* object);
  };
  struct Index {
    std::string name;
    std::function<void(const void* object, std::vector<std::string>& values)> values;
  };
  struct Change {
    Object before;  // null if added
    Object after;   // null if deleted
  };
  using Handler = std::function<void(const Change&)>;

  struct Counts {
    std::uint64_t added = 0;
    std::uint64_t updated = 0;
    std::uint64_t deleted = 0;
    std::uint64_t stale = 0;        // events that told nothing new
    std::uint64_t undecodable = 0;  // objects that do not have the shape of the type
  };

  InformerCore(rt::Runtime& runtime, Client& client, Logger log, ReflectorOptions options, Type type,
               std::vector<Index> indexes);
  ~InformerCore() override;  // stop() has been called if start() was
  InformerCore(const InformerCore&) = delete;
  InformerCore& operator=(const InformerCore&) = delete;

  void start();
  void stop();  // asks the thread to end and waits for it; idempotent

  // True once the first list is in the cache and the handlers have seen it.
  [[nodiscard]] bool has_synced() const { return synced_.load(std::memory_order_acquire); }
  // False if stopped or too late.
  [[nodiscard]] bool wait_synced(const rt::StopToken& stop, rt::Instant deadline = rt::kNever);
  // The highest revision up to which the cache shows everything.
  [[nodiscard]] Revision seen_revision() const { return seen_.load(std::memory_order_acquire); }
  [[nodiscard]] const Resource& resource() const { return options_.resource; }
  [[nodiscard]] std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] Reflector::Counts reflector_counts() const { return reflector_.counts(); }

  [[nodiscard]] Object find(std::string_view ns, std::string_view name) const;
  // In the order of namespace and name. `visit` is called without a lock and owns what it gets.
  void visit_all(const std::function<void(Object&&)>& visit) const;
  void visit_namespace(std::string_view ns, const std::function<void(Object&&)>& visit) const;
  // In the order of name and namespace. A name that is not an index is a bug and yields nothing.
  void visit_index(std::string_view index, std::string_view value, const std::function<void(Object&&)>& visit) const;
  [[nodiscard]] std::size_t count_index(std::string_view index, std::string_view value) const;

  // Handlers run on the informer's thread and must only mark keys. One that is added after the start first gets an
  // Added for each object, on the calling thread, and nothing is lost or out of order in between.
  void add_handler(Handler handler);
  // Called with seen_revision() whenever it grew, after the handlers.
  void add_progress_handler(std::function<void(Revision)> handler);
  [[nodiscard]] Meta meta_of(const Object& object) const { return type_.meta(object.get()); }

 private:
  static constexpr std::size_t kChunk = 256;
  // How many deleted objects are remembered, to recognise late events about them.
  static constexpr std::size_t kTombstonesMax = 1024;

  struct Entry {
    // Replaced together by objects of the same name, so the order of the set is not touched.
    mutable Object object;
    mutable std::string_view name;
    mutable Revision revision = 0;
  };
  struct ByName {
    using is_transparent = void;
    bool operator()(const Entry& a, const Entry& b) const { return a.name < b.name; }
    bool operator()(const Entry& a, std::string_view b) const { return a.name < b; }
    bool operator()(std::string_view a, const Entry& b) const { return a < b.name; }
  };
  struct ByKey {
    const Type* type;
    bool operator()(const Entry* a, const Entry* b) const;
  };
  using Names = std::set<Entry, ByName>;
  using Posting = std::set<const Entry*, ByKey>;
  struct HandlerState;
  using HandlerList = std::vector<std::shared_ptr<HandlerState>>;
  using StagedKey = std::pair<std::string, std::string>;  // namespace, name
  struct Staged {
    Object object;  // null if it cannot be decoded: what the cache has of it stays
    std::string uid;
  };
  using IndexValues = std::vector<std::vector<std::string>>;  // for each index
  struct Found {
    Object object;
    Revision revision = 0;
  };

  void list_begin() override;
  void list_items(std::span<const Bytes> items) override;
  void list_remove(const Bytes& item) override;
  void list_end(Revision revision) override;
  void apply(const WatchEvent& event) override;
  void progress(Revision revision) override;

  Object decode_or_count(const Bytes& text, const Identity& identity);
  void upsert(Object object);
  void remove(const Identity& identity, Object last_state);
  void replace_with_staged(Revision revision);
  void stage(const Bytes& item);
  // Change the cache, then tell the handlers.
  void insert(Object object);
  void update(const Object& before, Object after);
  void erase(const Object& cached, Object last_state);
  void dispatch(const HandlerList& handlers, const Change& change);
  void change_postings(const Entry& entry, const IndexValues& gone, const IndexValues& come) BASALT_REQUIRES(mutex_);
  [[nodiscard]] IndexValues index_values(const Object& object) const;
  [[nodiscard]] Found find_entry(std::string_view ns, std::string_view name) const;
  // Up to kChunk objects after that place, over the namespaces from `ns` on (or of it alone).
  void next_chunk(std::string& ns, std::optional<std::string>& after, bool one_namespace,
                  std::vector<Object>& chunk) const;
  void visit_chunks(std::string ns, bool one_namespace, const std::function<void(Object&&)>& visit) const;
  void tell_progress(Revision revision);
  void remember_deleted(std::string_view uid, Revision revision);
  [[nodiscard]] bool was_deleted(std::string_view uid, Revision revision) const;
  [[nodiscard]] const Posting* posting(std::string_view index, std::string_view value) const BASALT_REQUIRES(mutex_);

  // Fixed after construction.
  rt::Runtime& runtime_;
  const Logger log_;
  const ReflectorOptions options_;
  const Type type_;
  const std::vector<Index> indexes_;

  // Self-locking.
  Reflector reflector_;
  rt::StopSource stop_;
  std::atomic<bool> synced_{false};
  std::atomic<Revision> seen_{0};
  std::atomic<std::size_t> size_{0};
  std::atomic<std::uint64_t> added_{0}, updated_{0}, deleted_{0}, stale_{0}, undecodable_{0};
  Gauge objects_gauge_;
  Counter stale_counter_, undecodable_counter_;

  mutable rt::Mutex mutex_;
  rt::Condition synced_condition_;
  std::map<std::string, Names, std::less<>> namespaces_ BASALT_GUARDED_BY(mutex_);
  std::vector<std::map<std::string, Posting, std::less<>>> postings_ BASALT_GUARDED_BY(mutex_);
  std::shared_ptr<const HandlerList> handlers_ BASALT_GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<std::function<void(Revision)>>> progress_handlers_ BASALT_GUARDED_BY(mutex_);

  // Used only by the informer's thread.
  std::map<StagedKey, Staged> staged_;                      // the list being received
  std::unordered_map<std::uint64_t, Revision> tombstones_;  // hash of the UID -> revision of the deletion
  std::vector<std::uint64_t> tombstone_ring_;
  std::size_t tombstone_next_ = 0;

  rt::Thread thread_;
};

}  // namespace basalt::kube
