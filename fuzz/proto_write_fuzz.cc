// Objects in protobuf form: any JSON either cannot be written, which has words, or is read back as an object that is
// written and read the same from then on. A watch frame holds the same body behind its length.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "apiserver/proto/decode.h"
#include "apiserver/proto/encode.h"
#include "base/check.h"
#include "json/value.h"

namespace {

namespace proto = basalt::apiserver::proto;
using basalt::json::Value;

void check_frame(const Value& object, std::string_view body) {
  const auto frame = proto::encode_watch_frame("ADDED", object);
  BASALT_CHECK_MSG(frame.ok(), frame.error().message);
  BASALT_CHECK(frame->size() > 4 && frame->ends_with(body));
  std::size_t length = 0;
  for (int i = 0; i < 4; ++i) length = length << 8 | static_cast<std::uint8_t>((*frame)[static_cast<std::size_t>(i)]);
  BASALT_CHECK(length == frame->size() - 4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto object = Value::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!object.ok()) return 0;
  const auto body = proto::encode_object(*object);
  if (!body.ok()) {
    const basalt::Reason reason = body.error().reason;
    BASALT_CHECK(reason == basalt::Reason::NotAcceptable || reason == basalt::Reason::InternalError);
    BASALT_CHECK(!body.error().message.empty());
    return 0;
  }
  check_frame(*object, *body);
  const auto read = proto::decode_object(*body);
  BASALT_CHECK_MSG(read.ok(), read.error().message);
  const auto again = proto::encode_object(*read);
  BASALT_CHECK_MSG(again.ok(), again.error().message);
  const auto read_again = proto::decode_object(*again);
  BASALT_CHECK_MSG(read_again.ok(), read_again.error().message);
  BASALT_CHECK(*read_again == *read);
  return 0;
}
