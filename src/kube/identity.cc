#include "kube/identity.h"

#include "base/strings.h"
#include "json/reader.h"

namespace basalt::kube {
namespace {

void read_annotations(json::Reader& reader, Identity& identity) {
  std::string_view key;
  if (reader.consume_null() || !reader.begin_object()) return;
  while (reader.next_member(key)) {
    if (key == "k8s.io/initial-events-end" && reader.peek() == json::Kind::String) {
      identity.initial_events_end = reader.read_string_view() == "true";
    } else {
      reader.skip();
    }
  }
}

void read_metadata(json::Reader& reader, Identity& identity) {
  std::string_view key;
  if (reader.consume_null() || !reader.begin_object()) return;
  while (reader.next_member(key)) {
    if (reader.consume_null()) continue;
    if (key == "name") {
      reader.read_string(identity.name);
    } else if (key == "namespace") {
      reader.read_string(identity.ns);
    } else if (key == "uid") {
      reader.read_string(identity.uid);
    } else if (key == "resourceVersion") {
      reader.read_string(identity.resource_version);
    } else if (key == "annotations") {
      read_annotations(reader, identity);
    } else {
      if (key == "deletionTimestamp") identity.is_being_deleted = true;
      reader.skip();
    }
  }
}

}  // namespace

Revision parse_revision(std::string_view resource_version) { return base::parse_uint64(resource_version).value_or(0); }

Result<Identity> identity_of(std::string_view object) {
  Identity identity;
  json::Reader reader(object, {.keep_unknown = false});
  bool has_metadata = false;
  if (reader.begin_object()) {
    std::string_view key;
    while (reader.next_member(key)) {
      if (key == "kind") {
        reader.read_string(identity.kind);
      } else if (key == "apiVersion") {
        reader.read_string(identity.api_version);
      } else if (key == "metadata") {
        read_metadata(reader, identity);
        has_metadata = true;
      } else {
        reader.skip();
      }
      // API servers write kind and version first, then the metadata; what follows is most of the text.
      if (has_metadata && !identity.kind.empty() && !identity.api_version.empty() && reader.ok()) return identity;
    }
  }
  if (Done done = reader.finish(); !done.ok()) return std::move(done).error();
  if (!has_metadata) return Error::invalid_input("the object has no metadata");
  return identity;
}

std::string resource_version_of(const Response& response) {
  if (!response.body) return {};
  auto identity = identity_of(*response.body);
  return identity.ok() ? std::move(identity->resource_version) : std::string();
}

}  // namespace basalt::kube
