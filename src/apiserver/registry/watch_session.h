#pragma once

#include <functional>
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
  // CRDs: what is served under this name now, null if nothing is.
  std::function<std::shared_ptr<const ResourceType>()> current_type;
};

// The error that ends a watch when another way of conversion makes its objects others: its reader lists again.
[[nodiscard]] Error conversion_changed(const ResourceType& type);
// A bookmark of the type at this revision; with `initial_events_end` the one that ends the initial events.
[[nodiscard]] kube::WatchEvent bookmark_event(const ResourceType& type, Revision revision, bool initial_events_end);
// The object as it was when it was last selected, with the version of the change that took it away.
[[nodiscard]] Result<Bytes> with_revision(const Bytes& object, Revision revision);

[[nodiscard]] Result<std::unique_ptr<WatchSession>> open_watch_session(rt::Runtime& runtime, Store& store,
                                                                       WatchSessionOptions options);

}  // namespace basalt::apiserver
