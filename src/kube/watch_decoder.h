#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kube/client.h"

namespace basalt::kube {

// Cuts the body of a watch into frames (one JSON object a line) and decodes them. Bytes come in any pieces. One thread.
class WatchDecoder {
 public:
  explicit WatchDecoder(std::size_t frame_bytes_max) : frame_bytes_max_(frame_bytes_max) {}

  // Takes a piece of the body.
  void add(std::string_view piece);
  // The next event, nothing if more bytes are needed. An ERROR event is an error (Expired, Gone, ...). After an error
  // the decoder gives the same error for ever. A frame over the limit is ResponseTooLarge.
  Result<std::optional<WatchEvent>> next();
  // True if the body may end here: no frame is half read.
  [[nodiscard]] bool at_boundary() const;

 private:
  Error fail(Error error);

  const std::size_t frame_bytes_max_;
  std::string buffer_;
  std::size_t begin_ = 0;    // of the frame being read
  std::size_t scanned_ = 0;  // no line end before this
  std::optional<Error> error_;
};

// One frame: {"type":"ADDED","object":{...}}.
[[nodiscard]] Result<WatchEvent> decode_watch_frame(std::string_view frame);

}  // namespace basalt::kube
