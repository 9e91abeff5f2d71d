#include "controllers/datadependency/views.h"

#include "controllers/datadependency/identity.h"
#include "json/value.h"

namespace basalt::controllers::datadependency {
namespace {

void take_metadata(const json::Value& object, BindingView::Metadata& metadata) {
  metadata.name = object.string_at({"metadata", "name"});
  metadata.namespace_ = object.string_at({"metadata", "namespace"});
  metadata.uid = object.string_at({"metadata", "uid"});
  metadata.resource_version = object.string_at({"metadata", "resourceVersion"});
}

}  // namespace

void decode(json::Reader& reader, BindingView& view) {
  view.text = reader.read_raw();
  const auto object = json::Value::parse(view.text);
  if (!object.ok()) return reader.fail(object.error().message);
  take_metadata(*object, view.metadata);
  const auto at = [&](std::string_view key) { return std::string(object->string_at({"spec", "resource", key})); };
  view.created = object->string_at({"metadata", "creationTimestamp"});
  view.workload = workload_key(at("apiVersion"), at("kind"), at("namespace"), at("name"));
}

void decode(json::Reader& reader, ClusterView& view) {
  const auto object = json::Value::parse(reader.read_raw());
  if (!object.ok()) return reader.fail(object.error().message);
  take_metadata(*object, view.metadata);
}

}  // namespace basalt::controllers::datadependency
