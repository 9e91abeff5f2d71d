#include "apiserver/builtin/node_strategy.h"

#include <algorithm>

#include "apiserver/builtin/builtin_types.h"
#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/builtin/pod_validation.h"
#include "apiserver/builtin/resource_validation.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kRolePrefix = "node-role.kubernetes.io/";

void default_node(json::Value& node) {
  json::Object& members = node.as_object();
  ensure_map(members, "spec");
  json::Object* status = ensure_map(members, "status");
  if (status == nullptr) return;
  for (const std::string_view name : {"capacity", "allocatable"}) {
    json::Value* list = status->find(name);
    if (list != nullptr && list->is_object()) normalise_quantities(list->as_object());
  }
  // What is not set aside can be given to pods.
  const json::Value* capacity = status->find("capacity");
  if (capacity != nullptr && status->find("allocatable") == nullptr) {
    json::Value all = *capacity;
    status->set("allocatable", std::move(all));
  }
}

void validate_resources(const json::Value& node, Causes& causes) {
  for (const std::string_view name : {"capacity", "allocatable"}) {
    const FieldPath status("status");
    const FieldPath list = status.child(name);
    for (const json::Member& one : map_at(node, {"status", name})) {
      check_quantity(one.key, one.value, list.child(one.key), causes);
    }
  }
}

void validate_node(const json::Value& node, Causes& causes) {
  // Kubernetes blames metadata for the taints of the specification.
  validate_taints(list_at(node, {"spec", "taints"}), FieldPath("metadata.taints"), causes);
  validate_resources(node, causes);
}

void validate_node_update(const json::Value& node, const json::Value& old, Causes& causes) {
  if (!list_at(old, {"spec", "podCIDRs"}).empty() && differs(node, old, {"spec", "podCIDRs"})) {
    causes.push_back(forbidden_field("spec.podCIDRs", "node updates may not change podCIDR except from \"\" to valid"));
  }
  if (!old.string_at({"spec", "providerID"}).empty() && differs(node, old, {"spec", "providerID"})) {
    causes.push_back(
        forbidden_field("spec.providerID", "node updates may not change providerID except from \"\" to valid"));
  }
}

void validate_node_status(const json::Value& node, const json::Value&, Causes& causes) {
  validate_resources(node, causes);
  const json::Array& addresses = list_at(node, {"status", "addresses"});
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto end = addresses.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(addresses.begin(), end, addresses[i]) == end) continue;
    causes.push_back(duplicate_value("status.addresses[" + std::to_string(i) + "]", shown(addresses[i])));
  }
}

std::string status_cell(const json::Value& node) {
  std::string text = "Unknown";
  for (const json::Value& condition : list_at(node, {"status", "conditions"})) {
    if (text_at(condition, "type") != "Ready") continue;
    text = text_at(condition, "status") == "True" ? "Ready" : "NotReady";
  }
  const json::Value* unschedulable = node.find_path({"spec", "unschedulable"});
  if (unschedulable != nullptr && *unschedulable == json::Value(true)) text += ",SchedulingDisabled";
  return text;
}

std::string roles_cell(const json::Value& node) {
  std::vector<std::string> roles;
  for (const json::Member& label : map_at(node, {"metadata", "labels"})) {
    if (label.key.starts_with(kRolePrefix)) {
      const std::string role = label.key.substr(kRolePrefix.size());
      if (!role.empty()) roles.push_back(role);
    } else if (label.key == "kubernetes.io/role" && label.value.is_string() && !label.value.as_string().empty()) {
      roles.push_back(label.value.as_string());
    }
  }
  std::sort(roles.begin(), roles.end());
  roles.erase(std::unique(roles.begin(), roles.end()), roles.end());
  return or_none(base::join(roles, ","));
}

std::string address_cell(const json::Value& node, std::string_view type) {
  for (const json::Value& address : list_at(node, {"status", "addresses"})) {
    if (text_at(address, "type") == type) return std::string(text_at(address, "address"));
  }
  return "<none>";
}

std::string info_cell(const json::Value& node, std::string_view name) {
  const std::string_view text = node.string_at({"status", "nodeInfo", name});
  return text.empty() ? "<unknown>" : std::string(text);
}

json::Array node_cells(const json::Value& node, api::Time now) {
  std::string kernel = info_cell(node, "kernelVersion");
  const std::string_view architecture = node.string_at({"status", "nodeInfo", "architecture"});
  if (!architecture.empty()) kernel += " (" + std::string(architecture) + ")";
  return {metadata_text(node, "name"),
          status_cell(node),
          roles_cell(node),
          age_of(node, now),
          node.string_at({"status", "nodeInfo", "kubeletVersion"}),
          address_cell(node, "InternalIP"),
          address_cell(node, "ExternalIP"),
          info_cell(node, "osImage"),
          kernel,
          info_cell(node, "containerRuntimeVersion")};
}

}  // namespace

std::shared_ptr<const ResourceType> node_type() {
  KindRules rules;
  rules.has_status = true;
  rules.creates_with_status = true;
  rules.defaults = default_node;
  rules.validate = validate_node;
  rules.validate_update = validate_node_update;
  rules.validate_status = validate_node_status;
  rules.cells = node_cells;
  rules.selectable = {{"spec.unschedulable", "false"}};

  ResourceType type = basic_type("", "v1", "nodes", "Node", false);
  type.short_names = {"no"};
  type.has_status = true;
  type.strategy = make_strategy(std::move(rules));
  type.columns = {name_column(),
                  column("Status", "string", "Whether the node is ready, and whether it takes pods."),
                  column("Roles", "string", "What the node is for, by its labels."),
                  age_column(),
                  column("Version", "string", "Version of the node's agent."),
                  column("Internal-IP", "string", "Address within the cluster.", 1),
                  column("External-IP", "string", "Address for the world.", 1),
                  column("OS-Image", "string", "The operating system.", 1),
                  column("Kernel-Version", "string", "The kernel.", 1),
                  column("Container-Runtime", "string", "What runs the containers.", 1)};
  return std::make_shared<const ResourceType>(std::move(type));
}

}  // namespace basalt::apiserver
