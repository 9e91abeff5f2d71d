#include "kube/testing/fake_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "api/time.h"
#include "base/check.h"
#include "kube/identity.h"
#include "kube/status.h"

namespace basalt::kube::testing {
namespace {

using Key = std::pair<std::string, std::string>;  // namespace, name

struct Stored {
  json::Value value;
  Bytes text;
};

struct Event {
  std::uint64_t revision = 0;
  WatchEventType type = WatchEventType::Added;
  std::string ns;
  Bytes object;
};

struct Collection {
  std::map<Key, Stored> objects;
  std::deque<Event> history;
};

std::string key_text(const Key& key) { return key.first.empty() ? key.second : key.first + "/" + key.second; }

// RFC 7386.
void merge_patch(json::Value& target, const json::Value& patch) {
  if (!patch.is_object()) {
    target = patch;
    return;
  }
  if (!target.is_object()) target = json::Object();
  for (const auto& [key, value] : patch.as_object()) {
    if (value.is_null()) {
      target.as_object().erase(key);
    } else {
      merge_patch(target.as_object()[key], value);
    }
  }
}

bool has_finalizers(const json::Value& value) {
  const json::Value* list = value.find_path({"metadata", "finalizers"});
  return list != nullptr && list->is_array() && !list->as_array().empty();
}

Bytes bookmark(const Resource& resource, std::uint64_t revision, bool initial_events_end) {
  json::Value object = json::Object();
  object.ensure_path({"kind"}) = "Bookmark";
  object.ensure_path({"apiVersion"}) =
      resource.group.empty() ? resource.version : resource.group + "/" + resource.version;
  object.ensure_path({"metadata", "resourceVersion"}) = std::to_string(revision);
  if (initial_events_end) object.ensure_path({"metadata", "annotations", "k8s.io/initial-events-end"}) = "true";
  return make_bytes(object.to_text());
}

}  // namespace

struct FakeCluster::State {
  explicit State(rt::Runtime& runtime_in) : runtime(runtime_in), changed(runtime_in) {}

  Error not_found(const Request& request) const {
    return Error::make(Reason::NotFound, request.resource.plural + " \"" + request.name + "\" not found");
  }
  Stored& store(Collection& collection, const Key& key, json::Value value, WatchEventType type) BASALT_REQUIRES(mutex);
  void erase(Collection& collection, const Key& key) BASALT_REQUIRES(mutex);
  Result<Response> create(const Request& request) BASALT_REQUIRES(mutex);
  Result<Response> replace(const Request& request) BASALT_REQUIRES(mutex);
  Result<Response> remove(const Request& request, const Key& key) BASALT_REQUIRES(mutex);
  Result<Response> dispatch(const Request& request) BASALT_REQUIRES(mutex);

  rt::Runtime& runtime;
  mutable rt::Mutex mutex;
  rt::Condition changed;
  std::map<Resource, Collection> collections BASALT_GUARDED_BY(mutex);
  std::uint64_t revision BASALT_GUARDED_BY(mutex) = 1;
  std::uint64_t compacted BASALT_GUARDED_BY(mutex) = 0;
  std::uint64_t next_uid BASALT_GUARDED_BY(mutex) = 1;
  std::uint64_t broken_epoch BASALT_GUARDED_BY(mutex) = 0;
  std::uint64_t ended_epoch BASALT_GUARDED_BY(mutex) = 0;
  std::uint64_t bookmark_epoch BASALT_GUARDED_BY(mutex) = 0;
  std::uint64_t lists BASALT_GUARDED_BY(mutex) = 0;
  std::size_t open_watches BASALT_GUARDED_BY(mutex) = 0;
  bool streaming_lists BASALT_GUARDED_BY(mutex) = true;
  // What a continue token goes on with, by its number.
  std::map<std::uint64_t, ListPage> pages BASALT_GUARDED_BY(mutex);
  std::uint64_t next_page BASALT_GUARDED_BY(mutex) = 1;
};

Stored& FakeCluster::State::store(Collection& collection, const Key& key, json::Value value, WatchEventType type) {
  ++revision;
  value.ensure_path({"metadata", "resourceVersion"}) = std::to_string(revision);
  Stored& stored = collection.objects[key];
  stored.text = make_bytes(value.to_text());
  stored.value = std::move(value);
  collection.history.push_back({revision, type, key.first, stored.text});
  changed.notify_all();
  return stored;
}

void FakeCluster::State::erase(Collection& collection, const Key& key) {
  const auto found = collection.objects.find(key);
  ++revision;
  json::Value value = std::move(found->second.value);
  value.ensure_path({"metadata", "resourceVersion"}) = std::to_string(revision);
  collection.history.push_back({revision, WatchEventType::Deleted, key.first, make_bytes(value.to_text())});
  collection.objects.erase(found);
  changed.notify_all();
}

Result<Response> FakeCluster::State::create(const Request& request) {
  auto value = json::Value::parse(request.body);
  if (!value.ok()) return Error::make(Reason::BadRequest, value.error().message);
  const std::string name(value->string_at({"metadata", "name"}));
  if (name.empty()) return Error::make(Reason::Invalid, "metadata.name is required");
  Collection& collection = collections[request.resource];
  const Key key{request.ns, name};
  if (collection.objects.contains(key)) {
    return Error::make(Reason::AlreadyExists, request.resource.plural + " \"" + name + "\" already exists");
  }
  if (!request.ns.empty()) value->ensure_path({"metadata", "namespace"}) = request.ns;
  value->ensure_path({"metadata", "uid"}) = "uid-" + std::to_string(next_uid++);
  value->ensure_path({"metadata", "creationTimestamp"}) =
      api::Time::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(runtime.wall_now()))
          .to_string();
  return Response{201, store(collection, key, std::move(*value), WatchEventType::Added).text, {}};
}

Result<Response> FakeCluster::State::replace(const Request& request) {
  auto given = json::Value::parse(request.body);
  if (!given.ok()) return Error::make(Reason::BadRequest, given.error().message);
  Collection& collection = collections[request.resource];
  const Key key{request.ns, request.name};
  const auto found = collection.objects.find(key);
  if (found == collection.objects.end()) return not_found(request);
  const json::Value& old = found->second.value;
  const std::string_view wanted = given->string_at({"metadata", "resourceVersion"});
  if (!wanted.empty() && wanted != old.string_at({"metadata", "resourceVersion"})) {
    return Error::make(Reason::Conflict,
                       "the object has been modified; please apply your changes to the latest version");
  }
  json::Value value = old;
  if (request.verb == Verb::Patch) {
    merge_patch(value, *given);
  } else {
    value = *given;
  }
  for (const std::string_view field : {"uid", "creationTimestamp", "resourceVersion", "deletionTimestamp"}) {
    if (const json::Value* kept = old.find_path({"metadata", field})) value.ensure_path({"metadata", field}) = *kept;
  }
  if (value == old) return Response{200, found->second.text, {}};
  if (value.find_path({"metadata", "deletionTimestamp"}) != nullptr && !has_finalizers(value)) {
    const Bytes last = make_bytes(value.to_text());
    erase(collection, key);
    return Response{200, last, {}};
  }
  return Response{200, store(collection, key, std::move(value), WatchEventType::Modified).text, {}};
}

Result<Response> FakeCluster::State::remove(const Request& request, const Key& key) {
  Collection& collection = collections[request.resource];
  const auto found = collection.objects.find(key);
  if (found == collection.objects.end()) return not_found(request);
  const json::Value& old = found->second.value;
  const bool other_uid =
      !request.precondition_uid.empty() && request.precondition_uid != old.string_at({"metadata", "uid"});
  const bool other_version = !request.precondition_resource_version.empty() &&
                             request.precondition_resource_version != old.string_at({"metadata", "resourceVersion"});
  if (other_uid || other_version) return Error::make(Reason::Conflict, "the precondition of the delete does not hold");
  if (has_finalizers(old)) {
    json::Value value = old;
    if (value.find_path({"metadata", "deletionTimestamp"}) != nullptr) return Response{200, found->second.text, {}};
    value.ensure_path({"metadata", "deletionTimestamp"}) =
        api::Time::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(runtime.wall_now()))
            .to_string();
    return Response{200, store(collection, key, std::move(value), WatchEventType::Modified).text, {}};
  }
  StatusSubject subject;
  subject.name = key.second;
  subject.kind = request.resource.plural;
  subject.uid = old.string_at({"metadata", "uid"});
  erase(collection, key);
  return Response{200, make_bytes(encode_success(subject)), {}};
}

Result<Response> FakeCluster::State::dispatch(const Request& request) {
  const Key key{request.ns, request.name};
  switch (request.verb) {
    case Verb::Get: {
      const auto& objects = collections[request.resource].objects;
      const auto found = objects.find(key);
      if (found == objects.end()) return not_found(request);
      return Response{200, found->second.text, {}};
    }
    case Verb::Create:
      return create(request);
    case Verb::Update:
    case Verb::Patch:
      return replace(request);
    case Verb::Delete:
      return remove(request, key);
    case Verb::DeleteCollection: {
      std::vector<Key> keys;
      for (const auto& [existing, stored] : collections[request.resource].objects) {
        if (request.ns.empty() || existing.first == request.ns) keys.push_back(existing);
      }
      for (const Key& existing : keys) (void)remove(request, existing);
      return Response{200, make_bytes(encode_success({})), {}};
    }
  }
  return Error::make(Reason::MethodNotAllowed, "not supported");
}

class FakeCluster::Stream final : public WatchStream {
 public:
  Stream(std::shared_ptr<State> state, WatchRequest request, std::deque<WatchEvent> initial, std::uint64_t position)
      : state_(std::move(state)),
        request_(std::move(request)),
        ends_at_(state_->runtime.now() + request_.timeout),
        initial_(std::move(initial)),
        position_(position) {
    const rt::MutexLock lock(state_->mutex);
    broken_epoch_ = state_->broken_epoch;
    ended_epoch_ = state_->ended_epoch;
    bookmark_epoch_ = state_->bookmark_epoch;
    ++state_->open_watches;
  }
  ~Stream() override {
    const rt::MutexLock lock(state_->mutex);
    --state_->open_watches;
  }

  Result<std::optional<WatchEvent>> next(rt::Instant deadline) override {
    state_->runtime.yield();
    const rt::MutexLock lock(state_->mutex);
    while (true) {
      if (cancelled_) return Error::make(Reason::Cancelled, "the watch was cancelled");
      if (state_->broken_epoch != broken_epoch_) return Error::make(Reason::ConnectionLost, "the connection broke");
      if (!initial_.empty()) {
        WatchEvent event = std::move(initial_.front());
        initial_.pop_front();
        return std::optional<WatchEvent>(std::move(event));
      }
      if (position_ < state_->compacted) return Error::make(Reason::Expired, "too old resource version");
      if (auto event = find_next()) return event;
      if (request_.allow_bookmarks && state_->bookmark_epoch != bookmark_epoch_) {
        bookmark_epoch_ = state_->bookmark_epoch;
        position_ = state_->revision;
        return std::optional<WatchEvent>(
            WatchEvent{WatchEventType::Bookmark, bookmark(request_.resource, position_, false)});
      }
      const rt::Instant now = state_->runtime.now();
      if (state_->ended_epoch != ended_epoch_ || now >= ends_at_) return std::optional<WatchEvent>();
      if (now >= deadline) return Error::make(Reason::DeadlineExceeded, "no event in time");
      (void)state_->changed.wait_until(state_->mutex, std::min(deadline, ends_at_));
    }
  }

  void cancel() override {
    const rt::MutexLock lock(state_->mutex);
    cancelled_ = true;
    state_->changed.notify_all();
  }

 private:
  std::optional<WatchEvent> find_next() BASALT_REQUIRES(state_->mutex) {
    const auto& history = state_->collections[request_.resource].history;
    auto event = std::upper_bound(history.begin(), history.end(), position_,
                                  [](std::uint64_t position, const Event& e) { return position < e.revision; });
    for (; event != history.end(); ++event) {
      position_ = event->revision;
      if (request_.ns.empty() || event->ns == request_.ns) return WatchEvent{event->type, event->object};
    }
    return std::nullopt;
  }

  const std::shared_ptr<State> state_;
  const WatchRequest request_;
  const rt::Instant ends_at_;
  std::deque<WatchEvent> initial_;
  std::uint64_t position_;
  std::uint64_t broken_epoch_ = 0;
  std::uint64_t ended_epoch_ = 0;
  std::uint64_t bookmark_epoch_ = 0;
  bool cancelled_ = false;
};

FakeCluster::FakeCluster(rt::Runtime& runtime) : state_(std::make_shared<State>(runtime)) {}
FakeCluster::~FakeCluster() = default;

Result<Response> FakeCluster::call(const Request& request, const rt::StopToken& stop) {
  state_->runtime.yield();
  if (stop.stop_requested()) return Error::make(Reason::Cancelled, "stopped");
  const rt::MutexLock lock(state_->mutex);
  return state_->dispatch(request);
}

Result<ListPage> FakeCluster::list(const ListRequest& request, const rt::StopToken& stop) {
  BASALT_CHECK(request.label_selector.empty() && request.field_selector.empty());
  state_->runtime.yield();
  if (stop.stop_requested()) return Error::make(Reason::Cancelled, "stopped");
  const rt::MutexLock lock(state_->mutex);
  ++state_->lists;
  ListPage rest;
  if (!request.continue_token.empty()) {
    const auto found = state_->pages.find(parse_revision(request.continue_token));
    if (found == state_->pages.end()) return Error::make(Reason::Expired, "the provided continue parameter is too old");
    rest = std::move(found->second);
    state_->pages.erase(found);
  } else {
    rest.resource_version = std::to_string(state_->revision);
    for (const auto& [key, stored] : state_->collections[request.resource].objects) {
      if (request.ns.empty() || key.first == request.ns) rest.items.push_back(stored.text);
    }
  }
  const auto limit = static_cast<std::size_t>(request.limit > 0 ? request.limit : 1 << 30);
  if (rest.items.size() <= limit) return rest;
  ListPage page;
  page.resource_version = rest.resource_version;
  const auto cut = rest.items.begin() + static_cast<std::ptrdiff_t>(limit);
  page.items.assign(rest.items.begin(), cut);
  rest.items.erase(rest.items.begin(), cut);
  page.remaining_item_count = static_cast<std::int64_t>(rest.items.size());
  page.continue_token = std::to_string(state_->next_page);
  state_->pages[state_->next_page++] = std::move(rest);
  return page;
}

Result<std::unique_ptr<WatchStream>> FakeCluster::watch(const WatchRequest& request, const rt::StopToken& stop) {
  BASALT_CHECK(request.label_selector.empty() && request.field_selector.empty());
  state_->runtime.yield();
  if (stop.stop_requested()) return Error::make(Reason::Cancelled, "stopped");
  std::deque<WatchEvent> initial;
  std::uint64_t position = parse_revision(request.resource_version);
  {
    const rt::MutexLock lock(state_->mutex);
    if (request.send_initial_events && !state_->streaming_lists) {
      return Error::make(Reason::Invalid, "sendInitialEvents is forbidden for watch");
    }
    if (position > state_->revision) {
      Error error = Error::make(Reason::Timeout, "too large resource version");
      error.causes.push_back({"ResourceVersionTooLarge", "", ""});
      return error;
    }
    if (position != 0 && position < state_->compacted) return Error::make(Reason::Expired, "too old resource version");
    if (position == 0 || request.send_initial_events) {
      position = state_->revision;
      for (const auto& [key, stored] : state_->collections[request.resource].objects) {
        if (request.ns.empty() || key.first == request.ns) initial.push_back({WatchEventType::Added, stored.text});
      }
    }
    if (request.send_initial_events) {
      initial.push_back({WatchEventType::Bookmark, bookmark(request.resource, position, true)});
    }
  }
  return std::unique_ptr<WatchStream>(std::make_unique<Stream>(state_, request, std::move(initial), position));
}

std::vector<Result<Response>> FakeCluster::call_all(std::span<const Request> requests, const CallAllOptions&,
                                                    const rt::StopToken& stop) {
  std::vector<Result<Response>> results;
  results.reserve(requests.size());
  for (const Request& request : requests) results.push_back(call(request, stop));
  return results;
}

std::string FakeCluster::put(const Resource& resource, std::string_view object) {
  auto value = json::Value::parse(object);
  BASALT_CHECK(value.ok());
  Request request;
  request.resource = resource;
  request.ns = value->string_at({"metadata", "namespace"});
  request.name = value->string_at({"metadata", "name"});
  request.body = std::string(object);
  const rt::MutexLock lock(state_->mutex);
  const bool exists = state_->collections[resource].objects.contains({request.ns, request.name});
  request.verb = exists ? Verb::Update : Verb::Create;
  Result<Response> response = state_->dispatch(request);
  return resource_version_of(response.value());
}

bool FakeCluster::remove(const Resource& resource, std::string_view ns, std::string_view name) {
  const rt::MutexLock lock(state_->mutex);
  const Key key{std::string(ns), std::string(name)};
  Collection& collection = state_->collections[resource];
  if (!collection.objects.contains(key)) return false;
  state_->erase(collection, key);
  return true;
}

std::map<std::string, Bytes> FakeCluster::objects(const Resource& resource) const {
  const rt::MutexLock lock(state_->mutex);
  std::map<std::string, Bytes> all;
  for (const auto& [key, stored] : state_->collections[resource].objects) all[key_text(key)] = stored.text;
  return all;
}

std::uint64_t FakeCluster::revision() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->revision;
}

void FakeCluster::compact() {
  const rt::MutexLock lock(state_->mutex);
  state_->compacted = state_->revision;
  state_->pages.clear();
  for (auto& [resource, collection] : state_->collections) collection.history.clear();
  state_->changed.notify_all();
}

void FakeCluster::break_watches() {
  const rt::MutexLock lock(state_->mutex);
  ++state_->broken_epoch;
  state_->changed.notify_all();
}

void FakeCluster::end_watches() {
  const rt::MutexLock lock(state_->mutex);
  ++state_->ended_epoch;
  state_->changed.notify_all();
}

void FakeCluster::send_bookmarks() {
  const rt::MutexLock lock(state_->mutex);
  ++state_->bookmark_epoch;
  state_->changed.notify_all();
}

void FakeCluster::set_streaming_lists(bool supported) {
  const rt::MutexLock lock(state_->mutex);
  state_->streaming_lists = supported;
}

std::size_t FakeCluster::open_watches() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->open_watches;
}

std::uint64_t FakeCluster::lists() const {
  const rt::MutexLock lock(state_->mutex);
  return state_->lists;
}

}  // namespace basalt::kube::testing
