#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "kube/identity.h"
#include "kube/rest_client.h"
#include "kube/watch_decoder.h"

namespace {

// Everything that the body yields when it comes in pieces of that size.
std::vector<std::string> decode_in_pieces(std::string_view body, std::size_t piece) {
  basalt::kube::WatchDecoder decoder(1u << 16);
  std::vector<std::string> seen;
  for (std::size_t at = 0; at < body.size(); at += piece) {
    decoder.add(body.substr(at, piece));
    while (true) {
      const auto next = decoder.next();
      if (!next.ok()) {
        seen.push_back(next.error().to_string());
        return seen;
      }
      if (!*next) break;
      (void)basalt::kube::identity_of(*(*next)->object);
      seen.push_back(std::to_string(static_cast<int>((*next)->type)) + *(*next)->object);
    }
  }
  return seen;
}

}  // namespace

// However the bytes of a watch are cut, the events are the same. The same bytes as a list do no harm either.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > (1u << 15)) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto whole = decode_in_pieces(body, size);
  BASALT_CHECK(whole == decode_in_pieces(body, 1));
  BASALT_CHECK(whole == decode_in_pieces(body, 7));
  (void)basalt::kube::split_list(body);
  return 0;
}
