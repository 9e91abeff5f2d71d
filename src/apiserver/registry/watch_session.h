#pragma once

#include <memory>
#include <string>

#include "apiserver/registry/api_server.h"
#include "apiserver/registry/selection.h"
#include "apiserver/store/store.h"

namespace basalt::apiserver {

struct WatchSessionOptions {
  std::shared_ptr<const ResourceType> type;
  ResourceId resource{};
  std::string ns;
  Revision after = 0;                   // without initial events
  bool initial_events = false;          // Added for everything that is there, first
  bool bookmark_after_initial = false;  // and a bookmark that says that they are complete
  bool bookmarks = false;
  rt::Duration bookmark_period = std::chrono::seconds(60);
  Selection selection;
};

[[nodiscard]] Result<std::unique_ptr<WatchSession>> open_watch_session(rt::Runtime& runtime, Store& store,
                                                                       WatchSessionOptions options);

}  // namespace basalt::apiserver
