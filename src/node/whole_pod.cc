#include "node/whole_pod.h"

namespace basalt::node {

void decode(json::Reader& reader, WholePod& pod) {
  json::Reader whole(reader.read_raw());  // which keeps what it does not know
  decode(whole, static_cast<api::core::Pod&>(pod));
  if (const Done done = whole.finish(); !done.ok()) reader.fail(done.error().message);
}

}  // namespace basalt::node
