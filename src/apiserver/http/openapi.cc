#include "apiserver/http/openapi.h"

#include "apiserver/http/openapi_schemas.h"
#include "base/strings.h"

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

json::Value operation(const ResourceType& type, std::string_view action) {
  json::Array parameters;
  if (action != "list" && action != "get") {
    for (const std::string_view name : {"dryRun", "fieldManager", "fieldValidation"}) {
      parameters.emplace_back(
          json::Object{{"in", "query"}, {"name", name}, {"schema", json::Object{{"type", "string"}}}});
    }
  }
  const json::Value schema =
      json::Object{{"schema", json::Object{{"$ref", "#/components/schemas/" + OpenApiSchemas::name_of(type)}}}};
  const json::Value answer =
      json::Object{{"description", "OK"}, {"content", json::Object{{"application/json", schema}}}};
  return json::Object{{"parameters", std::move(parameters)},
                      {"responses", json::Object{{"200", answer}}},
                      {"x-kubernetes-action", action},
                      {"x-kubernetes-group-version-kind",
                       json::Object{{"group", type.group}, {"kind", type.kind}, {"version", type.version}}}};
}

void add_paths(const ResourceType& type, json::Object& paths) {
  const std::string everywhere = "/" + path_of(type) + "/" + type.plural;
  std::string collection = "/" + path_of(type);
  if (type.namespaced) collection += "/namespaces/{namespace}";
  collection += "/" + type.plural;
  if (type.is_virtual) {
    paths.set(collection, json::Object{{"post", operation(type, "post")}});
    return;
  }
  if (type.namespaced) paths.set(everywhere, json::Object{{"get", operation(type, "list")}});
  paths.set(collection, json::Object{{"get", operation(type, "list")}, {"post", operation(type, "post")}});
  paths.set(collection + "/{name}",
            json::Object{
                {"get", operation(type, "get")}, {"patch", operation(type, "patch")}, {"put", operation(type, "put")}});
}

}  // namespace

std::optional<std::string> openapi_document(const TypeTable& types, std::string_view path, const CrdLookup& crd) {
  if (path == kRoot) return index_of(types).to_text();
  const auto wanted = base::strip_prefix(path, std::string(kRoot) + "/");
  if (!wanted) return std::nullopt;
  json::Object paths;
  OpenApiSchemas schemas;
  for (const auto& type : types.all()) {
    if (path_of(*type) != *wanted) continue;
    add_paths(*type, paths);
    if (type->crd_name.empty()) {
      schemas.add_builtin(*type);
    } else if (const auto definition = crd(type->crd_name)) {
      schemas.add_custom(*type, *definition);
    }
  }
  if (paths.empty()) return std::nullopt;
  return json::Value(json::Object{{"components", json::Object{{"schemas", schemas.take()}}},
                                  {"info", json::Object{{"title", "Basalt"}, {"version", "v1"}}},
                                  {"openapi", "3.0.0"},
                                  {"paths", std::move(paths)}})
      .to_text();
}

}  // namespace basalt::apiserver
