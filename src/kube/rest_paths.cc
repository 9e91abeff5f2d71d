#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/strings.h"
#include "json/reader.h"
#include "json/writer.h"
#include "kube/rest_client.h"
#include "net/url.h"

// How requests look on the wire, and lists coming back; no I/O here.

namespace basalt::kube {
namespace {

std::string collection_path(const Resource& resource, std::string_view ns) {
  std::string path = resource.group.empty() ? "/api" : "/apis/" + net::percent_encode(resource.group);
  path += "/" + net::percent_encode(resource.version);
  if (!ns.empty()) path += "/namespaces/" + net::percent_encode(ns);
  return path + "/" + net::percent_encode(resource.plural);
}

// Appends "?a=b&c=d" as parameters come; empty values are left out.
class QueryBuilder {
 public:
  explicit QueryBuilder(std::string& path) : path_(path) {}
  void add(std::string_view name, std::string_view value) {
    if (value.empty()) return;
    path_ += separator_;
    separator_ = '&';
    path_ += name;
    path_ += '=';
    path_ += net::percent_encode(value);
  }

 private:
  std::string& path_;
  char separator_ = '?';
};

std::string_view to_string(Propagation propagation) {
  switch (propagation) {
    case Propagation::Default:
      return "";
    case Propagation::Background:
      return "Background";
    case Propagation::Foreground:
      return "Foreground";
    case Propagation::Orphan:
      return "Orphan";
  }
  return "";
}

std::string seconds_text(rt::Duration duration) {
  return std::to_string(std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(duration).count()));
}

void read_list_metadata(json::Reader& reader, ListPage& page) {
  std::string_view key;
  if (reader.consume_null() || !reader.begin_object()) return;
  while (reader.next_member(key)) {
    if (reader.consume_null()) continue;
    if (key == "resourceVersion") {
      reader.read_string(page.resource_version);
    } else if (key == "continue") {
      reader.read_string(page.continue_token);
    } else if (key == "remainingItemCount") {
      page.remaining_item_count = reader.read_int64();
    } else {
      reader.skip();
    }
  }
}

bool has_type(std::string_view item, std::string_view inside) {
  if (inside.starts_with("\"kind\"") || inside.starts_with("\"apiVersion\"")) return true;
  if (inside.starts_with("\"metadata\"")) return false;  // a built-in kind, whose members keep their order
  // Those of custom resources are sorted: the action of a Command comes before its version.
  json::Reader reader(item, {.keep_unknown = false});
  std::string_view key;
  if (!reader.begin_object()) return false;
  while (reader.next_member(key)) {
    if (key == "kind") return true;
    reader.skip();
  }
  return false;
}

// Items of built-in kinds come without kind and version, those of custom resources with them. We give them to all, as
// watches do, so that an object says what it is however it came.
std::string with_type(std::string_view item, std::string_view type_members) {
  const std::string_view inside = base::trim_start(item.substr(1));
  if (type_members.empty() || has_type(item, inside)) return std::string(item);
  std::string text;
  text.reserve(item.size() + type_members.size() + 2);
  text += '{';
  text += type_members;
  if (!inside.starts_with("}")) text += ',';
  text += inside;
  return text;
}

}  // namespace

std::string path_of(const Request& request) {
  std::string path = collection_path(request.resource, request.ns);
  const bool is_write = request.verb == Verb::Create || request.verb == Verb::Update || request.verb == Verb::Patch;
  if (!request.name.empty()) path += "/" + net::percent_encode(request.name);
  if (!request.subresource.empty()) path += "/" + net::percent_encode(request.subresource);
  QueryBuilder query(path);
  if (request.verb == Verb::Get) query.add("resourceVersion", request.resource_version);
  if (is_write) {
    query.add("fieldManager", request.field_manager);
    query.add("fieldValidation", request.field_validation);
    if (request.dry_run) query.add("dryRun", "All");
    if (request.verb == Verb::Patch && request.patch_type == PatchType::Apply && request.force) {
      query.add("force", "true");
    }
  }
  if (request.verb == Verb::DeleteCollection) {
    query.add("labelSelector", request.label_selector);
    query.add("fieldSelector", request.field_selector);
  }
  return path;
}

std::string path_of(const ListRequest& request) {
  std::string path = collection_path(request.resource, request.ns);
  QueryBuilder query(path);
  query.add("labelSelector", request.label_selector);
  query.add("fieldSelector", request.field_selector);
  if (request.limit > 0) query.add("limit", std::to_string(request.limit));
  if (!request.continue_token.empty()) {
    // A token carries its resource version; servers refuse both together.
    query.add("continue", request.continue_token);
  } else {
    query.add("resourceVersion", request.resource_version);
    query.add("resourceVersionMatch", request.resource_version_match);
  }
  return path;
}

std::string path_of(const WatchRequest& request) {
  std::string path = collection_path(request.resource, request.ns);
  QueryBuilder query(path);
  query.add("watch", "true");
  query.add("labelSelector", request.label_selector);
  query.add("fieldSelector", request.field_selector);
  query.add("resourceVersion", request.resource_version);
  if (request.allow_bookmarks) query.add("allowWatchBookmarks", "true");
  if (request.send_initial_events) {
    query.add("sendInitialEvents", "true");
    query.add("resourceVersionMatch", "NotOlderThan");
  }
  query.add("timeoutSeconds", seconds_text(request.timeout));
  return path;
}

std::string delete_options_of(const Request& request) {
  const bool has_precondition = !request.precondition_uid.empty() || !request.precondition_resource_version.empty();
  if (request.propagation == Propagation::Default && !request.grace_period_seconds && !has_precondition &&
      !request.dry_run) {
    return {};
  }
  std::string out;
  json::Writer writer(out);
  const auto text = [&writer](std::string_view key, std::string_view value) {
    if (value.empty()) return;
    writer.key(key);
    writer.string(value);
  };
  writer.begin_object();
  text("kind", "DeleteOptions");
  text("apiVersion", "v1");
  if (request.grace_period_seconds) {
    writer.key("gracePeriodSeconds");
    writer.integer(*request.grace_period_seconds);
  }
  if (has_precondition) {
    writer.key("preconditions");
    writer.begin_object();
    text("uid", request.precondition_uid);
    text("resourceVersion", request.precondition_resource_version);
    writer.end_object();
  }
  text("propagationPolicy", to_string(request.propagation));
  if (request.dry_run) {
    writer.key("dryRun");
    writer.raw(R"(["All"])");
  }
  writer.end_object();
  return out;
}

Result<ListPage> split_list(std::string_view body) {
  ListPage page;
  std::string kind;
  std::string api_version;
  std::vector<std::string_view> items;
  json::Reader reader(body, {.keep_unknown = false});
  if (reader.begin_object()) {
    std::string_view key;
    while (reader.next_member(key)) {
      if (key == "kind") {
        reader.read_string(kind);
      } else if (key == "apiVersion") {
        reader.read_string(api_version);
      } else if (key == "metadata") {
        read_list_metadata(reader, page);
      } else if (key == "items") {
        if (reader.consume_null() || !reader.begin_array()) continue;
        while (reader.next_element()) {
          if (reader.peek() != json::Kind::Object) reader.fail("expected object");
          items.push_back(reader.read_raw());
        }
      } else {
        reader.skip();
      }
    }
  }
  if (Done done = reader.finish(); !done.ok()) {
    return Error::make(Reason::InternalError, "the server's list cannot be read: " + done.error().message);
  }
  const auto item_kind = base::strip_suffix(kind, "List");
  if (!item_kind) {
    return Error::make(Reason::InternalError,
                       "the server answered a list with " + base::quote(base::ellipsize(kind, 64)));
  }
  std::string type_members;
  if (!item_kind->empty()) {
    type_members = "\"kind\":";
    json::append_quoted(type_members, *item_kind);
    type_members += ",\"apiVersion\":";
    json::append_quoted(type_members, api_version);
  }
  page.items.reserve(items.size());
  for (const std::string_view item : items) page.items.push_back(make_bytes(with_type(item, type_members)));
  return page;
}

}  // namespace basalt::kube
