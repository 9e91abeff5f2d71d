#include "apiserver/http/openapi.h"

#include "base/strings.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kRoot = "/openapi/v3";

std::string path_of(const ResourceType& type) {
  return type.group.empty() ? "api/" + type.version : "apis/" + type.group + "/" + type.version;
}

json::Value index_of(const TypeTable& types) {
  json::Object paths;
  for (const auto& type : types.all()) {
    paths.set(path_of(*type), json::Object{{"serverRelativeURL", std::string(kRoot) + "/" + path_of(*type)}});
  }
  return json::Object{{"paths", std::move(paths)}};
}

json::Value write_operation(const ResourceType& type, std::string_view action) {
  json::Array parameters;
  for (const std::string_view name : {"dryRun", "fieldManager", "fieldValidation"}) {
    parameters.emplace_back(
        json::Object{{"in", "query"}, {"name", name}, {"schema", json::Object{{"type", "string"}}}});
  }
  return json::Object{{"parameters", std::move(parameters)},
                      {"responses", json::Object{{"200", json::Object{{"description", "OK"}}}}},
                      {"x-kubernetes-action", action},
                      {"x-kubernetes-group-version-kind",
                       json::Object{{"group", type.group}, {"kind", type.kind}, {"version", type.version}}}};
}

}  // namespace

std::optional<std::string> openapi_document(const TypeTable& types, std::string_view path) {
  if (path == kRoot) return index_of(types).to_text();
  const auto wanted = base::strip_prefix(path, std::string(kRoot) + "/");
  if (!wanted) return std::nullopt;
  json::Object paths;
  for (const auto& type : types.all()) {
    if (path_of(*type) != *wanted) continue;
    std::string collection = "/" + path_of(*type);
    if (type->namespaced) collection += "/namespaces/{namespace}";
    collection += "/" + type->plural;
    paths.set(collection, json::Object{{"post", write_operation(*type, "post")}});
    paths.set(collection + "/{name}",
              json::Object{{"patch", write_operation(*type, "patch")}, {"put", write_operation(*type, "put")}});
  }
  if (paths.empty()) return std::nullopt;
  return json::Value(json::Object{{"info", json::Object{{"title", "Basalt"}, {"version", "v1"}}},
                                  {"openapi", "3.0.0"},
                                  {"paths", std::move(paths)}})
      .to_text();
}

}  // namespace basalt::apiserver
