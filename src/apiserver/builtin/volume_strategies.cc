#include "apiserver/builtin/volume_strategies.h"

#include <algorithm>

#include "api/quantity.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/builtin/pod_defaults.h"
#include "apiserver/builtin/pod_validation.h"
#include "apiserver/builtin/resource_validation.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kAccessModes[] = {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"};
constexpr std::string_view kVolumeModes[] = {"Block", "Filesystem"};
constexpr std::string_view kClassAnnotation = "volume.beta.kubernetes.io/storage-class";
// All that a volume can be made of; exactly one is given.
constexpr std::string_view kSources[] = {"hostPath",
                                         "gcePersistentDisk",
                                         "awsElasticBlockStore",
                                         "glusterfs",
                                         "nfs",
                                         "rbd",
                                         "iscsi",
                                         "cephfs",
                                         "cinder",
                                         "fc",
                                         "flexVolume",
                                         "azureFile",
                                         "vsphereVolume",
                                         "photonPersistentDisk",
                                         "portworxVolume",
                                         "azureDisk",
                                         "scaleIO",
                                         "local",
                                         "storageos",
                                         "csi",
                                         "quobyte",
                                         "flocker"};

void check_access_modes(const json::Array& modes, const FieldPath& path, Causes& causes) {
  bool has_pod_mode = false;
  bool has_other_mode = false;
  for (const json::Value& mode : modes) {
    if (!mode.is_string()) continue;
    const bool is_known =
        std::find(std::begin(kAccessModes), std::end(kAccessModes), mode.as_string()) != std::end(kAccessModes);
    if (!is_known) causes.push_back(not_supported(path.text("accessModes"), shown(mode), kAccessModes));
    has_pod_mode = has_pod_mode || mode.as_string() == "ReadWriteOncePod";
    has_other_mode = has_other_mode || (is_known && mode.as_string() != "ReadWriteOncePod");
  }
  if (has_pod_mode && has_other_mode) {
    causes.push_back(forbidden_field(path.text("accessModes"), "may not use ReadWriteOncePod with other access modes"));
  }
}

void check_volume_mode(const json::Value& spec, const FieldPath& path, Causes& causes) {
  const json::Value* mode = member(spec, "volumeMode");
  if (mode != nullptr && (!mode->is_string() || std::find(std::begin(kVolumeModes), std::end(kVolumeModes),
                                                          mode->as_string()) == std::end(kVolumeModes))) {
    causes.push_back(not_supported(path.text("volumeMode"), shown(*mode), kVolumeModes));
  }
}

void check_class_name(const json::Value& spec, const FieldPath& path, Causes& causes) {
  if (const std::string_view name = text_at(spec, "storageClassName"); !name.empty()) {
    check_dns_subdomain(name, path.child("storageClassName"), causes);
  }
}

const json::Value& spec_of(const json::Value& object) {
  static const json::Value kNothing{json::Object()};
  const json::Value* spec = member(object, "spec");
  return spec != nullptr ? *spec : kNothing;
}

void default_claim(json::Value& claim) {
  json::Value& spec = claim.as_object()["spec"];
  if (spec.is_null()) spec = json::Object();
  default_claim_spec(spec);
  if (json::Object* capacity = mutable_map(claim.as_object()["status"], "capacity")) normalise_quantities(*capacity);
  if (json::Object* status = ensure_map(claim.as_object(), "status")) set_default_text(*status, "phase", "Pending");
}

void prepare_claim(json::Value& claim) { claim.as_object().set("status", json::Object{{"phase", "Pending"}}); }

void validate_claim(const json::Value& claim, Causes& causes) {
  validate_claim_spec(spec_of(claim), FieldPath("spec"), causes);
}

std::optional<api::Quantity> storage_of(const json::Value& object, std::initializer_list<std::string_view> path) {
  const json::Value* value = object.find_path(path);
  if (value == nullptr) return std::nullopt;
  const auto quantity = api::Quantity::parse(value->is_string() ? value->as_string() : value->to_text());
  return quantity.ok() ? std::optional(*quantity) : std::nullopt;
}

void validate_claim_update(const json::Value& claim, const json::Value& old, Causes& causes) {
  json::Value now = spec_of(claim);
  const json::Value& before = spec_of(old);
  if (!now.is_object()) return;
  const auto may_change = [&](std::string_view name) {
    if (const json::Value* value = before.find(name)) {
      now.as_object().set(name, *value);
    } else {
      now.as_object().erase(name);
    }
  };
  if (text_at(before, "volumeName").empty()) may_change("volumeName");
  if (member(before, "storageClassName") == nullptr) may_change("storageClassName");
  if (old.string_at({"status", "phase"}) == "Bound") {
    may_change("volumeAttributesClassName");
    const json::Value* size = before.find_path({"resources", "requests", "storage"});
    if (size != nullptr && now.find_path({"resources", "requests"}) != nullptr) {
      now.ensure_path({"resources", "requests", "storage"}) = *size;
    }
  }
  if (now != before) {
    causes.push_back(forbidden_field("spec",
                                     "spec is immutable after creation except resources.requests and "
                                     "volumeAttributesClassName for bound claims"));
  }
  const auto size = storage_of(claim, {"spec", "resources", "requests", "storage"});
  const auto old_size = storage_of(old, {"spec", "resources", "requests", "storage"});
  const auto capacity = storage_of(old, {"status", "capacity", "storage"}).value_or(api::Quantity());
  if (size && old_size && *size < *old_size && *size <= capacity) {
    causes.push_back(forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity"));
  }
  if (differs(claim, old, {"spec", "volumeMode"})) {
    causes.push_back(immutable_field("volumeMode", claim.find_path({"spec", "volumeMode"})));
  }
}

std::string access_modes_cell(const json::Array& modes) {
  constexpr std::pair<std::string_view, std::string_view> kShort[] = {
      {"ReadWriteOnce", "RWO"}, {"ReadOnlyMany", "ROX"}, {"ReadWriteMany", "RWX"}, {"ReadWriteOncePod", "RWOP"}};
  std::string text;
  for (const auto& [mode, letters] : kShort) {
    if (std::find(modes.begin(), modes.end(), json::Value(mode)) == modes.end()) continue;
    text += (text.empty() ? "" : ",") + std::string(letters);
  }
  return text;
}

std::string class_cell(const json::Value& object) {
  const std::string_view name = object.string_at({"spec", "storageClassName"});
  return std::string(name.empty() ? object.string_at({"metadata", "annotations", kClassAnnotation}) : name);
}

std::string unset_if_empty(std::string_view text) { return text.empty() ? "<unset>" : std::string(text); }

json::Array claim_cells(const json::Value& claim, api::Time now) {
  const std::string_view volume = claim.string_at({"spec", "volumeName"});
  std::string phase(claim.string_at({"status", "phase"}));
  if (is_being_deleted(claim)) phase = "Terminating";
  return {metadata_text(claim, "name"),
          phase,
          volume,
          volume.empty() ? "" : claim.string_at({"status", "capacity", "storage"}),
          volume.empty() ? "" : access_modes_cell(list_at(claim, {"status", "accessModes"})),
          class_cell(claim),
          unset_if_empty(claim.string_at({"spec", "volumeAttributesClassName"})),
          age_of(claim, now),
          unset_if_empty(claim.string_at({"spec", "volumeMode"}))};
}

void default_volume(json::Value& volume) {
  json::Object& members = volume.as_object();
  if (json::Object* status = ensure_map(members, "status")) set_default_text(*status, "phase", "Pending");
  json::Object* spec = ensure_map(members, "spec");
  if (spec == nullptr) return;
  set_default_text(*spec, "persistentVolumeReclaimPolicy", "Retain");
  set_default(*spec, "volumeMode", "Filesystem");
  if (json::Object* capacity = mutable_map(members["spec"], "capacity")) normalise_quantities(*capacity);
  if (json::Object* host = mutable_map(members["spec"], "hostPath")) set_default(*host, "type", "");
}

void prepare_volume(json::Value& volume) {
  volume.as_object().set("status", json::Object{{"lastPhaseTransitionTime", metadata_text(volume, "creationTimestamp")},
                                                {"phase", "Pending"}});
}

void validate_volume(const json::Value& volume, Causes& causes) {
  const json::Value& spec = spec_of(volume);
  const FieldPath path("spec");
  const json::Array& modes = list_at(spec, "accessModes");
  if (modes.empty()) causes.push_back(required("spec.accessModes"));
  check_access_modes(modes, path, causes);
  const json::Object& capacity = map_at(spec, "capacity");
  const FieldPath capacity_path = path.child("capacity");
  if (capacity.empty()) causes.push_back(required("spec.capacity"));
  if (!capacity.contains("storage") || capacity.size() > 1) {
    constexpr std::string_view kOnly[] = {"storage"};
    causes.push_back(not_supported("spec.capacity", shown(json::Value(capacity)), kOnly));
  }
  for (const json::Member& one : capacity) {
    const auto amount = check_quantity(one.key, one.value, capacity_path.key(one.key), causes);
    if (amount && amount->is_zero()) {
      causes.push_back(invalid_value(capacity_path.key(one.key).text(), "\"0\"", "must be greater than zero"));
    }
  }
  constexpr std::string_view kPolicies[] = {"Delete", "Recycle", "Retain"};
  check_one_of(text_at(spec, "persistentVolumeReclaimPolicy"), path.child("persistentVolumeReclaimPolicy"), kPolicies,
               causes);
  std::size_t sources = 0;
  for (const std::string_view source : kSources) {
    if (member(spec, source) == nullptr) continue;
    if (++sources > 1) causes.push_back(forbidden_field(path.text(source), "may not specify more than 1 volume type"));
  }
  if (sources == 0) causes.push_back(required("spec", "must specify a volume type"));
  if (const json::Value* affinity = spec.find_path({"nodeAffinity", "required"}); affinity != nullptr) {
    const FieldPath affinity_path("spec.nodeAffinity");
    validate_node_selector(*affinity, affinity_path.child("required"), causes);
  } else if (member(spec, "local") != nullptr) {
    causes.push_back(required("spec.nodeAffinity", "Local volume requires node affinity"));
  }
  check_class_name(spec, path, causes);
  check_volume_mode(spec, path, causes);
}

void validate_volume_update(const json::Value& volume, const json::Value& old, Causes& causes) {
  for (const std::string_view source : kSources) {
    if (!differs(volume, old, {"spec", source})) continue;
    causes.push_back(
        forbidden_field("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"));
    break;
  }
  if (differs(volume, old, {"spec", "volumeMode"})) {
    causes.push_back(immutable_field("volumeMode", volume.find_path({"spec", "volumeMode"})));
  }
}

json::Array volume_cells(const json::Value& volume, api::Time now) {
  std::string claim;
  if (const json::Value* reference = volume.find_path({"spec", "claimRef"}); reference != nullptr) {
    claim.append(text_at(*reference, "namespace")).append("/").append(text_at(*reference, "name"));
  }
  std::string phase(volume.string_at({"status", "phase"}));
  if (is_being_deleted(volume)) phase = "Terminating";
  return {metadata_text(volume, "name"),
          volume.string_at({"spec", "capacity", "storage"}),
          access_modes_cell(list_at(volume, {"spec", "accessModes"})),
          volume.string_at({"spec", "persistentVolumeReclaimPolicy"}),
          phase,
          claim,
          class_cell(volume),
          unset_if_empty(volume.string_at({"spec", "volumeAttributesClassName"})),
          volume.string_at({"status", "reason"}),
          age_of(volume, now),
          unset_if_empty(volume.string_at({"spec", "volumeMode"}))};
}

void default_class(json::Value& object) {
  set_default_text(object.as_object(), "reclaimPolicy", "Delete");
  set_default_text(object.as_object(), "volumeBindingMode", "Immediate");
}

void validate_class(const json::Value& object, Causes& causes) {
  if (const std::string_view provisioner = text_at(object, "provisioner"); provisioner.empty()) {
    causes.push_back(required("provisioner"));
  } else {
    check_qualified_name(base::to_lower_ascii(provisioner), FieldPath("provisioner"), causes);
  }
  constexpr std::string_view kPolicies[] = {"Delete", "Retain"};
  check_one_of(text_at(object, "reclaimPolicy"), FieldPath("reclaimPolicy"), kPolicies, causes);
  constexpr std::string_view kBinding[] = {"Immediate", "WaitForFirstConsumer"};
  check_one_of(text_at(object, "volumeBindingMode"), FieldPath("volumeBindingMode"), kBinding, causes);
}

void validate_class_update(const json::Value& object, const json::Value& old, Causes& causes) {
  if (differs(object, old, {"parameters"})) {
    causes.push_back(forbidden_field("parameters", "updates to parameters are forbidden."));
  }
  if (differs(object, old, {"provisioner"})) {
    causes.push_back(forbidden_field("provisioner", "updates to provisioner are forbidden."));
  }
  if (differs(object, old, {"reclaimPolicy"})) {
    causes.push_back(forbidden_field("reclaimPolicy", "updates to reclaimPolicy are forbidden."));
  }
  check_immutable(object, old, {"volumeBindingMode"}, causes);
}

json::Array class_cells(const json::Value& object, api::Time now) {
  std::string name(metadata_text(object, "name"));
  for (const std::string_view key :
       {"storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"}) {
    if (object.string_at({"metadata", "annotations", key}) != "true") continue;
    name += " (default)";
    break;
  }
  return {name,
          text_at(object, "provisioner"),
          text_at(object, "reclaimPolicy"),
          text_at(object, "volumeBindingMode"),
          flag_at(object, "allowVolumeExpansion"),
          age_of(object, now)};
}

}  // namespace

void validate_claim_spec(const json::Value& spec, const FieldPath& path, Causes& causes) {
  const json::Array& modes = list_at(spec, "accessModes");
  if (modes.empty()) causes.push_back(required(path.text("accessModes"), "at least 1 access mode is required"));
  if (const json::Value* selector = member(spec, "selector")) {
    check_label_selector(*selector, path.child("selector"), causes);
  }
  check_access_modes(modes, path, causes);
  const FieldPath resources = path.child("resources");
  const json::Value* storage = spec.find_path({"resources", "requests", "storage"});
  if (storage == nullptr) {
    causes.push_back(required(resources.key("storage").text()));
  } else if (const auto amount = check_quantity("storage", *storage, resources.key("storage"), causes);
             amount && amount->is_zero()) {
    causes.push_back(invalid_value(resources.key("storage").text(), "\"0\"", "must be greater than zero"));
  }
  check_class_name(spec, path, causes);
  check_volume_mode(spec, path, causes);
}

TypeList volume_types() {
  KindRules claim_rules;
  claim_rules.has_status = true;
  claim_rules.defaults = default_claim;
  claim_rules.prepare_create = prepare_claim;
  claim_rules.validate = validate_claim;
  claim_rules.validate_update = validate_claim_update;
  claim_rules.cells = claim_cells;
  ResourceType claims = basic_type("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true);
  claims.short_names = {"pvc"};
  claims.has_status = true;
  claims.strategy = make_strategy(std::move(claim_rules));
  claims.columns = {name_column(),
                    column("Status", "string", "Pending, Bound or Lost."),
                    column("Volume", "string", "The volume that the claim is bound to."),
                    column("Capacity", "string", "The size of that volume."),
                    column("Access Modes", "string", "How the volume may be mounted."),
                    column("StorageClass", "string", "The class that was asked for."),
                    column("VolumeAttributesClass", "string", "The attributes that were asked for."),
                    age_column(),
                    column("VolumeMode", "string", "A file system or a block device.", 1)};

  KindRules volume_rules;
  volume_rules.has_status = true;
  volume_rules.defaults = default_volume;
  volume_rules.prepare_create = prepare_volume;
  volume_rules.validate = validate_volume;
  volume_rules.validate_update = validate_volume_update;
  volume_rules.cells = volume_cells;
  ResourceType volumes = basic_type("", "v1", "persistentvolumes", "PersistentVolume", false);
  volumes.short_names = {"pv"};
  volumes.has_status = true;
  volumes.strategy = make_strategy(std::move(volume_rules));
  volumes.columns = {name_column(),
                     column("Capacity", "string", "The size."),
                     column("Access Modes", "string", "How the volume may be mounted."),
                     column("Reclaim Policy", "string", "What happens when its claim goes."),
                     column("Status", "string", "Pending, Available, Bound, Released or Failed."),
                     column("Claim", "string", "The claim that it is bound to."),
                     column("StorageClass", "string", "The class that it belongs to."),
                     column("VolumeAttributesClass", "string", "The attributes that it has."),
                     column("Reason", "string", "Why it failed."),
                     age_column(),
                     column("VolumeMode", "string", "A file system or a block device.", 1)};
  return {std::make_shared<const ResourceType>(std::move(claims)),
          std::make_shared<const ResourceType>(std::move(volumes))};
}

std::shared_ptr<const ResourceType> storage_class_type() {
  KindRules rules;
  rules.defaults = default_class;
  rules.validate = validate_class;
  rules.validate_update = validate_class_update;
  rules.cells = class_cells;
  ResourceType type = basic_type("storage.k8s.io", "v1", "storageclasses", "StorageClass", false);
  type.short_names = {"sc"};
  type.strategy = make_strategy(std::move(rules));
  type.columns = {name_column(),
                  column("Provisioner", "string", "Who makes volumes of this class."),
                  column("ReclaimPolicy", "string", "What happens to a volume when its claim goes."),
                  column("VolumeBindingMode", "string", "When a claim is bound."),
                  column("AllowVolumeExpansion", "string", "Whether claims may grow."),
                  age_column()};
  return std::make_shared<const ResourceType>(std::move(type));
}

}  // namespace basalt::apiserver
