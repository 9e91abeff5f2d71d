#pragma once

#include <functional>

#include "apiserver/registry/api_server.h"
#include "base/result.h"

namespace basalt::apiserver {

// What an API server offers besides to those who have many callers and few threads: a call for which no thread waits
// while the disk has it.
class LaterCalls {
 public:
  using Told = std::function<void(Result<kube::Response>)>;
  // As ApiServer::call(), but the result goes to `told`, exactly once: on this thread before this returns, or on the
  // store's when a write is committed. It is to be short and must not wait. Both arguments are needed only until this
  // returns.
  virtual void call_later(const kube::Request& request, const RequestContext& context, Told told) = 0;

 protected:
  ~LaterCalls() = default;
};

}  // namespace basalt::apiserver
