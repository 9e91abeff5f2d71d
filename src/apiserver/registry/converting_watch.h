#pragma once

#include <atomic>
#include <memory>

#include "apiserver/registry/watch_session.h"

namespace basalt::apiserver {

// A watch of a CRD whose versions a webhook converts. Who polls must not wait for a webhook, so this session has a
// thread of its own, which converts the events that are there together and queues them. An event that cannot be
// converted ends the watch with the error. `watches` counts such sessions; TooManyRequests beyond 256.
[[nodiscard]] Result<std::unique_ptr<WatchSession>> open_converting_watch(rt::Runtime& runtime, Store& store,
                                                                          WatchSessionOptions options,
                                                                          std::shared_ptr<std::atomic<int>> watches);

}  // namespace basalt::apiserver
