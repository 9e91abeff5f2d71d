#include "apiserver/http/watch_pump.h"

#include <algorithm>
#include <utility>

#include "apiserver/http/table.h"
#include "apiserver/proto/encode.h"
#include "kube/status.h"

namespace basalt::apiserver {
namespace {

// Events of one stream carried before another has its turn.
constexpr int kEventsPerTurn = 256;

std::string_view type_name(kube::WatchEventType type) {
  switch (type) {
    case kube::WatchEventType::Added:
      return "ADDED";
    case kube::WatchEventType::Modified:
      return "MODIFIED";
    case kube::WatchEventType::Deleted:
      return "DELETED";
    case kube::WatchEventType::Bookmark:
      return "BOOKMARK";
  }
  return "";
}

}  // namespace

std::string watch_frame(const Answer& answer, std::string_view type, std::string_view object) {
  if (answer.is_protobuf) {
    const auto value = json::Value::parse(object);
    const auto frame = value.ok() ? proto::encode_watch_frame(type, *value) : Result<std::string>(Error(value.error()));
    if (frame.ok()) return *frame;
    // Only what is not of its kind's shape: the reader learns that it missed something, and lists again.
    return type == "ERROR" ? std::string() : error_frame(answer, frame.error());
  }
  std::string frame;
  frame.reserve(type.size() + object.size() + 32);
  frame.append(R"({"type":")").append(type).append(R"(","object":)").append(object).append("}\n");
  return frame;
}

std::string error_frame(const Answer& answer, const Error& error) {
  return watch_frame(answer, "ERROR", kube::encode_status(error, error.subject));
}

WatchPump::WatchPump(rt::Runtime& runtime, Logger log, Options options)
    : runtime_(runtime), log_(std::move(log)), options_(options), wake_(runtime) {
  thread_ = rt::Thread(runtime_, "watch-pump", [this] { run(); });
}

WatchPump::~WatchPump() { stop(); }

Done WatchPump::add(Stream stream) {
  auto shared = std::make_shared<Stream>(std::move(stream));
  Id id = 0;
  {
    rt::MutexLock lock(mutex_);
    if (stopping_) return Error::make(Reason::ServiceUnavailable, "the server is stopping");
    if (streams_.size() >= options_.watches_max) {
      return Error::make(Reason::TooManyRequests,
                         "there are already " + std::to_string(options_.watches_max) + " watches; try again later");
    }
    id = next_id_++;
    streams_[id] = shared;
  }
  shared->session->on_ready([this, id] { mark_ready(id); });
  shared->responder->on_close([this, id] { mark_ready(id); });
  // Not before: the store says once that there is something, and a session without a callback would not pass it on.
  mark_ready(id);
  return Ok{};
}

std::size_t WatchPump::watches() const {
  rt::MutexLock lock(mutex_);
  return streams_.size();
}

void WatchPump::mark_ready(Id id) {
  rt::MutexLock lock(mutex_);
  ready_.insert(id);
  wake_.notify_all();
}

void WatchPump::drop(Id id) {
  std::shared_ptr<Stream> gone;
  rt::MutexLock lock(mutex_);
  const auto it = streams_.find(id);
  if (it == streams_.end()) return;
  gone = std::move(it->second);
  streams_.erase(it);
}

void WatchPump::run() {
  while (true) {
    std::vector<std::pair<Id, std::shared_ptr<Stream>>> turn;
    {
      rt::MutexLock lock(mutex_);
      while (!stopping_ && ready_.empty()) {
        const rt::Instant next = timers_.empty() ? rt::kNever : timers_.begin()->first;
        if (next <= runtime_.now()) break;
        wake_.wait_until(mutex_, next);
      }
      if (stopping_) return;
      const rt::Instant now = runtime_.now();
      while (!timers_.empty() && timers_.begin()->first <= now) {
        ready_.insert(timers_.begin()->second);
        timers_.erase(timers_.begin());
      }
      for (const Id id : ready_) {
        if (const auto it = streams_.find(id); it != streams_.end()) turn.emplace_back(id, it->second);
      }
      ready_.clear();
    }
    for (auto& [id, stream] : turn) {
      if (!pump(*stream)) {
        drop(id);
        continue;
      }
      const rt::Instant next = std::min(stream->ends_at, stream->session->wake_at());
      rt::MutexLock lock(mutex_);
      timers_.emplace(next, id);
    }
  }
}

std::shared_ptr<const std::string> WatchPump::frame_of(Stream& stream, const kube::WatchEvent& event) const {
  std::string_view object = *event.object;
  std::string made_text;
  if (stream.answer.form == AnswerForm::Table) {
    TableOptions options;
    options.with_columns = !stream.columns_sent;
    options.include_object = stream.include_object;
    options.version = stream.answer.version;
    options.now = api::Time::from(runtime_.wall_now());
    const bool is_bookmark = event.type == kube::WatchEventType::Bookmark;
    auto made = make_table(*stream.type, std::span(&event.object, is_bookmark ? 0U : 1U), options);
    stream.columns_sent = true;
    if (made.ok()) made_text = std::move(*made);
    object = made_text;
  } else if (stream.answer.form != AnswerForm::Object) {
    auto made = make_metadata(object, stream.answer.version);
    if (made.ok()) made_text = std::move(*made);
    object = made_text;
  }
  return std::make_shared<const std::string>(watch_frame(stream.answer, type_name(event.type), object));
}

bool WatchPump::pump(Stream& stream) {
  for (int i = 0; i < kEventsPerTurn; ++i) {
    auto event = stream.session->poll();
    if (!event.ok()) {
      stream.responder->write(std::make_shared<const std::string>(error_frame(stream.answer, event.error())));
      stream.responder->finish();
      return false;
    }
    if (!*event) {
      if (runtime_.now() < stream.ends_at) return !stream.responder->is_closed();
      stream.responder->finish();
      return false;
    }
    const auto waiting = stream.responder->write(frame_of(stream, **event));
    if (!waiting) return false;
    if (*waiting > options_.backlog_bytes_max) {
      log_.warn("a watch was cut off: its reader is too slow",
                {{"resource", stream.type->storage_id()}, {"bytes_waiting", *waiting}});
      stream.responder->abort();
      return false;
    }
  }
  rt::MutexLock lock(mutex_);
  for (const auto& [id, other] : streams_) {
    if (other.get() == &stream) ready_.insert(id);
  }
  return true;
}

void WatchPump::stop() {
  std::map<Id, std::shared_ptr<Stream>> streams;
  {
    rt::MutexLock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  {
    rt::MutexLock lock(mutex_);
    streams.swap(streams_);
  }
  for (auto& [id, stream] : streams) {
    stream->session->on_ready(nullptr);
    stream->responder->on_close(nullptr);
    stream->responder->finish();
  }
}

}  // namespace basalt::apiserver
