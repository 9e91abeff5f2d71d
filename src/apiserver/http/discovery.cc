#include "apiserver/http/discovery.h"

#include <map>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "json/value.h"

namespace basalt::apiserver {
namespace {

using Types = std::vector<const ResourceType*>;
// Group -> version -> resources; the versions of a group in their order of preference.
struct Group {
  std::vector<std::string> versions;
  std::map<std::string, Types> resources;
};

std::map<std::string, Group> groups_of(const TypeTable& types) {
  std::map<std::string, Group> groups;
  for (const auto& type : types.all()) {
    Group& group = groups[type->group];
    Types& resources = group.resources[type->version];
    if (resources.empty()) group.versions.push_back(type->version);
    resources.push_back(type.get());
  }
  return groups;
}

std::string group_version(std::string_view group, std::string_view version) {
  return group.empty() ? std::string(version) : std::string(group) + "/" + std::string(version);
}

json::Array strings(const std::vector<std::string>& list) {
  json::Array array;
  for (const std::string& item : list) array.emplace_back(item);
  return array;
}

struct Subresource {
  std::string name;
  std::string group;  // of its kind, "" with version "" = as the resource
  std::string version;
  std::string kind;
  std::vector<std::string> verbs;
};

std::vector<Subresource> subresources_of(const ResourceType& type) {
  std::vector<Subresource> list;
  for (const std::string& name : type.other_subresources) {
    if (name == "attach") list.push_back({name, "", "v1", "PodAttachOptions", {"create", "get"}});
    if (name == "exec") list.push_back({name, "", "v1", "PodExecOptions", {"create", "get"}});
    if (name == "binding") list.push_back({name, "", "v1", "Binding", {"create"}});
    if (name == "eviction") list.push_back({name, "policy", "v1", "Eviction", {"create"}});
    if (name == "portforward") list.push_back({name, "", "v1", "PodPortForwardOptions", {"create", "get"}});
    if (name == "proxy")
      list.push_back({name, "", "v1", type.kind + "ProxyOptions", {"create", "delete", "get", "patch", "update"}});
    if (name == "log") list.push_back({name, "", "v1", "Pod", {"get"}});
    if (name == "approval") list.push_back({name, type.group, type.version, type.kind, {"get", "patch", "update"}});
    if (name == "finalize") list.push_back({name, "", "v1", "Namespace", {"update"}});
  }
  if (type.scale) list.push_back({"scale", "autoscaling", "v1", "Scale", {"get", "patch", "update"}});
  if (type.has_status) list.push_back({"status", type.group, type.version, type.kind, {"get", "patch", "update"}});
  // Custom resources list their status first.
  if (!type.crd_name.empty() && list.size() == 2) std::swap(list[0], list[1]);
  return list;
}

json::Value legacy_resource(const ResourceType& type) {
  json::Object resource{{"kind", type.kind},
                        {"name", type.plural},
                        {"namespaced", type.namespaced},
                        {"singularName", type.singular},
                        {"verbs", strings(type.verbs)}};
  if (!type.short_names.empty()) resource.set("shortNames", strings(type.short_names));
  if (!type.categories.empty()) resource.set("categories", strings(type.categories));
  return resource;
}

json::Value resource_list(const std::string& group, const std::string& version, const Types& types) {
  json::Array resources;
  for (const ResourceType* type : types) {
    resources.push_back(legacy_resource(*type));
    for (const Subresource& sub : subresources_of(*type)) {
      json::Object resource{{"kind", sub.kind},
                            {"name", type->plural + "/" + sub.name},
                            {"namespaced", type->namespaced},
                            {"singularName", ""},
                            {"verbs", strings(sub.verbs)}};
      if (sub.group != type->group || sub.version != type->version) {
        if (!sub.group.empty()) resource.set("group", sub.group);
        resource.set("version", sub.version);
      }
      resources.emplace_back(std::move(resource));
    }
  }
  return json::Object{{"apiVersion", "v1"},
                      {"groupVersion", group_version(group, version)},
                      {"kind", "APIResourceList"},
                      {"resources", std::move(resources)}};
}

json::Value legacy_group(const std::string& name, const Group& group) {
  json::Array versions;
  for (const std::string& version : group.versions) {
    versions.emplace_back(json::Object{{"groupVersion", group_version(name, version)}, {"version", version}});
  }
  const json::Value preferred = versions.front();
  return json::Object{{"name", name}, {"preferredVersion", preferred}, {"versions", std::move(versions)}};
}

json::Value kind_reference(std::string_view group, std::string_view version, std::string_view kind) {
  return json::Object{{"group", group}, {"kind", kind}, {"version", version}};
}

json::Value aggregated_resource(const ResourceType& type) {
  json::Object resource{{"resource", type.plural},
                        {"responseKind", kind_reference(type.group, type.version, type.kind)},
                        {"scope", type.namespaced ? "Namespaced" : "Cluster"},
                        {"singularResource", type.singular},
                        {"verbs", strings(type.verbs)}};
  if (!type.short_names.empty()) resource.set("shortNames", strings(type.short_names));
  if (!type.categories.empty()) resource.set("categories", strings(type.categories));
  json::Array subresources;
  for (const Subresource& sub : subresources_of(type)) {
    subresources.emplace_back(json::Object{{"responseKind", kind_reference(sub.group, sub.version, sub.kind)},
                                           {"subresource", sub.name},
                                           {"verbs", strings(sub.verbs)}});
  }
  if (!subresources.empty()) resource.set("subresources", std::move(subresources));
  return resource;
}

json::Value aggregated(const std::map<std::string, Group>& groups, bool core, std::string_view version) {
  json::Array items;
  for (const auto& [name, group] : groups) {
    if (name.empty() != core) continue;
    json::Array versions;
    for (const std::string& one : group.versions) {
      json::Array resources;
      for (const ResourceType* type : group.resources.at(one)) resources.push_back(aggregated_resource(*type));
      versions.emplace_back(
          json::Object{{"freshness", "Current"}, {"resources", std::move(resources)}, {"version", one}});
    }
    json::Object metadata{{"creationTimestamp", nullptr}};
    if (!name.empty()) metadata.set("name", name);
    items.emplace_back(json::Object{{"metadata", std::move(metadata)}, {"versions", std::move(versions)}});
  }
  return json::Object{{"apiVersion", "apidiscovery.k8s.io/" + std::string(version)},
                      {"items", std::move(items)},
                      {"kind", "APIGroupDiscoveryList"},
                      {"metadata", json::Object()}};
}

// "v2" or "v2beta1" if the client prefers the aggregated form, "" for the legacy one.
std::string aggregated_version(std::string_view accept) {
  for (std::string_view one : base::split(accept, ',')) {
    one = base::trim(one);
    if (one.find("as=APIGroupDiscoveryList") != std::string_view::npos) {
      if (one.find("v=v2beta1") != std::string_view::npos) return "v2beta1";
      if (one.find("v=v2") != std::string_view::npos) return "v2";
    } else if (one == "application/json" || one == "*/*") {
      return "";
    }
  }
  return "";
}

DiscoveryDocument document(const json::Value& value, const std::string& version = {}) {
  std::string type = "application/json";
  if (!version.empty()) type += ";g=apidiscovery.k8s.io;v=" + version + ";as=APIGroupDiscoveryList";
  return {std::move(type), value.to_text()};
}

}  // namespace

std::optional<DiscoveryDocument> discovery_document(const TypeTable& types, std::string_view path,
                                                    std::string_view accept, std::string_view server_address) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  const std::vector<std::string_view> parts = base::split(path.substr(1), '/');
  const bool core = parts[0] == "api";
  if (!core && parts[0] != "apis") return std::nullopt;
  const auto groups = groups_of(types);
  const std::string version = aggregated_version(accept);
  if (parts.size() == 1 && !version.empty()) return document(aggregated(groups, core, version), version);
  if (core) {
    if (parts.size() == 1) {
      return document(
          json::Object{{"kind", "APIVersions"},
                       {"serverAddressByClientCIDRs",
                        json::Array{json::Object{{"clientCIDR", "0.0.0.0/0"}, {"serverAddress", server_address}}}},
                       {"versions", json::Array{json::Value("v1")}}});
    }
    const auto group = groups.find("");
    if (parts.size() != 2 || parts[1] != "v1" || group == groups.end()) return std::nullopt;
    return document(resource_list("", "v1", group->second.resources.at("v1")));
  }
  if (parts.size() == 1) {
    json::Array list;
    for (const auto& [name, group] : groups) {
      if (!name.empty()) list.push_back(legacy_group(name, group));
    }
    return document(json::Object{{"apiVersion", "v1"}, {"groups", std::move(list)}, {"kind", "APIGroupList"}});
  }
  const auto group = groups.find(std::string(parts[1]));
  if (group == groups.end() || group->first.empty()) return std::nullopt;
  if (parts.size() == 2) {
    json::Value one = legacy_group(group->first, group->second);
    one.as_object().set("apiVersion", "v1");
    one.as_object().set("kind", "APIGroup");
    return document(one);
  }
  const auto resources = group->second.resources.find(std::string(parts[2]));
  if (parts.size() != 3 || resources == group->second.resources.end()) return std::nullopt;
  return document(resource_list(group->first, resources->first, resources->second));
}

}  // namespace basalt::apiserver
