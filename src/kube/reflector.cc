#include "kube/reflector.h"

#include <algorithm>
#include <utility>

#include "json/reader.h"
#include "kube/status.h"
#include "rt/backoff.h"

namespace basalt::kube {
namespace {

// A watch that a server ends sooner than this without having shown anything is followed by a pause: a server that
// does so every time must not be asked in a loop.
constexpr rt::Duration kShortWatch = std::chrono::seconds(1);

// The server does not know streaming lists, or not for this resource.
bool refuses_streaming(const Error& error) {
  return error.is(Reason::Invalid) || error.is(Reason::BadRequest) || error.is(Reason::MethodNotAllowed) ||
         error.is(Reason::NotAcceptable);
}

// The position is of no use any more: compacted away, or ahead of a server that was restored from a backup.
bool must_list_again(const Error& error) {
  return error.is(Reason::Expired) || error.is(Reason::Gone) || is_revision_too_large(error);
}

Counter make_counter(const ReflectorOptions& options, std::string_view name, std::string_view help) {
  if (options.metrics == nullptr) return {};
  return options.metrics->counter(name, help, {{"resource", options.resource.to_string()}});
}

}  // namespace

Reflector::Reflector(rt::Runtime& runtime, Client& client, Logger log, ReflectorOptions options, ReflectorSink& sink)
    : runtime_(runtime),
      client_(client),
      log_(log.with({{"resource", options.resource.to_string()}})),
      options_(std::move(options)),
      sink_(sink),
      list_counter_(make_counter(options_, "basalt_reflector_lists_total", "Complete lists taken.")),
      watch_counter_(make_counter(options_, "basalt_reflector_watches_total", "Watches begun.")),
      event_counter_(make_counter(options_, "basalt_reflector_events_total", "Watch events received.")),
      failure_counter_(make_counter(options_, "basalt_reflector_failures_total", "Lists and watches that failed.")) {}

void Reflector::run(const rt::StopToken& stop) {
  while (!stop.stop_requested()) {
    const bool was_list = position_.empty();
    const rt::Instant begin = runtime_.now();
    const std::uint64_t events_before = events_ + bookmarks_;
    const Done outcome = was_list ? list(stop) : watch(stop);
    if (stop.stop_requested()) return;
    if (outcome.ok()) {
      const bool was_short = runtime_.now() - begin < kShortWatch && events_ + bookmarks_ == events_before;
      if (!was_list && was_short && pause(std::nullopt, stop)) return;
      continue;
    }
    note_failure(outcome.error());
    if (must_list_again(outcome.error())) {
      ++expired_;
      position_.clear();
      // The first time at once, and also if a watch after an outage learns it: the pauses of the outage are over. If
      // lists go on like this, with pauses.
      if (failures_in_row_ <= 1 || !was_list) continue;
    }
    if (pause(outcome.error(), stop)) return;
  }
}

Done Reflector::list(const rt::StopToken& stop) {
  if (!options_.streaming_list || !streaming_works_) return list_paged(stop);
  Done streamed = list_streaming(stop);
  if (streamed.ok() || streaming_works_ || stop.stop_requested()) return streamed;
  return list_paged(stop);
}

Done Reflector::list_paged(const rt::StopToken& stop) {
  ListRequest request;
  request.resource = options_.resource;
  request.ns = options_.ns;
  request.label_selector = options_.label_selector;
  request.field_selector = options_.field_selector;
  request.limit = options_.page_size;
  sink_.list_begin();
  while (true) {
    BASALT_TRY(const ListPage page, client_.list(request, stop));
    sink_.list_items(page.items);
    if (page.continue_token.empty()) {
      ++lists_;
      list_counter_.add();
      position_ = page.resource_version;
      sink_.list_end(parse_revision(position_));
      note_success();
      return Ok();
    }
    request.continue_token = page.continue_token;
  }
}

// List and watch in one stream: everything that exists as Added, then a bookmark that ends the list, then what happens.
Done Reflector::list_streaming(const rt::StopToken& stop) {
  WatchRequest request;
  request.resource = options_.resource;
  request.ns = options_.ns;
  request.label_selector = options_.label_selector;
  request.field_selector = options_.field_selector;
  request.send_initial_events = true;
  request.timeout = watch_timeout();
  auto stream = client_.watch(request, stop);
  if (!stream.ok()) {
    if (refuses_streaming(stream.error())) streaming_works_ = false;
    return stream.error();
  }
  ++watches_;
  const auto registration = stop.on_stop([&stream] { (*stream)->cancel(); });
  sink_.list_begin();
  while (true) {
    auto next = (*stream)->next(runtime_.now() + options_.streaming_list_silence_max);
    if (!next.ok()) {
      if (next.error().is(Reason::DeadlineExceeded) || refuses_streaming(next.error())) streaming_works_ = false;
      return next.error();
    }
    if (!*next) return Error::make(Reason::ConnectionLost, "the server ended a streaming list before its end");
    const WatchEvent& event = **next;
    if (event.type == WatchEventType::Deleted) {
      sink_.list_remove(event.object);
    } else if (event.type != WatchEventType::Bookmark) {
      sink_.list_items(std::span(&event.object, 1));
    } else {
      BASALT_TRY(Identity identity, identity_of(*event.object));
      if (!identity.initial_events_end) continue;
      ++lists_;
      ++streaming_lists_;
      list_counter_.add();
      position_ = std::move(identity.resource_version);
      sink_.list_end(parse_revision(position_));
      note_success();
      return follow(**stream, stop);
    }
  }
}

Done Reflector::watch(const rt::StopToken& stop) {
  WatchRequest request;
  request.resource = options_.resource;
  request.ns = options_.ns;
  request.label_selector = options_.label_selector;
  request.field_selector = options_.field_selector;
  request.resource_version = position_;
  request.timeout = watch_timeout();
  BASALT_TRY(const std::unique_ptr<WatchStream> stream, client_.watch(request, stop));
  ++watches_;
  watch_counter_.add();
  const auto registration = stop.on_stop([&stream] { stream->cancel(); });
  return follow(*stream, stop);
}

Done Reflector::follow(WatchStream& stream, const rt::StopToken& stop) {
  while (!stop.stop_requested()) {
    auto next = stream.next(runtime_.now() + options_.idle_timeout);
    if (!next.ok()) {
      if (!next.error().is(Reason::DeadlineExceeded)) return next.error();
      ++idle_breaks_;
      return Ok();
    }
    if (!*next) return Ok();
    BASALT_TRY_DONE(take(**next));
    note_success();
  }
  return Ok();
}

namespace {

void read_version(json::Reader& metadata, std::string& version) {
  std::string_view key;
  if (metadata.consume_null() || !metadata.begin_object()) return;
  while (metadata.next_member(key)) {
    if (key != "resourceVersion") {
      metadata.skip();
    } else if (!metadata.consume_null()) {
      metadata.read_string(version);
    }
  }
}

// The resource version of an event's object; the rest is read by whoever keeps it. API servers write the metadata near
// the front, and nothing behind it is looked at.
Result<std::string> version_in(std::string_view object) {
  json::Reader reader(object, {.keep_unknown = false});
  std::string_view key;
  if (reader.begin_object()) {
    while (reader.next_member(key)) {
      if (key != "metadata") {
        reader.skip();
        continue;
      }
      std::string version;
      read_version(reader, version);
      if (!reader.ok()) break;
      return version;
    }
  }
  if (Done done = reader.finish(); !done.ok()) return std::move(done).error();
  return Error::invalid_input("the object has no metadata");
}

}  // namespace

Done Reflector::take(const WatchEvent& event) {
  BASALT_TRY(std::string version, version_in(*event.object));
  if (event.type == WatchEventType::Bookmark) {
    ++bookmarks_;
  } else {
    ++events_;
    event_counter_.add();
    sink_.apply(event);
  }
  advance(std::move(version));
  return Ok();
}

void Reflector::advance(std::string resource_version) {
  const Revision revision = parse_revision(resource_version);
  // A repeated event does not take us back.
  if (resource_version.empty() || (revision != 0 && revision <= parse_revision(position_))) return;
  position_ = std::move(resource_version);
  sink_.progress(revision);
}

rt::Duration Reflector::watch_timeout() {
  const rt::Duration spread = options_.watch_timeout_max - options_.watch_timeout_min;
  const auto extra =
      runtime_.random_below(1 + static_cast<std::uint64_t>(std::max<rt::Duration::rep>(0, spread.count())));
  return options_.watch_timeout_min + rt::Duration(static_cast<rt::Duration::rep>(extra));
}

void Reflector::note_success() {
  failures_in_row_ = 0;
  if (!logged_failure_) return;
  logged_failure_.reset();
  log_.info("list and watch work again");
}

void Reflector::note_failure(const Error& error) {
  ++failures_;
  failure_counter_.add();
  ++failures_in_row_;
  // An expired position is the ordinary end of a long pause, not a failure that anybody should look at.
  if (must_list_again(error) && failures_in_row_ <= 1) return;
  if (logged_failure_ == error.reason) return;
  logged_failure_ = error.reason;
  log_.warn("list and watch fail; retrying until they work", {{"error", error}});
}

bool Reflector::pause(const std::optional<Error>& error, const rt::StopToken& stop) {
  const rt::BackoffOptions backoff{.base = options_.backoff_min, .cap = options_.backoff_max};
  const std::uint32_t failures = failures_in_row_ > 0 ? failures_in_row_ - 1 : 0;
  rt::Duration wait = runtime_.jitter(rt::backoff_delay(backoff, failures), 1.0);
  if (error && error->retry_after) wait = std::max<rt::Duration>(wait, *error->retry_after);
  return stop.wait_for(runtime_, wait);
}

Reflector::Counts Reflector::counts() const {
  Counts counts;
  counts.lists = lists_;
  counts.streaming_lists = streaming_lists_;
  counts.watches = watches_;
  counts.events = events_;
  counts.bookmarks = bookmarks_;
  counts.expired = expired_;
  counts.failures = failures_;
  counts.idle_breaks = idle_breaks_;
  return counts;
}

}  // namespace basalt::kube
