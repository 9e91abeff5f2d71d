#include "webhooks/template_check.h"

#include <algorithm>
#include <set>

#include "api/names.h"
#include "base/strings.h"

namespace basalt::webhooks {
namespace {

constexpr std::string_view kRequiredTerms = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr std::string_view kPreferredTerms = "preferredDuringSchedulingIgnoredDuringExecution";

constexpr std::string_view kVolumeSources[] = {
    "emptyDir",  "hostPath",   "gitRepo",   "gcePersistentDisk", "awsElasticBlockStore",
    "secret",    "nfs",        "iscsi",     "glusterfs",         "persistentVolumeClaim",
    "rbd",       "cinder",     "cephfs",    "flocker",           "downwardAPI",
    "fc",        "flexVolume", "configMap", "azureFile",         "vsphereVolume",
    "quobyte",   "azureDisk",  "storageos", "portworxVolume",    "photonPersistentDisk",
    "projected", "scaleIO",    "csi",       "ephemeral",         "image"};

bool is_too_long(const json::Array& list, const Path& path, Problems& problems) {
  if (list.size() <= kTemplateListMax) return false;
  problems.too_many(path.text(), list.size(), kTemplateListMax);
  return true;
}

void check_labels(const json::Object& labels, const Path& path, Problems& problems) {
  for (const auto& [key, value] : labels) {
    if (!api::is_qualified_name(key)) problems.invalid(path.text(), key, api::qualified_name_complaints(key));
    if (value.is_string() && !api::is_label_value(value.as_string())) {
      problems.invalid(path.text(), value.as_string(), api::label_value_complaints(value.as_string()));
    }
  }
}

void check_metadata(const json::Value& pod_template, const Path& path, Problems& problems) {
  const json::Value* metadata = member(pod_template, "metadata");
  if (metadata == nullptr) return;
  const Path at = path.child("metadata");
  check_labels(map_at(*metadata, "labels"), at.child("labels"), problems);
  std::size_t bytes = 0;
  for (const auto& [key, value] : map_at(*metadata, "annotations")) {
    // Annotations may be written with upper case letters in their prefix.
    const std::string lower = base::to_lower_ascii(key);
    if (!api::is_qualified_name(lower)) {
      problems.invalid(at.text("annotations"), key, api::qualified_name_complaints(lower));
    }
    bytes += key.size() + (value.is_string() ? value.as_string().size() : 0);
  }
  if (bytes > api::kAnnotationsBytesMax) {
    problems.add(at.text("annotations"), "Too long: may not be more than 262144 bytes", "FieldValueTooLong");
  }
}

void check_required_text(const json::Value& holder, std::string_view name, const Path& path, Problems& problems) {
  if (text_at(holder, name).empty()) problems.required(path.text(name));
}

void check_volume_source(const json::Value& source, std::string_view kind, const Path& path, Problems& problems) {
  if (kind == "hostPath") {
    check_required_text(source, "path", path, problems);
    const std::string_view way = text_at(source, "path");
    for (const std::string_view part : base::split(way, '/')) {
      if (part == "..") return problems.invalid(path.text("path"), shown(way), "must not contain '..'");
    }
    constexpr std::string_view kTypes[] = {"BlockDevice", "CharDevice",   "Directory", "DirectoryOrCreate",
                                           "File",        "FileOrCreate", "Socket"};
    problems.one_of(path.text("type"), text_at(source, "type"), kTypes);
  } else if (kind == "secret") {
    check_required_text(source, "secretName", path, problems);
  } else if (kind == "configMap") {
    check_required_text(source, "name", path, problems);
  } else if (kind == "persistentVolumeClaim") {
    check_required_text(source, "claimName", path, problems);
  } else if (kind == "nfs") {
    check_required_text(source, "server", path, problems);
    check_required_text(source, "path", path, problems);
  } else if (kind == "csi") {
    check_required_text(source, "driver", path, problems);
  } else if (kind == "ephemeral") {
    if (member(source, "volumeClaimTemplate") == nullptr) problems.required(path.text("volumeClaimTemplate"));
  } else if (kind == "emptyDir") {
    if (const json::Value* limit = member(source, "sizeLimit")) {
      const auto amount = quantity_of(*limit);
      if (!amount.ok()) {
        problems.invalid(path.text("sizeLimit"), shown(*limit), amount.error().message);
      } else if (amount->sign() < 0) {
        problems.forbidden(path.text("sizeLimit"), "SizeLimit field must be a valid resource quantity");
      }
    }
  }
  if (kind == "secret" || kind == "configMap") {
    const auto mode = int_at(source, "defaultMode");
    if (mode && (*mode < 0 || *mode > 0777)) {
      problems.invalid(path.text("defaultMode"), std::to_string(*mode),
                       "must be a number between 0 and 0777 (octal), both inclusive");
    }
    const json::Array& items = list_at(source, "items");
    const Path items_path = path.child("items");
    for (std::size_t i = 0; i < items.size() && !problems.is_full(); ++i) {
      const Path at = items_path.index(i);
      check_required_text(items[i], "key", at, problems);
      check_required_text(items[i], "path", at, problems);
    }
  }
}

void check_volumes(const json::Value& spec, const Path& spec_path, PodParts& parts, Problems& problems) {
  const Path path = spec_path.child("volumes");
  const json::Array& volumes = list_at(spec, "volumes");
  if (is_too_long(volumes, path, problems)) return;
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < volumes.size() && !problems.is_full(); ++i) {
    const Path at = path.index(i);
    const std::string_view name = text_at(volumes[i], "name");
    if (name.empty()) {
      problems.required(at.text("name"));
    } else if (!api::is_dns1123_label(name)) {
      problems.invalid(at.text("name"), name, api::dns1123_label_complaints(name));
    } else if (!seen.insert(name).second) {
      problems.duplicate(at.text("name"), name);
    }
    parts.volumes.push_back(name);
    int sources = 0;
    for (const std::string_view kind : kVolumeSources) {
      const json::Value* source = member(volumes[i], kind);
      if (source == nullptr) continue;
      if (++sources > 1) {
        problems.forbidden(at.text(kind), "may not specify more than 1 volume type");
        break;
      }
      check_volume_source(*source, kind, at.child(kind), problems);
    }
    // Without a source the volume is an empty directory. A misspelt source is worth a word.
    if (sources == 0 && volumes[i].is_object()) {
      for (const auto& [key, value] : volumes[i].as_object()) {
        if (key == "name") continue;
        if (const std::string hint = base::did_you_mean(key, kVolumeSources); !hint.empty()) {
          problems.required(at.text(), "must specify a volume type: " + shown(key) + " is none" + hint);
        }
      }
    }
  }
}

void check_tolerations(const json::Value& spec, const Path& spec_path, Problems& problems) {
  constexpr std::string_view kOperators[] = {"Equal", "Exists"};
  constexpr std::string_view kEffects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute"};
  const Path path = spec_path.child("tolerations");
  const json::Array& tolerations = list_at(spec, "tolerations");
  if (is_too_long(tolerations, path, problems)) return;
  for (std::size_t i = 0; i < tolerations.size() && !problems.is_full(); ++i) {
    const Path at = path.index(i);
    const std::string_view key = text_at(tolerations[i], "key");
    const std::string_view op = text_at(tolerations[i], "operator");
    const std::string_view value = text_at(tolerations[i], "value");
    const std::string_view effect = text_at(tolerations[i], "effect");
    if (!key.empty() && !api::is_qualified_name(key)) {
      problems.invalid(at.text("key"), key, api::qualified_name_complaints(key));
    }
    if (key.empty() && op != "Exists") {
      problems.invalid(at.text("operator"), shown(op),
                       "operator must be Exists when `key` is empty, which means \"match all values and all keys\"");
    }
    problems.one_of(at.text("operator"), op, kOperators);
    if (op == "Exists" && !value.empty()) {
      problems.invalid(at.text("operator"), shown(value), "value must be empty when `operator` is 'Exists'");
    } else if (!api::is_label_value(value)) {
      problems.invalid(at.text("operator"), value, api::label_value_complaints(value));
    }
    problems.one_of(at.text("effect"), effect, kEffects);
    if (member(tolerations[i], "tolerationSeconds") != nullptr && effect != "NoExecute") {
      problems.invalid(at.text("effect"), shown(effect), "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
  }
}

void check_node_terms(const json::Array& terms, const Path& path, Problems& problems) {
  for (std::size_t i = 0; i < terms.size() && !problems.is_full(); ++i) {
    const Path at = path.index(i);
    const Path expressions_path = at.child("matchExpressions");
    const json::Array& expressions = list_at(terms[i], "matchExpressions");
    for (std::size_t j = 0; j < expressions.size() && !problems.is_full(); ++j) {
      const Path place = expressions_path.index(j);
      const std::string_view op = text_at(expressions[j], "operator");
      const std::size_t values = list_at(expressions[j], "values").size();
      if (op == "In" || op == "NotIn") {
        if (values == 0) {
          problems.required(place.text("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
      } else if (op == "Exists" || op == "DoesNotExist") {
        if (values != 0) {
          problems.forbidden(place.text("values"),
                             "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
      } else if (op == "Gt" || op == "Lt") {
        if (values != 1) {
          problems.required(place.text("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
      } else {
        constexpr std::string_view kOperators[] = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"};
        problems.invalid(place.text("operator"), shown(op),
                         "not a valid selector operator" + base::did_you_mean(op, kOperators));
      }
      const std::string_view key = text_at(expressions[j], "key");
      if (!api::is_qualified_name(key)) {
        problems.invalid(place.text("key"), key, api::qualified_name_complaints(key));
      }
    }
  }
}

void check_weight(const json::Value& term, const Path& path, Problems& problems) {
  const std::int64_t weight = int_at(term, "weight").value_or(0);
  if (weight < 1 || weight > 100) {
    problems.invalid(path.text("weight"), std::to_string(weight), "must be in the range 1-100");
  }
}

void check_pod_term(const json::Value& term, const Path& path, Problems& problems) {
  if (text_at(term, "topologyKey").empty()) problems.required(path.text("topologyKey"), "can not be empty");
}

void check_affinity(const json::Value& spec, const Path& spec_path, Problems& problems) {
  const json::Value* affinity = member(spec, "affinity");
  if (affinity == nullptr) return;
  const Path path = spec_path.child("affinity");
  if (const json::Value* node = member(*affinity, "nodeAffinity")) {
    const Path node_path = path.child("nodeAffinity");
    if (const json::Value* required = member(*node, kRequiredTerms)) {
      const Path at = node_path.child(kRequiredTerms);
      const json::Array& terms = list_at(*required, "nodeSelectorTerms");
      if (terms.empty()) {
        problems.required(at.text("nodeSelectorTerms"), "must have at least one node selector term");
      }
      check_node_terms(terms, at.child("nodeSelectorTerms"), problems);
    }
    const Path at = node_path.child(kPreferredTerms);
    const json::Array& preferred = list_at(*node, kPreferredTerms);
    for (std::size_t i = 0; i < preferred.size() && !problems.is_full(); ++i) {
      check_weight(preferred[i], at.index(i), problems);
    }
  }
  for (const std::string_view kind : {"podAffinity", "podAntiAffinity"}) {
    const json::Value* pods = member(*affinity, kind);
    if (pods == nullptr) continue;
    const Path pods_path = path.child(kind);
    const Path required_path = pods_path.child(kRequiredTerms);
    const json::Array& required = list_at(*pods, kRequiredTerms);
    for (std::size_t i = 0; i < required.size() && !problems.is_full(); ++i) {
      check_pod_term(required[i], required_path.index(i), problems);
    }
    const Path preferred_path = pods_path.child(kPreferredTerms);
    const json::Array& preferred = list_at(*pods, kPreferredTerms);
    static const json::Value kNothing{json::Object()};
    for (std::size_t i = 0; i < preferred.size() && !problems.is_full(); ++i) {
      const Path at = preferred_path.index(i);
      check_weight(preferred[i], at, problems);
      const json::Value* term = member(preferred[i], "podAffinityTerm");
      check_pod_term(term == nullptr ? kNothing : *term, at.child("podAffinityTerm"), problems);
    }
  }
}

void check_spread(const json::Value& spec, const Path& spec_path, Problems& problems) {
  constexpr std::string_view kActions[] = {"DoNotSchedule", "ScheduleAnyway"};
  const Path path = spec_path.child("topologySpreadConstraints");
  const json::Array& constraints = list_at(spec, "topologySpreadConstraints");
  for (std::size_t i = 0; i < constraints.size() && !problems.is_full(); ++i) {
    const Path at = path.index(i);
    if (int_at(constraints[i], "maxSkew").value_or(0) <= 0) {
      problems.invalid(at.text("maxSkew"), std::to_string(int_at(constraints[i], "maxSkew").value_or(0)),
                       "must be greater than zero");
    }
    if (text_at(constraints[i], "topologyKey").empty()) problems.required(at.text("topologyKey"), "can not be empty");
    const std::string_view action = text_at(constraints[i], "whenUnsatisfiable");
    if (action.empty()) problems.required(at.text("whenUnsatisfiable"));
    problems.one_of(at.text("whenUnsatisfiable"), action, kActions);
  }
}

void check_names(const json::Value& spec, const Path& path, Problems& problems) {
  for (const std::string_view name : {"serviceAccountName", "priorityClassName", "runtimeClassName", "nodeName"}) {
    const std::string_view value = text_at(spec, name);
    if (value.empty() || api::is_dns1123_subdomain(value)) continue;
    problems.invalid(path.text(name), value, api::dns1123_subdomain_complaints(value));
  }
  for (const std::string_view name : {"hostname", "subdomain"}) {
    const std::string_view value = text_at(spec, name);
    if (value.empty() || api::is_dns1123_label(value)) continue;
    problems.invalid(path.text(name), value, api::dns1123_label_complaints(value));
  }
  for (const std::string_view name : {"terminationGracePeriodSeconds", "activeDeadlineSeconds"}) {
    const auto value = int_at(spec, name);
    if (!value) continue;
    if (name == "activeDeadlineSeconds" && (*value < 1 || *value > 2'147'483'647)) {
      problems.invalid(path.text(name), std::to_string(*value), "must be between 1 and 2147483647, inclusive");
    } else if (*value < 0) {
      problems.invalid(path.text(name), std::to_string(*value), "must be greater than or equal to 0");
    }
  }
}

}  // namespace

void check_pod_template(const json::Value& holder, const std::string& path_text, Problems& problems) {
  static const json::Value kNothing{json::Object()};
  const json::Value* found = member(holder, "template");
  const json::Value& pod_template = found == nullptr ? kNothing : *found;
  const Path path(path_text);
  check_metadata(pod_template, path, problems);
  const json::Value* found_spec = member(pod_template, "spec");
  const json::Value& spec = found_spec == nullptr ? kNothing : *found_spec;
  const Path spec_path = path.child("spec");

  PodParts parts;
  constexpr std::string_view kRestartPolicies[] = {"Always", "OnFailure", "Never"};
  parts.restart_policy = text_at(spec, "restartPolicy");
  problems.one_of(spec_path.text("restartPolicy"), parts.restart_policy, kRestartPolicies);
  constexpr std::string_view kDnsPolicies[] = {"ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"};
  const std::string_view dns = text_at(spec, "dnsPolicy");
  problems.one_of(spec_path.text("dnsPolicy"), dns, kDnsPolicies);
  if (dns == "None") {
    const json::Value* config = member(spec, "dnsConfig");
    if (config == nullptr || list_at(*config, "nameservers").empty()) {
      problems.required(spec_path.text("dnsConfig"),
                        "must provide at least one DNS nameserver when `dnsPolicy` is None");
    }
  }
  check_volumes(spec, spec_path, parts, problems);
  for (const json::Value& claim : list_at(spec, "resourceClaims")) parts.claims.push_back(text_at(claim, "name"));
  check_containers(spec, parts, spec_path, problems);
  if (!list_at(spec, "ephemeralContainers").empty()) {
    problems.forbidden(spec_path.text("ephemeralContainers"), "ephemeral containers not allowed in pod template");
  }
  if (const json::Value* resources = member(spec, "resources")) {
    check_resources(*resources, parts, spec_path.child("resources"), problems);
  }
  check_labels(map_at(spec, "nodeSelector"), spec_path.child("nodeSelector"), problems);
  check_names(spec, spec_path, problems);
  check_tolerations(spec, spec_path, problems);
  check_affinity(spec, spec_path, problems);
  check_spread(spec, spec_path, problems);
  check_security_context(spec, false, spec_path, problems);
}

}  // namespace basalt::webhooks
