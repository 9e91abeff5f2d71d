#include "apiserver/registry/object_text.h"

#include <utility>

#include "base/check.h"
#include "base/kept_by_thread.h"
#include "json/writer.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kVersionKey = "resourceVersion";
// Larger buffers are not kept for the next object.
constexpr std::size_t kKeptBytesMax = 64u << 10;

// The buffer of the last object that this thread wrote: grown already, so that writing allocates nothing.
using SpareBuffer = base::KeptByThread<SplitText, std::string>;

// Writes metadata and returns where in `text` the digits of the resource version go.
std::size_t write_metadata(json::Writer& writer, const json::Object& metadata, std::string& text) {
  std::size_t gap = 0;
  const auto write_version = [&] {
    writer.key(kVersionKey);
    writer.raw("\"\"");
    gap = text.size() - 1;
  };
  writer.begin_object();
  for (const json::Member& member : metadata) {
    if (member.key == kVersionKey) continue;
    if (gap == 0 && member.key > kVersionKey) write_version();
    writer.key(member.key);
    encode(writer, member.value);
  }
  if (gap == 0) write_version();
  writer.end_object();
  return gap;
}

}  // namespace

SplitText::SplitText(const json::Value& object) : text_(SpareBuffer::take()) {
  text_.clear();
  json::Writer writer(text_);
  writer.begin_object();
  // What the object is stands first, so that it can be changed or left out without looking at the rest.
  for (const std::string_view key : {"apiVersion", "kind"}) {
    if (const json::Value* value = object.find(key)) {
      writer.key(key);
      encode(writer, *value);
    }
  }
  for (const json::Member& member : object.as_object()) {
    if (member.key == "apiVersion" || member.key == "kind") continue;
    writer.key(member.key);
    if (member.key == "metadata" && member.value.is_object()) {
      gap_ = write_metadata(writer, member.value.as_object(), text_);
    } else {
      encode(writer, member.value);
    }
  }
  writer.end_object();
  BASALT_CHECK(gap_ != 0);  // the caller made sure that there is metadata
}

SplitText::~SplitText() {
  if (text_.capacity() <= kKeptBytesMax) SpareBuffer::give(std::move(text_));
}

std::string SplitText::with_version(std::string_view digits) const {
  std::string whole;
  whole.reserve(text_.size() + digits.size());
  whole.append(text_, 0, gap_).append(digits).append(text_, gap_);
  return whole;
}

}  // namespace basalt::apiserver
