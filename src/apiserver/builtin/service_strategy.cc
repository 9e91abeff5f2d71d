#include "apiserver/builtin/service_strategy.h"

#include <algorithm>

#include "apiserver/builtin/builtin_types.h"
#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::int64_t kAffinitySeconds = 10800;
constexpr std::int64_t kAffinitySecondsMax = 86400;

const json::Value& spec_of(const json::Value& service) {
  static const json::Value kNothing{json::Object()};
  const json::Value* spec = member(service, "spec");
  return spec != nullptr ? *spec : kNothing;
}

bool is_headless(const json::Value& spec) {
  if (text_at(spec, "clusterIP") == "None") return true;
  const json::Array& addresses = list_at(spec, "clusterIPs");
  return !addresses.empty() && addresses[0] == json::Value("None");
}

bool reaches_outside(const json::Value& spec) {
  const std::string_view type = text_at(spec, "type");
  return type == "LoadBalancer" || type == "NodePort" || (type == "ClusterIP" && !list_at(spec, "externalIPs").empty());
}

void default_affinity(json::Object& spec) {
  set_default_text(spec, "sessionAffinity", "None");
  const json::Value& affinity = *spec.find("sessionAffinity");
  if (affinity == json::Value("None")) {
    spec.erase("sessionAffinityConfig");
  } else if (affinity == json::Value("ClientIP")) {
    json::Value& config = spec["sessionAffinityConfig"];
    if (config.find_path({"clientIP", "timeoutSeconds"}) == nullptr) {
      config = json::Object{{"clientIP", json::Object{{"timeoutSeconds", kAffinitySeconds}}}};
    }
  }
}

void default_ports(json::Value& spec) {
  json::Array* ports = mutable_list(spec, "ports");
  if (ports == nullptr) return;
  for (json::Value& port : *ports) {
    if (!port.is_object()) continue;
    json::Object& members = port.as_object();
    set_default_text(members, "protocol", "TCP");
    const json::Value* target = members.find("targetPort");
    const bool is_unset =
        target == nullptr || target->is_null() || *target == json::Value(0) || *target == json::Value("");
    if (is_unset && members.find("port") != nullptr) {
      json::Value number = *members.find("port");
      members.set("targetPort", std::move(number));
    }
  }
}

void default_service(json::Value& service) {
  json::Object* members = ensure_map(service.as_object(), "spec");
  if (members == nullptr) return;
  json::Value& spec = *service.find("spec");
  default_affinity(*members);
  set_default_text(*members, "type", "ClusterIP");
  default_ports(spec);
  if (reaches_outside(spec)) set_default_text(*members, "externalTrafficPolicy", "Cluster");
  const std::string type(text_at(spec, "type"));
  if (type == "ClusterIP" || type == "NodePort" || type == "LoadBalancer") {
    set_default(*members, "internalTrafficPolicy", "Cluster");
  }
  if (type == "LoadBalancer") set_default(*members, "allocateLoadBalancerNodePorts", true);
}

void prepare_service(json::Value& service) {
  service.as_object().set("status", json::Object{{"loadBalancer", json::Object()}});
}

void check_port_entry(const json::Value& port, const json::Array& all, std::size_t index, const FieldPath& path,
                      Causes& causes) {
  const auto before = all.begin() + static_cast<std::ptrdiff_t>(index);
  const std::string_view name = text_at(port, "name");
  if (name.empty()) {
    if (all.size() > 1) causes.push_back(required(path.text("name")));
  } else {
    check_dns_label(name, path.child("name"), causes);
    if (std::any_of(all.begin(), before, [&](const json::Value& one) { return text_at(one, "name") == name; })) {
      causes.push_back(duplicate_value(path.text("name"), base::quote(name)));
    }
  }
  check_port(int_at(port, "port").value_or(0), path.child("port"), causes);
  constexpr std::string_view kProtocols[] = {"SCTP", "TCP", "UDP"};
  check_one_of(text_at(port, "protocol"), path.child("protocol"), kProtocols, causes);
  check_port_or_name(member(port, "targetPort"), path.child("targetPort"), causes);
  if (const std::string_view protocol = text_at(port, "appProtocol"); !protocol.empty()) {
    check_qualified_name(protocol, path.child("appProtocol"), causes);
  }
}

// Two entries must differ in protocol or port, and in protocol or node port.
void check_port_pairs(const json::Array& ports, const FieldPath& path, Causes& causes) {
  const auto is_earlier = [&](std::size_t index, std::string_view number) {
    for (std::size_t j = 0; j < index; ++j) {
      if (text_at(ports[j], "protocol") == text_at(ports[index], "protocol") &&
          int_at(ports[j], number) == int_at(ports[index], number)) {
        return true;
      }
    }
    return false;
  };
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const std::int64_t node_port = int_at(ports[i], "nodePort").value_or(0);
    if (node_port != 0 && is_earlier(i, "nodePort")) {
      causes.push_back(duplicate_value(path.index(i).text("nodePort"), std::to_string(node_port)));
    }
  }
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!is_earlier(i, "port")) continue;
    causes.push_back(
        duplicate_value(path.index(i).text(), json::Value(json::Object{{"port", int_at(ports[i], "port").value_or(0)},
                                                                       {"protocol", text_at(ports[i], "protocol")},
                                                                       {"targetPort", 0}})
                                                  .to_text()));
  }
}

void check_type(const json::Value& spec, const FieldPath& path, Causes& causes) {
  const std::string_view type = text_at(spec, "type");
  const FieldPath addresses = path.child("clusterIPs");
  if ((type == "LoadBalancer" || type == "NodePort") && is_headless(spec)) {
    causes.push_back(invalid_value(addresses.index(0).text(), "\"None\"",
                                   "may not be set to 'None' for " + std::string(type) + " services"));
  }
  if (type != "ExternalName") return;
  for (const std::string_view name : {"clusterIPs", "ipFamilies", "ipFamilyPolicy"}) {
    const json::Value* value = member(spec, name);
    const bool is_empty_list = value != nullptr && value->is_array() && value->as_array().empty();
    if (value == nullptr || is_empty_list) continue;
    causes.push_back(forbidden_field(path.text(name), "may not be set for ExternalName services"));
  }
  std::string_view target = text_at(spec, "externalName");
  if (target.ends_with(".")) target.remove_suffix(1);
  if (target.empty()) {
    causes.push_back(required(path.text("externalName")));
  } else {
    check_dns_subdomain(target, path.child("externalName"), causes);
  }
}

void check_affinity(const json::Value& spec, const FieldPath& path, Causes& causes) {
  constexpr std::string_view kAffinities[] = {"ClientIP", "None"};
  const std::string_view affinity = text_at(spec, "sessionAffinity");
  check_one_of(affinity, path.child("sessionAffinity"), kAffinities, causes);
  if (affinity != "ClientIP") return;
  const FieldPath config = path.child("sessionAffinityConfig");
  const FieldPath client = config.child("clientIP");
  const std::int64_t seconds = int_at(spec, {"sessionAffinityConfig", "clientIP", "timeoutSeconds"});
  if (seconds > 0 && seconds <= kAffinitySecondsMax) return;
  causes.push_back(invalid_value(client.text("timeoutSeconds"), std::to_string(seconds),
                                 "must be greater than 0 and less than 86400"));
}

void check_addresses(const json::Value& spec, const FieldPath& path, Causes& causes) {
  if (text_at(spec, "type") == "ExternalName") return;
  const std::string_view address = text_at(spec, "clusterIP");
  const json::Array& addresses = list_at(spec, "clusterIPs");
  const json::Value* list = member(spec, "clusterIPs");
  if (address.empty()) {
    if (!addresses.empty()) {
      causes.push_back(
          invalid_value(path.text("clusterIPs"), shown(*list), "must be empty when `clusterIP` is not specified"));
    }
  } else if (!addresses.empty() && addresses[0] != json::Value(address)) {
    causes.push_back(invalid_value(path.text("clusterIPs"), shown(*list), "first value must match `clusterIP`"));
  }
  if (addresses.size() > 2) {
    causes.push_back(invalid_value(path.text("clusterIPs"), shown(*list), "may only hold up to 2 values"));
  }
  constexpr std::string_view kPolicies[] = {"PreferDualStack", "RequireDualStack", "SingleStack"};
  if (member(spec, "ipFamilyPolicy") != nullptr) {
    check_one_of(text_at(spec, "ipFamilyPolicy"), path.child("ipFamilyPolicy"), kPolicies, causes);
  }
  constexpr std::string_view kFamilies[] = {"IPv4", "IPv6"};
  const FieldPath families_path = path.child("ipFamilies");
  const json::Array& families = list_at(spec, "ipFamilies");
  for (std::size_t i = 0; i < families.size(); ++i) {
    if (families[i].is_string()) check_one_of(families[i].as_string(), families_path.index(i), kFamilies, causes);
  }
}

void check_traffic(const json::Value& spec, const FieldPath& path, Causes& causes) {
  constexpr std::string_view kPolicies[] = {"Cluster", "Local"};
  const std::string_view external = text_at(spec, "externalTrafficPolicy");
  if (reaches_outside(spec)) {
    check_one_of(external, path.child("externalTrafficPolicy"), kPolicies, causes);
  } else if (!external.empty()) {
    causes.push_back(invalid_value(path.text("externalTrafficPolicy"), base::quote(external),
                                   "may only be set for externally-accessible services"));
  }
  if (member(spec, "internalTrafficPolicy") != nullptr) {
    check_one_of(text_at(spec, "internalTrafficPolicy"), path.child("internalTrafficPolicy"), kPolicies, causes);
  }
  constexpr std::string_view kDistributions[] = {"PreferClose", "PreferSameZone", "PreferSameNode"};
  if (member(spec, "trafficDistribution") != nullptr) {
    check_one_of(text_at(spec, "trafficDistribution"), path.child("trafficDistribution"), kDistributions, causes);
  }
  if (text_at(spec, "type") == "LoadBalancer") return;
  if (member(spec, "allocateLoadBalancerNodePorts") != nullptr) {
    causes.push_back(
        forbidden_field(path.text("allocateLoadBalancerNodePorts"), "may only be used when `type` is 'LoadBalancer'"));
  }
  if (!list_at(spec, "loadBalancerSourceRanges").empty()) {
    causes.push_back(
        forbidden_field(path.text("LoadBalancerSourceRanges"), "may only be used when `type` is 'LoadBalancer'"));
  }
}

void validate_service(const json::Value& service, Causes& causes) {
  const json::Value& spec = spec_of(service);
  const FieldPath path("spec");
  const json::Array& ports = list_at(spec, "ports");
  const std::string_view type = text_at(spec, "type");
  if (ports.empty() && !is_headless(spec) && type != "ExternalName") causes.push_back(required("spec.ports"));
  check_type(spec, path, causes);
  const FieldPath ports_path = path.child("ports");
  for (std::size_t i = 0; i < ports.size(); ++i) check_port_entry(ports[i], ports, i, ports_path.index(i), causes);
  check_label_map(map_at(spec, "selector"), path.child("selector"), causes);
  check_affinity(spec, path, causes);
  check_addresses(spec, path, causes);
  constexpr std::string_view kTypes[] = {"ClusterIP", "ExternalName", "LoadBalancer", "NodePort"};
  check_one_of(type, path.child("type"), kTypes, causes);
  for (std::size_t i = 0; i < ports.size() && type == "ClusterIP"; ++i) {
    if (int_at(ports[i], "nodePort").value_or(0) == 0) continue;
    causes.push_back(
        forbidden_field(ports_path.index(i).text("nodePort"), "may not be used when `type` is 'ClusterIP'"));
  }
  check_port_pairs(ports, ports_path, causes);
  check_traffic(spec, path, causes);
}

void validate_service_update(const json::Value& service, const json::Value& old, Causes& causes) {
  const json::Value& before = spec_of(old);
  const json::Value& now = spec_of(service);
  if (text_at(before, "type") == "ExternalName" || text_at(now, "type") == "ExternalName") return;
  const std::string_view address = text_at(before, "clusterIP");
  if (address.empty() || address == text_at(now, "clusterIP")) return;
  const json::Value* list = now.find("clusterIPs");
  causes.push_back(invalid_value(
      "spec.clusterIPs[0]", list != nullptr ? shown(*list) : "null",
      text_at(now, "clusterIP").empty() ? "primary clusterIP can not be unset" : "may not change once set"));
}

std::string external_cell(const json::Value& service) {
  const json::Value& spec = spec_of(service);
  const std::string_view type = text_at(spec, "type");
  if (type == "ExternalName") return std::string(text_at(spec, "externalName"));
  std::vector<std::string> addresses;
  if (type == "LoadBalancer") {
    for (const json::Value& one : list_at(service, {"status", "loadBalancer", "ingress"})) {
      const std::string_view ip = text_at(one, "ip");
      addresses.emplace_back(ip.empty() ? text_at(one, "hostname") : ip);
    }
  }
  for (const json::Value& one : list_at(spec, "externalIPs")) {
    if (one.is_string()) addresses.push_back(one.as_string());
  }
  if (addresses.empty()) return type == "LoadBalancer" ? "<pending>" : "<none>";
  return base::join(addresses, ",");
}

std::string ports_cell(const json::Value& spec) {
  std::string text;
  for (const json::Value& port : list_at(spec, "ports")) {
    if (!text.empty()) text += ',';
    text += std::to_string(int_at(port, "port").value_or(0));
    if (const std::int64_t node_port = int_at(port, "nodePort").value_or(0); node_port != 0) {
      text += ":" + std::to_string(node_port);
    }
    text.append("/").append(text_at(port, "protocol"));
  }
  return or_none(text);
}

json::Array service_cells(const json::Value& service, api::Time now) {
  const json::Value& spec = spec_of(service);
  const json::Array& addresses = list_at(spec, "clusterIPs");
  const std::string address = addresses.empty() || !addresses[0].is_string() ? "<none>" : addresses[0].as_string();
  return {metadata_text(service, "name"),
          text_at(spec, "type"),
          address,
          external_cell(service),
          ports_cell(spec),
          age_of(service, now),
          label_text(map_at(spec, "selector"))};
}

}  // namespace

std::shared_ptr<const ResourceType> service_type() {
  KindRules rules;
  rules.has_status = true;
  rules.defaults = default_service;
  rules.prepare_create = prepare_service;
  rules.validate = validate_service;
  rules.validate_update = validate_service_update;
  rules.cells = service_cells;
  rules.selectable = {{"spec.clusterIP"}, {"spec.type"}};

  ResourceType type = basic_type("", "v1", "services", "Service", true);
  type.other_subresources = {"proxy"};
  type.short_names = {"svc"};
  type.categories = {"all"};
  type.name_rule = NameRule::Label;  // since Kubernetes 1.36 a name may begin with a digit
  type.has_status = true;
  type.strategy = make_strategy(std::move(rules));
  type.columns = {name_column(),
                  column("Type", "string", "How the service can be reached."),
                  column("Cluster-IP", "string", "Its address within the cluster."),
                  column("External-IP", "string", "Its addresses for the world."),
                  column("Port(s)", "string", "The ports that it offers."),
                  age_column(),
                  column("Selector", "string", "The pods behind it.", 1)};
  return std::make_shared<const ResourceType>(std::move(type));
}

}  // namespace basalt::apiserver
