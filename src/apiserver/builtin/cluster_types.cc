// Kinds about the cluster itself: coordination, priorities, policies, access, admission, definitions.

#include "apiserver/builtin/access_types.h"
#include "apiserver/builtin/builtin_types.h"
#include "apiserver/builtin/crd_definition.h"
#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/builtin/volume_strategies.h"
#include "apiserver/builtin/workload_rules.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::int64_t kUserPriorityMax = 1'000'000'000;
constexpr std::string_view kSystemPrefix = "system-";

std::shared_ptr<const ResourceType> done(ResourceType type) {
  return std::make_shared<const ResourceType>(std::move(type));
}

void validate_lease(const json::Value& lease, Causes& causes) {
  const json::Value& spec = spec_or_nothing(lease);
  const FieldPath path("spec");
  const auto duration = int_at(spec, "leaseDurationSeconds");
  if (duration && *duration <= 0) {
    causes.push_back(invalid_value("spec.leaseDurationSeconds", std::to_string(*duration), "must be greater than 0"));
  }
  check_not_negative(spec, "leaseTransitions", path, causes);
  if (!text_at(spec, "preferredHolder").empty() && text_at(spec, "strategy").empty()) {
    causes.push_back(forbidden_field("spec.preferredHolder", "may only be specified if `strategy` is defined"));
  }
}

json::Array lease_cells(const json::Value& lease, api::Time now) {
  return {metadata_text(lease, "name"), lease.string_at({"spec", "holderIdentity"}), age_of(lease, now)};
}

std::shared_ptr<const ResourceType> lease_type() {
  KindRules rules;
  rules.validate = validate_lease;
  rules.cells = lease_cells;
  ResourceType type = basic_type("coordination.k8s.io", "v1", "leases", "Lease", true);
  type.create_on_update = true;
  type.strategy = make_strategy(std::move(rules));
  type.columns = {name_column(), column("Holder", "string", "Who has it."), age_column()};
  return done(std::move(type));
}

void default_priority_class(json::Value& object) {
  set_default(object.as_object(), "preemptionPolicy", "PreemptLowerPriority");
  // A class without a value has that of a pod without a class.
  set_default(object.as_object(), "value", 0);
}

void check_system_class(const json::Value& object, Causes& causes) {
  struct Known {
    std::string_view name;
    std::int64_t value;
  };
  constexpr Known kKnown[] = {{"system-node-critical", 2'000'001'000}, {"system-cluster-critical", 2'000'000'000}};
  const std::string name(metadata_text(object, "name"));
  std::string problem = name + " is not a known system priority class";
  for (const Known& one : kKnown) {
    if (one.name != name) continue;
    if (int_at(object, "value") != one.value) {
      problem = "value of " + name + " PriorityClass must be " + std::to_string(one.value);
    } else if (flag_at(object, "globalDefault")) {
      problem = "globalDefault of " + name + " PriorityClass must be false";
    } else {
      return;
    }
  }
  causes.push_back(forbidden_field(
      "metadata.name",
      "priority class names with 'system-' prefix are reserved for system use only. error: " + problem));
}

void validate_priority_class(const json::Value& object, Causes& causes) {
  const std::int64_t value = int_at(object, "value").value_or(0);
  if (metadata_text(object, "name").starts_with(kSystemPrefix)) {
    check_system_class(object, causes);
  } else if (value > kUserPriorityMax) {
    causes.push_back(forbidden_field(
        "value", "maximum allowed value of a user defined priority is " + std::to_string(kUserPriorityMax)));
  }
  constexpr std::string_view kPolicies[] = {"PreemptLowerPriority", "Never"};
  check_one_of(text_at(object, "preemptionPolicy"), FieldPath("preemptionPolicy"), kPolicies, causes);
}

void validate_priority_class_update(const json::Value& object, const json::Value& old, Causes& causes) {
  if (differs(object, old, {"value"})) {
    causes.push_back(forbidden_field("value", "may not be changed in an update."));
  }
  check_immutable(object, old, {"preemptionPolicy"}, causes);
}

json::Array priority_class_cells(const json::Value& object, api::Time now) {
  return {metadata_text(object, "name"), int_at(object, "value").value_or(0), flag_at(object, "globalDefault"),
          age_of(object, now), text_at(object, "preemptionPolicy")};
}

std::shared_ptr<const ResourceType> priority_class_type() {
  KindRules rules;
  rules.has_generation = true;
  rules.defaults = default_priority_class;
  rules.validate = validate_priority_class;
  rules.validate_update = validate_priority_class_update;
  rules.cells = priority_class_cells;
  ResourceType type = basic_type("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", false);
  type.short_names = {"pc"};
  type.has_generation = true;
  type.strategy = make_strategy(std::move(rules));
  type.columns = {name_column(), column("Value", "integer", "The priority of pods of this class."),
                  column("Global-Default", "boolean", "Whether it is the class of pods that name none."), age_column(),
                  column("PreemptionPolicy", "string", "Whether its pods make room for themselves.", 1)};
  return done(std::move(type));
}

bool is_above_all(const json::Value& amount) {
  if (!amount.is_string() || !amount.as_string().ends_with("%")) return false;
  const auto percent =
      base::parse_uint64(std::string_view(amount.as_string()).substr(0, amount.as_string().size() - 1));
  return percent && *percent > 100;
}

void validate_disruption_budget(const json::Value& object, Causes& causes) {
  const json::Value& spec = spec_or_nothing(object);
  const FieldPath path("spec");
  if (member(spec, "minAvailable") != nullptr && member(spec, "maxUnavailable") != nullptr) {
    causes.push_back(invalid_value("spec", shown(spec), "minAvailable and maxUnavailable cannot be both set"));
  }
  for (const std::string_view name : {"minAvailable", "maxUnavailable"}) {
    const json::Value* amount = member(spec, name);
    if (amount == nullptr) continue;
    check_int_or_percent(*amount, path.child(name), causes);
    if (is_above_all(*amount)) {
      causes.push_back(invalid_value(path.text(name), shown(*amount), "must not be greater than 100%"));
    }
  }
  if (const json::Value* selector = member(spec, "selector")) {
    check_label_selector(*selector, path.child("selector"), causes);
  }
  if (member(spec, "unhealthyPodEvictionPolicy") != nullptr) {
    constexpr std::string_view kPolicies[] = {"AlwaysAllow", "IfHealthyBudget"};
    check_one_of(text_at(spec, "unhealthyPodEvictionPolicy"), path.child("unhealthyPodEvictionPolicy"), kPolicies,
                 causes);
  }
}

void prepare_disruption_budget(json::Value& object) {
  object.as_object().set(
      "status",
      json::Object{{"currentHealthy", 0}, {"desiredHealthy", 0}, {"disruptionsAllowed", 0}, {"expectedPods", 0}});
}

std::string amount_cell(const json::Value& object, std::string_view name) {
  const json::Value* amount = object.find_path({"spec", name});
  if (amount == nullptr) return "N/A";
  return amount->is_string() ? amount->as_string() : amount->to_text();
}

json::Array disruption_budget_cells(const json::Value& object, api::Time now) {
  return {metadata_text(object, "name"), amount_cell(object, "minAvailable"), amount_cell(object, "maxUnavailable"),
          int_at(object, {"status", "disruptionsAllowed"}), age_of(object, now)};
}

std::shared_ptr<const ResourceType> disruption_budget_type() {
  KindRules rules;
  rules.has_status = true;
  rules.has_generation = true;
  rules.prepare_create = prepare_disruption_budget;
  rules.validate = validate_disruption_budget;
  rules.cells = disruption_budget_cells;
  ResourceType type = basic_type("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true);
  type.short_names = {"pdb"};
  type.has_status = true;
  type.has_generation = true;
  type.strategy = make_strategy(std::move(rules));
  type.columns = {name_column(), column("Min Available", "string", "Pods that must stay."),
                  column("Max Unavailable", "string", "Pods that may be away."),
                  column("Allowed Disruptions", "integer", "Pods that may be evicted now."), age_column()};
  return done(std::move(type));
}

void default_network_policy(json::Value& object) {
  json::Value* spec = ensure_spec(object);
  if (spec == nullptr) return;
  set_default(spec->as_object(), "podSelector", json::Object());
  for (const std::string_view direction : {"ingress", "egress"}) {
    json::Array* entries = mutable_list(*spec, direction);
    if (entries == nullptr) continue;
    for (json::Value& entry : *entries) {
      json::Array* ports = mutable_list(entry, "ports");
      if (ports == nullptr) continue;
      for (json::Value& port : *ports) {
        if (port.is_object()) set_default_text(port.as_object(), "protocol", "TCP");
      }
    }
  }
  if (!list_at(*spec, "policyTypes").empty()) return;
  json::Array types{json::Value("Ingress")};
  if (!list_at(*spec, "egress").empty()) types.emplace_back("Egress");
  spec->as_object().set("policyTypes", std::move(types));
}

void check_policy_peers(const json::Array& peers, const FieldPath& path, Causes& causes) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const FieldPath at = path.index(i);
    std::size_t selectors = 0;
    for (const std::string_view name : {"podSelector", "namespaceSelector"}) {
      const json::Value* selector = member(peers[i], name);
      if (selector == nullptr) continue;
      ++selectors;
      check_label_selector(*selector, at.child(name), causes);
    }
    const bool has_block = member(peers[i], "ipBlock") != nullptr;
    if (selectors == 0 && !has_block) causes.push_back(required(at.text(), "must specify a peer"));
    if (selectors > 0 && has_block) {
      causes.push_back(forbidden_field(at.text(), "may not specify both ipBlock and another peer"));
    }
  }
}

void validate_network_policy(const json::Value& object, Causes& causes) {
  const json::Value& spec = spec_or_nothing(object);
  const FieldPath path("spec");
  if (const json::Value* selector = member(spec, "podSelector")) {
    check_label_selector(*selector, path.child("podSelector"), causes);
  }
  constexpr std::string_view kProtocols[] = {"TCP", "UDP", "SCTP"};
  for (const std::string_view direction : {"ingress", "egress"}) {
    const FieldPath direction_path = path.child(direction);
    const json::Array& entries = list_at(spec, direction);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const FieldPath at = direction_path.index(i);
      const FieldPath ports_path = at.child("ports");
      const json::Array& ports = list_at(entries[i], "ports");
      for (std::size_t j = 0; j < ports.size(); ++j) {
        const FieldPath port_path = ports_path.index(j);
        check_one_of(text_at(ports[j], "protocol"), port_path.child("protocol"), kProtocols, causes);
        if (const json::Value* port = member(ports[j], "port")) {
          check_port_or_name(port, port_path.child("port"), causes);
        }
      }
      const std::string_view side = direction == "ingress" ? "from" : "to";
      check_policy_peers(list_at(entries[i], side), at.child(side), causes);
    }
  }
  constexpr std::string_view kTypes[] = {"Ingress", "Egress"};
  const FieldPath types_path = path.child("policyTypes");
  const json::Array& types = list_at(spec, "policyTypes");
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i].is_string()) check_one_of(types[i].as_string(), types_path.index(i), kTypes, causes);
  }
}

json::Array network_policy_cells(const json::Value& object, api::Time now) {
  return {metadata_text(object, "name"), selector_cell(object.find_path({"spec", "podSelector"})), age_of(object, now)};
}

std::shared_ptr<const ResourceType> network_policy_type() {
  KindRules rules;
  rules.has_generation = true;
  rules.defaults = default_network_policy;
  rules.validate = validate_network_policy;
  rules.cells = network_policy_cells;
  ResourceType type = basic_type("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", true);
  type.short_names = {"netpol"};
  type.has_generation = true;
  type.strategy = make_strategy(std::move(rules));
  type.columns = {name_column(), column("Pod-Selector", "string", "The pods that it is about."), age_column()};
  return done(std::move(type));
}

}  // namespace

TypeList cluster_types() {
  TypeList types = {lease_type(),
                    priority_class_type(),
                    network_policy_type(),
                    disruption_budget_type(),
                    storage_class_type(),
                    done(basic_type("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true)),
                    done(basic_type("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", false)),
                    crd_definition_type()};
  for (auto& type : access_types()) types.push_back(std::move(type));
  return types;
}

}  // namespace basalt::apiserver
