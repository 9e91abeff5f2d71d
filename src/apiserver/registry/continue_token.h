#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apiserver/store/entry.h"
#include "base/result.h"

namespace basalt::apiserver {

// Where a paged list goes on. Opaque to clients: base64url of a small JSON object.
struct ContinueToken {
  static constexpr Revision kNewest = -1;  // goes on with what there is now, whatever the list began with

  Revision revision = 0;
  std::string after;       // key of the last object sent
  std::int64_t seen = 0;   // objects sent so far
  std::int64_t total = 0;  // objects when the list began, 0 if unknown
  std::int64_t begun = 0;  // when the list began, in seconds since 1970

  [[nodiscard]] std::string encode() const;
  static Result<ContinueToken> decode(std::string_view text);
};

}  // namespace basalt::apiserver
