// Volumes of pods, and what they may show of the pod itself.

#include <algorithm>

#include "api/names.h"
#include "api/quantity.h"
#include "apiserver/builtin/pod_validation.h"
#include "apiserver/builtin/volume_strategies.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::int64_t kFileModeMax = 0777;
constexpr std::string_view kFileModeRule = "must be a number between 0 and 0777 (octal), both inclusive";
constexpr std::string_view kVolumeFields[] = {"metadata.annotations", "metadata.labels", "metadata.name",
                                              "metadata.namespace", "metadata.uid"};

// Every kind of source; a volume has exactly one. In the order of Kubernetes' checks, which decides whom the second one
// is blamed on.
constexpr std::string_view kSources[] = {
    "emptyDir",  "hostPath",   "gitRepo",   "gcePersistentDisk", "awsElasticBlockStore",
    "secret",    "nfs",        "iscsi",     "glusterfs",         "persistentVolumeClaim",
    "rbd",       "cinder",     "cephfs",    "flocker",           "downwardAPI",
    "fc",        "flexVolume", "configMap", "azureFile",         "vsphereVolume",
    "quobyte",   "azureDisk",  "storageos", "portworxVolume",    "photonPersistentDisk",
    "projected", "scaleIO",    "csi",       "ephemeral",         "image"};

void check_mode(const json::Value& holder, std::string_view name, const FieldPath& path, Causes& causes) {
  const auto mode = int_at(holder, name);
  if (mode && (*mode < 0 || *mode > kFileModeMax)) {
    causes.push_back(invalid_value(path.text(name), std::to_string(*mode), kFileModeRule));
  }
}

void check_required_text(const json::Value& holder, std::string_view name, const FieldPath& path, Causes& causes) {
  if (text_at(holder, name).empty()) causes.push_back(required(path.text(name)));
}

// A path below the volume that does not climb out of it, nor hides as "..data".
void check_file_path(std::string_view value, const FieldPath& path, Causes& causes) {
  check_relative_path(value, path, causes);
  if (value.starts_with("..") && !value.starts_with("../")) {
    causes.push_back(invalid_value(path.text(), base::quote(value), "must not start with '..'"));
  }
}

void check_items(const json::Value& source, const FieldPath& path, Causes& causes) {
  const FieldPath items_path = path.child("items");
  const json::Array& items = list_at(source, "items");
  for (std::size_t i = 0; i < items.size(); ++i) {
    const FieldPath at = items_path.index(i);
    check_required_text(items[i], "key", at, causes);
    check_required_text(items[i], "path", at, causes);
    check_file_path(text_at(items[i], "path"), at.child("path"), causes);
    check_mode(items[i], "mode", at, causes);
  }
}

void check_downward_items(const json::Value& source, const FieldPath& path, Causes& causes) {
  for (const json::Value& item : list_at(source, "items")) {
    check_required_text(item, "path", path, causes);
    check_file_path(text_at(item, "path"), path.child("path"), causes);
    const json::Value* field = member(item, "fieldRef");
    const json::Value* resource = member(item, "resourceFieldRef");
    if (field != nullptr) {
      check_field_ref(*field, kVolumeFields, path.child("fieldRef"), causes);
      if (resource != nullptr) {
        causes.push_back(invalid_value(path.text(), "\"resource\"",
                                       "fieldRef and resourceFieldRef can not be specified simultaneously"));
      }
    } else if (resource != nullptr) {
      check_resource_field_ref(*resource, true, path.child("resourceFieldRef"), causes);
    } else {
      causes.push_back(required(path.text(), "one of fieldRef and resourceFieldRef is required"));
    }
    check_mode(item, "mode", path, causes);
  }
}

void check_token(const json::Value& token, const FieldPath& projected, const FieldPath& path, Causes& causes) {
  constexpr std::int64_t kSecondsMin = 600;
  constexpr std::int64_t kSecondsMax = std::int64_t{1} << 32;
  const std::int64_t seconds = int_at(token, "expirationSeconds").value_or(kSecondsMin);
  if (seconds < kSecondsMin) {
    causes.push_back(invalid_value(path.text("expirationSeconds"), std::to_string(seconds),
                                   "may not specify a duration less than 10 minutes"));
  }
  if (seconds > kSecondsMax) {
    causes.push_back(invalid_value(path.text("expirationSeconds"), std::to_string(seconds),
                                   "may not specify a duration larger than 2^32 seconds"));
  }
  check_required_text(token, "path", projected, causes);
  check_file_path(text_at(token, "path"), projected.child("path"), causes);
}

void check_projected(const json::Value& projected, const FieldPath& path, Causes& causes) {
  check_mode(projected, "defaultMode", path, causes);
  const FieldPath sources_path = path.child("sources");
  const json::Array& sources = list_at(projected, "sources");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const FieldPath at = sources_path.index(i);
    std::size_t count = 0;
    for (const std::string_view name : {"secret", "configMap"}) {
      const json::Value* source = member(sources[i], name);
      if (source == nullptr) continue;
      ++count;
      const FieldPath source_path = at.child(name);
      check_required_text(*source, "name", source_path, causes);
      check_items(*source, source_path, causes);
    }
    if (const json::Value* downward = member(sources[i], "downwardAPI")) {
      ++count;
      check_downward_items(*downward, at.child("downwardAPI"), causes);
    }
    if (const json::Value* token = member(sources[i], "serviceAccountToken")) {
      ++count;
      check_token(*token, path, at.child("serviceAccountToken"), causes);
    }
    for (const std::string_view name : {"clusterTrustBundle", "podCertificate"}) {
      if (member(sources[i], name) != nullptr) ++count;
    }
    if (count > 1) causes.push_back(forbidden_field(at.text(), "may not specify more than 1 volume type per source"));
  }
}

void check_host_path(const json::Value& host, const FieldPath& path, Causes& causes) {
  constexpr std::string_view kTypes[] = {"",     "BlockDevice",  "CharDevice", "Directory", "DirectoryOrCreate",
                                         "File", "FileOrCreate", "Socket"};
  if (text_at(host, "path").empty()) {
    causes.push_back(required(path.text("path")));
    return;
  }
  check_no_backsteps(text_at(host, "path"), path.child("path"), causes);
  const std::string_view type = text_at(host, "type");
  if (std::find(std::begin(kTypes), std::end(kTypes), type) == std::end(kTypes)) {
    causes.push_back(not_supported(path.text("type"), base::quote(type), kTypes));
  }
}

void check_nfs(const json::Value& nfs, const FieldPath& path, Causes& causes) {
  check_required_text(nfs, "server", path, causes);
  const std::string_view folder = text_at(nfs, "path");
  if (folder.empty()) {
    causes.push_back(required(path.text("path")));
  } else if (!folder.starts_with("/")) {
    causes.push_back(invalid_value(path.text("path"), base::quote(folder), "must be an absolute path"));
  }
}

void check_empty_dir(const json::Value& folder, const FieldPath& path, Causes& causes) {
  const json::Value* limit = member(folder, "sizeLimit");
  if (limit == nullptr) return;
  const auto quantity = api::Quantity::parse(limit->is_string() ? limit->as_string() : limit->to_text());
  if (quantity.ok() && quantity->sign() >= 0) return;
  causes.push_back(forbidden_field(path.text("sizeLimit"), "SizeLimit field must be a valid resource quantity"));
}

void check_ephemeral(const json::Value& volume, const json::Value& source, std::string_view pod_name,
                     const FieldPath& volume_path, Causes& causes) {
  const FieldPath path = volume_path.child("ephemeral");
  const json::Value* claim = member(source, "volumeClaimTemplate");
  if (claim == nullptr) {
    causes.push_back(required(path.text("volumeClaimTemplate")));
    return;
  }
  const FieldPath claim_path = path.child("volumeClaimTemplate");
  static const json::Value kNothing{json::Object()};
  const json::Value* spec = member(*claim, "spec");
  validate_claim_spec(spec != nullptr ? *spec : kNothing, claim_path.child("spec"), causes);
  const std::string_view name = text_at(volume, "name");
  if (pod_name.empty() || name.empty()) return;
  const std::string claim_name = std::string(pod_name) + "-" + std::string(name);
  for (const std::string& complaint : api::dns1123_subdomain_complaints(claim_name)) {
    causes.push_back(invalid_value(volume_path.text("name"), base::quote(name),
                                   "PVC name " + base::quote(claim_name) + ": " + complaint));
  }
}

void check_source(const json::Value& volume, std::string_view kind, std::string_view pod_name, const FieldPath& path,
                  Causes& causes) {
  const json::Value& source = *volume.find(kind);
  const FieldPath at = path.child(kind);
  if (kind == "emptyDir") {
    check_empty_dir(source, at, causes);
  } else if (kind == "hostPath") {
    check_host_path(source, at, causes);
  } else if (kind == "secret" || kind == "configMap") {
    check_required_text(source, kind == "secret" ? "secretName" : "name", at, causes);
    check_mode(source, "defaultMode", at, causes);
    check_items(source, at, causes);
  } else if (kind == "nfs") {
    check_nfs(source, at, causes);
  } else if (kind == "persistentVolumeClaim") {
    check_required_text(source, "claimName", at, causes);
  } else if (kind == "downwardAPI") {
    check_mode(source, "defaultMode", at, causes);
    check_downward_items(source, at, causes);
  } else if (kind == "projected") {
    check_projected(source, at, causes);
  } else if (kind == "csi") {
    check_required_text(source, "driver", at, causes);
  } else if (kind == "ephemeral") {
    check_ephemeral(volume, source, pod_name, path, causes);
  }
}

bool is_source(std::string_view name) {
  return std::find(std::begin(kSources), std::end(kSources), name) != std::end(kSources);
}

void check_volume_source(const json::Value& volume, std::string_view pod_name, const FieldPath& path, Causes& causes) {
  // Nearly all have a name and one source: look at what is there before asking for all that could be.
  std::size_t count = 0;
  std::string_view only;
  if (volume.is_object()) {
    for (const json::Member& one : volume.as_object()) {
      if (one.value.is_null() || !is_source(one.key)) continue;
      ++count;
      only = one.key;
    }
  }
  if (count == 0) causes.push_back(required(path.text(), "must specify a volume type"));
  if (count == 1) check_source(volume, only, pod_name, path, causes);
  if (count < 2) return;
  bool is_first = true;
  for (const std::string_view kind : kSources) {
    if (member(volume, kind) == nullptr) continue;
    if (is_first) {
      check_source(volume, kind, pod_name, path, causes);
    } else {
      causes.push_back(forbidden_field(path.text(kind), "may not specify more than 1 volume type"));
    }
    is_first = false;
  }
}

}  // namespace

void check_no_backsteps(std::string_view value, const FieldPath& path, Causes& causes) {
  if (value.find("..") == std::string_view::npos) return;
  for (const std::string_view part : base::split(value, '/')) {
    if (part != "..") continue;
    causes.push_back(invalid_value(path.text(), base::quote(value), "must not contain '..'"));
    return;
  }
}

void check_relative_path(std::string_view value, const FieldPath& path, Causes& causes) {
  if (value.starts_with("/")) {
    causes.push_back(invalid_value(path.text(), base::quote(value), "must be a relative path"));
  }
  check_no_backsteps(value, path, causes);
}

void check_field_ref(const json::Value& reference, std::span<const std::string_view> allowed, const FieldPath& path,
                     Causes& causes) {
  const std::string_view version = text_at(reference, "apiVersion");
  const std::string_view field = text_at(reference, "fieldPath");
  if (version.empty()) {
    causes.push_back(required(path.text("apiVersion")));
    return;
  }
  if (field.empty()) {
    causes.push_back(required(path.text("fieldPath")));
    return;
  }
  if (version != "v1") {
    causes.push_back(invalid_value(path.text("fieldPath"), base::quote(field),
                                   "error converting fieldPath: unsupported pod version: " + std::string(version)));
    return;
  }
  if (std::find(allowed.begin(), allowed.end(), field) != allowed.end()) return;
  const std::size_t bracket = field.find("['");
  if (bracket != std::string_view::npos && field.ends_with("']")) {
    const std::string_view base_path = field.substr(0, bracket);
    const std::string_view key = field.substr(bracket + 2, field.size() - bracket - 4);
    if (base_path == "metadata.annotations") return check_qualified_name(base::to_lower_ascii(key), path, causes);
    if (base_path == "metadata.labels") return check_qualified_name(key, path, causes);
  }
  // A field that pods have, but not for this use, or none at all: the words differ.
  constexpr std::string_view kKnown[] = {
      "metadata.annotations", "metadata.labels", "metadata.name",      "metadata.namespace",
      "metadata.uid",         "spec.nodeName",   "spec.restartPolicy", "spec.serviceAccountName",
      "spec.schedulerName",   "status.phase",    "status.hostIP",      "status.hostIPs",
      "status.podIP",         "status.podIPs"};
  if (std::find(std::begin(kKnown), std::end(kKnown), field) != std::end(kKnown)) {
    causes.push_back(not_supported(path.text("fieldPath"), base::quote(field), allowed));
  } else {
    causes.push_back(invalid_value(path.text("fieldPath"), base::quote(field),
                                   "error converting fieldPath: field label not supported: " + std::string(field)));
  }
}

void check_resource_field_ref(const json::Value& reference, bool in_volume, const FieldPath& path, Causes& causes) {
  constexpr std::string_view kAllowed[] = {"limits.cpu",   "limits.ephemeral-storage",   "limits.memory",
                                           "requests.cpu", "requests.ephemeral-storage", "requests.memory"};
  const std::string_view resource = text_at(reference, "resource");
  if (in_volume && text_at(reference, "containerName").empty()) {
    causes.push_back(required(path.text("containerName")));
  } else if (resource.empty()) {
    causes.push_back(required(path.text("resource")));
  } else if (std::find(std::begin(kAllowed), std::end(kAllowed), resource) == std::end(kAllowed) &&
             !resource.starts_with("limits.hugepages-") && !resource.starts_with("requests.hugepages-")) {
    causes.push_back(not_supported(path.text("resource"), base::quote(resource), kAllowed));
  }
  const std::string_view divisor = text_at(reference, "divisor");
  if (resource.ends_with(".cpu") && !divisor.empty() && divisor != "0" && divisor != "1" && divisor != "1m") {
    causes.push_back(invalid_value(path.text("divisor"), base::quote(resource),
                                   "only divisor's values 1m and 1 are supported with the cpu resource"));
  }
}

void validate_volumes(const json::Array& volumes, std::string_view pod_name, const FieldPath& path, PodParts& parts,
                      Causes& causes) {
  for (std::size_t i = 0; i < volumes.size(); ++i) {
    const FieldPath at = path.index(i);
    const std::size_t before = causes.size();
    const std::string_view name = text_at(volumes[i], "name");
    check_volume_source(volumes[i], pod_name, at, causes);
    if (name.empty()) {
      causes.push_back(required(at.text("name")));
    } else {
      check_dns_label(name, at.child("name"), causes);
    }
    if (std::find(parts.volumes.begin(), parts.volumes.end(), name) != parts.volumes.end()) {
      causes.push_back(duplicate_value(at.text("name"), base::quote(name)));
    }
    if (causes.size() != before) continue;
    parts.volumes.push_back(name);
    parts.volume_sources.push_back(&volumes[i]);
  }
}

}  // namespace basalt::apiserver
