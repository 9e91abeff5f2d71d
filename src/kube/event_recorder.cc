#include "kube/event_recorder.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "api/time.h"
#include "base/check.h"
#include "base/strings.h"
#include "json/writer.h"
#include "kube/lru.h"
#include "rt/token_bucket.h"

namespace basalt::kube {

namespace {

const Resource& events() {
  static const Resource resource{"", "v1", "events"};
  return resource;
}

constexpr std::string_view kCombined = "(combined from similar events): ";

std::string_view to_string(EventType type) { return type == EventType::Normal ? "Normal" : "Warning"; }

std::string hex(std::uint64_t value) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), kHex[value & 0xF]);
  while ((value >>= 4) != 0);
  return text;
}

}  // namespace

struct EventRecorder::Item {
  ObjectReference object;
  EventType type = EventType::Normal;
  std::string reason;
  std::string message;
  rt::WallTime time{};
};

namespace {

// The object whatever happened to it between two events: a repetition is one even if the object changed meanwhile.
ObjectReference any_version(ObjectReference object) {
  object.resource_version.clear();
  return object;
}

}  // namespace

// What has been said lately, so that a repetition becomes a count.
struct EventRecorder::Correlator {
  using GroupKey = std::tuple<ObjectReference, EventType, std::string>;               // object, type, reason
  using EventKey = std::tuple<ObjectReference, EventType, std::string, std::string>;  // and message
  struct Group {
    std::set<std::string> messages;
    rt::Instant last{};
  };
  struct Written {
    std::string name;  // "" if not written yet
    std::string ns;
    std::string first_time;
    std::int64_t count = 0;
  };

  explicit Correlator(std::size_t entries_max) : groups(entries_max), written(entries_max), meters(entries_max) {}

  LruMap<GroupKey, Group> groups;
  LruMap<EventKey, Written> written;
  LruMap<ObjectReference, rt::TokenMeter> meters;
};

EventRecorder::EventRecorder(rt::Runtime& runtime, Client& client, Logger log, Options options)
    : runtime_(runtime),
      client_(client),
      log_(std::move(log)),
      options_(std::move(options)),
      stop_now_(runtime),
      changed_(runtime),
      correlator_(std::make_unique<Correlator>(options_.cache_max)) {
  if (options_.metrics == nullptr) return;
  dropped_counter_ = options_.metrics->counter("basalt_events_dropped_total", "Events that were not written.",
                                               {{"component", options_.component}});
}

EventRecorder::~EventRecorder() { BASALT_CHECK(!thread_.joinable()); }

void EventRecorder::start() {
  BASALT_CHECK(!thread_.joinable());
  thread_ = rt::Thread(runtime_, "events", [this] { run(); });
}

void EventRecorder::stop(rt::Duration grace) {
  if (!thread_.joinable()) return;
  const rt::Instant deadline = runtime_.now() + grace;
  {
    const rt::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    while (!(queue_.empty() && idle_)) {
      if (!changed_.wait_until(mutex_, deadline)) break;
    }
  }
  stop_now_.request_stop();
  thread_.join();
}

void EventRecorder::event(const ObjectReference& object, EventType type, std::string_view reason,
                          std::string_view message) {
  Item item{object, type, base::ellipsize(reason, kReasonMax), base::ellipsize(message, kMessageMax),
            runtime_.wall_now()};
  const rt::MutexLock lock(mutex_);
  if (stopping_) return;
  if (queue_.size() >= options_.queue_max) {
    queue_.pop_front();
    ++counts_.dropped_full;
    dropped_counter_.add();
  }
  queue_.push_back(std::move(item));
  changed_.notify_all();
}

EventRecorder::Counts EventRecorder::counts() const {
  const rt::MutexLock lock(mutex_);
  return counts_;
}

void EventRecorder::run() {
  const rt::StopToken stop = stop_now_.token();
  while (true) {
    std::optional<Item> item;
    {
      const rt::MutexLock lock(mutex_);
      idle_ = true;
      changed_.notify_all();
      while (queue_.empty() && !stopping_) changed_.wait(mutex_);
      if (queue_.empty() || stop.stop_requested()) return;
      item = std::move(queue_.front());
      queue_.pop_front();
      idle_ = false;
    }
    const Verdict verdict = write(*item, stop);
    const rt::MutexLock lock(mutex_);
    if (verdict == Verdict::Created) ++counts_.created;
    if (verdict == Verdict::Patched) ++counts_.patched;
    if (verdict == Verdict::Spam) ++counts_.dropped_spam;
    if (verdict == Verdict::Failed) ++counts_.dropped_failed;
    if (verdict == Verdict::Spam || verdict == Verdict::Failed) dropped_counter_.add();
  }
}

// Many messages of one reason become one event.
std::string EventRecorder::combine(const Item& item) {
  const rt::Instant now = runtime_.now();
  auto& group = correlator_->groups.get_or_add({any_version(item.object), item.type, item.reason},
                                               [] { return Correlator::Group(); });
  if (now - group.last > options_.similar_window) group.messages.clear();
  group.last = now;
  group.messages.insert(item.message);
  if (group.messages.size() < options_.similar_max) return item.message;
  group.messages.erase(item.message);
  return base::ellipsize(std::string(kCombined) + item.message, kMessageMax);
}

EventRecorder::Verdict EventRecorder::write(const Item& item, const rt::StopToken& stop) {
  const ObjectReference object = any_version(item.object);
  auto& meter = correlator_->meters.get_or_add(object, [this] {
    const double per_second = 1 / std::chrono::duration<double>(options_.refill_per_object).count();
    return rt::TokenMeter({.per_second = per_second, .burst = static_cast<double>(options_.burst_per_object)},
                          runtime_.now());
  });
  const std::string message = combine(item);
  if (!meter.try_take(runtime_.now())) return Verdict::Spam;
  const bool combined = message != item.message;
  // All that are combined share one entry, whatever their message.
  Correlator::Written& written =
      correlator_->written.get_or_add({object, item.type, item.reason, combined ? std::string(kCombined) : message},
                                      [] { return Correlator::Written(); });
  const std::string time =
      api::Time::from(std::chrono::time_point_cast<std::chrono::system_clock::duration>(item.time)).to_string();
  if (!written.name.empty()) {
    Request patch;
    patch.verb = Verb::Patch;
    patch.resource = events();
    patch.ns = written.ns;
    patch.name = written.name;
    patch.body = patch_body(written.count + 1, time, message);
    const Done done = send(patch, stop);
    if (done.ok()) {
      ++written.count;
      return Verdict::Patched;
    }
    // It is gone (events live for an hour): begin anew.
    if (!done.error().is(Reason::NotFound)) return Verdict::Failed;
    written = Correlator::Written();
  }
  written.first_time = time;
  Request create;
  create.verb = Verb::Create;
  create.resource = events();
  create.ns = item.object.ns.empty() ? "default" : item.object.ns;
  const std::string name = event_name(item);
  create.body = event_body(item, name, create.ns, time, message);
  const Done done = send(create, stop);
  if (!done.ok()) return Verdict::Failed;
  written.name = name;
  written.ns = create.ns;
  written.count = 1;
  return Verdict::Created;
}

// "<object>.<hexadecimal time>", never the same twice.
std::string EventRecorder::event_name(const Item& item) {
  last_stamp_ = std::max<std::int64_t>(last_stamp_ + 1, item.time.time_since_epoch().count());
  std::string stamp = hex(static_cast<std::uint64_t>(last_stamp_));
  // A name has at most 253 bytes.
  std::string name = item.object.name.substr(0, 253 - 1 - stamp.size());
  while (!name.empty() && !base::is_alphanumeric(name.back())) name.pop_back();
  return (name.empty() ? std::string("event") : name) + "." + stamp;
}

std::string EventRecorder::patch_body(std::int64_t count, std::string_view time, std::string_view message) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object();
  writer.key("count");
  writer.integer(count);
  writer.key("lastTimestamp");
  writer.string(time);
  writer.key("message");
  writer.string(message);
  writer.end_object();
  return out;
}

std::string EventRecorder::event_body(const Item& item, std::string_view name, std::string_view ns,
                                      std::string_view time, std::string_view message) const {
  std::string out;
  json::Writer writer(out);
  const auto text = [&writer](std::string_view key, std::string_view value, bool always = false) {
    if (value.empty() && !always) return;
    writer.key(key);
    writer.string(value);
  };
  writer.begin_object();
  text("apiVersion", "v1");
  text("kind", "Event");
  writer.key("metadata");
  writer.begin_object();
  text("name", name);
  text("namespace", ns);
  writer.end_object();
  writer.key("involvedObject");
  writer.begin_object();
  text("apiVersion", item.object.api_version);
  text("kind", item.object.kind);
  text("namespace", item.object.ns);
  text("name", item.object.name);
  text("uid", item.object.uid);
  text("resourceVersion", item.object.resource_version);
  text("fieldPath", item.object.field_path);
  writer.end_object();
  text("type", to_string(item.type));
  text("reason", item.reason);
  text("message", message);
  writer.key("source");
  writer.begin_object();
  text("component", options_.component);
  text("host", options_.host);
  writer.end_object();
  text("firstTimestamp", time);
  text("lastTimestamp", time);
  writer.key("count");
  writer.integer(1);
  text("reportingComponent", options_.component, true);
  text("reportingInstance", options_.host, true);
  writer.end_object();
  return out;
}

Done EventRecorder::send(const Request& request, const rt::StopToken& stop) {
  for (int attempts = 1;; ++attempts) {
    Result<Response> response = client_.call(request, stop);
    const bool exists = !response.ok() && response.error().is(Reason::AlreadyExists);
    // Names are our own: an event that exists is the one whose answer was lost.
    if (response.ok() || exists) {
      is_failing_ = false;
      return Ok();
    }
    const Error& error = response.error();
    if (error.is(Reason::NotFound)) return error;
    const bool is_over = !error.is_transient() || attempts >= options_.attempts_max;
    const rt::Duration wait = std::max<rt::Duration>(options_.retry_delay * attempts,
                                                     error.retry_after.value_or(std::chrono::milliseconds(0)));
    if (is_over || stop.wait_for(runtime_, wait)) {
      if (!is_failing_) log_.warn("events cannot be written", {{"error", error}});
      is_failing_ = true;
      return error;
    }
  }
}

}  // namespace basalt::kube
