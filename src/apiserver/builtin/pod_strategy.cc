#include "apiserver/builtin/pod_strategy.h"

#include <algorithm>
#include <array>

#include "apiserver/builtin/builtin_types.h"
#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/pod_defaults.h"
#include "apiserver/builtin/pod_validation.h"
#include "apiserver/registry/metadata.h"

namespace basalt::apiserver {
namespace {

constexpr std::array<std::string_view, 8> kSelectable = {
    "spec.nodeName",    "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
    "spec.hostNetwork", "status.phase",       "status.podIP",       "status.nominatedNodeName"};

bool is_finished(std::string_view phase) { return phase == "Succeeded" || phase == "Failed"; }

}  // namespace

void PodStrategy::prune(json::Value& object, std::vector<std::string>*) const { drop_empty(object); }

void PodStrategy::apply_defaults(json::Value& object) const { default_pod(object); }

void PodStrategy::prepare_for_create(json::Value& object) const {
  json::Object status{{"phase", "Pending"}, {"qosClass", qos_class(object)}};
  if (!list_at(object, {"spec", "schedulingGates"}).empty()) {
    status.set("conditions",
               json::Array{json::Object{{"lastProbeTime", nullptr},
                                        {"lastTransitionTime", metadata_text(object, "creationTimestamp")},
                                        {"message", "Scheduling is blocked due to non-empty scheduling gates"},
                                        {"reason", "SchedulingGated"},
                                        {"status", "False"},
                                        {"type", "PodScheduled"}}});
  }
  object.as_object().set("status", std::move(status));
}

void PodStrategy::prepare_for_update(json::Value& object, const json::Value& old, WritePart part) const {
  GenericStrategy::prepare_for_update(object, old, part);
  if (part != WritePart::Status) return;
  // A status that leaves out what only the server knows keeps it.
  json::Value& status = object.as_object()["status"];
  if (!status.is_object()) status = json::Object();
  const std::string_view qos = old.string_at({"status", "qosClass"});
  if (text_at(status, "qosClass").empty() && !qos.empty()) status.as_object().set("qosClass", qos);
}

void PodStrategy::validate_create(const json::Value& object, Causes& causes) const {
  validate_pod_create(object, causes);
}

void PodStrategy::validate_update(const json::Value& object, const json::Value& old, WritePart part,
                                  Causes& causes) const {
  if (part == WritePart::Main) validate_pod_update(object, old, causes);
  if (part == WritePart::Status) validate_pod_status(object, old, causes);
}

std::vector<std::pair<std::string, std::string>> PodStrategy::selectable_fields(const json::Value& object) const {
  std::vector<std::pair<std::string, std::string>> fields;
  fields.reserve(kSelectable.size());
  const json::Value* spec = object.find("spec");
  const json::Value* status = object.find("status");
  for (const std::string_view field : kSelectable) {
    const bool in_spec = field.starts_with("spec.");
    const json::Value* part = in_spec ? spec : status;
    const std::string_view name = field.substr(in_spec ? 5 : 7);
    if (field == "spec.hostNetwork") {
      fields.emplace_back(field, part != nullptr && flag_at(*part, name) ? "true" : "false");
    } else if (const std::string_view value = part != nullptr ? text_at(*part, name) : ""; !value.empty()) {
      fields.emplace_back(field, value);  // an absent field reads as empty anyway
    }
  }
  return fields;
}

bool PodStrategy::is_selectable(std::string_view field) const {
  return std::find(kSelectable.begin(), kSelectable.end(), field) != kSelectable.end();
}

json::Array PodStrategy::table_cells(const json::Value& object, std::span<const PrinterColumn>, api::Time now) const {
  return pod_cells(object, now);
}

std::int64_t PodStrategy::default_grace_seconds(const json::Value& object) const {
  // Nobody would end the grace of a pod that is on no node, or needs it if nothing runs any more.
  if (object.string_at({"spec", "nodeName"}).empty() || is_finished(object.string_at({"status", "phase"}))) return 0;
  const json::Value* seconds = object.find_path({"spec", "terminationGracePeriodSeconds"});
  return seconds != nullptr && seconds->is_int() ? seconds->as_int() : 0;
}

bool PodStrategy::holds_deletion(const json::Value& object) const {
  return int_at(object, {"metadata", "deletionGracePeriodSeconds"}) > 0;
}

std::shared_ptr<const ResourceType> pod_type() {
  ResourceType type = basic_type("", "v1", "pods", "Pod", true);
  type.short_names = {"po"};
  type.categories = {"all"};
  type.has_status = true;
  type.has_generation = true;
  type.other_subresources = {"attach", "binding", "eviction", "exec", "log", "portforward", "proxy"};
  type.returns_deleted_object = true;
  type.graceful_deletion = true;
  type.columns = pod_columns();
  type.strategy = std::make_shared<PodStrategy>();
  return std::make_shared<const ResourceType>(std::move(type));
}

}  // namespace basalt::apiserver
