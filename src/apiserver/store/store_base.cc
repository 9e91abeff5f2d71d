#include "apiserver/store/store_base.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

// Slots that a listing looks at before it lets others take the lock: below 100 microseconds.
constexpr std::size_t kListPortion = 256;
// Events that a watcher looks at before it lets others take the lock.
constexpr std::size_t kWatchPortion = 1024;
// Events that compact() and trim() drop before they let others take the lock.
constexpr std::size_t kEvictPortion = 1024;

HistoryLimits limits_of(const StoreOptions& options) {
  HistoryLimits limits;
  limits.events_max = options.history_events_max;
  limits.bytes_max = options.history_bytes_max;
  limits.age_seconds_max =
      static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(options.history_age_max).count());
  return limits;
}

EventType type_of(const Entry& entry) {
  if (entry.is_deleted()) return EventType::Deleted;
  return entry.create_revision() == entry.mod_revision() ? EventType::Created : EventType::Updated;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::open(rt::Runtime& runtime, StoreOptions options) {
  if (options.durability == Durability::Memory) return make_memory_store(runtime, std::move(options));
  return open_durable_store(runtime, std::move(options));
}

// ---- one subscription

class StoreBase::WatcherImpl final : public Watcher {
 public:
  WatcherImpl(StoreBase& store, WatchQuery query) : store_(store) {
    subscriber_.resource = query.resource;
    subscriber_.ns = std::move(query.ns);
    subscriber_.after = query.after;
    if (query.on_ready) {
      subscriber_.on_ready = std::make_shared<const std::function<void()>>(std::move(query.on_ready));
    }
  }
  ~WatcherImpl() override {
    rt::MutexLock lock(store_.mutex_);
    if (subscriber_.channel) store_.channels_.remove(subscriber_);
  }

  // Enters the history; an error if it does not reach back far enough.
  Done subscribe() {
    rt::MutexLock lock(store_.mutex_);
    if (store_.is_closed_) return closed_error();
    if (subscriber_.after < store_.table_.oldest_revision(subscriber_.resource)) {
      return store_.expired(subscriber_.resource, subscriber_.after);
    }
    subscriber_.next_sequence = store_.table_.first_event_after(subscriber_.resource, subscriber_.after);
    subscriber_.returned = subscriber_.after;
    store_.channels_.add(subscriber_);
    return Ok{};
  }

  Result<std::size_t> poll(std::vector<Event>& out, std::size_t max) override {
    while (true) {
      rt::MutexLock lock(store_.mutex_);
      auto taken = take(out, max);
      if (!taken.ok() || *taken > 0 || subscriber_.is_idle) return taken;
    }
  }

  Result<std::size_t> next(std::vector<Event>& out, std::size_t max, rt::Instant deadline) override {
    while (true) {
      auto taken = poll(out, max);
      if (!taken.ok() || *taken > 0) return taken;
      rt::MutexLock lock(store_.mutex_);
      while (subscriber_.is_idle && !subscriber_.is_cancelled) {
        WatchChannel& channel = *subscriber_.channel;
        ++channel.waiting;
        const bool in_time = channel.changed.wait_until(store_.mutex_, deadline);
        --channel.waiting;
        if (!in_time && subscriber_.is_idle && !subscriber_.is_cancelled) return std::size_t{0};
      }
    }
  }

  [[nodiscard]] Revision progress() const override {
    rt::MutexLock lock(store_.mutex_);
    // A watch that starts in the future has seen nothing of it yet, but owes nothing before it either.
    return std::max(subscriber_.after, subscriber_.is_idle ? store_.revision_ : subscriber_.returned);
  }

  void cancel() override {
    Aftermath aftermath;
    {
      rt::MutexLock lock(store_.mutex_);
      store_.channels_.cancel(subscriber_, aftermath);
    }
    aftermath.carry_out();
  }

 private:
  // One portion of the history. Idle after it if there was nothing more.
  Result<std::size_t> take(std::vector<Event>& out, std::size_t max) BASALT_REQUIRES(store_.mutex_) {
    if (subscriber_.is_cancelled) return Error::make(Reason::Cancelled, "The watch was cancelled.");
    if (subscriber_.is_idle) return std::size_t{0};
    const ResourceId resource = subscriber_.resource;
    if (subscriber_.is_expired || subscriber_.next_sequence < store_.table_.history_begin(resource)) {
      if (!subscriber_.is_expired) ++store_.counters_.watchers_expired;
      subscriber_.is_expired = true;
      return store_.expired(resource, subscriber_.returned);
    }
    const std::uint64_t end = store_.table_.history_end(resource);
    const std::uint64_t stop = std::min(end, subscriber_.next_sequence + kWatchPortion);
    std::size_t taken = 0;
    while (subscriber_.next_sequence < stop && taken < max) {
      const EntryRef& entry = store_.table_.event(resource, subscriber_.next_sequence++);
      subscriber_.returned = entry->mod_revision();
      if (entry->mod_revision() <= subscriber_.after) continue;
      if (!subscriber_.ns.empty() && entry->ns() != subscriber_.ns) continue;
      const EntryRef& before = EntryMaker::previous(*entry);
      out.push_back({type_of(*entry), entry, before && !before->is_deleted() ? before : nullptr});
      ++taken;
    }
    if (taken == 0 && subscriber_.next_sequence == end) store_.channels_.set_idle(subscriber_);
    return taken;
  }

  StoreBase& store_;
  Subscriber subscriber_ BASALT_GUARDED_BY(store_.mutex_);
};

// ---- a revision that a listing holds on to

class StoreBase::Pin {
 public:
  Pin(const StoreBase& store, Revision revision) BASALT_REQUIRES(store.mutex_) : store_(store), revision_(revision) {
    store.pinned_.push_back(revision);
  }
  ~Pin() {
    rt::MutexLock lock(store_.mutex_);
    auto& pinned = store_.pinned_;
    pinned.erase(std::find(pinned.begin(), pinned.end(), revision_));
  }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

 private:
  const StoreBase& store_;
  const Revision revision_;
};

// ---- the store

StoreBase::StoreBase(rt::Runtime& runtime, StoreOptions options)
    : runtime_(runtime), options_(std::move(options)), table_(limits_of(options_)), channels_(runtime) {}

StoreBase::~StoreBase() {
  rt::MutexLock lock(mutex_);
  BASALT_CHECK_MSG(is_closed_, "a store is closed before it is destroyed");
  BASALT_CHECK_MSG(channels_.size() == 0, "watchers are destroyed before their store");
}

ResourceId StoreBase::resource(std::string_view name) {
  {
    rt::MutexLock lock(names_mutex_);
    if (const auto known = names_.find(name); known != names_.end()) return known->second;
  }
  ResourceId id{};
  {
    rt::MutexLock lock(mutex_);
    id = table_.intern(name);
  }
  rt::MutexLock lock(names_mutex_);
  names_.emplace(name, id);
  return id;
}

std::string StoreBase::resource_name(ResourceId id) const {
  rt::MutexLock lock(mutex_);
  return table_.name_of(id);
}

std::vector<ResourceId> StoreBase::resources() const {
  rt::MutexLock lock(mutex_);
  std::vector<ResourceId> ids;
  for (std::size_t i = 0; i < table_.resource_count(); ++i) ids.push_back(static_cast<ResourceId>(i));
  return ids;
}

EntryRef StoreBase::get(ResourceId resource, std::string_view ns, std::string_view name) const {
  std::string key;
  join_key(ns, name, key);
  rt::MutexLock lock(mutex_);
  return table_.current(resource, key);
}

Result<Listing> StoreBase::list(const ListQuery& query) const {
  Listing listing;
  VersionTable::Range range;
  range.resource = query.resource;
  range.ns = query.ns;
  const std::size_t portion_size =
      query.limit == 0 ? kListPortion : std::clamp<std::size_t>(query.limit + 1, 64, kListPortion);
  std::vector<EntryRef> portion;
  EntryRef resume;
  std::optional<Pin> pin;
  {
    rt::MutexLock lock(mutex_);
    if (query.revision > revision_) {
      return Error::make(Reason::BadRequest, "Revision " + std::to_string(query.revision) + " is in the future: the " +
                                                 "store is at " + std::to_string(revision_) + ".");
    }
    listing.revision = query.revision == 0 ? revision_ : query.revision;
    if (listing.revision < table_.oldest_revision(query.resource)) return expired(query.resource, listing.revision);
    range.revision = listing.revision;
    if (query.revision == 0 && query.after.empty()) listing.total = table_.count(query.resource, query.ns);
    // Short lists, which are most, need the lock once and no pin.
    resume = table_.collect(range, query.after, portion_size, portion);
    if (resume) pin.emplace(*this, listing.revision);
  }
  if (listing.total && query.limit == 0 && !query.matches) {
    if (!resume) {
      listing.entries = std::move(portion);
      return listing;
    }
    listing.entries.reserve(*listing.total);
  }

  while (true) {
    for (EntryRef& entry : portion) {
      if (query.limit != 0 && listing.entries.size() == query.limit) {
        listing.more = true;
        return listing;
      }
      if (!query.matches || query.matches(*entry)) listing.entries.push_back(std::move(entry));
    }
    if (!resume) return listing;
    const EntryRef last = std::move(resume);
    portion.clear();
    rt::MutexLock lock(mutex_);
    resume = table_.collect(range, last->key(), portion_size, portion);
  }
}

std::size_t StoreBase::count(ResourceId resource, std::string_view ns) const {
  rt::MutexLock lock(mutex_);
  return table_.count(resource, ns);
}

Result<std::unique_ptr<Watcher>> StoreBase::watch(WatchQuery query) {
  auto watcher = std::make_unique<WatcherImpl>(*this, std::move(query));
  BASALT_TRY_DONE(watcher->subscribe());
  return std::unique_ptr<Watcher>(std::move(watcher));
}

Revision StoreBase::revision() const {
  rt::MutexLock lock(mutex_);
  return revision_;
}

Revision StoreBase::oldest_revision(ResourceId resource) const {
  rt::MutexLock lock(mutex_);
  return table_.oldest_revision(resource);
}

Done StoreBase::compact(Revision revision) {
  {
    rt::MutexLock lock(mutex_);
    if (revision > revision_) {
      return Error::make(Reason::BadRequest, "Cannot compact to revision " + std::to_string(revision) +
                                                 ": the store is at " + std::to_string(revision_) + ".");
    }
    table_.set_compacted(revision);
  }
  trim();
  return Ok{};
}

void StoreBase::trim() {
  const std::uint32_t second = now_second();
  std::size_t dropped = kEvictPortion;
  while (dropped == kEvictPortion) {
    std::vector<EntryRef> garbage;
    rt::MutexLock lock(mutex_);
    dropped = table_.evict(second, pinned_min(), kEvictPortion, garbage);
  }
}

StoreStats StoreBase::stats() const {
  rt::MutexLock lock(mutex_);
  StoreStats stats = counters_;
  stats.objects = table_.objects();
  stats.object_bytes = table_.object_bytes();
  stats.revision = revision_;
  stats.compacted_revision = table_.compacted_revision();
  stats.history_events = table_.history_events();
  stats.history_bytes = table_.history_bytes();
  stats.watchers = channels_.size();
  return stats;
}

// ---- steps of a write

Result<EntryMaker> StoreBase::assemble(const Write& write, std::string_view key) const {
  if (write.name.empty() || write.name.find('/') != std::string_view::npos ||
      write.ns.find('/') != std::string_view::npos) {
    return Error::make(Reason::BadRequest,
                       "A stored object needs a name without slashes, not " + base::quote(key) + ".");
  }
  if (write.kind == WriteKind::Delete) return EntryMaker();
  EntryMaker::Parts parts;
  parts.resource = write.resource;
  parts.key = key;
  parts.before = write.object.before;
  parts.after = write.object.after;
  parts.attributes = write.attributes;
  if (!EntryMaker::fits(parts)) {
    return Error::make(Reason::RequestEntityTooLarge, "The object " + base::quote(key) + " is too large to be stored.");
  }
  return EntryMaker::put(parts, revision_hint_.load(std::memory_order_relaxed));
}

Result<EntryRef> StoreBase::decide(const Write& write, std::string_view key, const VersionTable::Place& place) const {
  EntryRef current = place.current();
  if (write.kind == WriteKind::Create) {
    if (current) return refusal(write, Reason::AlreadyExists, key, "already exists");
    return current;
  }
  if (!current) return refusal(write, Reason::NotFound, key, "not found");
  if (write.expected != 0 && write.expected != current->mod_revision()) {
    return refusal(write, Reason::Conflict, key,
                   "has revision " + std::to_string(current->mod_revision()) + ", not the expected " +
                       std::to_string(write.expected));
  }
  return current;
}

Error StoreBase::refusal(const Write& write, Reason reason, std::string_view key, std::string_view why) const {
  return Error::make(reason, table_.name_of(write.resource) + " " + base::quote(key) + " " + std::string(why) + ".");
}

std::uint32_t StoreBase::now_second() const {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(runtime_.now().time_since_epoch()).count());
}

void StoreBase::publish(const VersionTable::Slot& slot, EntryRef entry, std::uint32_t second, Aftermath& aftermath) {
  const Entry& published = *entry;
  BASALT_CHECK(published.mod_revision() == revision_ + 1);
  revision_ = published.mod_revision();
  revision_hint_.store(revision_ + 1, std::memory_order_relaxed);
  const std::uint64_t sequence = table_.publish(slot, std::move(entry), second);
  channels_.announce(published, sequence, aftermath);
}

void StoreBase::evict(std::uint32_t second, std::size_t published, Aftermath& aftermath) {
  // A little more than was added, so that the history shrinks to its bounds while the store is written to.
  table_.evict(second, pinned_min(), published + 8, aftermath.garbage);
}

void StoreBase::count_commit(rt::Duration duration, std::size_t writes) {
  const auto us = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
  const std::size_t bucket = std::min<std::size_t>(std::bit_width(us), StoreStats::kLatencyBuckets - 1);
  ++counters_.commit_latency[bucket];
  ++counters_.commits;
  counters_.writes += writes;
}

void StoreBase::close_watches() {
  Aftermath aftermath;
  {
    rt::MutexLock lock(mutex_);
    is_closed_ = true;
    channels_.cancel_all(aftermath);
  }
  aftermath.carry_out();
}

Error StoreBase::closed_error() { return Error::make(Reason::ServiceUnavailable, "The store is closed."); }

Revision StoreBase::pinned_min() const {
  return pinned_.empty() ? revision_ : *std::min_element(pinned_.begin(), pinned_.end());
}

Error StoreBase::expired(ResourceId resource, Revision wanted) const {
  return Error::make(Reason::Expired, "The history of " + table_.name_of(resource) +
                                          " no longer holds what follows revision " + std::to_string(wanted) +
                                          ": the oldest is " + std::to_string(table_.oldest_revision(resource)) +
                                          ", the current " + std::to_string(revision_) + ". List again.");
}

}  // namespace basalt::apiserver
