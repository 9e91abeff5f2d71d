#include "kube/watch_decoder.h"

#include <utility>

#include "base/strings.h"
#include "json/reader.h"
#include "kube/status.h"

namespace basalt::kube {

Result<WatchEvent> decode_watch_frame(std::string_view frame) {
  json::Reader reader(frame, {.keep_unknown = false});
  std::string type;
  std::string_view object;
  bool is_object = false;
  if (reader.begin_object()) {
    std::string_view key;
    while (reader.next_member(key)) {
      if (key == "type") {
        reader.read_string(type);
      } else if (key == "object") {
        is_object = reader.peek() == json::Kind::Object;
        object = reader.read_raw();
      } else {
        reader.skip();
      }
    }
  }
  if (Done done = reader.finish(); !done.ok()) {
    return Error::make(Reason::InternalError, "a watch event cannot be read: " + done.error().message);
  }
  if (!is_object) return Error::make(Reason::InternalError, "a watch event carries no object");
  if (type == "ERROR") return decode_status(500, object).error;
  WatchEvent event;
  if (type == "ADDED") {
    event.type = WatchEventType::Added;
  } else if (type == "MODIFIED") {
    event.type = WatchEventType::Modified;
  } else if (type == "DELETED") {
    event.type = WatchEventType::Deleted;
  } else if (type == "BOOKMARK") {
    event.type = WatchEventType::Bookmark;
  } else {
    return Error::make(Reason::InternalError,
                       "a watch event has the unknown type " + base::quote(base::ellipsize(type, 64)));
  }
  event.object = make_bytes(std::string(object));
  return event;
}

void WatchDecoder::add(std::string_view piece) {
  if (error_) return;
  if (begin_ > 0 && begin_ >= buffer_.size() / 2) {
    buffer_.erase(0, begin_);
    scanned_ -= begin_;
    begin_ = 0;
  }
  buffer_.append(piece);
}

Result<std::optional<WatchEvent>> WatchDecoder::next() {
  while (!error_) {
    const std::size_t end = buffer_.find('\n', scanned_);
    const std::size_t length = (end == std::string::npos ? buffer_.size() : end) - begin_;
    if (length > frame_bytes_max_) {
      return fail(
          Error::make(Reason::ResponseTooLarge, "a watch event is larger than " + base::human_bytes(frame_bytes_max_)));
    }
    if (end == std::string::npos) {
      scanned_ = buffer_.size();
      return std::optional<WatchEvent>();
    }
    const std::string_view frame = std::string_view(buffer_).substr(begin_, end - begin_);
    begin_ = scanned_ = end + 1;
    if (base::trim(frame).empty()) continue;
    Result<WatchEvent> event = decode_watch_frame(frame);
    if (!event.ok()) return fail(std::move(event).error());
    return std::optional<WatchEvent>(std::move(event).value());
  }
  return *error_;
}

bool WatchDecoder::at_boundary() const { return base::trim(std::string_view(buffer_).substr(begin_)).empty(); }

Error WatchDecoder::fail(Error error) {
  error_ = std::move(error);
  buffer_.clear();
  buffer_.shrink_to_fit();
  begin_ = scanned_ = 0;
  return *error_;
}

}  // namespace basalt::kube
