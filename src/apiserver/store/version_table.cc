#include "apiserver/store/version_table.h"

#include <algorithm>
#include <utility>

#include "apiserver/store/entry_maker.h"
#include "base/check.h"

namespace basalt::apiserver {

VersionTable::~VersionTable() {
  // Oldest first: a chain of many versions of one object would otherwise be freed by as deep a recursion.
  for (Resource& resource : resources_) {
    for (const EntryRef& entry : resource.history) EntryMaker::previous(*entry) = nullptr;
  }
}

ResourceId VersionTable::intern(std::string_view name) {
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  const auto id = static_cast<ResourceId>(resources_.size());
  Resource& resource = resources_.emplace_back();
  resource.name = name;
  // Of a resource that nobody knew there was no event so far; but what was compacted is promised to nobody.
  resource.oldest_revision = std::max<Revision>(1, compact_to_);
  ids_.emplace(resource.name, id);
  return id;
}

VersionTable::Place VersionTable::locate(ResourceId resource, std::string_view key) const {
  const auto& slots = at(resource).slots;
  Place place;
  place.at = slots.lower_bound(key);
  if (place.at != slots.end() && place.at->key() == key) place.slot = &*place.at;
  return place;
}

EntryRef VersionTable::Place::current() const {
  return slot == nullptr || !slot->newest || slot->newest->is_deleted() ? nullptr : slot->newest;
}

EntryRef VersionTable::current(ResourceId resource, std::string_view key) const {
  return locate(resource, key).current();
}

const VersionTable::Slot& VersionTable::promise(const Place& place, const Entry& pending) {
  if (place.slot != nullptr) {
    place.slot->pending = &pending;
    return *place.slot;
  }
  Slot slot;
  slot.pending = &pending;
  return *at(pending.resource()).slots.insert(place.at, std::move(slot));
}

std::uint64_t VersionTable::publish(const Slot& slot, EntryRef entry, std::uint32_t second) {
  BASALT_DCHECK(slot.key() == entry->key());
  Resource& resource = at(entry->resource());
  BASALT_DCHECK(resource.history.empty() || resource.history.back()->mod_revision() < entry->mod_revision());
  EntryRef before = std::move(slot.newest);
  const bool was_there = before && !before->is_deleted();
  const bool is_there = !entry->is_deleted();
  if (before) history_bytes_ += before->bytes();
  if (!is_there) history_bytes_ += entry->bytes();
  if (was_there) object_bytes_ -= before->bytes();
  if (is_there) object_bytes_ += entry->bytes();
  // Unsigned: a change of -1 wraps round to the same effect.
  if (was_there != is_there) count_objects(resource, entry->ns(), is_there ? 1 : static_cast<std::size_t>(-1));
  EntryMaker::previous(*entry) = std::move(before);
  slot.newest = entry;
  slot.pending = nullptr;
  order_.push_back({entry->resource(), second});
  resource.history.push_back(std::move(entry));
  return resource.first_sequence + resource.history.size() - 1;
}

void VersionTable::withdraw(const Slot& slot) {
  BASALT_CHECK(slot.pending != nullptr);
  if (slot.newest) {
    slot.pending = nullptr;
    return;
  }
  auto& slots = at(slot.pending->resource()).slots;
  slots.erase(slots.find(slot.key()));
}

bool VersionTable::load(EntryRef entry, std::int64_t row, std::uint64_t row_check) {
  Resource& resource = at(entry->resource());
  Slot slot;
  slot.newest = entry;
  slot.row = row;
  slot.row_check = row_check;
  if (!resource.slots.insert(std::move(slot)).second) return false;
  object_bytes_ += entry->bytes();
  count_objects(resource, entry->ns(), 1);
  return true;
}

std::size_t VersionTable::count(ResourceId resource, std::string_view ns) const {
  const Resource& r = at(resource);
  if (ns.empty()) return r.objects;
  const auto found = r.objects_by_ns.find(ns);
  return found == r.objects_by_ns.end() ? 0 : found->second;
}

EntryRef VersionTable::collect(const Range& range, std::string_view after, std::size_t slots_max,
                               std::vector<EntryRef>& out) const {
  const auto& slots = at(range.resource).slots;
  std::string prefix;
  if (!range.ns.empty()) {
    prefix = range.ns;
    prefix += '/';
  }
  auto it = after < prefix || after.empty() ? slots.lower_bound(std::string_view(prefix)) : slots.upper_bound(after);
  const Slot* last = nullptr;
  for (std::size_t looked_at = 0; it != slots.end() && it->key().starts_with(prefix); ++it, ++looked_at) {
    // A slot without a version cannot be handed out as the place to go on from.
    if (looked_at >= slots_max && last != nullptr) return last->newest;
    if (!it->newest) continue;
    last = &*it;
    const EntryRef* version = &it->newest;
    while (*version && (*version)->mod_revision() > range.revision) version = &EntryMaker::previous(**version);
    if (*version && !(*version)->is_deleted()) out.push_back(*version);
  }
  return nullptr;
}

std::uint64_t VersionTable::history_end(ResourceId id) const {
  const Resource& resource = at(id);
  return resource.first_sequence + resource.history.size();
}

const EntryRef& VersionTable::event(ResourceId id, std::uint64_t sequence) const {
  const Resource& resource = at(id);
  return resource.history[sequence - resource.first_sequence];
}

std::uint64_t VersionTable::first_event_after(ResourceId id, Revision revision) const {
  const Resource& resource = at(id);
  const auto place =
      std::upper_bound(resource.history.begin(), resource.history.end(), revision,
                       [](Revision wanted, const EntryRef& entry) { return wanted < entry->mod_revision(); });
  return resource.first_sequence + static_cast<std::uint64_t>(place - resource.history.begin());
}

void VersionTable::set_compacted(Revision revision) {
  compact_to_ = std::max(compact_to_, revision);
  compacted_revision_ = std::max(compacted_revision_, revision);
  for (Resource& resource : resources_) resource.oldest_revision = std::max(resource.oldest_revision, revision);
}

std::size_t VersionTable::evict(std::uint32_t now_second, Revision pinned, std::size_t events_max,
                                std::vector<EntryRef>& garbage) {
  std::size_t dropped = 0;
  while (dropped < events_max && !order_.empty()) {
    Resource& resource = at(order_.front().resource);
    const Entry& front = *resource.history.front();
    // A listing at `pinned` still needs the version that this event replaced.
    if (front.mod_revision() > pinned || !front_is_over(front, now_second)) break;
    drop_front(resource, garbage);
    order_.pop_front();
    ++dropped;
  }
  return dropped;
}

bool VersionTable::front_is_over(const Entry& front, std::uint32_t now_second) const {
  return order_.size() > limits_.events_max || history_bytes_ > limits_.bytes_max ||
         front.mod_revision() <= compact_to_ ||
         (now_second > order_.front().second && now_second - order_.front().second > limits_.age_seconds_max);
}

void VersionTable::drop_front(Resource& resource, std::vector<EntryRef>& garbage) {
  EntryRef entry = std::move(resource.history.front());
  resource.history.pop_front();
  ++resource.first_sequence;
  resource.oldest_revision = std::max(resource.oldest_revision, entry->mod_revision());
  compacted_revision_ = std::max(compacted_revision_, entry->mod_revision());
  if (EntryRef& before = EntryMaker::previous(*entry); before) {
    history_bytes_ -= before->bytes();
    garbage.push_back(std::move(before));
    before = nullptr;
  }
  if (!entry->is_deleted()) return;
  history_bytes_ -= entry->bytes();
  const auto slot = resource.slots.find(entry->key());
  // The object may have been created again: then the newer version's event holds this one until it is dropped itself.
  if (slot != resource.slots.end() && slot->newest == entry) {
    if (slot->pending != nullptr) {
      slot->newest = nullptr;
    } else {
      resource.slots.erase(slot);
    }
  }
  garbage.push_back(std::move(entry));
}

void VersionTable::count_objects(Resource& resource, std::string_view ns, std::size_t change) {
  objects_ += change;
  resource.objects += change;
  if (ns.empty()) return;
  auto by_ns = resource.objects_by_ns.find(ns);
  if (by_ns == resource.objects_by_ns.end()) by_ns = resource.objects_by_ns.emplace(ns, 0).first;
  by_ns->second += change;
  if (by_ns->second == 0) resource.objects_by_ns.erase(by_ns);
}

}  // namespace basalt::apiserver
