#include "cli/client/objects.h"

#include <algorithm>

#include "base/strings.h"

namespace basalt::cli {
namespace {

constexpr std::int64_t kPageItems = 500;
constexpr rt::Duration kRetryAfter = std::chrono::seconds(1);
constexpr std::size_t kNamesForSuggestions = 2000;

}  // namespace

Result<std::vector<kube::Bytes>> list_bytes(Session& session, const kube::Resource& resource,
                                            const ListOptions& options) {
  std::vector<kube::Bytes> items;
  kube::ListRequest request{.resource = resource,
                            .ns = options.ns,
                            .label_selector = options.label_selector,
                            .field_selector = options.field_selector,
                            .limit = kPageItems};
  if (options.is_cut != nullptr) *options.is_cut = false;
  for (;;) {
    auto page = session.client.list(request, session.stop);
    if (!page.ok()) {
      const bool expired = page.error().is(Reason::Expired) || page.error().is(Reason::Gone);
      if (!expired || request.continue_token.empty()) return std::move(page).error();
      items.clear();
      request.continue_token.clear();
      request.limit = 0;
      continue;
    }
    items.insert(items.end(), page->items.begin(), page->items.end());
    const bool is_full = items.size() >= options.items_max;
    if (is_full) {
      if (options.is_cut != nullptr)
        *options.is_cut = items.size() > options.items_max || !page->continue_token.empty();
      items.resize(options.items_max);
    }
    if (is_full || page->continue_token.empty()) return items;
    request.continue_token = page->continue_token;
  }
}

Result<kube::Bytes> get_bytes(Session& session, const kube::Resource& resource, const api::ObjectKey& key) {
  BASALT_TRY(kube::Response response,
             session.client.call({.verb = kube::Verb::Get, .resource = resource, .ns = key.ns, .name = key.name},
                                 session.stop));
  return response.body;
}

Error with_suggestion(Session& session, const kube::Resource& resource, const api::ObjectKey& key, Error error) {
  if (!error.is(Reason::NotFound) || !session.suggests) return error;
  const auto items = list_bytes(session, resource, {.ns = key.ns, .items_max = kNamesForSuggestions});
  if (!items.ok()) return error;
  std::vector<std::string> names;
  for (const kube::Bytes& item : *items) {
    if (const auto identity = kube::identity_of(*item); identity.ok()) names.push_back(identity->name);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (const std::string_view match = base::closest_match(key.name, views); !match.empty()) {
    error.message += "; did you mean \"" + std::string(match) + "\"?";
    return error;
  }
  if (key.ns.empty()) return error;
  const auto elsewhere =
      list_bytes(session, resource, {.field_selector = "metadata.name=" + key.name, .items_max = 10});
  if (elsewhere.ok() && !elsewhere->empty()) {
    if (const auto identity = kube::identity_of(*elsewhere->front()); identity.ok())
      error.message += "; there is one in namespace \"" + identity->ns + "\": add -n " + identity->ns;
  } else {
    error.message += " in namespace \"" + key.ns + "\"";
  }
  return error;
}

std::string server_problem(Session& session, const rt::StopToken& stop) {
  const auto ready = session.raw.get("/readyz", stop);
  if (ready.ok() || ready.error().code < 500) return "";
  return std::string(base::trim(ready.error().message));
}

ObjectWatch::ObjectWatch(Session& session, kube::Resource resource, api::ObjectKey key)
    : session_(session), resource_(std::move(resource)), key_(std::move(key)) {}

Result<std::optional<ObjectWatch::Change>> ObjectWatch::next(rt::Instant deadline, const rt::StopToken& stop) {
  for (;;) {
    if (stop.stop_requested()) return Error::make(Reason::Cancelled, "interrupted");
    if (!stream_) {
      const std::string selector = "metadata.name=" + key_.name;
      auto page = session_.client.list({.resource = resource_, .ns = key_.ns, .field_selector = selector}, stop);
      if (page.ok()) {
        auto stream = session_.client.watch({.resource = resource_,
                                             .ns = key_.ns,
                                             .field_selector = selector,
                                             .resource_version = page->resource_version},
                                            stop);
        if (stream.ok()) stream_ = std::move(*stream);
        if (page->items.empty() && !is_known_absent_) {
          is_known_absent_ = true;
          return std::optional(Change{nullptr});
        }
        if (!page->items.empty()) {
          const auto identity = kube::identity_of(*page->items.front());
          const std::string version = identity.ok() ? identity->resource_version : "";
          is_known_absent_ = false;
          if (version.empty() || version != last_version_) {
            last_version_ = version;
            return std::optional(Change{page->items.front()});
          }
        }
        if (stream_) continue;
      } else if (!page.error().is_transient()) {
        return std::move(page).error();
      }
      if (session_.runtime.now() >= deadline) return std::optional<Change>();
      const rt::Instant retry = rt::saturating_add(session_.runtime.now(), kRetryAfter);
      if (stop.wait_until(session_.runtime, std::min(retry, deadline)))
        return Error::make(Reason::Cancelled, "interrupted");
      continue;
    }
    auto event = stream_->next(deadline);
    if (!event.ok()) {
      if (event.error().is(Reason::DeadlineExceeded)) return std::optional<Change>();
      // Cancelled by a token of before an interrupt that was dealt with: a new watch goes on. The loop tests this
      // one's.
      stream_.reset();
      continue;
    }
    if (!event->has_value()) {
      stream_.reset();
      continue;
    }
    switch ((**event).type) {
      case kube::WatchEventType::Bookmark:
        break;
      case kube::WatchEventType::Deleted:
        is_known_absent_ = true;
        return std::optional(Change{nullptr});
      default: {
        const auto identity = kube::identity_of(*(**event).object);
        last_version_ = identity.ok() ? identity->resource_version : "";
        is_known_absent_ = false;
        return std::optional(Change{(**event).object});
      }
    }
  }
}

}  // namespace basalt::cli
