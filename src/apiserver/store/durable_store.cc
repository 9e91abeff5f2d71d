#include "apiserver/store/durable_store.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace basalt::apiserver {
namespace {

// Bounds of one transaction: enough that its cost does not matter, little enough that nobody waits long for it.
constexpr std::size_t kGroupWritesMax = 1024;
constexpr std::size_t kGroupBytesMax = 8U << 20;
// Of the writes that wait in the queue while nobody waits for them, and so holds them back.
constexpr std::size_t kQueuedBytesMax = 256U << 20;
// Writes that are decided or published before others may take the lock: about 100 microseconds.
constexpr std::size_t kLockPortion = 128;

}  // namespace

Result<std::unique_ptr<Store>> open_durable_store(rt::Runtime& runtime, StoreOptions options) {
  auto store = std::make_unique<DurableStore>(runtime, std::move(options));
  auto started = store->start();
  if (!started.ok()) {
    // Nothing runs yet; this only says that the end is in good order.
    (void)store->close();
    return std::move(started).error();
  }
  return std::unique_ptr<Store>(std::move(store));
}

DurableStore::DurableStore(rt::Runtime& runtime, StoreOptions options)
    : StoreBase(runtime, std::move(options)), work_(runtime), filling_(std::make_shared<Round>(runtime)) {}

// ---- start and end

Done DurableStore::start() {
  StoreFile::Options options;
  options.directory = options_.directory;
  options.is_synced = options_.durability == Durability::Full;
  options.log_bytes_max = options_.log_bytes_max;
  options.file_bytes_max = options_.file_bytes_max;
  options.attributes_scheme = options_.attributes_scheme;
  options.sqlite_vfs = options_.sqlite_vfs;
  if (options.directory.empty()) return Error::invalid_input("A durable store needs a data directory.");
  BASALT_TRY(file_, StoreFile::open(options));
  BASALT_TRY_DONE(load());
  committer_ = rt::Thread(runtime_, "store-commit", [this] { run_committer(); });
  return Ok{};
}

Done DurableStore::load() {
  const bool reindexes = options_.reindex != nullptr;
  std::vector<EntryRef> loaded;
  {
    // Nobody else is there yet; the lock is for the analysis of who holds it.
    rt::MutexLock lock(mutex_);
    StoreFile::Reader reader;
    reader.on_resource = [this](std::string_view name) BASALT_NO_THREAD_SAFETY_ANALYSIS { return table_.intern(name); };
    reader.on_row = [&](const StoreFile::Row& row) BASALT_NO_THREAD_SAFETY_ANALYSIS -> Done {
      EntryMaker::Stored stored;
      stored.resource = row.resource;
      stored.key = row.key;
      stored.object = row.object;
      stored.attributes = row.attributes;
      stored.create_revision = row.create_revision;
      stored.mod_revision = row.mod_revision;
      stored.revision_offset = row.revision_offset;
      EntryRef entry = EntryMaker::stored(stored);
      if (!entry)
        return Error::invalid_input(file_->path() + " is damaged: row " + std::to_string(row.row) +
                                    " does not hold its revision.");
      if (reindexes && file_->attributes_scheme() != options_.attributes_scheme) loaded.push_back(entry);
      if (!table_.load(std::move(entry), row.row, row.check)) {
        return Error::invalid_input(file_->path() + " is damaged: an object is there twice, again in row " +
                                    std::to_string(row.row) + ".");
      }
      return Ok{};
    };
    BASALT_TRY_DONE(file_->load(reader));
  }
  BASALT_TRY_DONE(file_->begin());
  if (!loaded.empty() || file_->attributes_scheme() != options_.attributes_scheme) BASALT_TRY_DONE(reindex(loaded));
  rt::MutexLock lock(mutex_);
  revision_ = file_->revision();
  revision_hint_ = revision_ + 1;
  table_.set_compacted(revision_);
  return Ok{};
}

Done DurableStore::reindex(std::vector<EntryRef>& loaded) {
  if (!options_.reindex) return Ok{};
  AttributesWriter attributes;
  std::vector<EntryRef> entries;
  std::vector<StoreFile::Change> changes;
  rt::MutexLock lock(mutex_);
  for (const EntryRef& old : loaded) {
    attributes.reset("");
    options_.reindex(table_.name_of(old->resource()), *old->object(), attributes);
    const VersionTable::Slot& slot = *table_.find(old->resource(), old->key());
    EntryMaker::Stored stored;
    stored.resource = old->resource();
    stored.key = old->key();
    stored.object = *old->object();
    stored.attributes = attributes.packed();
    stored.create_revision = old->create_revision();
    stored.mod_revision = old->mod_revision();
    stored.revision_offset = EntryMaker::revision_offset(*old);
    StoreFile::Change change;
    change.kind = StoreFile::ChangeKind::Update;
    change.row = slot.row;
    change.old_check = slot.row_check;
    slot.newest = EntryMaker::stored(stored);
    change.entry = slot.newest.get();
    changes.push_back(change);
  }
  BASALT_TRY_DONE(file_->commit_attributes(changes, options_.attributes_scheme));
  for (const StoreFile::Change& change : changes) {
    table_.find(change.entry->resource(), change.entry->key())->row_check = change.new_check;
  }
  return Ok{};
}

Done DurableStore::close() {
  close_watches();
  {
    rt::MutexLock lock(mutex_);
    work_.notify_one();
  }
  if (committer_.joinable()) committer_.join();
  if (!file_) return Ok{};
  auto closed = file_->close();
  file_.reset();
  return closed;
}

StoreStats DurableStore::stats() const {
  StoreStats stats = StoreBase::stats();
  stats.file_bytes = StoreFile::file_bytes(options_.directory);
  rt::MutexLock lock(mutex_);
  stats.is_read_only = !read_only_reason_.empty();
  return stats;
}

// ---- the writers' side

// What the writer does without the lock.
Done DurableStore::begin(const Write& write, Pending& pending) const {
  pending.write = &write;
  pending.bytes = write.object.before.size() + write.object.after.size() + write.attributes.size();
  join_key(write.ns, write.name, pending.key);
  BASALT_TRY(pending.maker, assemble(write, pending.key));
  return Ok{};
}

Result<EntryRef> DurableStore::write(const Write& write) {
  Pending pending;
  BASALT_TRY_DONE(begin(write, pending));
  submit({&pending, 1});
  return std::move(*pending.result);
}

void DurableStore::write_later(const Write& write, Told told) {
  auto later = std::make_unique<Later>();
  if (Done begun = begin(write, later->pending); !begun.ok()) return told(begun.error());
  later->write.kind = write.kind;
  later->write.resource = write.resource;
  later->write.expected = write.expected;
  later->told = std::move(told);
  later->pending.write = &later->write;
  later->pending.later = later.get();
  {
    rt::MutexLock lock(mutex_);
    enqueue(later->pending);
    tell_committer();
    // From here on it may be gone as soon as the lock is released.
    if (!later->pending.result) {
      static_cast<void>(later.release());
      return;
    }
  }
  later->told(std::move(*later->pending.result));
}

std::vector<Result<EntryRef>> DurableStore::write_all(std::span<const Write> writes) {
  std::vector<Pending> pending(writes.size());
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (Done begun = begin(writes[i], pending[i]); !begun.ok()) pending[i].result = begun.error();
  }
  submit(pending);
  std::vector<Result<EntryRef>> results;
  results.reserve(writes.size());
  for (Pending& one : pending) results.push_back(std::move(*one.result));
  return results;
}

void DurableStore::submit(std::span<Pending> writes) {
  rt::MutexLock lock(mutex_);
  for (Pending& pending : writes) {
    if (!pending.result) enqueue(pending);
  }
  tell_committer();
  for (Pending& pending : writes) {
    while (!pending.result) pending.round->done.wait(mutex_);
  }
}

void DurableStore::enqueue(Pending& pending) {
  if (is_closed_) {
    pending.result = closed_error();
  } else if (!read_only_reason_.empty()) {
    pending.result = read_only_error();
  } else if (queue_.size() >= options_.queued_writes_max ||
             (pending.later != nullptr && queued_bytes_ + pending.bytes > kQueuedBytesMax)) {
    pending.result = Error::make(Reason::TooManyRequests, "Too many writes wait for the disk. Try again later.");
  } else {
    if (pending.later == nullptr) pending.round = filling_;
    queue_.push_back(&pending);
    queued_bytes_ += pending.bytes;
  }
}

void DurableStore::tell_committer() {
  if (!committer_waits_ || queue_.empty()) return;
  committer_waits_ = false;
  work_.notify_one();
}

// ---- the committer's side

void DurableStore::run_committer() {
  while (take_group()) {
    decide_group();
    if (!accepted_.empty()) {
      auto committed = commit_group();
      if (committed.ok()) {
        publish_group();
      } else {
        fail_group(committed.error());
      }
    }
    acknowledge();
    file_->maintain();
  }
}

bool DurableStore::take_group() {
  BASALT_DCHECK(later_.empty());
  group_.clear();
  accepted_.clear();
  rt::MutexLock lock(mutex_);
  while (queue_.empty()) {
    if (is_closed_) return false;
    committer_waits_ = true;
    work_.wait(mutex_);
    committer_waits_ = false;
  }
  std::size_t bytes = 0;
  while (!queue_.empty() && group_.size() < kGroupWritesMax && bytes < kGroupBytesMax) {
    bytes += queue_.front()->bytes;
    queued_bytes_ -= queue_.front()->bytes;
    group_.push_back(queue_.front());
    queue_.pop_front();
    if (group_.back()->later != nullptr) {
      later_.push_back(group_.back()->later);
      continue;
    }
    const auto& round = group_.back()->round;
    if (std::find(rounds_.begin(), rounds_.end(), round) == rounds_.end()) rounds_.push_back(round);
  }
  // Those who come now belong to the next group. If some had to stay, the round goes on: it is woken twice.
  if (queue_.empty()) filling_ = std::make_shared<Round>(runtime_);
  return true;
}

void DurableStore::decide_group() {
  std::vector<Pending*> put_off;
  Revision revision = 0;
  for (std::size_t begin = 0; begin < group_.size(); begin += kLockPortion) {
    rt::MutexLock lock(mutex_);
    if (begin == 0) revision = revision_;
    const std::size_t end = std::min(group_.size(), begin + kLockPortion);
    for (std::size_t i = begin; i < end; ++i) {
      Pending& pending = *group_[i];
      const VersionTable::Place place = table_.locate(pending.write->resource, pending.key);
      if (place.slot != nullptr && place.slot->pending != nullptr) {
        put_off.push_back(&pending);
      } else {
        decide_one(pending, place, revision);
      }
    }
  }
  if (put_off.empty()) return;
  rt::MutexLock lock(mutex_);
  queue_.insert(queue_.begin(), put_off.begin(), put_off.end());
  for (const Pending* pending : put_off) queued_bytes_ += pending->bytes;
}

void DurableStore::decide_one(Pending& pending, const VersionTable::Place& place, Revision& revision) {
  auto before = decide(*pending.write, pending.key, place);
  if (!before.ok()) {
    pending.result = std::move(before).error();
    return;
  }
  pending.before = std::move(before).value();
  pending.revision = ++revision;
  // A deleted version is made later, from the one before; until then that one holds the slot's place.
  pending.slot = &table_.promise(place, pending.maker.entry() != nullptr ? *pending.maker.entry() : *pending.before);
  pending.row = pending.slot->row;
  pending.row_check = pending.slot->row_check;
  accepted_.push_back(&pending);
}

Done DurableStore::commit_group() {
  const rt::Instant begin = runtime_.now();
  changes_.clear();
  std::vector<StoreFile::NewResource> resources;
  for (Pending* pending : accepted_) {
    StoreFile::Change change;
    change.row = pending->row;
    change.old_check = pending->row_check;
    switch (pending->write->kind) {
      case WriteKind::Create:
        change.kind = StoreFile::ChangeKind::Insert;
        change.row = pending->row = file_->next_row();
        change.old_check = 0;
        break;
      case WriteKind::Update:
        change.kind = StoreFile::ChangeKind::Update;
        break;
      case WriteKind::Delete:
        change.kind = StoreFile::ChangeKind::Delete;
        pending->maker = EntryMaker::remove(*pending->before, pending->revision);
        break;
    }
    pending->entry = pending->maker.finish(pending->revision, pending->before ? pending->before->create_revision() : 0);
    change.entry = pending->entry.get();
    changes_.push_back(change);
    const ResourceId resource = pending->write->resource;
    const auto is_new = [&](const StoreFile::NewResource& one) { return one.id == resource; };
    if (!file_->knows(resource) && std::none_of(resources.begin(), resources.end(), is_new)) {
      resources.push_back({resource, resource_name(resource)});
    }
  }
  BASALT_TRY_DONE(file_->commit(resources, changes_, accepted_.back()->revision));
  const rt::Duration duration = runtime_.now() - begin;
  rt::MutexLock lock(mutex_);
  count_commit(duration, accepted_.size());
  counters_.log_bytes = file_->log_bytes();
  return Ok{};
}

void DurableStore::publish_group() {
  const std::uint32_t second = now_second();
  for (std::size_t begin = 0; begin < accepted_.size(); begin += kLockPortion) {
    Aftermath aftermath;
    const std::size_t end = std::min(accepted_.size(), begin + kLockPortion);
    {
      rt::MutexLock lock(mutex_);
      for (std::size_t i = begin; i < end; ++i) {
        Pending& pending = *accepted_[i];
        const bool is_delete = pending.write->kind == WriteKind::Delete;
        pending.slot->row = is_delete ? 0 : pending.row;
        pending.slot->row_check = is_delete ? 0 : changes_[i].new_check;
        publish(*pending.slot, pending.entry, second, aftermath);
      }
      evict(second, end - begin, aftermath);
      for (std::size_t i = begin; i < end; ++i) accepted_[i]->result = std::move(accepted_[i]->entry);
    }
    aftermath.carry_out();
  }
}

void DurableStore::fail_group(const Error& error) {
  rt::MutexLock lock(mutex_);
  counters_.writes_failed += accepted_.size();
  if (file_->is_failed()) read_only_reason_ = error.message;
  for (Pending* pending : accepted_) {
    table_.withdraw(*pending->slot);
    pending->result = error;
  }
}

// Writes of the group for which somebody waits are not touched here: a writer that has seen its result may have gone.
void DurableStore::acknowledge() {
  for (const auto& round : rounds_) round->done.notify_all();
  rounds_.clear();
  for (Later* one : later_) {
    if (!one->pending.result) continue;  // put off: it is in the queue again
    const std::unique_ptr<Later> done(one);
    done->told(std::move(*done->pending.result));
  }
  later_.clear();
}

Error DurableStore::read_only_error() const {
  return Error::make(
      Reason::ServiceUnavailable,
      "The store is read-only until it is restarted, because of an error of the disk: " + read_only_reason_);
}

}  // namespace basalt::apiserver
