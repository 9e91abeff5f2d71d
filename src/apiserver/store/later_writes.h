#pragma once

#include <functional>

#include "apiserver/store/store.h"
#include "base/result.h"

namespace basalt::apiserver {

// What a store whose writes wait for a disk offers besides: a write for which no thread waits.
class LaterWrites {
 public:
  using Told = std::function<void(Result<EntryRef>)>;
  // As Store::write(), but the result goes to `told`, exactly once: on the committer's thread when the write is
  // committed or has failed, or on this one, before this returns, if it is refused at once. Without a lock; it is to be
  // short, must not wait, and may write again. The write's views are needed only until this returns.
  virtual void write_later(const Write& write, Told told) = 0;

 protected:
  ~LaterWrites() = default;
};

}  // namespace basalt::apiserver
