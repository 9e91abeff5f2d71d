#include "node/node_object.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "api/gen/core_node.h"
#include "kube/typed.h"

namespace basalt::node {
namespace {

constexpr std::string_view kNotReadyTaint = "node.kubernetes.io/not-ready";
constexpr std::string_view kUnreachableTaint = "node.kubernetes.io/unreachable";

json::Value resources_json(const api::ResourceList& list) {
  json::Object object;
  for (const auto& [name, amount] : list) object.set(name, amount.to_string());
  return object;
}

struct Times {
  api::Time now;
  api::Time since;
};

json::Value condition(std::string_view type, bool holds, std::string_view reason, std::string_view message,
                      const Times& times) {
  return json::Object{{"type", type},
                      {"status", holds ? "True" : "False"},
                      {"reason", reason},
                      {"message", message},
                      {"lastHeartbeatTime", times.now.to_string()},
                      {"lastTransitionTime", times.since.to_string()}};
}

json::Value conditions(bool ready, std::string_view reason, std::string_view message, const Times& times) {
  return json::Array{
      condition("MemoryPressure", false, "NodeHasSufficientMemory", "the node has sufficient memory", times),
      condition("DiskPressure", false, "NodeHasNoDiskPressure", "the node has no disk pressure", times),
      condition("PIDPressure", false, "NodeHasSufficientPID", "the node has sufficient process numbers", times),
      condition("Ready", ready, reason, message, times)};
}

std::string machine_architecture() {
  utsname names{};
  if (::uname(&names) != 0) return "amd64";
  const std::string machine = static_cast<const char*>(names.machine);
  if (machine == "x86_64") return "amd64";
  return machine == "aarch64" ? "arm64" : machine;
}

}  // namespace

api::ResourceList machine_capacity(std::int64_t pods) {
  struct sysinfo info{};
  const bool known = ::sysinfo(&info) == 0;
  const std::int64_t memory = known ? static_cast<std::int64_t>(info.totalram) * info.mem_unit : 1LL << 30;
  const long processors = ::sysconf(_SC_NPROCESSORS_ONLN);
  api::ResourceList list;
  list.set("cpu", api::Quantity::of(std::max(1L, processors)));
  list.set("memory", api::Quantity::of(memory, api::Quantity::Format::BinarySI));
  list.set("pods", api::Quantity::of(pods));
  return list;
}

json::Value node_object(const NodeDescription& description, api::Time now, api::Time since) {
  const std::string architecture = machine_architecture();
  json::Object labels{{"kubernetes.io/hostname", description.name},
                      {"kubernetes.io/os", "linux"},
                      {"kubernetes.io/arch", architecture},
                      {"basalt.volcano.sh/node", description.runtime}};
  for (const auto& [key, value] : description.labels) labels.set(key, value);
  json::Object spec;
  if (!description.taints.empty()) spec.set("taints", description.taints);
  json::Object info{{"machineID", ""},
                    {"systemUUID", ""},
                    {"bootID", ""},
                    {"kernelVersion", ""},
                    {"osImage", "Linux"},
                    {"containerRuntimeVersion", description.runtime + "://1"},
                    {"kubeletVersion", "v1.36.0-basalt"},
                    {"kubeProxyVersion", ""},
                    {"operatingSystem", "linux"},
                    {"architecture", architecture}};
  json::Object status{
      {"capacity", resources_json(description.capacity)},
      {"allocatable", resources_json(description.allocatable.empty() ? description.capacity : description.allocatable)},
      {"conditions", conditions(true, "KubeletReady", "the node is ready", {now, since})},
      {"addresses", json::Array{json::Object{{"type", "InternalIP"}, {"address", description.address}},
                                json::Object{{"type", "Hostname"}, {"address", description.name}}}},
      {"nodeInfo", std::move(info)}};
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "Node"},
                      {"metadata", json::Object{{"name", description.name}, {"labels", std::move(labels)}}},
                      {"spec", std::move(spec)},
                      {"status", std::move(status)}};
}

std::string node_ready_patch(bool ready, std::string_view reason, std::string_view message, api::Time now) {
  return json::Value(
             json::Object{{"status", json::Object{{"conditions", conditions(ready, reason, message, {now, now})}}}})
      .to_text();
}

kube::Request create_node_request(const json::Value& node) {
  return {.verb = kube::Verb::Create, .resource = kube::resource_of<api::core::Node>(), .body = node.to_text()};
}

kube::Request update_node_request(const json::Value& node) {
  const json::Value* labels = node.find_path({"metadata", "labels"});
  json::Object patch{{"metadata", json::Object{{"labels", labels != nullptr ? *labels : json::Value(json::Object())}}}};
  return {.verb = kube::Verb::Patch,
          .resource = kube::resource_of<api::core::Node>(),
          .name = std::string(node.string_at({"metadata", "name"})),
          .body = json::Value(std::move(patch)).to_text()};
}

kube::Request update_node_status_request(const json::Value& node) {
  json::Object patch{{"status", *node.find("status")}};
  return {.verb = kube::Verb::Patch,
          .resource = kube::resource_of<api::core::Node>(),
          .name = std::string(node.string_at({"metadata", "name"})),
          .subresource = "status",
          .body = json::Value(std::move(patch)).to_text()};
}

std::optional<kube::Request> untaint_request(const json::Value& shown, const json::Array& own_taints) {
  const json::Value* taints = shown.find_path({"spec", "taints"});
  if (taints == nullptr || !taints->is_array()) return std::nullopt;
  const auto is_own = [&own_taints](const json::Value& taint) {
    return std::any_of(own_taints.begin(), own_taints.end(), [&taint](const json::Value& own) {
      return own.string_at({"key"}) == taint.string_at({"key"}) &&
             own.string_at({"effect"}) == taint.string_at({"effect"});
    });
  };
  json::Array kept;
  for (const json::Value& taint : taints->as_array()) {
    const std::string_view key = taint.string_at({"key"});
    if ((key != kNotReadyTaint && key != kUnreachableTaint) || is_own(taint)) kept.push_back(taint);
  }
  if (kept.size() == taints->as_array().size()) return std::nullopt;
  // With the version: a list is replaced as a whole, and somebody may have added to it meanwhile.
  json::Object metadata;
  if (const std::string_view version = shown.string_at({"metadata", "resourceVersion"}); !version.empty())
    metadata.set("resourceVersion", version);
  json::Value rest = kept.empty() ? json::Value(nullptr) : json::Value(std::move(kept));
  json::Object patch{{"metadata", std::move(metadata)}, {"spec", json::Object{{"taints", std::move(rest)}}}};
  return kube::Request{.verb = kube::Verb::Patch,
                       .resource = kube::resource_of<api::core::Node>(),
                       .name = std::string(shown.string_at({"metadata", "name"})),
                       .body = json::Value(std::move(patch)).to_text()};
}

Done register_node(kube::Client& client, const json::Value& node, const rt::StopToken& stop) {
  auto shown = client.call(create_node_request(node), stop);
  if (!shown.ok()) {
    if (!shown.error().is(Reason::AlreadyExists)) return std::move(shown).error();
    BASALT_TRY_DONE(client.call(update_node_request(node), stop));
    shown = client.call(update_node_status_request(node), stop);
    if (!shown.ok()) return std::move(shown).error();
  }
  if (shown->body == nullptr) return Ok{};
  BASALT_TRY(const json::Value object, json::Value::parse(*shown->body));
  const json::Value* own = node.find_path({"spec", "taints"});
  const auto request = untaint_request(object, own != nullptr && own->is_array() ? own->as_array() : json::Array());
  if (request) {
    BASALT_TRY_DONE(client.call(*request, stop));
  }
  return Ok{};
}

}  // namespace basalt::node
