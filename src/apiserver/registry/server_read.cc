// Reading: get, list and the opening of watches.

#include <chrono>
#include <utility>

#include "api/time.h"
#include "apiserver/registry/continue_token.h"
#include "apiserver/registry/converting_watch.h"
#include "apiserver/registry/errors.h"
#include "apiserver/registry/selection.h"
#include "apiserver/registry/server_impl.h"
#include "apiserver/registry/watch_session.h"
#include "base/check.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

// Objects that are converted at once to see which of them are selected.
constexpr std::size_t kConvertedPiece = 500;

Error revision_too_large(Revision wanted, Revision current) {
  Error error = Error::make(Reason::Timeout, "Too large resource version: " + std::to_string(wanted) +
                                                 ", current: " + std::to_string(current));
  error.causes.push_back({"ResourceVersionTooLarge", "Too large resource version", ""});
  error.retry_after = std::chrono::seconds(1);
  return error;
}

Result<Revision> parse_version(std::string_view text) {
  if (text.empty()) return Revision{0};
  const auto number = base::parse_uint64(text);
  if (!number || *number > static_cast<std::uint64_t>(INT64_MAX)) {
    return bad_request("resourceVersion: Invalid value: " + base::quote(text) + ": it is not a decimal number");
  }
  return static_cast<Revision>(*number);
}

// Which state a list shows: a revision, or 0 for the newest.
Result<Revision> list_revision(const kube::ListRequest& request, Revision current) {
  BASALT_TRY(const Revision wanted, parse_version(request.resource_version));
  const std::string& match = request.resource_version_match;
  if (match.empty() && request.limit == 0) {
    if (wanted > current) return revision_too_large(wanted, current);
    return Revision{0};
  }
  if (!match.empty() && request.resource_version.empty()) {
    return invalid_options(forbidden_field("resourceVersionMatch",
                                           "resourceVersionMatch is forbidden unless resourceVersion is provided"));
  }
  if (!match.empty() && match != "Exact" && match != "NotOlderThan") {
    constexpr std::string_view kMatches[] = {"Exact", "NotOlderThan"};
    return invalid_options(not_supported("resourceVersionMatch", base::quote(match), kMatches));
  }
  if (match == "Exact" && wanted == 0) {
    return invalid_options(forbidden_field("resourceVersionMatch",
                                           "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""));
  }
  if (wanted > current) return revision_too_large(wanted, current);
  // Without a match a limit makes the version exact, as Kubernetes keeps it for old clients.
  const bool exact = match == "Exact" || (match.empty() && request.limit > 0 && wanted > 0);
  return exact ? wanted : Revision{0};
}

Error list_expired() {
  return expired(
      "The provided continue parameter is too old to display a consistent list result. You can start a new list "
      "without it, or go on with the token of this answer; what was written meanwhile may then be there or not.");
}

Result<Listing> list_plainly(const Store& store, const ResourceType& type, const ListQuery& query,
                             std::vector<Bytes>& items) {
  BASALT_TRY(Listing listing, store.list(query));
  BASALT_TRY(items, present_all(type, listing.entries));
  return listing;
}

// Of objects that are selected only after they were converted: piece by piece until there are enough.
Result<Listing> list_converted(const Store& store, const ResourceType& type, const Selection& selection,
                               const ListQuery& query, std::vector<Bytes>& items) {
  ListQuery piece = query;
  piece.limit = kConvertedPiece;
  Listing chosen;
  EntryRef last;  // its key is where the next piece begins
  do {
    std::vector<Bytes> shown;
    BASALT_TRY(const Listing listing, list_plainly(store, type, piece, shown));
    chosen.revision = piece.revision = listing.revision;
    chosen.more = listing.more;
    for (std::size_t i = 0; i < shown.size(); ++i) {
      BASALT_TRY(const json::Value object, json::Value::parse(*shown[i]));
      if (!selection.matches_object(object)) continue;
      chosen.entries.push_back(listing.entries[i]);
      items.push_back(std::move(shown[i]));
      if (query.limit == 0 || items.size() < query.limit) continue;
      chosen.more = listing.more || i + 1 < shown.size();
      return chosen;
    }
    if (listing.entries.empty()) break;
    last = listing.entries.back();
    piece.after = last->key();
  } while (chosen.more);
  return chosen;
}

}  // namespace

Result<kube::Response> ApiServerImpl::get(const TypeRef& type, const kube::Request& request) {
  BASALT_TRY(const Revision wanted, parse_version(request.resource_version));
  if (const Revision current = store_->revision(); wanted > current) return revision_too_large(wanted, current);
  const EntryRef entry = store_->get(store_->resource(type->storage_id()), request.ns, request.name);
  if (!entry) return not_found(*type, request.name);
  return respond(200, *type, *entry, {});
}

Result<kube::ListPage> ApiServerImpl::list(const kube::ListRequest& request, const RequestContext&) {
  BASALT_TRY(const TypeRef type, resolve(request.resource));
  if (type->is_virtual) return method_not_allowed(*type, "list");
  if (!type->namespaced && !request.ns.empty()) return no_such_resource();
  if (request.limit < 0) return bad_request("limit: Invalid value: " + std::to_string(request.limit));
  BASALT_TRY(const Selection selection, Selection::parse(*type, request.label_selector, request.field_selector));

  ListQuery query;
  query.resource = store_->resource(type->storage_id());
  query.ns = request.ns;
  query.limit = static_cast<std::size_t>(request.limit);
  if (!selection.matches_all()) query.matches = [&](const Entry& entry) { return selection.matches(entry); };
  const std::int64_t now = api::Time::from(runtime_.wall_now()).unix_seconds();
  const std::int64_t history_seconds =
      std::chrono::duration_cast<std::chrono::seconds>(options_.store.history_age_max).count();
  ContinueToken token;
  token.begun = now;
  if (!request.continue_token.empty()) {
    if (!request.resource_version.empty() && request.resource_version != "0") {
      return bad_request("specifying resource version is not allowed when using continue");
    }
    BASALT_TRY(token, ContinueToken::decode(request.continue_token));
    // By the clock, not by what the history happens to hold: else a list would live for ever where nobody writes.
    const bool goes_on_as_it_began = token.revision != ContinueToken::kNewest;
    if (goes_on_as_it_began && now >= token.begun + history_seconds) return list_expired();
    if (!goes_on_as_it_began) token.begun = now;
    query.revision = token.revision == ContinueToken::kNewest ? 0 : token.revision;
    query.after = token.after;
  } else {
    BASALT_TRY(query.revision, list_revision(request, store_->revision()));
  }

  kube::ListPage page;
  auto listed = selection.needs_object() ? list_converted(*store_, *type, selection, query, page.items)
                                         : list_plainly(*store_, *type, query, page.items);
  if (!listed.ok()) {
    if (listed.error().is(Reason::Expired) && !request.continue_token.empty()) return list_expired();
    return std::move(listed).error();
  }
  const Listing& listing = *listed;
  page.resource_version = std::to_string(listing.revision);
  if (listing.more && !listing.entries.empty()) {
    ContinueToken next{listing.revision, std::string(listing.entries.back()->key()),
                       token.seen + static_cast<std::int64_t>(listing.entries.size()), token.total, token.begun};
    if (listing.total) next.total = static_cast<std::int64_t>(*listing.total);
    page.continue_token = next.encode();
    // As Kubernetes: unknown under a selector.
    if (selection.matches_all() && next.total > next.seen) page.remaining_item_count = next.total - next.seen;
  }
  return page;
}

Result<std::unique_ptr<WatchSession>> ApiServerImpl::watch(const kube::WatchRequest& request, const RequestContext&) {
  BASALT_TRY(const TypeRef type, resolve(request.resource));
  if (!type->namespaced && !request.ns.empty()) return no_such_resource();
  BASALT_TRY(Selection selection, Selection::parse(*type, request.label_selector, request.field_selector));
  BASALT_TRY(const Revision wanted, parse_version(request.resource_version));
  if (request.send_initial_events && !request.allow_bookmarks) {
    return invalid_options(
        forbidden_field("allowWatchBookmarks", "allowWatchBookmarks must be true for sendInitialEvents"));
  }
  if (const Revision current = store_->revision(); wanted > current) return revision_too_large(wanted, current);

  WatchSessionOptions options;
  options.type = type;
  options.resource = store_->resource(type->storage_id());
  options.ns = request.ns;
  options.after = wanted;
  options.initial_events = wanted == 0 || request.send_initial_events;
  options.bookmark_after_initial = request.send_initial_events;
  options.bookmarks = request.allow_bookmarks;
  options.bookmark_period = options_.bookmark_period;
  options.selection = std::move(selection);
  if (!type->crd_name.empty())
    options.current_type = [this, resource = request.resource] {
      return types()->find(resource.group, resource.version, resource.plural);
    };
  if (!type->converter) return open_watch_session(runtime_, *store_, std::move(options));
  return open_converting_watch(runtime_, *store_, std::move(options), converting_watches_);
}

}  // namespace basalt::apiserver
