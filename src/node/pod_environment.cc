#include "node/pod_environment.h"

#include <algorithm>

#include "base/encoding.h"
#include "base/strings.h"

namespace basalt::node {
namespace {

constexpr std::size_t kVariablesMax = 10'000;

// metadata.labels['key'] -> key
std::optional<std::string_view> subscript(std::string_view path, std::string_view field) {
  const auto rest = base::strip_prefix(path, field);
  if (!rest || rest->size() < 4 || !rest->starts_with("['") || !rest->ends_with("']")) return std::nullopt;
  return rest->substr(2, rest->size() - 4);
}

std::string all_entries(const api::StringMap& map) {
  std::string text;
  for (const auto& [key, value] : map) text += std::string(key) + "=" + base::quote(value) + "\n";
  return text;
}

bool is_variable_name(std::string_view name) {
  // What Kubernetes takes: anything printable without '='.
  return !name.empty() &&
         std::none_of(name.begin(), name.end(), [](char c) { return c == '=' || c == '\0' || c < ' '; });
}

Result<std::map<std::string, std::string>> decoded(const api::StringMap& data, std::string_view what) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : data) {
    auto bytes = base::base64_decode(value);
    if (!bytes) return Error::invalid_input(std::string(what) + ": key " + std::string(key) + " is not base64");
    out[std::string(key)] = std::move(*bytes);
  }
  return out;
}

// A missing object or key that is optional counts as empty.
Result<std::map<std::string, std::string>> data_of(const api::core::Pod& pod, bool secret, const std::string& name,
                                                   bool optional, PodObjects& objects) {
  const std::string& ns = pod.metadata.namespace_;
  if (secret) {
    const auto object = objects.secret(ns, name);
    if (object.ok()) return object_data(*object);
    if (optional && object.error().is(Reason::NotFound)) return std::map<std::string, std::string>();
    return object.error();
  }
  const auto object = objects.config_map(ns, name);
  if (object.ok()) return object_data(*object);
  if (optional && object.error().is(Reason::NotFound)) return std::map<std::string, std::string>();
  return object.error();
}

struct KeyOf {
  bool secret = false;
  std::string name;
  std::string key;
  bool optional = false;
};

Result<std::optional<std::string>> value_of_key(const api::core::Pod& pod, const KeyOf& source, PodObjects& objects) {
  BASALT_TRY(auto data, data_of(pod, source.secret, source.name, source.optional, objects));
  const auto found = data.find(source.key);
  if (found != data.end()) return std::optional<std::string>(std::move(found->second));
  if (source.optional) return std::optional<std::string>();
  return Error::make(Reason::NotFound, "couldn't find key " + source.key + " in " +
                                           (source.secret ? "Secret " : "ConfigMap ") + pod.metadata.namespace_ + "/" +
                                           source.name);
}

Result<std::optional<std::string>> value_from(const api::core::Pod& pod, const api::core::Container& container,
                                              const PodPlace& place, const api::core::EnvVarSource& source,
                                              PodObjects& objects) {
  if (source.field_ref) {
    BASALT_TRY(std::string text, field_text(pod, place, source.field_ref->field_path));
    return std::optional<std::string>(std::move(text));
  }
  if (source.resource_field_ref) {
    BASALT_TRY(std::string text, resource_text(pod, place, container, *source.resource_field_ref));
    return std::optional<std::string>(std::move(text));
  }
  if (const auto& ref = source.config_map_key_ref)
    return value_of_key(pod, {false, ref->name, ref->key, ref->optional.value_or(false)}, objects);
  if (const auto& ref = source.secret_key_ref)
    return value_of_key(pod, {true, ref->name, ref->key, ref->optional.value_or(false)}, objects);
  return Error::invalid_input("valueFrom names no source that process nodes know");
}

}  // namespace

const std::string* find_variable(const Environment& env, std::string_view name) {
  for (const auto& entry : env) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

void set_variable(Environment& env, std::string_view name, std::string_view value) {
  for (auto& entry : env) {
    if (entry.first != name) continue;
    entry.second = value;
    return;
  }
  env.emplace_back(name, value);
}

std::string expand_variables(std::string_view text, const Environment& env) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    if (text[i + 1] == '$') {
      out += '$';
      ++i;
      continue;
    }
    const std::size_t end = text[i + 1] == '(' ? text.find(')', i + 2) : std::string_view::npos;
    if (end == std::string_view::npos) {
      out += '$';
      continue;
    }
    const std::string* value = find_variable(env, text.substr(i + 2, end - i - 2));
    out += value != nullptr ? std::string_view(*value) : text.substr(i, end - i + 1);
    i = end;
  }
  return out;
}

Result<std::string> field_text(const api::core::Pod& pod, const PodPlace& place, std::string_view path) {
  const auto& metadata = pod.metadata;
  if (path == "metadata.name") return metadata.name;
  if (path == "metadata.namespace") return metadata.namespace_;
  if (path == "metadata.uid") return metadata.uid;
  if (path == "metadata.labels") return all_entries(metadata.labels);
  if (path == "metadata.annotations") return all_entries(metadata.annotations);
  if (path == "spec.nodeName") return place.node_name;
  if (path == "spec.serviceAccountName") return pod.spec.service_account_name;
  if (path == "status.hostIP" || path == "status.hostIPs") return place.host_ip;
  if (path == "status.podIP" || path == "status.podIPs") return place.pod_ip;
  if (const auto key = subscript(path, "metadata.labels")) return std::string(metadata.labels.get(*key));
  if (const auto key = subscript(path, "metadata.annotations")) return std::string(metadata.annotations.get(*key));
  return Error::invalid_input("fieldPath \"" + std::string(path) + "\" is not offered by the downward API");
}

Result<std::string> resource_text(const api::core::Pod& pod, const PodPlace& place, const api::core::Container& own,
                                  const api::core::ResourceFieldSelector& selector) {
  const api::core::Container* container = &own;
  if (!selector.container_name.empty() && selector.container_name != own.name) {
    container = nullptr;
    for (const auto* list : {&pod.spec.containers, &pod.spec.init_containers}) {
      for (const auto& one : *list) {
        if (one.name == selector.container_name) container = &one;
      }
    }
    if (container == nullptr) return Error::invalid_input("no container named " + selector.container_name);
  }
  const auto parts = base::split_once(selector.resource, '.');
  if (!parts || (parts->first != "limits" && parts->first != "requests"))
    return Error::invalid_input("resource \"" + selector.resource + "\" is neither limits.* nor requests.*");
  const bool limits = parts->first == "limits";
  const api::ResourceList& list = limits ? container->resources.limits : container->resources.requests;
  const api::Quantity* amount = list.find(parts->second);
  if (amount == nullptr && limits) amount = place.allocatable.find(parts->second);
  const api::Quantity value = amount != nullptr ? *amount : api::Quantity();
  api::Quantity divisor = selector.divisor.value_or(api::Quantity());
  if (divisor.is_zero()) divisor = api::Quantity::of(1);
  const bool fine = parts->second == "cpu";
  const std::int64_t numerator = fine ? value.milli_value() : value.value();
  const std::int64_t denominator = std::max<std::int64_t>(fine ? divisor.milli_value() : divisor.value(), 1);
  return std::to_string(numerator / denominator + (numerator % denominator > 0 ? 1 : 0));
}

Result<std::map<std::string, std::string>> object_data(const api::core::ConfigMap& object) {
  BASALT_TRY(auto data, decoded(object.binary_data, "ConfigMap " + object.metadata.name));
  for (const auto& [key, value] : object.data) data[std::string(key)] = value;
  return data;
}

Result<std::map<std::string, std::string>> object_data(const api::core::Secret& object) {
  return decoded(object.data, "Secret " + object.metadata.name);
}

Result<Environment> container_environment(const api::core::Pod& pod, const api::core::Container& container,
                                          const PodPlace& place, Environment base, PodObjects& objects) {
  Environment env = std::move(base);
  for (const auto& source : container.env_from) {
    const bool secret = source.secret_ref.has_value();
    if (!secret && !source.config_map_ref) continue;
    const auto& reference = secret ? *source.secret_ref : *source.config_map_ref;
    BASALT_TRY(const auto data, data_of(pod, secret, reference.name, reference.optional.value_or(false), objects));
    for (const auto& [key, value] : data) {
      // A key that is no name of a variable is left out, as kubelet does.
      if (is_variable_name(source.prefix + key)) set_variable(env, source.prefix + key, value);
    }
  }
  for (const auto& variable : container.env) {
    if (env.size() > kVariablesMax) return Error::invalid_input("more than 10,000 environment variables");
    if (!variable.value_from) {
      set_variable(env, variable.name, expand_variables(variable.value, env));
      continue;
    }
    auto value = value_from(pod, container, place, *variable.value_from, objects);
    if (!value.ok()) return value.error().with_context("environment variable " + variable.name);
    if (*value) set_variable(env, variable.name, **value);
  }
  return env;
}

}  // namespace basalt::node
