#include "apiserver/registry/converting_watch.h"

#include <algorithm>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "apiserver/registry/stored_form.h"
#include "apiserver/registry/wake_signal.h"
#include "json/value.h"
#include "rt/mutex.h"
#include "rt/stop.h"

namespace basalt::apiserver {
namespace {

constexpr int kWatchesMax = 256;
// Objects and events that are converted at once.
constexpr std::size_t kInitialPiece = 500;
constexpr std::size_t kPollEventsMax = 64;
// Converted events that wait for the reader; beyond, the thread waits, and the history is what is behind.
constexpr std::size_t kQueuedMax = 1024;

class ConvertingWatchSession final : public WatchSession {
 public:
  ConvertingWatchSession(rt::Runtime& runtime, WatchSessionOptions options, std::shared_ptr<std::atomic<int>> watches)
      : runtime_(runtime),
        options_(std::move(options)),
        watches_(std::move(watches)),
        stop_(runtime),
        wake_(std::make_shared<WakeSignal>(runtime)) {}

  ~ConvertingWatchSession() override {
    stop_.request_stop();
    wake_->end();
    if (thread_.joinable()) thread_.join();
    --*watches_;
  }

  Done open(Store& store) {
    Revision after = options_.after;
    if (options_.initial_events) {
      ListQuery query;
      query.resource = options_.resource;
      query.ns = options_.ns;
      query.matches = [this](const Entry& entry) { return options_.selection.matches(entry); };
      BASALT_TRY(Listing listing, store.list(query));
      after = listing.revision;
      initial_ = std::move(listing.entries);
    }
    initial_revision_ = after;
    WatchQuery query;
    query.resource = options_.resource;
    query.ns = options_.ns;
    query.after = after;
    query.on_ready = [wake = wake_] { wake->fire(); };
    BASALT_TRY(watcher_, store.watch(std::move(query)));
    next_bookmark_ = runtime_.now() + options_.bookmark_period;
    thread_ = rt::Thread(runtime_, "convert-watch", [this] {
      if (Done end = follow(); !end.ok()) push(end.error());
    });
    return Ok{};
  }

  Result<std::optional<kube::WatchEvent>> poll() override {
    std::optional<Item> next;
    {
      rt::MutexLock lock(mutex_);
      if (queue_.empty()) return std::optional<kube::WatchEvent>();
      next = std::move(queue_.front());
      // An error stays: it is the end.
      if (next->ok()) queue_.pop_front();
    }
    wake_->fire();
    if (!next->ok()) return next->error();
    return std::optional<kube::WatchEvent>(std::move(**next));
  }

  [[nodiscard]] rt::Instant wake_at() const override { return rt::kNever; }  // bookmarks come from the thread

  void on_ready(std::function<void()> callback) override {
    bool is_due = false;
    {
      rt::MutexLock lock(mutex_);
      ready_ = std::move(callback);
      is_due = ready_ && !queue_.empty();
    }
    if (is_due) tell();
  }

 private:
  using Item = Result<kube::WatchEvent>;

  void tell() {
    std::function<void()> callback;
    {
      rt::MutexLock lock(mutex_);
      callback = ready_;
    }
    if (callback) callback();
  }

  void push(Item item) {
    {
      rt::MutexLock lock(mutex_);
      queue_.push_back(std::move(item));
    }
    tell();
  }

  // False at the end.
  [[nodiscard]] bool wait_for_room() {
    while (true) {
      {
        rt::MutexLock lock(mutex_);
        if (queue_.size() < kQueuedMax) return true;
      }
      if (wake_->wait_until(rt::kNever)) return false;
    }
  }

  Done follow() {
    for (std::size_t done = 0; done < initial_.size(); done += kInitialPiece) {
      if (!wait_for_room()) return Ok{};
      const std::size_t count = std::min(kInitialPiece, initial_.size() - done);
      BASALT_TRY_DONE(carry_initial(std::span(initial_).subspan(done, count)));
    }
    initial_ = {};
    if (options_.bookmark_after_initial) push(bookmark_event(*options_.type, initial_revision_, true));
    while (wait_for_room()) {
      std::vector<Event> events;
      BASALT_TRY(const std::size_t count, watcher_->poll(events, kPollEventsMax));
      if (count > 0) {
        BASALT_TRY_DONE(carry(events));
        continue;
      }
      if (options_.bookmarks && runtime_.now() >= next_bookmark_) {
        next_bookmark_ = runtime_.now() + options_.bookmark_period;
        push(bookmark_event(*options_.type, watcher_->progress(), false));
      }
      if (wake_->wait_until(options_.bookmarks ? next_bookmark_ : rt::kNever)) return Ok{};
    }
    return Ok{};
  }

  // The CRD may name another webhook by now.
  Done refresh_type() {
    const auto now = options_.current_type ? options_.current_type() : nullptr;
    if (!now) return Ok{};  // gone: what is left is told as before
    if (!now->converter) return conversion_changed(*options_.type);
    options_.type = now;
    return Ok{};
  }

  [[nodiscard]] Result<bool> is_selected(const Bytes& text) const {
    if (!options_.selection.needs_object()) return true;
    BASALT_TRY(const json::Value object, json::Value::parse(*text));
    return options_.selection.matches_object(object);
  }

  Done carry_initial(std::span<const EntryRef> entries) {
    BASALT_TRY_DONE(refresh_type());
    BASALT_TRY(const auto texts, present_all(*options_.type, entries, stop_.token()));
    for (const Bytes& text : texts) {
      BASALT_TRY(const bool selected, is_selected(text));
      if (selected) push(kube::WatchEvent{kube::WatchEventType::Added, text});
    }
    return Ok{};
  }

  // As a watch without conversion does it: what comes into the selection is added, what leaves it is deleted. Labels
  // are those that are stored, fields those of the version.
  Done carry(const std::vector<Event>& events) {
    struct Plan {
      bool is_in = false;
      bool was_in = false;
      std::optional<std::size_t> now;  // places in `shown`
      std::optional<std::size_t> before;
    };
    std::vector<Plan> plans;
    std::vector<EntryRef> shown;
    const auto show = [&](const EntryRef& entry) {
      shown.push_back(entry);
      return shown.size() - 1;
    };
    for (const Event& event : events) {
      Plan plan;
      const bool is_deleted = event.type == EventType::Deleted;
      plan.is_in = !is_deleted && options_.selection.matches(*event.entry);
      plan.was_in = event.previous != nullptr && options_.selection.matches(*event.previous);
      if (is_deleted ? plan.was_in : plan.is_in) plan.now = show(event.entry);
      if (plan.was_in && (options_.selection.needs_object() || (!is_deleted && !plan.is_in)))
        plan.before = show(event.previous);
      plans.push_back(plan);
    }
    BASALT_TRY_DONE(refresh_type());
    BASALT_TRY(const auto texts, present_all(*options_.type, shown, stop_.token()));
    for (std::size_t i = 0; i < events.size(); ++i) {
      Plan& plan = plans[i];
      if (plan.is_in) {
        BASALT_TRY(plan.is_in, is_selected(texts[*plan.now]));
      }
      if (plan.was_in && plan.before) {
        BASALT_TRY(plan.was_in, is_selected(texts[*plan.before]));
      }
      if (plan.is_in) {
        push(kube::WatchEvent{plan.was_in ? kube::WatchEventType::Modified : kube::WatchEventType::Added,
                              texts[*plan.now]});
      } else if (plan.was_in && events[i].type == EventType::Deleted) {
        push(kube::WatchEvent{kube::WatchEventType::Deleted, texts[*plan.now]});
      } else if (plan.was_in) {
        BASALT_TRY(Bytes left, with_revision(texts[*plan.before], events[i].entry->mod_revision()));
        push(kube::WatchEvent{kube::WatchEventType::Deleted, std::move(left)});
      }
    }
    return Ok{};
  }

  rt::Runtime& runtime_;
  WatchSessionOptions options_;  // used by the thread, once it runs
  const std::shared_ptr<std::atomic<int>> watches_;
  rt::StopSource stop_;
  const std::shared_ptr<WakeSignal> wake_;
  std::unique_ptr<Watcher> watcher_;
  std::vector<EntryRef> initial_;
  Revision initial_revision_ = 0;
  rt::Instant next_bookmark_{};
  rt::Mutex mutex_;
  std::deque<Item> queue_ BASALT_GUARDED_BY(mutex_);
  std::function<void()> ready_ BASALT_GUARDED_BY(mutex_);
  rt::Thread thread_;
};

}  // namespace

Result<std::unique_ptr<WatchSession>> open_converting_watch(rt::Runtime& runtime, Store& store,
                                                            WatchSessionOptions options,
                                                            std::shared_ptr<std::atomic<int>> watches) {
  const int count = ++*watches;
  auto session = std::make_unique<ConvertingWatchSession>(runtime, std::move(options), std::move(watches));
  if (count > kWatchesMax) {
    return Error::make(Reason::TooManyRequests, "there are already " + std::to_string(kWatchesMax) +
                                                    " watches that a conversion webhook serves; try again later");
  }
  BASALT_TRY_DONE(session->open(store));
  return std::unique_ptr<WatchSession>(std::move(session));
}

}  // namespace basalt::apiserver
