#include "kube/informer_core.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/hash.h"

namespace basalt::kube {

struct InformerCore::HandlerState {
  explicit HandlerState(Handler handler_fn) : handler(std::move(handler_fn)) {}
  const Handler handler;
  rt::Mutex mutex;
  // Until the objects that were there before it have been shown, changes queue up.
  bool is_live BASALT_GUARDED_BY(mutex) = false;
  std::deque<Change> backlog BASALT_GUARDED_BY(mutex);
};

bool InformerCore::ByKey::operator()(const Entry* a, const Entry* b) const {
  if (const int order = a->name.compare(b->name); order != 0) return order < 0;
  return type->meta(a->object.get()).ns < type->meta(b->object.get()).ns;
}

InformerCore::InformerCore(rt::Runtime& runtime, Client& client, Logger log, ReflectorOptions options, Type type,
                           std::vector<Index> indexes)
    : runtime_(runtime),
      log_(log.with({{"resource", options.resource.to_string()}})),
      options_(options),
      type_(type),
      indexes_(std::move(indexes)),
      reflector_(runtime, client, std::move(log), std::move(options), *this),
      stop_(runtime),
      synced_condition_(runtime),
      postings_(indexes_.size()),
      handlers_(std::make_shared<const HandlerList>()),
      progress_handlers_(std::make_shared<const std::vector<std::function<void(Revision)>>>()) {
  if (options_.metrics == nullptr) return;
  const MetricLabels labels = {{"resource", options_.resource.to_string()}};
  objects_gauge_ = options_.metrics->gauge("basalt_informer_objects", "Objects in the cache.", labels);
  stale_counter_ =
      options_.metrics->counter("basalt_informer_stale_events_total", "Events that told nothing new.", labels);
  undecodable_counter_ = options_.metrics->counter("basalt_informer_undecodable_total",
                                                   "Objects that do not have the shape of their type.", labels);
}

InformerCore::~InformerCore() { BASALT_CHECK(!thread_.joinable()); }

void InformerCore::start() {
  BASALT_CHECK(!thread_.joinable());
  thread_ = rt::Thread(runtime_, ("inf-" + options_.resource.plural).substr(0, 15),
                       [this] { reflector_.run(stop_.token()); });
}

void InformerCore::stop() {
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
}

bool InformerCore::wait_synced(const rt::StopToken& stop, rt::Instant deadline) {
  const auto wake = [this] {
    const rt::MutexLock lock(mutex_);
    synced_condition_.notify_all();
  };
  const auto by_caller = stop.on_stop(wake);
  const auto by_owner = stop_.token().on_stop(wake);
  const rt::MutexLock lock(mutex_);
  while (!has_synced() && !stop.stop_requested() && !stop_.token().stop_requested()) {
    if (!synced_condition_.wait_until(mutex_, deadline)) break;
  }
  return has_synced();
}

InformerCore::Counts InformerCore::counts() const {
  Counts counts;
  counts.added = added_;
  counts.updated = updated_;
  counts.deleted = deleted_;
  counts.stale = stale_;
  counts.undecodable = undecodable_;
  return counts;
}

// Readers.

InformerCore::Found InformerCore::find_entry(std::string_view ns, std::string_view name) const {
  const rt::MutexLock lock(mutex_);
  const auto names = namespaces_.find(ns);
  if (names == namespaces_.end()) return {};
  const auto entry = names->second.find(name);
  if (entry == names->second.end()) return {};
  return {entry->object, entry->revision};
}

InformerCore::Object InformerCore::find(std::string_view ns, std::string_view name) const {
  return find_entry(ns, name).object;
}

void InformerCore::next_chunk(std::string& ns, std::optional<std::string>& after, bool one_namespace,
                              std::vector<Object>& chunk) const {
  const rt::MutexLock lock(mutex_);
  auto names = one_namespace ? namespaces_.find(ns) : namespaces_.lower_bound(ns);
  while (names != namespaces_.end() && chunk.size() < kChunk) {
    auto entry =
        after && names->first == ns ? names->second.upper_bound(std::string_view(*after)) : names->second.begin();
    for (; entry != names->second.end() && chunk.size() < kChunk; ++entry) {
      chunk.push_back(entry->object);
      after = std::string(entry->name);
      ns = names->first;
    }
    if (one_namespace) return;
    ++names;
  }
}

void InformerCore::visit_chunks(std::string ns, bool one_namespace, const std::function<void(Object&&)>& visit) const {
  std::vector<Object> chunk;
  chunk.reserve(kChunk);
  std::optional<std::string> after;
  do {
    chunk.clear();
    next_chunk(ns, after, one_namespace, chunk);
    for (Object& object : chunk) visit(std::move(object));
  } while (chunk.size() == kChunk);
}

void InformerCore::visit_all(const std::function<void(Object&&)>& visit) const { visit_chunks("", false, visit); }

void InformerCore::visit_namespace(std::string_view ns, const std::function<void(Object&&)>& visit) const {
  visit_chunks(std::string(ns), true, visit);
}

const InformerCore::Posting* InformerCore::posting(std::string_view index, std::string_view value) const {
  for (std::size_t i = 0; i < indexes_.size(); ++i) {
    if (indexes_[i].name != index) continue;
    const auto found = postings_[i].find(value);
    return found == postings_[i].end() ? nullptr : &found->second;
  }
  (void)BASALT_BUG(true);  // no such index
  return nullptr;
}

void InformerCore::visit_index(std::string_view index, std::string_view value,
                               const std::function<void(Object&&)>& visit) const {
  std::vector<Object> chunk;
  Entry last;  // where the chunk before ended; keeps that object and so its name
  do {
    chunk.clear();
    {
      const rt::MutexLock lock(mutex_);
      const Posting* entries = posting(index, value);
      if (entries == nullptr) return;
      chunk.reserve(std::min(kChunk, entries->size()));
      auto entry = last.object ? entries->upper_bound(&last) : entries->begin();
      for (; entry != entries->end() && chunk.size() < kChunk; ++entry) chunk.push_back((*entry)->object);
    }
    if (chunk.empty()) return;
    last.object = chunk.back();
    last.name = meta_of(last.object).name;
    for (Object& object : chunk) visit(std::move(object));
  } while (chunk.size() == kChunk);
}

std::size_t InformerCore::count_index(std::string_view index, std::string_view value) const {
  const rt::MutexLock lock(mutex_);
  const Posting* entries = posting(index, value);
  return entries == nullptr ? 0 : entries->size();
}

// Handlers.

void InformerCore::add_handler(Handler handler) {
  auto state = std::make_shared<HandlerState>(std::move(handler));
  std::vector<Object> present;
  {
    // Together, so that each object is either here or comes as a change.
    const rt::MutexLock lock(mutex_);
    present.reserve(size());
    for (const auto& [ns, names] : namespaces_) {
      for (const Entry& entry : names) present.push_back(entry.object);
    }
    auto list = std::make_shared<HandlerList>(*handlers_);
    list->push_back(state);
    handlers_ = std::move(list);
  }
  for (Object& object : present) state->handler(Change{nullptr, std::move(object)});
  while (true) {
    std::deque<Change> waiting;
    {
      const rt::MutexLock lock(state->mutex);
      if (state->backlog.empty()) {
        state->is_live = true;
        return;
      }
      waiting.swap(state->backlog);
    }
    for (const Change& change : waiting) state->handler(change);
  }
}

void InformerCore::add_progress_handler(std::function<void(Revision)> handler) {
  const rt::MutexLock lock(mutex_);
  auto list = std::make_shared<std::vector<std::function<void(Revision)>>>(*progress_handlers_);
  list->push_back(std::move(handler));
  progress_handlers_ = std::move(list);
}

void InformerCore::dispatch(const HandlerList& handlers, const Change& change) {
  for (const auto& state : handlers) {
    {
      const rt::MutexLock lock(state->mutex);
      if (!state->is_live) {
        state->backlog.push_back(change);
        continue;
      }
    }
    state->handler(change);
  }
}

void InformerCore::tell_progress(Revision revision) {
  std::shared_ptr<const std::vector<std::function<void(Revision)>>> handlers;
  {
    const rt::MutexLock lock(mutex_);
    handlers = progress_handlers_;
  }
  for (const auto& handler : *handlers) handler(revision);
}

// The informer's thread: from here on nobody else changes the cache.

InformerCore::IndexValues InformerCore::index_values(const Object& object) const {
  IndexValues values(indexes_.size());
  for (std::size_t i = 0; object && i < indexes_.size(); ++i) indexes_[i].values(object.get(), values[i]);
  return values;
}

void InformerCore::change_postings(const Entry& entry, const IndexValues& gone, const IndexValues& come) {
  for (std::size_t i = 0; i < indexes_.size(); ++i) {
    if (gone[i] == come[i]) continue;
    auto& postings = postings_[i];
    for (const std::string& value : gone[i]) {
      const auto found = postings.find(value);
      if (found == postings.end()) continue;
      found->second.erase(&entry);
      if (found->second.empty()) postings.erase(found);
    }
    for (const std::string& value : come[i]) {
      postings.try_emplace(value, Posting(ByKey{&type_})).first->second.insert(&entry);
    }
  }
}

void InformerCore::insert(Object object) {
  const Meta meta = meta_of(object);
  const IndexValues none(indexes_.size());
  const IndexValues values = index_values(object);
  std::shared_ptr<const HandlerList> handlers;
  {
    const rt::MutexLock lock(mutex_);
    auto names = namespaces_.find(meta.ns);
    if (names == namespaces_.end()) names = namespaces_.emplace(std::string(meta.ns), Names()).first;
    const auto [entry, is_new] = names->second.insert(Entry{object, meta.name, parse_revision(meta.resource_version)});
    BASALT_CHECK(is_new);
    change_postings(*entry, none, values);
    handlers = handlers_;
  }
  objects_gauge_.set(static_cast<double>(++size_));
  ++added_;
  dispatch(*handlers, Change{nullptr, std::move(object)});
}

void InformerCore::update(const Object& before, Object after) {
  const Meta meta = meta_of(after);
  const IndexValues gone = index_values(before);
  const IndexValues come = index_values(after);
  std::shared_ptr<const HandlerList> handlers;
  {
    const rt::MutexLock lock(mutex_);
    const auto names = namespaces_.find(meta.ns);
    BASALT_CHECK(names != namespaces_.end());
    const auto entry = names->second.find(meta.name);
    BASALT_CHECK(entry != names->second.end());
    entry->object = after;  // `before` keeps the old one, and so the old name, until the name is replaced
    entry->name = meta.name;
    entry->revision = parse_revision(meta.resource_version);
    change_postings(*entry, gone, come);
    handlers = handlers_;
  }
  ++updated_;
  dispatch(*handlers, Change{before, std::move(after)});
}

void InformerCore::erase(const Object& cached, Object last_state) {
  const Meta meta = meta_of(cached);
  const IndexValues gone = index_values(cached);
  const IndexValues none(indexes_.size());
  std::shared_ptr<const HandlerList> handlers;
  {
    const rt::MutexLock lock(mutex_);
    const auto names = namespaces_.find(meta.ns);
    BASALT_CHECK(names != namespaces_.end());
    const auto entry = names->second.find(meta.name);
    BASALT_CHECK(entry != names->second.end());
    change_postings(*entry, gone, none);
    names->second.erase(entry);
    if (names->second.empty()) namespaces_.erase(names);
    handlers = handlers_;
  }
  objects_gauge_.set(static_cast<double>(--size_));
  ++deleted_;
  dispatch(*handlers, Change{last_state ? std::move(last_state) : cached, nullptr});
}

void InformerCore::remember_deleted(std::string_view uid, Revision revision) {
  const std::uint64_t hash = base::fnv1a_64(uid);
  const auto [entry, is_new] = tombstones_.try_emplace(hash, revision);
  entry->second = std::max(entry->second, revision);
  if (!is_new) return;
  if (tombstone_ring_.size() < kTombstonesMax) {
    tombstone_ring_.push_back(hash);
    return;
  }
  tombstones_.erase(std::exchange(tombstone_ring_[tombstone_next_], hash));
  tombstone_next_ = (tombstone_next_ + 1) % kTombstonesMax;
}

bool InformerCore::was_deleted(std::string_view uid, Revision revision) const {
  const auto found = tombstones_.find(base::fnv1a_64(uid));
  // An object that left a selector may come back; its revision is then a later one.
  return found != tombstones_.end() && revision != 0 && revision <= found->second;
}

InformerCore::Object InformerCore::decode_or_count(const Bytes& text, const Identity& identity) {
  Result<Object> object = type_.decode(*text);
  if (object.ok()) return std::move(object).value();
  ++undecodable_;
  undecodable_counter_.add();
  log_.warn("an object does not have the shape of its type; the cache keeps what it had of it",
            {{"namespace", identity.ns}, {"name", identity.name}, {"error", object.error()}});
  return nullptr;
}

void InformerCore::upsert(Object object) {
  const Meta meta = meta_of(object);
  const Revision revision = parse_revision(meta.resource_version);
  const Found cached = find_entry(meta.ns, meta.name);
  const bool is_stale = cached.object ? revision != 0 && revision <= cached.revision : was_deleted(meta.uid, revision);
  if (is_stale) {
    ++stale_;
    stale_counter_.add();
  } else if (!cached.object) {
    insert(std::move(object));
  } else if (meta_of(cached.object).uid == meta.uid) {
    update(cached.object, std::move(object));
  } else {
    remember_deleted(meta_of(cached.object).uid, cached.revision);
    erase(cached.object, nullptr);
    insert(std::move(object));
  }
}

void InformerCore::remove(const Identity& identity, Object last_state) {
  const Revision revision = parse_revision(identity.resource_version);
  const Found cached = find_entry(identity.ns, identity.name);
  const bool is_other = cached.object && meta_of(cached.object).uid != identity.uid;
  if (!cached.object || is_other || (revision != 0 && revision < cached.revision)) {
    ++stale_;
    stale_counter_.add();
    return;
  }
  remember_deleted(identity.uid, std::max(revision, cached.revision));
  erase(cached.object, std::move(last_state));
}

void InformerCore::apply(const WatchEvent& event) {
  // What came to be or changed is known by its decoded form; its text is read once.
  if (event.type != WatchEventType::Deleted) {
    if (Result<Object> object = type_.decode(*event.object); object.ok()) {
      upsert(std::move(object).value());
      return;
    }
  }
  const Result<Identity> identity = identity_of(*event.object);
  if (!identity.ok()) return;  // the reflector has read it already
  Object object = decode_or_count(event.object, *identity);
  if (event.type == WatchEventType::Deleted) remove(*identity, std::move(object));
}

void InformerCore::progress(Revision revision) {
  if (revision == 0) return;  // a server whose versions are no numbers: nothing can be compared
  seen_.store(revision, std::memory_order_release);
  tell_progress(revision);
}

void InformerCore::list_begin() { staged_.clear(); }

void InformerCore::stage(const Bytes& item) {
  Result<Identity> identity = identity_of(*item);
  if (!identity.ok()) {
    ++undecodable_;
    undecodable_counter_.add();
    return;
  }
  // What has not changed since is not decoded again; a relist then costs little and shares its objects.
  const Found cached = find_entry(identity->ns, identity->name);
  Staged staged;
  if (cached.object) {
    const Meta meta = meta_of(cached.object);
    if (meta.uid == identity->uid && meta.resource_version == identity->resource_version) staged.object = cached.object;
  }
  if (!staged.object) staged.object = decode_or_count(item, *identity);
  staged.uid = std::move(identity->uid);
  staged_.insert_or_assign({std::move(identity->ns), std::move(identity->name)}, std::move(staged));
}

void InformerCore::list_items(std::span<const Bytes> items) {
  for (const Bytes& item : items) stage(item);
}

void InformerCore::list_remove(const Bytes& item) {
  const Result<Identity> identity = identity_of(*item);
  if (identity.ok()) staged_.erase({identity->ns, identity->name});
}

void InformerCore::list_end(Revision revision) {
  replace_with_staged(revision);
  seen_.store(revision, std::memory_order_release);
  {
    const rt::MutexLock lock(mutex_);
    synced_.store(true, std::memory_order_release);
    synced_condition_.notify_all();
  }
  tell_progress(revision);
}

// The list is the truth, whatever the revisions say: after a restore from a backup they start over.
void InformerCore::replace_with_staged(Revision revision) {
  std::vector<Object> gone;
  visit_all([&](Object&& cached) {
    const Meta meta = meta_of(cached);
    const auto staged = staged_.find({std::string(meta.ns), std::string(meta.name)});
    if (staged == staged_.end() || staged->second.uid != meta.uid) gone.push_back(std::move(cached));
  });
  for (const Object& cached : gone) {
    remember_deleted(meta_of(cached).uid, revision);
    erase(cached, nullptr);
  }
  for (auto& [key, staged] : staged_) {
    if (!staged.object) continue;
    const Object cached = find(key.first, key.second);
    if (!cached) {
      insert(std::move(staged.object));
    } else if (cached != staged.object) {
      update(cached, std::move(staged.object));
    }
  }
  staged_.clear();
}

}  // namespace basalt::kube
