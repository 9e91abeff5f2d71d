#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apiserver/store/entry.h"

namespace basalt::apiserver {

// What a history may hold.
struct HistoryLimits {
  std::size_t events_max = 0;
  std::size_t bytes_max = 0;
  std::uint32_t age_seconds_max = 0;
};

// All versions of all objects: per resource the ordered objects and the history of events.
//
// Plain data, owned by a store and guarded by its lock; no clock, no watchers, no file. An object is a slot: its newest
// version, from which older versions hang by Entry's `previous`, newest first, as far back as the history reaches. An
// event is a version in the history; dropping the event cuts the version off from what came before it. A deleted object
// is a slot whose newest version is a deleted one, until its event is dropped.
//
// Invariants: versions in a resource's history have growing revisions; every version that was current at a revision
// >= oldest_revision(resource) can be reached from its slot.
//
// Limits: the history's, which evict() enforces; it is called with every write.
class VersionTable {
 public:
  struct Slot {
    // Mutable because a set's elements are constant: the key, which orders them, is the same in all of these.
    mutable EntryRef newest;                 // null: the object is only about to be created
    mutable const Entry* pending = nullptr;  // the version that is being committed; not visible
    mutable std::int64_t row = 0;            // of the file; 0 without a file and for deleted objects
    mutable std::uint64_t row_check = 0;
    [[nodiscard]] std::string_view key() const { return newest ? newest->key() : pending->key(); }
  };
  struct ByKey {
    using is_transparent = void;
    bool operator()(const Slot& a, const Slot& b) const { return a.key() < b.key(); }
    bool operator()(const Slot& a, std::string_view b) const { return a.key() < b; }
    bool operator()(std::string_view a, const Slot& b) const { return a < b.key(); }
  };

  explicit VersionTable(const HistoryLimits& limits) : limits_(limits) {}
  ~VersionTable();
  VersionTable(const VersionTable&) = delete;
  VersionTable& operator=(const VersionTable&) = delete;

  ResourceId intern(std::string_view name);
  [[nodiscard]] const std::string& name_of(ResourceId id) const { return at(id).name; }
  [[nodiscard]] std::size_t resource_count() const { return resources_.size(); }
  [[nodiscard]] bool has(ResourceId id) const { return static_cast<std::size_t>(id) < resources_.size(); }

  // Null if there is no slot. A slot stays where it is until it is erased (withdraw, evict).
  [[nodiscard]] const Slot* find(ResourceId resource, std::string_view key) const { return locate(resource, key).slot; }
  // The current version, null if there is none.
  [[nodiscard]] EntryRef current(ResourceId resource, std::string_view key) const;

  // Where a key is, or would be. Valid until the table changes.
  struct Place {
    const Slot* slot = nullptr;  // null if there is none
    std::set<Slot, ByKey>::const_iterator at;
    [[nodiscard]] EntryRef current() const;
  };
  [[nodiscard]] Place locate(ResourceId resource, std::string_view key) const;

  // Announces a version of an object at its place: makes the slot if needed. Then comes publish() or withdraw().
  const Slot& promise(const Place& place, const Entry& pending);
  // Makes the version the current one and appends it to the history. Returns its sequence number there.
  std::uint64_t publish(const Slot& slot, EntryRef entry, std::uint32_t second);
  void withdraw(const Slot& slot);

  // For the start: adds an object without an event. False if the key is there already.
  bool load(EntryRef entry, std::int64_t row, std::uint64_t row_check);

  [[nodiscard]] std::size_t count(ResourceId resource, std::string_view ns) const;

  struct Range {
    ResourceId resource{};
    std::string_view ns;
    Revision revision = 0;
  };
  // Appends what was current at the range's revision, behind the key `after`, looking at up to `slots_max` slots.
  // Returns the last version looked at, whose key the next call goes on behind; null at the end of the range.
  EntryRef collect(const Range& range, std::string_view after, std::size_t slots_max, std::vector<EntryRef>& out) const;

  // History: events have sequence numbers without gaps from history_begin() to below history_end().
  [[nodiscard]] std::uint64_t history_begin(ResourceId id) const { return at(id).first_sequence; }
  [[nodiscard]] std::uint64_t history_end(ResourceId id) const;
  [[nodiscard]] const EntryRef& event(ResourceId id, std::uint64_t sequence) const;
  // The first event with a higher revision, or the end.
  [[nodiscard]] std::uint64_t first_event_after(ResourceId id, Revision revision) const;
  [[nodiscard]] Revision oldest_revision(ResourceId id) const { return at(id).oldest_revision; }

  // Everything up to `revision` is no longer promised to anybody; evict() drops it. After loading: histories begin
  // here.
  void set_compacted(Revision revision);
  // Drops up to `events_max` of the oldest events that are beyond the limits, but none after `pinned`: a listing at
  // that revision is going on. What may be freed goes to `garbage`, so that it is freed without the lock. Returns how
  // many were dropped.
  std::size_t evict(std::uint32_t now_second, Revision pinned, std::size_t events_max, std::vector<EntryRef>& garbage);

  [[nodiscard]] std::size_t objects() const { return objects_; }
  [[nodiscard]] std::size_t object_bytes() const { return object_bytes_; }
  [[nodiscard]] std::size_t history_events() const { return order_.size(); }
  [[nodiscard]] std::size_t history_bytes() const { return history_bytes_; }
  [[nodiscard]] Revision compacted_revision() const { return compacted_revision_; }

 private:
  struct Resource {
    std::string name;
    std::set<Slot, ByKey> slots;
    std::size_t objects = 0;
    std::map<std::string, std::size_t, std::less<>> objects_by_ns;
    std::deque<EntryRef> history;
    std::uint64_t first_sequence = 0;
    Revision oldest_revision = 1;
  };
  // One for each event, in the order of all revisions: the next to be dropped is the front one's resource's oldest.
  struct OrderItem {
    ResourceId resource{};
    std::uint32_t second = 0;
  };

  [[nodiscard]] const Resource& at(ResourceId id) const { return resources_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] Resource& at(ResourceId id) { return resources_[static_cast<std::size_t>(id)]; }
  void count_objects(Resource& resource, std::string_view ns, std::size_t change);
  [[nodiscard]] bool front_is_over(const Entry& front, std::uint32_t now_second) const;
  void drop_front(Resource& resource, std::vector<EntryRef>& garbage);

  const HistoryLimits limits_;
  std::deque<Resource> resources_;  // by id
  std::map<std::string, ResourceId, std::less<>> ids_;
  std::deque<OrderItem> order_;
  std::size_t objects_ = 0;
  std::size_t object_bytes_ = 0;
  std::size_t history_bytes_ = 0;
  Revision compacted_revision_ = 0;  // the newest that was dropped
  Revision compact_to_ = 0;          // asked for
};

}  // namespace basalt::apiserver
