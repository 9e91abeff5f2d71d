// Protobuf bodies: any bytes give an error of the client, or an object of bounded depth that JSON text holds without
// loss. Input that is no envelope is put into one: its first byte chooses the kind, the rest is the message.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "apiserver/proto/decode.h"
#include "apiserver/proto/tables.h"
#include "base/check.h"
#include "json/value.h"

namespace {

namespace proto = basalt::apiserver::proto;

constexpr std::string_view kMagic("k8s\0", 4);
constexpr int kDepthMax = 256;  // what the JSON reader takes

void append_field(std::string& out, std::uint8_t number, std::string_view bytes) {
  out += static_cast<char>(number << 3 | 2);
  std::size_t length = bytes.size();
  for (; length >= 0x80; length >>= 7) out += static_cast<char>(length | 0x80);
  out += static_cast<char>(length);
  out += bytes;
}

std::string enveloped(std::string_view input) {
  const auto kinds = proto::kind_facts();
  const auto& kind = kinds[input.empty() ? 0 : static_cast<std::uint8_t>(input[0]) % kinds.size()];
  std::string type_meta;
  append_field(type_meta, 1, kind.api_version);
  append_field(type_meta, 2, kind.kind);
  std::string out(kMagic);
  append_field(out, 1, type_meta);
  append_field(out, 2, input.substr(input.empty() ? 0 : 1));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto value = proto::decode_object(input.starts_with(kMagic) ? std::string(input) : enveloped(input));
  if (!value.ok()) {
    const basalt::Reason reason = value.error().reason;
    BASALT_CHECK(reason == basalt::Reason::BadRequest || reason == basalt::Reason::UnsupportedMediaType);
    BASALT_CHECK(!value.error().message.empty() && value.error().message.size() < 1000);
    return 0;
  }
  BASALT_CHECK(value->is_object() && value->depth() <= kDepthMax);
  const auto again = basalt::json::Value::parse(value->to_text());
  BASALT_CHECK_MSG(again.ok(), again.error().message);
  BASALT_CHECK(*again == *value);
  return 0;
}
