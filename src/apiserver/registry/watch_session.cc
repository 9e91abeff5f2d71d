#include "apiserver/registry/watch_session.h"

#include <atomic>
#include <utility>
#include <vector>

#include "apiserver/registry/errors.h"
#include "apiserver/registry/stored_form.h"
#include "base/check.h"
#include "json/value.h"
#include "json/writer.h"

namespace basalt::apiserver {
namespace {

// Events taken from the history at once: enough to make the lock cheap, few enough to stay in the cache.
constexpr std::size_t kPollEventsMax = 64;

// What the store's callback may touch after the session is gone.
struct ReadySignal {
  rt::Mutex mutex;
  std::function<void()> callback BASALT_GUARDED_BY(mutex);

  void fire() {
    std::function<void()> copy;
    {
      rt::MutexLock lock(mutex);
      copy = callback;
    }
    if (copy) copy();
  }
};

class StoreWatchSession final : public WatchSession {
 public:
  StoreWatchSession(rt::Runtime& runtime, WatchSessionOptions options)
      : runtime_(runtime), options_(std::move(options)), signal_(std::make_shared<ReadySignal>()) {}

  ~StoreWatchSession() override { on_ready(nullptr); }

  Done open(Store& store) {
    Revision after = options_.after;
    if (options_.initial_events) {
      ListQuery query;
      query.resource = options_.resource;
      query.ns = options_.ns;
      if (!options_.selection.matches_all()) {
        query.matches = [this](const Entry& entry) { return options_.selection.matches(entry); };
      }
      BASALT_TRY(Listing listing, store.list(query));
      after = listing.revision;
      initial_ = std::move(listing.entries);
      end_of_initial_due_ = options_.bookmark_after_initial;
    }
    initial_revision_ = after;
    WatchQuery query;
    query.resource = options_.resource;
    query.ns = options_.ns;
    query.after = after;
    query.on_ready = [signal = signal_] { signal->fire(); };
    BASALT_TRY(watcher_, store.watch(std::move(query)));
    next_bookmark_ = runtime_.now() + options_.bookmark_period;
    return Ok{};
  }

  Result<std::optional<kube::WatchEvent>> poll() override {
    if (initial_next_ < initial_.size()) {
      const EntryRef entry = std::move(initial_[initial_next_++]);
      if (initial_next_ == initial_.size()) initial_ = {}, initial_next_ = 0;
      return event(kube::WatchEventType::Added, present_plain(*options_.type, *entry));
    }
    if (end_of_initial_due_) {
      end_of_initial_due_ = false;
      return bookmark(initial_revision_, true);
    }
    while (true) {
      if (buffer_next_ == buffer_.size()) {
        buffer_.clear();
        buffer_next_ = 0;
        BASALT_TRY(const std::size_t count, watcher_->poll(buffer_, kPollEventsMax));
        if (count == 0) return idle();
        if (const auto now = options_.current_type ? options_.current_type() : nullptr; now && now->converter)
          return conversion_changed(*options_.type);
      }
      const Event next = std::move(buffer_[buffer_next_++]);
      if (auto selected = select(next)) return selected;
    }
  }

  [[nodiscard]] rt::Instant wake_at() const override { return options_.bookmarks ? next_bookmark_ : rt::kNever; }

  void on_ready(std::function<void()> callback) override {
    rt::MutexLock lock(signal_->mutex);
    signal_->callback = std::move(callback);
  }

 private:
  using MaybeEvent = std::optional<kube::WatchEvent>;

  static MaybeEvent event(kube::WatchEventType type, Bytes object) { return kube::WatchEvent{type, std::move(object)}; }

  // An object that comes into the selection is added, one that leaves it is deleted, whatever happened to it.
  MaybeEvent select(const Event& next) const {
    const bool is_in = next.type != EventType::Deleted && options_.selection.matches(*next.entry);
    const bool was_in = next.previous != nullptr && options_.selection.matches(*next.previous);
    if (is_in) {
      return event(was_in ? kube::WatchEventType::Modified : kube::WatchEventType::Added,
                   present_plain(*options_.type, *next.entry));
    }
    if (!was_in) return std::nullopt;
    if (next.type == EventType::Deleted) {
      return event(kube::WatchEventType::Deleted, present_plain(*options_.type, *next.entry));
    }
    return event(kube::WatchEventType::Deleted, last_selected(next));
  }

  [[nodiscard]] Bytes last_selected(const Event& next) const {
    auto object = with_revision(present_plain(*options_.type, *next.previous), next.entry->mod_revision());
    return BASALT_BUG(!object.ok()) ? present_plain(*options_.type, *next.entry) : std::move(*object);
  }

  Result<MaybeEvent> idle() {
    if (!options_.bookmarks || runtime_.now() < next_bookmark_) return MaybeEvent();
    next_bookmark_ = runtime_.now() + options_.bookmark_period;
    return bookmark(watcher_->progress(), false);
  }

  [[nodiscard]] MaybeEvent bookmark(Revision revision, bool initial_events_end) const {
    return bookmark_event(*options_.type, revision, initial_events_end);
  }

  rt::Runtime& runtime_;
  WatchSessionOptions options_;
  std::shared_ptr<ReadySignal> signal_;
  std::unique_ptr<Watcher> watcher_;
  std::vector<EntryRef> initial_;
  std::size_t initial_next_ = 0;
  Revision initial_revision_ = 0;
  bool end_of_initial_due_ = false;
  std::vector<Event> buffer_;
  std::size_t buffer_next_ = 0;
  rt::Instant next_bookmark_{};
};

}  // namespace

Error conversion_changed(const ResourceType& type) {
  return expired("the conversion of " + type.plural + "." + type.group + " has changed: list and watch again");
}

kube::WatchEvent bookmark_event(const ResourceType& type, Revision revision, bool initial_events_end) {
  std::string text;
  json::Writer writer(text);
  writer.begin_object();
  writer.key("apiVersion");
  writer.string(type.api_version());
  writer.key("kind");
  writer.string(type.kind);
  writer.key("metadata");
  writer.begin_object();
  if (initial_events_end) {
    writer.key("annotations");
    writer.raw(R"({"k8s.io/initial-events-end":"true"})");
  }
  writer.key("resourceVersion");
  writer.string(std::to_string(revision));
  writer.end_object();
  writer.end_object();
  return {kube::WatchEventType::Bookmark, kube::make_bytes(std::move(text))};
}

Result<Bytes> with_revision(const Bytes& object, Revision revision) {
  BASALT_TRY(json::Value changed, json::Value::parse(*object));
  changed.ensure_path({"metadata", "resourceVersion"}) = std::to_string(revision);
  return kube::make_bytes(changed.to_text());
}

Result<std::unique_ptr<WatchSession>> open_watch_session(rt::Runtime& runtime, Store& store,
                                                         WatchSessionOptions options) {
  auto session = std::make_unique<StoreWatchSession>(runtime, std::move(options));
  BASALT_TRY_DONE(session->open(store));
  return std::unique_ptr<WatchSession>(std::move(session));
}

}  // namespace basalt::apiserver
