#include "apiserver/http/openapi.h"

#include "apiserver/http/openapi_protobuf.h"
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

// What one version of the documents writes differently.
struct Style {
  OpenApiVersion version;

  [[nodiscard]] json::Value parameter(std::string_view name) const {
    json::Object one{{"in", "query"}, {"name", name}};
    if (version == OpenApiVersion::V2) {
      one.set("type", "string");
      one.set("uniqueItems", true);
    } else {
      one.set("schema", json::Object{{"type", "string"}});
    }
    return one;
  }

  [[nodiscard]] json::Value answer(json::Value schema) const {
    if (version == OpenApiVersion::V2) return json::Object{{"description", "OK"}, {"schema", std::move(schema)}};
    const json::Value content = json::Object{{"schema", std::move(schema)}};
    return json::Object{{"description", "OK"}, {"content", json::Object{{"application/json", content}}}};
  }
};

json::Value operation(const ResourceType& type, std::string_view action, const Style& style) {
  json::Array parameters;
  if (action != "list" && action != "get") {
    for (const std::string_view name : {"dryRun", "fieldManager", "fieldValidation"}) {
      parameters.push_back(style.parameter(name));
    }
  }
  const OpenApiSchemas names(style.version);
  return json::Object{
      {"parameters", std::move(parameters)},
      {"responses", json::Object{{"200", style.answer(names.reference(OpenApiSchemas::name_of(type)))}}},
      {"x-kubernetes-action", action},
      {"x-kubernetes-group-version-kind",
       json::Object{{"group", type.group}, {"kind", type.kind}, {"version", type.version}}}};
}

void add_paths(const ResourceType& type, const Style& style, json::Object& paths) {
  const std::string everywhere = "/" + path_of(type) + "/" + type.plural;
  std::string collection = "/" + path_of(type);
  if (type.namespaced) collection += "/namespaces/{namespace}";
  collection += "/" + type.plural;
  if (type.is_virtual) {
    paths.set(collection, json::Object{{"post", operation(type, "post", style)}});
    return;
  }
  if (type.namespaced) paths.set(everywhere, json::Object{{"get", operation(type, "list", style)}});
  paths.set(collection,
            json::Object{{"get", operation(type, "list", style)}, {"post", operation(type, "post", style)}});
  paths.set(collection + "/{name}", json::Object{{"get", operation(type, "get", style)},
                                                 {"patch", operation(type, "patch", style)},
                                                 {"put", operation(type, "put", style)}});
}

void add_type(const ResourceType& type, const CrdLookup& crd, const Style& style, json::Object& paths,
              OpenApiSchemas& schemas) {
  add_paths(type, style, paths);
  if (type.crd_name.empty()) {
    schemas.add_builtin(type);
  } else if (const auto definition = crd(type.crd_name)) {
    schemas.add_custom(type, *definition);
  }
}

json::Value second_document(const TypeTable& types, const CrdLookup& crd) {
  const Style style{OpenApiVersion::V2};
  json::Object paths;
  OpenApiSchemas schemas(style.version);
  for (const auto& type : types.all()) add_type(*type, crd, style, paths, schemas);
  return json::Object{{"definitions", schemas.take()},
                      {"info", json::Object{{"title", "Kubernetes"}, {"version", "v1"}}},
                      {"paths", std::move(paths)},
                      {"swagger", "2.0"}};
}

}  // namespace

std::optional<std::string> openapi_document(const TypeTable& types, std::string_view path, const CrdLookup& crd,
                                            OpenApiForm form) {
  if (path == kRoot) return index_of(types).to_text();
  if (path == kOpenApiV2Path) {
    const json::Value document = second_document(types, crd);
    return form == OpenApiForm::Protobuf ? to_openapi_protobuf(document) : document.to_text();
  }
  const auto wanted = base::strip_prefix(path, std::string(kRoot) + "/");
  if (!wanted) return std::nullopt;
  const Style style{OpenApiVersion::V3};
  json::Object paths;
  OpenApiSchemas schemas(style.version);
  for (const auto& type : types.all()) {
    if (path_of(*type) == *wanted) add_type(*type, crd, style, paths, schemas);
  }
  if (paths.empty()) return std::nullopt;
  return json::Value(json::Object{{"components", json::Object{{"schemas", schemas.take()}}},
                                  {"info", json::Object{{"title", "Basalt"}, {"version", "v1"}}},
                                  {"openapi", "3.0.0"},
                                  {"paths", std::move(paths)}})
      .to_text();
}

}  // namespace basalt::apiserver
