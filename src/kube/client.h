#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "rt/stop.h"
#include "rt/time.h"

namespace basalt::kube {

// One serialised object, immutable and shared by everybody who holds it.
using Bytes = std::shared_ptr<const std::string>;
[[nodiscard]] inline Bytes make_bytes(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

// A resource type as it stands in a URL: /apis/<group>/<version>/.../<plural>; the core group is "".
struct Resource {
  std::string group;
  std::string version;
  std::string plural;
  [[nodiscard]] std::string to_string() const;  // "jobs.batch.volcano.sh/v1alpha1", "pods/v1"
  auto operator<=>(const Resource&) const = default;
};

enum class Verb : std::uint8_t { Get, Create, Update, Patch, Delete, DeleteCollection };
[[nodiscard]] std::string_view to_string(Verb verb);

enum class PatchType : std::uint8_t { Json, Merge, StrategicMerge, Apply };
[[nodiscard]] std::string_view content_type_of(PatchType type);

enum class Propagation : std::uint8_t { Default, Background, Foreground, Orphan };

// One call about one object (or, for DeleteCollection, about a set). Fields that a verb has no use for are ignored.
struct Request {
  Verb verb = Verb::Get;
  Resource resource;
  std::string ns;           // "" for cluster-scoped resources
  std::string name;         // "" for Create and DeleteCollection
  std::string subresource;  // "", "status", "scale", "binding", "eviction", "log", ...
  std::string body;         // JSON: the object (Create, Update) or the patch (Patch)
  PatchType patch_type = PatchType::Merge;

  std::string resource_version;  // Get: not older than this
  std::string field_manager;     // Create, Update, Patch
  bool force = false;            // Patch with PatchType::Apply: take over fields of others
  bool dry_run = false;
  std::string field_validation;  // "", "Ignore", "Warn", "Strict"

  Propagation propagation = Propagation::Default;    // Delete*
  std::optional<std::int64_t> grace_period_seconds;  // Delete*
  std::string precondition_uid;                      // Delete: only this very object
  std::string precondition_resource_version;         // Delete: only if unchanged
  std::string label_selector;                        // DeleteCollection
  std::string field_selector;                        // DeleteCollection

  rt::Duration timeout = std::chrono::seconds(30);  // for the whole call with its retries
};

struct Response {
  int code = 200;  // 200, 201, 202
  Bytes body;      // the object, or a Status for some deletes; never null
  std::vector<std::string> warnings;
};

struct ListRequest {
  Resource resource;
  std::string ns;  // "" for all namespaces
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;        // "" = most recent; "0" = whatever the server has at hand
  std::string resource_version_match;  // "", "Exact", "NotOlderThan"
  std::int64_t limit = 0;              // 0 = no paging
  std::string continue_token;
  rt::Duration timeout = std::chrono::seconds(60);
};

struct ListPage {
  std::vector<Bytes> items;
  std::string resource_version;
  std::string continue_token;  // "" on the last page
  std::optional<std::int64_t> remaining_item_count;
};

struct WatchRequest {
  Resource resource;
  std::string ns;
  std::string label_selector;
  std::string field_selector;
  std::string resource_version;  // events after this one; "" or "0": starts with synthetic Added events
  bool allow_bookmarks = true;
  bool send_initial_events = false;  // streaming list: Added for all, then a bookmark annotated as the end of them
  rt::Duration timeout = std::chrono::minutes(10);  // the server ends the watch then; spread by the caller
};

enum class WatchEventType : std::uint8_t { Added, Modified, Deleted, Bookmark };

struct WatchEvent {
  WatchEventType type = WatchEventType::Added;
  Bytes object;  // for Deleted the last state, with the resource version of the deletion
};

// One watch. next() is for one thread; cancel() may come from any. Closed by its destructor.
class WatchStream {
 public:
  virtual ~WatchStream() = default;
  // The next event; nothing if the server ended the watch in good order; an error otherwise: Expired or Gone if the
  // resource version is too old, ConnectionLost, Cancelled after cancel(), DeadlineExceeded if `deadline` passed
  // without an event (the stream is still usable then).
  virtual Result<std::optional<WatchEvent>> next(rt::Instant deadline) = 0;
  virtual void cancel() = 0;
};

struct CallAllOptions {
  int in_flight_max = 64;
  // Stop sending new requests after this many failures (0 = never); those not sent get Reason::Cancelled.
  int failures_max = 0;
};

// The seam that everything above hangs on: a Kubernetes API. Implementations: rest_client.h (a real API server),
// apiserver/direct_client.h (the embedded one, same process) and fault_client.h (a wrapper that injects faults).
// Thread-safe; calls block the caller, never with a lock held. Errors carry Kubernetes' reasons. A failed write whose
// error says outcome_is_unknown() may have taken effect: reconcile again, do not assume.
class Client {
 public:
  virtual ~Client() = default;
  virtual Result<Response> call(const Request& request, const rt::StopToken& stop) = 0;
  virtual Result<ListPage> list(const ListRequest& request, const rt::StopToken& stop) = 0;
  virtual Result<std::unique_ptr<WatchStream>> watch(const WatchRequest& request, const rt::StopToken& stop) = 0;
  // Sends all, a bounded number at a time, and returns the results in the order of the requests.
  virtual std::vector<Result<Response>> call_all(std::span<const Request> requests, const CallAllOptions& options,
                                                 const rt::StopToken& stop) = 0;
};

}  // namespace basalt::kube
