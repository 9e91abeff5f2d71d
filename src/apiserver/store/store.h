#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/store/entry.h"
#include "base/result.h"
#include "rt/runtime.h"

namespace basalt::apiserver {

enum class Durability : std::uint8_t {
  Memory,  // no file
  Fast,    // a file; survives kill -9, but the machine's fall may lose the last seconds
  Full,    // a file; an acknowledged write survives kill -9 and loss of power
};

struct StoreOptions {
  Durability durability = Durability::Memory;
  std::filesystem::path directory;  // for Fast and Full; made if absent

  // Version of what the caller packs into attributes. If the file was written with another, `reindex` is called for
  // every stored object at start and its result is stored. Without `reindex` old attributes stay as they are.
  int attributes_scheme = 1;
  std::function<void(std::string_view resource, std::string_view object, AttributesWriter& out)> reindex;

  // Bounds of the history that watches and lists at a past revision live on; the oldest events go first. Bytes are
  // those that only the history keeps alive (old versions and deleted objects).
  std::size_t history_events_max = 100'000;
  std::size_t history_bytes_max = 256u << 20;
  rt::Duration history_age_max = std::chrono::minutes(5);  // etcd's compaction interval under Kubernetes

  // Durable stores: writes that may wait for the committer; more are refused with TooManyRequests.
  std::size_t queued_writes_max = 100'000;
  // A write-ahead log of this size is folded into the main file.
  std::size_t log_bytes_max = 64u << 20;
  // Limits the main file, for tests and quotas; 0 = the disk is the limit. Over it writes fail as on a full disk.
  std::size_t file_bytes_max = 0;
  // The SQLite file system ("VFS") to use; "" = the default one. For tests that make the disk fail.
  std::string sqlite_vfs;
};

// The text of an object around the digits of its resource version: {"metadata":{"resourceVersion":"|digits|"...
// The revision is known only at the commit, so the store puts it in, while making the one copy that it keeps. Views:
// they stay valid until write() returns, so a writer can serialise into one buffer for ever.
struct ObjectText {
  std::string_view before;
  std::string_view after;
};

enum class WriteKind : std::uint8_t { Create, Update, Delete };

// One write of one object. Key parts and texts are views that stay valid until write() returns.
struct Write {
  WriteKind kind = WriteKind::Create;
  ResourceId resource{};
  std::string_view ns;  // "" for cluster-scoped resources
  std::string_view name;
  // Update and Delete: only if the stored object has this mod_revision; 0 = whatever it has.
  Revision expected = 0;
  ObjectText object;            // Create and Update; a delete writes the last state by itself
  std::string_view attributes;  // Create and Update; AttributesWriter::packed()
};

struct ListQuery {
  ResourceId resource{};
  std::string_view ns;     // "" for all
  Revision revision = 0;   // 0 = now; otherwise exactly this one, Expired if it is no longer held
  std::string_view after;  // start behind this key (Entry::key() of the last one seen); "" = from the start
  std::size_t limit = 0;   // at most so many matching entries; 0 = all
  // Called without a lock for each entry of the range; empty = all match.
  std::function<bool(const Entry&)> matches;
};

struct Listing {
  std::vector<EntryRef> entries;  // in the order of keys
  Revision revision = 0;          // the state that they show
  bool more = false;              // the limit cut it; go on with after = entries.back()->key() and this revision
  // Objects in the whole range (resource, ns), matching or not; known only for a listing of the present from the start.
  std::optional<std::size_t> total;
};

enum class EventType : std::uint8_t { Created, Updated, Deleted };

struct Event {
  EventType type = EventType::Created;
  EntryRef entry;     // the new version; for Deleted the last state with the revision of the deletion
  EntryRef previous;  // the version before; null for Created
};

struct WatchQuery {
  ResourceId resource{};
  std::string ns;  // "" for all
  // Events after this revision. Expired if events after it are no longer held.
  Revision after = 0;
  // Called once when events come after poll() or next() has returned nothing (so poll first), or when the watch is
  // cancelled. On the writer's thread, without a lock: keep it short, no waits; hand over to your own thread and poll
  // there. It may run once more while or shortly after the watcher is destroyed, so it must own what it touches.
  std::function<void()> on_ready;
};

// One subscription. Owned by the subscriber, gone before its store. poll() and next() are for one thread at a time;
// cancel() may come from any. Holds no events of its own: it is a place in the shared history. If the history drops
// events that it has not taken, it is Expired for good; nobody else notices.
class Watcher {
 public:
  virtual ~Watcher() = default;

  // Appends up to `max` events to `out`, in the order of revisions, and returns how many; 0 if there are none now.
  // Errors: Expired (too slow), Cancelled (cancel() or the store closed). `max` counts events looked at in the
  // history too, in a generous multiple, so a call is short; 0 really means that there are none.
  virtual Result<std::size_t> poll(std::vector<Event>& out, std::size_t max) = 0;
  // The same, but waits until `deadline` for the first event; 0 if none came.
  virtual Result<std::size_t> next(std::vector<Event>& out, std::size_t max, rt::Instant deadline) = 0;
  // For bookmarks: every event up to this revision has been returned.
  [[nodiscard]] virtual Revision progress() const = 0;
  virtual void cancel() = 0;
};

struct StoreStats {
  // Bucket i counts commits that took less than 2^i microseconds, and not less than the bucket before; the last one
  // takes the rest. For durable stores from the start of the transaction to its end.
  static constexpr std::size_t kLatencyBuckets = 24;

  std::size_t objects = 0;
  std::size_t object_bytes = 0;  // in memory, all versions that are current
  Revision revision = 0;
  Revision compacted_revision = 0;  // the newest revision that some resource has lost from its history
  std::size_t history_events = 0;
  std::size_t history_bytes = 0;
  std::size_t watchers = 0;
  std::uint64_t watchers_expired = 0;
  std::uint64_t writes = 0;         // acknowledged
  std::uint64_t writes_failed = 0;  // not for a conflict, but because the file could not take them
  std::uint64_t commits = 0;        // groups; writes / commits = mean size of a group
  std::array<std::uint64_t, kLatencyBuckets> commit_latency{};
  std::uint64_t file_bytes = 0;
  std::uint64_t log_bytes = 0;
  bool is_read_only = false;  // after an error of the disk that makes further writes unsafe
};

// The versioned store below the embedded API server: every object of a cluster, in memory, with one revision that
// counts all writes, a bounded history, and optionally a file that survives crashes.
//
// Owned by the API server; all functions are thread-safe. It has one lock, held for microseconds: lists copy references
// in small portions of one snapshot, texts are assembled and freed outside, callbacks run outside. Durable stores have
// one thread, the committer, which owns the file and commits all waiting writes as one group; a memory store has none.
//
// Invariants: a write is visible (get, list, watch) exactly when it is committed, and acknowledged after that;
// revisions of a resource's events only grow; a listing shows the state at one revision; the revision never goes
// backwards, nor does it after a crash, as far as anybody has seen it.
class Store {
 public:
  // Loads the file of a durable store. Errors name the file and say what to do; nothing is changed then.
  static Result<std::unique_ptr<Store>> open(rt::Runtime& runtime, StoreOptions options);

  virtual ~Store() = default;

  // Ends watches with Cancelled, refuses new writes, finishes those that wait, folds the log into the file and closes
  // it. Must be called before the destructor, without other calls in progress except waits of watchers and writers.
  virtual Done close() = 0;

  // The id of "group/plural" ("/pods" for the core group), the same for the life of the store.
  virtual ResourceId resource(std::string_view name) = 0;
  [[nodiscard]] virtual std::string resource_name(ResourceId id) const = 0;
  // All that are known: interned in this run, or found in the file.
  [[nodiscard]] virtual std::vector<ResourceId> resources() const = 0;

  // Carries out one write and returns the new version (for a delete: the deleted one). Errors: AlreadyExists,
  // NotFound, Conflict (the expected revision is not the stored one), TooManyRequests (queue full), ServiceUnavailable
  // (the disk is full, or the store is read-only after a disk error, or closed): nothing has happened then;
  // InternalError: the disk failed in the middle, after a restart the write may be there or not.
  virtual Result<EntryRef> write(const Write& write) = 0;
  // Independent writes, committed as a group where the store is durable; the results are in the order of the writes.
  // Writes of one key are carried out in their order and see each other; between keys the order may differ.
  virtual std::vector<Result<EntryRef>> write_all(std::span<const Write> writes) = 0;

  // The current version; null if there is none.
  [[nodiscard]] virtual EntryRef get(ResourceId resource, std::string_view ns, std::string_view name) const = 0;
  [[nodiscard]] virtual Result<Listing> list(const ListQuery& query) const = 0;
  // Number of objects now; ns "" for all.
  [[nodiscard]] virtual std::size_t count(ResourceId resource, std::string_view ns) const = 0;

  virtual Result<std::unique_ptr<Watcher>> watch(WatchQuery query) = 0;

  [[nodiscard]] virtual Revision revision() const = 0;
  // Watches of this resource may start after this revision or later; lists may ask for it or later ones.
  [[nodiscard]] virtual Revision oldest_revision(ResourceId resource) const = 0;
  // Drops the history up to and including `revision`, of all resources. BadRequest if that is in the future.
  virtual Done compact(Revision revision) = 0;
  // Drops what is older than history_age_max. Writes do it in passing; a quiet store needs a call now and then.
  virtual void trim() = 0;

  [[nodiscard]] virtual StoreStats stats() const = 0;
};

}  // namespace basalt::apiserver
