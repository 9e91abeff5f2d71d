#include "apiserver/system/garbage_collector.h"

#include <algorithm>
#include <utility>

#include "apiserver/registry/metadata.h"
#include "base/strings.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::size_t kEventsPerPoll = 256;
constexpr rt::Duration kGatherFor = std::chrono::milliseconds(2);
constexpr rt::Duration kTrimPeriodMin = std::chrono::seconds(1);
constexpr rt::Duration kRetryMin = std::chrono::milliseconds(10);
constexpr rt::Duration kRetryMax = std::chrono::seconds(30);

rt::Duration retry_delay(int failures) {
  rt::Duration delay = kRetryMin;
  for (int i = 1; i < failures && delay < kRetryMax; ++i) delay *= 2;
  return std::min(delay, kRetryMax);
}

}  // namespace

GarbageCollector::GarbageCollector(rt::Runtime& runtime, Logger log, ApiServer& server, rt::Duration trim_period)
    : runtime_(runtime),
      log_(std::move(log)),
      server_(server),
      trim_period_(std::max(trim_period, kTrimPeriodMin)),
      client_(make_direct_client(runtime, server,
                                 RequestContext{{"system:serviceaccount:kube-system:generic-garbage-collector", "", {}},
                                                "garbage-collector"})),
      signal_(std::make_shared<WakeSignal>(runtime)),
      stop_(runtime) {
  thread_ = rt::Thread(runtime_, "garbage", [this] { run(); });
}

GarbageCollector::~GarbageCollector() { stop(); }

void GarbageCollector::stop() {
  stop_.request_stop();
  signal_->end();
  if (thread_.joinable()) thread_.join();
}

void GarbageCollector::run() {
  while (true) {
    follow_new_types();
    const bool more = take_events();
    take_due_retries();
    while (!queue_.empty() && !stop_.token().stop_requested()) {
      const ObjectRef next = std::move(queue_.front());
      queue_.pop_front();
      queued_.erase(next);
      examine(next);
    }
    trim_history();
    const rt::Instant next = std::min(retries_.empty() ? rt::kNever : retries_.begin()->first, trim_at_);
    if (more) signal_->fire();
    if (signal_->wait_until(next)) return;
    // Under load every write would wake this thread; a pause lets it take many at once.
    if (stop_.token().wait_for(runtime_, kGatherFor)) return;
  }
}

void GarbageCollector::follow_new_types() {
  auto types = server_.types();
  if (types == types_) return;
  types_ = std::move(types);
  for (const auto& type : types_->all()) {
    const ResourceId resource = server_.store().resource(type->storage_id());
    Source& source = sources_[resource];
    // Of two views of the same objects the one that is stored is the cheaper.
    const bool is_other_version = type->converter && type->version != type->storage_version;
    if (source.type && (type->conversion != nullptr || is_other_version)) continue;
    source.type = type;
    if (!source.watcher) follow(resource, source);
  }
}

void GarbageCollector::follow(ResourceId resource, Source& source) {
  source.watcher.reset();
  ListQuery list;
  list.resource = resource;
  auto listing = server_.store().list(list);
  if (!listing.ok()) return;
  WatchQuery query;
  query.resource = resource;
  query.after = listing->revision;
  query.on_ready = [signal = signal_] { signal->fire(); };
  auto watcher = server_.store().watch(std::move(query));
  if (!watcher.ok()) return;
  source.watcher = std::move(*watcher);
  for (const EntryRef& entry : listing->entries) observe(resource, Event{EventType::Created, entry, nullptr});
}

bool GarbageCollector::take_events() {
  bool more = false;
  for (auto& [resource, source] : sources_) {
    if (!source.watcher) continue;
    std::vector<Event> events;
    auto count = source.watcher->poll(events, kEventsPerPoll);
    if (!count.ok()) {
      // Fell behind the history: what is there now tells all that matters, but for deletions, which the examination of
      // all that is known finds out.
      if (count.error().is(Reason::Expired)) {
        follow(resource, source);
        for (ObjectRef& known : index_.all()) enqueue(std::move(known));
      }
      continue;
    }
    more = more || *count > 0;
    for (const Event& event : events) observe(resource, event);
  }
  return more;
}

void GarbageCollector::observe(ResourceId resource, const Event& event) {
  const Entry& entry = *event.entry;
  auto metadata = read_collected_metadata(*entry.object());
  if (BASALT_BUG(!metadata.ok())) return;
  const ObjectRef object{resource, std::string(entry.ns()), std::string(entry.name()), metadata->uid};
  if (event.type == EventType::Deleted) {
    forget(object.uid);
    return;
  }
  // It may have lost an owner, or hold one back no longer.
  wake_waiting(index_.owners_of(object.uid));
  index_.set(object, metadata->owners);
  const bool asks = metadata->is_being_deleted && !metadata->finalizers.empty();
  if (!metadata->owners.empty() || asks) enqueue(object);
}

// The object is gone: those whom it held back may go, those that depended on it are looked at.
void GarbageCollector::forget(const std::string& uid) {
  wake_waiting(index_.owners_of(uid));
  index_.remove(uid);
  failures_.erase(uid);
  waiting_.erase(uid);
  for (ObjectRef& dependent : index_.dependents_of(uid)) enqueue(std::move(dependent));
}

void GarbageCollector::wake_waiting(const std::vector<std::string>& owner_uids) {
  for (const std::string& uid : owner_uids) {
    if (const auto owner = waiting_.find(uid); owner != waiting_.end()) enqueue(owner->second);
  }
}

void GarbageCollector::enqueue(ObjectRef object) {
  if (queued_.insert(object).second) queue_.push_back(std::move(object));
}

void GarbageCollector::retry_later(ObjectRef object) {
  const int failures = ++failures_[object.uid];
  retries_.emplace(runtime_.now() + retry_delay(failures), std::move(object));
}

void GarbageCollector::take_due_retries() {
  while (!retries_.empty() && retries_.begin()->first <= runtime_.now()) {
    enqueue(std::move(retries_.begin()->second));
    retries_.erase(retries_.begin());
  }
}

// An idle server has no history and is not woken for it.
void GarbageCollector::trim_history() {
  const rt::Instant now = runtime_.now();
  if (trim_at_ <= now) {
    server_.store().trim();
    trim_at_ = rt::kNever;
  }
  if (trim_at_ == rt::kNever && server_.store().stats().history_events > 0) trim_at_ = now + trim_period_;
}

void GarbageCollector::examine(const ObjectRef& object) {
  const EntryRef entry = server_.store().get(object.resource, object.ns, object.name);
  if (!entry || entry->attributes().uid() != object.uid) return forget(object.uid);
  auto metadata = read_collected_metadata(*entry->object());
  if (BASALT_BUG(!metadata.ok())) return;
  const auto has = [&](std::string_view finalizer) {
    return std::find(metadata->finalizers.begin(), metadata->finalizers.end(), finalizer) != metadata->finalizers.end();
  };
  Done done = Ok{};
  if (metadata->is_being_deleted && has(kOrphanFinalizer)) {
    done = orphan_dependents(object);
  } else if (metadata->is_being_deleted && has(kForegroundFinalizer)) {
    done = finish_foreground(object);
  } else if (!metadata->is_being_deleted) {
    done = collect_if_unowned(object, *metadata);
  }
  if (done.ok() || done.error().is(Reason::NotFound)) {
    failures_.erase(object.uid);
    return;
  }
  if (done.error().is(Reason::Cancelled)) return;
  retry_later(object);
}

// Is it deleted in the foreground? As it is stored now, for what it is told of may come after its owners were examined.
bool GarbageCollector::waits(const ObjectRef& object) const {
  const EntryRef entry = server_.store().get(object.resource, object.ns, object.name);
  return entry && entry->attributes().uid() == object.uid && waits(*entry);
}

bool GarbageCollector::waits(const Entry& entry) {
  const auto metadata = read_collected_metadata(*entry.object());
  return metadata.ok() && metadata->is_being_deleted &&
         std::find(metadata->finalizers.begin(), metadata->finalizers.end(), kForegroundFinalizer) !=
             metadata->finalizers.end();
}

GarbageCollector::OwnerState GarbageCollector::state_of(const ObjectRef& object, const OwnerRef& owner) const {
  const auto version = base::split_once(owner.api_version, '/');
  const auto type =
      types_->find_kind(version ? version->first : "", version ? version->second : owner.api_version, owner.kind);
  // Of a kind that is not served nothing is known; it may be served later, so the dependent stays.
  if (!type) return OwnerState::Solid;
  const EntryRef entry = server_.store().get(server_.store().resource(type->storage_id()),
                                             type->namespaced ? object.ns : std::string(), owner.name);
  if (!entry || entry->attributes().uid() != owner.uid) return OwnerState::Absent;
  if (waits(*entry)) return OwnerState::Waiting;
  return OwnerState::Solid;
}

Done GarbageCollector::collect_if_unowned(const ObjectRef& object, const CollectedMetadata& metadata) {
  std::set<std::string> gone;
  bool solid = false;
  bool waiting = false;
  for (const OwnerRef& owner : metadata.owners) {
    switch (state_of(object, owner)) {
      case OwnerState::Absent:
        gone.insert(owner.uid);
        break;
      case OwnerState::Waiting:
        gone.insert(owner.uid);
        waiting = true;
        break;
      case OwnerState::Solid:
        solid = true;
        break;
    }
  }
  if (gone.empty()) return Ok{};
  if (solid) return drop_owners(object, gone);
  const std::vector<ObjectRef> dependents = index_.dependents_of(object.uid);
  if (!waiting || dependents.empty()) return remove_object(object, kube::Propagation::Background);
  // A dependent that waits itself may wait for this one: in a circle one has to give way.
  const bool may_be_circle =
      std::any_of(dependents.begin(), dependents.end(), [&](const ObjectRef& one) { return waits(one); });
  if (may_be_circle) {
    BASALT_TRY_DONE(stop_blocking(object));
  }
  return remove_object(object, kube::Propagation::Foreground);
}

Done GarbageCollector::finish_foreground(const ObjectRef& object) {
  if (index_.blocking_dependents_of(object.uid).empty()) {
    waiting_.erase(object.uid);
    return remove_finalizer(object, kForegroundFinalizer);
  }
  // Once: each of them tells when it has changed.
  if (!waiting_.emplace(object.uid, object).second) return Ok{};
  for (ObjectRef& dependent : index_.dependents_of(object.uid)) enqueue(std::move(dependent));
  return Ok{};
}

Done GarbageCollector::orphan_dependents(const ObjectRef& object) {
  for (const ObjectRef& dependent : index_.dependents_of(object.uid)) {
    Done done = drop_owners(dependent, {object.uid});
    if (!done.ok() && !done.error().is(Reason::NotFound)) return done;
  }
  return remove_finalizer(object, kOrphanFinalizer);
}

kube::Request GarbageCollector::request_for(const ObjectRef& object, kube::Verb verb) const {
  const auto source = sources_.find(object.resource);
  kube::Request request;
  request.verb = verb;
  if (source != sources_.end()) {
    const ResourceType& type = *source->second.type;
    request.resource = {type.group, type.version, type.plural};
  }
  request.ns = object.ns;
  request.name = object.name;
  return request;
}

Done GarbageCollector::drop_owners(const ObjectRef& object, const std::set<std::string>& owner_uids) {
  const EntryRef entry = server_.store().get(object.resource, object.ns, object.name);
  if (!entry || entry->attributes().uid() != object.uid) return Ok{};
  BASALT_TRY(const json::Value stored, json::Value::parse(*entry->object()));
  json::Array kept;
  if (const json::Value* owners = stored.find_path({"metadata", "ownerReferences"}); owners != nullptr) {
    for (const json::Value& owner : owners->as_array()) {
      if (!owner_uids.contains(std::string(owner.string_at({"uid"})))) kept.push_back(owner);
    }
  }
  json::Object metadata{{"resourceVersion", metadata_text(stored, "resourceVersion")}, {"uid", object.uid}};
  metadata.set("ownerReferences", kept.empty() ? json::Value() : json::Value(std::move(kept)));
  kube::Request request = request_for(object, kube::Verb::Patch);
  request.patch_type = kube::PatchType::Merge;
  request.body = json::Value(json::Object{{"metadata", std::move(metadata)}}).to_text();
  BASALT_TRY_DONE(client_->call(request, stop_.token()));
  return Ok{};
}

Done GarbageCollector::stop_blocking(const ObjectRef& object) {
  const EntryRef entry = server_.store().get(object.resource, object.ns, object.name);
  if (!entry || entry->attributes().uid() != object.uid) return Ok{};
  BASALT_TRY(const json::Value stored, json::Value::parse(*entry->object()));
  const json::Value* references = stored.find_path({"metadata", "ownerReferences"});
  if (references == nullptr || !references->is_array()) return Ok{};
  json::Array owners;
  for (const json::Value& owner : references->as_array()) {
    owners.push_back(owner);
    owners.back().ensure_path({"blockOwnerDeletion"}) = false;
  }
  if (json::Value(owners) == *references) return Ok{};
  kube::Request request = request_for(object, kube::Verb::Patch);
  request.patch_type = kube::PatchType::Merge;
  json::Object metadata{{"resourceVersion", metadata_text(stored, "resourceVersion")},
                        {"uid", object.uid},
                        {"ownerReferences", std::move(owners)}};
  request.body = json::Value(json::Object{{"metadata", std::move(metadata)}}).to_text();
  BASALT_TRY_DONE(client_->call(request, stop_.token()));
  return Ok{};
}

Done GarbageCollector::remove_finalizer(const ObjectRef& object, std::string_view finalizer) {
  const EntryRef entry = server_.store().get(object.resource, object.ns, object.name);
  if (!entry || entry->attributes().uid() != object.uid) return Ok{};
  BASALT_TRY(const json::Value stored, json::Value::parse(*entry->object()));
  json::Array kept;
  if (const json::Value* list = stored.find_path({"metadata", "finalizers"}); list != nullptr && list->is_array()) {
    for (const json::Value& one : list->as_array()) {
      if (one != json::Value(finalizer)) kept.push_back(one);
    }
  }
  json::Object metadata{{"resourceVersion", metadata_text(stored, "resourceVersion")}};
  metadata.set("finalizers", kept.empty() ? json::Value() : json::Value(std::move(kept)));
  kube::Request request = request_for(object, kube::Verb::Patch);
  request.patch_type = kube::PatchType::Merge;
  request.body = json::Value(json::Object{{"metadata", std::move(metadata)}}).to_text();
  BASALT_TRY_DONE(client_->call(request, stop_.token()));
  return Ok{};
}

Done GarbageCollector::remove_object(const ObjectRef& object, kube::Propagation propagation) {
  kube::Request request = request_for(object, kube::Verb::Delete);
  request.precondition_uid = object.uid;
  request.propagation = propagation;
  auto removed = client_->call(request, stop_.token());
  // Another object of the same name is none of ours.
  if (!removed.ok() && removed.error().is(Reason::Conflict)) return Ok{};
  if (!removed.ok()) return std::move(removed).error();
  return Ok{};
}

}  // namespace basalt::apiserver
