// Workloads of apps/v1, and their ancestor in v1: kept, defaulted, checked and scaled here; their controllers live
// elsewhere.

#include "apiserver/builtin/kind_rules.h"
#include "apiserver/builtin/pod_defaults.h"
#include "apiserver/builtin/pod_validation.h"
#include "apiserver/builtin/volume_strategies.h"
#include "apiserver/builtin/workload_rules.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

constexpr std::int64_t kHistoryLimit = 10;
constexpr std::int64_t kProgressSeconds = 600;

void check_replicas(const json::Value& spec, Causes& causes) {
  const FieldPath path("spec");
  for (const std::string_view name : {"replicas", "minReadySeconds", "revisionHistoryLimit"}) {
    check_not_negative(spec, name, path, causes);
  }
}

void default_deployment(json::Value& object) {
  json::Value* spec = ensure_spec(object);
  if (spec == nullptr) return;
  json::Object& members = spec->as_object();
  set_default(members, "replicas", 1);
  set_default(members, "revisionHistoryLimit", kHistoryLimit);
  set_default(members, "progressDeadlineSeconds", kProgressSeconds);
  if (json::Object* strategy = ensure_map(members, "strategy")) {
    set_default_text(*strategy, "type", "RollingUpdate");
    if (*strategy->find("type") == json::Value("RollingUpdate")) {
      if (json::Object* rolling = ensure_map(*strategy, "rollingUpdate")) {
        set_default(*rolling, "maxUnavailable", "25%");
        set_default(*rolling, "maxSurge", "25%");
      }
    }
  }
  default_pod_template(*spec);
}

bool is_zero_amount(const json::Value* value) {
  return value != nullptr && (*value == json::Value(0) || *value == json::Value("0%"));
}

void check_deployment_strategy(const json::Value& spec, Causes& causes) {
  const json::Value* strategy = member(spec, "strategy");
  if (strategy == nullptr) return;
  const std::string_view type = text_at(*strategy, "type");
  const json::Value* rolling = member(*strategy, "rollingUpdate");
  const FieldPath path("spec.strategy");
  constexpr std::string_view kTypes[] = {"Recreate", "RollingUpdate"};
  if (type == "Recreate") {
    if (rolling != nullptr) {
      causes.push_back(
          forbidden_field("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"));
    }
  } else if (type != "RollingUpdate") {
    causes.push_back(not_supported("spec.strategy", shown(*strategy), kTypes));
  } else if (rolling != nullptr) {
    const FieldPath rolling_path = path.child("rollingUpdate");
    const json::Value* unavailable = member(*rolling, "maxUnavailable");
    const json::Value* surge = member(*rolling, "maxSurge");
    if (unavailable != nullptr) check_int_or_percent(*unavailable, rolling_path.child("maxUnavailable"), causes);
    if (surge != nullptr) check_int_or_percent(*surge, rolling_path.child("maxSurge"), causes);
    if (is_zero_amount(unavailable) && is_zero_amount(surge)) {
      causes.push_back(
          invalid_value(rolling_path.text("maxUnavailable"), shown(*unavailable), "may not be 0 when `maxSurge` is 0"));
    }
  }
}

void validate_deployment(const json::Value& object, Causes& causes) {
  const json::Value& spec = spec_or_nothing(object);
  check_replicas(spec, causes);
  check_workload_selector(spec, "deployment", causes);
  check_workload_template(spec, "ReplicaSet", causes);
  check_deployment_strategy(spec, causes);
  const auto deadline = int_at(spec, "progressDeadlineSeconds");
  if (deadline && *deadline <= int_at(spec, "minReadySeconds").value_or(0)) {
    causes.push_back(invalid_value("spec.progressDeadlineSeconds", std::to_string(*deadline),
                                   "must be greater than minReadySeconds"));
  }
}

void validate_selector_unchanged(const json::Value& object, const json::Value& old, Causes& causes) {
  check_immutable(object, old, {"spec", "selector"}, causes);
}

json::Array deployment_cells(const json::Value& object, api::Time now) {
  return {metadata_text(object, "name"),
          std::to_string(int_at(object, {"status", "readyReplicas"})) + "/" +
              std::to_string(int_at(object, {"spec", "replicas"})),
          int_at(object, {"status", "updatedReplicas"}),
          int_at(object, {"status", "availableReplicas"}),
          age_of(object, now),
          container_names_cell(object),
          container_images_cell(object),
          selector_cell(object.find_path({"spec", "selector"}))};
}

void default_replica_set(json::Value& object) {
  json::Value* spec = ensure_spec(object);
  if (spec == nullptr) return;
  set_default(spec->as_object(), "replicas", 1);
  default_pod_template(*spec);
}

void prepare_replicas_status(json::Value& object) { object.as_object().set("status", json::Object{{"replicas", 0}}); }

void validate_replica_set(const json::Value& object, Causes& causes) {
  const json::Value& spec = spec_or_nothing(object);
  check_replicas(spec, causes);
  check_workload_selector(spec, "deployment", causes);  // Kubernetes says so here, too
  check_workload_template(spec, "ReplicaSet", causes);
}

json::Array replicas_cells(const json::Value& object, api::Time now) {
  const json::Value* selector = object.find_path({"spec", "selector"});
  const bool is_plain_map = text_at(object, "kind") == "ReplicationController";
  return {metadata_text(object, "name"),
          int_at(object, {"spec", "replicas"}),
          int_at(object, {"status", "replicas"}),
          int_at(object, {"status", "readyReplicas"}),
          age_of(object, now),
          container_names_cell(object),
          container_images_cell(object),
          is_plain_map ? label_text(map_at(object, {"spec", "selector"})) : selector_cell(selector)};
}

void default_stateful_set(json::Value& object) {
  json::Value* spec = ensure_spec(object);
  if (spec == nullptr) return;
  json::Object& members = spec->as_object();
  set_default_text(members, "podManagementPolicy", "OrderedReady");
  set_default(members, "replicas", 1);
  set_default(members, "revisionHistoryLimit", kHistoryLimit);
  if (json::Object* strategy = ensure_map(members, "updateStrategy")) {
    set_default_text(*strategy, "type", "RollingUpdate");
    if (*strategy->find("type") == json::Value("RollingUpdate")) {
      if (json::Object* rolling = ensure_map(*strategy, "rollingUpdate")) set_default(*rolling, "partition", 0);
    }
  }
  if (json::Object* retention = ensure_map(members, "persistentVolumeClaimRetentionPolicy")) {
    set_default_text(*retention, "whenDeleted", "Retain");
    set_default_text(*retention, "whenScaled", "Retain");
  }
  default_pod_template(*spec);
  json::Array* claims = mutable_list(*spec, "volumeClaimTemplates");
  for (std::size_t i = 0; claims != nullptr && i < claims->size(); ++i) {
    json::Value& claim = (*claims)[i];
    if (!claim.is_object()) continue;
    set_default_text(claim.as_object(), "apiVersion", "v1");
    set_default_text(claim.as_object(), "kind", "PersistentVolumeClaim");
    if (json::Value* claim_spec = claim.find("spec")) default_claim_spec(*claim_spec);
    if (json::Object* status = ensure_map(claim.as_object(), "status")) set_default_text(*status, "phase", "Pending");
  }
}

void prepare_stateful_set(json::Value& object) {
  object.as_object().set("status", json::Object{{"availableReplicas", 0}, {"replicas", 0}});
}

// Claims become volumes of the same name, which the template's mounts may use.
json::Value with_claim_volumes(const json::Value& spec) {
  json::Value copy = spec;
  const json::Array& claims = list_at(spec, "volumeClaimTemplates");
  if (claims.empty() || copy.find_path({"template", "spec"}) == nullptr) return copy;
  json::Value& volumes = copy.ensure_path({"template", "spec", "volumes"});
  if (!volumes.is_array()) volumes = json::Array();
  for (const json::Value& claim : claims) {
    const std::string_view name = claim.string_at({"metadata", "name"});
    std::erase_if(volumes.as_array(), [&](const json::Value& volume) { return text_at(volume, "name") == name; });
    volumes.as_array().emplace_back(
        json::Object{{"name", name}, {"persistentVolumeClaim", json::Object{{"claimName", name}}}});
  }
  return copy;
}

void validate_stateful_set(const json::Value& object, Causes& causes) {
  const json::Value& spec = spec_or_nothing(object);
  const std::string_view management = text_at(spec, "podManagementPolicy");
  if (management.empty()) {
    causes.push_back(required("spec.podManagementPolicy"));
  } else if (management != "OrderedReady" && management != "Parallel") {
    causes.push_back(
        invalid_value("spec.podManagementPolicy", base::quote(management), "must be 'OrderedReady' or 'Parallel'"));
  }
  const json::Value* strategy = member(spec, "updateStrategy");
  const std::string_view type = strategy != nullptr ? text_at(*strategy, "type") : "";
  if (type.empty()) {
    causes.push_back(required("spec.updateStrategy"));
  } else if (type != "RollingUpdate" && type != "OnDelete") {
    causes.push_back(invalid_value("spec.updateStrategy", shown(*strategy), "must be 'RollingUpdate' or 'OnDelete'"));
  }
  check_replicas(spec, causes);
  check_workload_selector(spec, "statefulset", causes);
  const json::Array& claims = list_at(spec, "volumeClaimTemplates");
  const FieldPath claims_path("spec.volumeClaimTemplates");
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const FieldPath at = claims_path.index(i);
    validate_claim_spec(spec_or_nothing(claims[i]), at.child("spec"), causes);
  }
  check_workload_template(with_claim_volumes(spec), "StatefulSet", causes);
}

void validate_stateful_set_update(const json::Value& object, const json::Value& old, Causes& causes) {
  json::Value now = spec_or_nothing(object);
  json::Value before = spec_or_nothing(old);
  if (!now.is_object() || !before.is_object()) return;
  for (const std::string_view name : {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
                                      "persistentVolumeClaimRetentionPolicy", "minReadySeconds"}) {
    now.as_object().erase(name);
    before.as_object().erase(name);
  }
  if (now == before) return;
  causes.push_back(forbidden_field(
      "spec",
      "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
      "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"));
}

json::Array stateful_set_cells(const json::Value& object, api::Time now) {
  return {metadata_text(object, "name"),
          std::to_string(int_at(object, {"status", "readyReplicas"})) + "/" +
              std::to_string(int_at(object, {"spec", "replicas"})),
          age_of(object, now), container_names_cell(object), container_images_cell(object)};
}

void default_daemon_set(json::Value& object) {
  json::Value* spec = ensure_spec(object);
  if (spec == nullptr) return;
  set_default(spec->as_object(), "revisionHistoryLimit", kHistoryLimit);
  if (json::Object* strategy = ensure_map(spec->as_object(), "updateStrategy")) {
    set_default_text(*strategy, "type", "RollingUpdate");
    if (*strategy->find("type") == json::Value("RollingUpdate")) {
      if (json::Object* rolling = ensure_map(*strategy, "rollingUpdate")) {
        set_default(*rolling, "maxUnavailable", 1);
        set_default(*rolling, "maxSurge", 0);
      }
    }
  }
  default_pod_template(*spec);
}

void prepare_daemon_set(json::Value& object) {
  object.as_object().set(
      "status",
      json::Object{
          {"currentNumberScheduled", 0}, {"desiredNumberScheduled", 0}, {"numberMisscheduled", 0}, {"numberReady", 0}});
}

void validate_daemon_set(const json::Value& object, Causes& causes) {
  const json::Value& spec = spec_or_nothing(object);
  check_workload_selector(spec, "daemonset", causes);
  check_workload_template(spec, "DaemonSet", causes);
  check_replicas(spec, causes);
}

json::Array daemon_set_cells(const json::Value& object, api::Time now) {
  return {metadata_text(object, "name"),
          int_at(object, {"status", "desiredNumberScheduled"}),
          int_at(object, {"status", "currentNumberScheduled"}),
          int_at(object, {"status", "numberReady"}),
          int_at(object, {"status", "updatedNumberScheduled"}),
          int_at(object, {"status", "numberAvailable"}),
          label_text(map_at(object, {"spec", "template", "spec", "nodeSelector"})),
          age_of(object, now),
          container_names_cell(object),
          container_images_cell(object),
          selector_cell(object.find_path({"spec", "selector"}))};
}

void default_replication_controller(json::Value& object) {
  default_replica_set(object);
  const json::Value* labels = object.find_path({"spec", "template", "metadata", "labels"});
  if (labels == nullptr) return;
  const json::Value copy = *labels;
  if (map_at(object, {"spec", "selector"}).empty()) object.ensure_path({"spec", "selector"}) = copy;
  if (map_at(object, {"metadata", "labels"}).empty()) object.ensure_path({"metadata", "labels"}) = copy;
}

void validate_replication_controller(const json::Value& object, Causes& causes) {
  json::Value spec = spec_or_nothing(object);
  check_replicas(spec, causes);
  if (map_at(spec, "selector").empty()) causes.push_back(required("spec.selector"));
  if (!spec.is_object()) return;
  json::Value labels(map_at(spec, "selector"));
  spec.as_object().set("selector", json::Object{{"matchLabels", std::move(labels)}});
  check_workload_template(spec, "ReplicationController", causes);
}

KindRules template_rules() {
  KindRules rules;
  rules.has_status = true;
  rules.has_generation = true;
  return rules;
}

ResourceType workload(std::string group, std::string plural, std::string kind, std::string short_name) {
  ResourceType type = basic_type(std::move(group), "v1", std::move(plural), std::move(kind), true);
  type.short_names = {std::move(short_name)};
  type.categories = {"all"};
  type.has_status = true;
  type.has_generation = true;
  type.scale = ScalePaths{".spec.replicas", ".status.replicas", ""};
  return type;
}

std::shared_ptr<const ResourceType> deployment_type() {
  KindRules rules = template_rules();
  rules.defaults = default_deployment;
  rules.validate = validate_deployment;
  rules.validate_update = validate_selector_unchanged;
  rules.cells = deployment_cells;
  ResourceType type = workload("apps", "deployments", "Deployment", "deploy");
  type.strategy = make_strategy(std::move(rules));
  type.columns =
      with_template_columns({name_column(), column("Ready", "string", "Pods that are ready, of those wanted."),
                             column("Up-to-date", "string", "Pods of the newest template."),
                             column("Available", "string", "Pods that have been ready for long enough."), age_column()},
                            true);
  return std::make_shared<const ResourceType>(std::move(type));
}

std::vector<PrinterColumn> replicas_columns() {
  return with_template_columns({name_column(), column("Desired", "integer", "Pods that are wanted."),
                                column("Current", "integer", "Pods that there are."),
                                column("Ready", "integer", "Pods that are ready."), age_column()},
                               true);
}

std::shared_ptr<const ResourceType> replica_set_type() {
  KindRules rules = template_rules();
  rules.defaults = default_replica_set;
  rules.prepare_create = prepare_replicas_status;
  rules.validate = validate_replica_set;
  rules.validate_update = validate_selector_unchanged;
  rules.cells = replicas_cells;
  rules.selectable = {{"status.replicas", "0"}};
  ResourceType type = workload("apps", "replicasets", "ReplicaSet", "rs");
  type.strategy = make_strategy(std::move(rules));
  type.columns = replicas_columns();
  return std::make_shared<const ResourceType>(std::move(type));
}

std::shared_ptr<const ResourceType> stateful_set_type() {
  KindRules rules = template_rules();
  rules.defaults = default_stateful_set;
  rules.prepare_create = prepare_stateful_set;
  rules.validate = validate_stateful_set;
  rules.validate_update = validate_stateful_set_update;
  rules.cells = stateful_set_cells;
  ResourceType type = workload("apps", "statefulsets", "StatefulSet", "sts");
  type.name_rule = NameRule::Label;
  type.strategy = make_strategy(std::move(rules));
  type.columns = with_template_columns(
      {name_column(), column("Ready", "string", "Pods that are ready, of those wanted."), age_column()}, false);
  return std::make_shared<const ResourceType>(std::move(type));
}

std::shared_ptr<const ResourceType> daemon_set_type() {
  KindRules rules = template_rules();
  rules.defaults = default_daemon_set;
  rules.prepare_create = prepare_daemon_set;
  rules.validate = validate_daemon_set;
  rules.validate_update = validate_selector_unchanged;
  rules.cells = daemon_set_cells;
  ResourceType type = workload("apps", "daemonsets", "DaemonSet", "ds");
  type.scale.reset();
  type.strategy = make_strategy(std::move(rules));
  type.columns = with_template_columns(
      {name_column(), column("Desired", "integer", "Nodes that should run a pod."),
       column("Current", "integer", "Nodes that have one."), column("Ready", "integer", "Nodes whose pod is ready."),
       column("Up-to-date", "integer", "Pods of the newest template."),
       column("Available", "integer", "Pods that have been ready for long enough."),
       column("Node Selector", "string", "The nodes that are meant."), age_column()},
      true);
  return std::make_shared<const ResourceType>(std::move(type));
}

void default_pod_template_object(json::Value& object) { default_pod_template(object); }

void validate_pod_template_object(const json::Value& object, Causes& causes) {
  static const json::Value kNothing{json::Object()};
  const json::Value* pod_template = member(object, "template");
  validate_pod_template(pod_template != nullptr ? *pod_template : kNothing, FieldPath("template"), causes);
}

}  // namespace

TypeList workload_types() {
  TypeList types = {deployment_type(), replica_set_type(), stateful_set_type(), daemon_set_type()};
  ResourceType revisions = basic_type("apps", "v1", "controllerrevisions", "ControllerRevision", true);
  types.push_back(std::make_shared<const ResourceType>(std::move(revisions)));
  for (auto& type : job_types()) types.push_back(std::move(type));
  return types;
}

TypeList core_workload_types() {
  KindRules rules = template_rules();
  rules.defaults = default_replication_controller;
  rules.prepare_create = prepare_replicas_status;
  rules.validate = validate_replication_controller;
  rules.cells = replicas_cells;
  rules.selectable = {{"status.replicas", "0"}};
  ResourceType controllers = workload("", "replicationcontrollers", "ReplicationController", "rc");
  controllers.strategy = make_strategy(std::move(rules));
  controllers.columns = replicas_columns();

  KindRules template_object_rules;
  template_object_rules.has_generation = true;
  template_object_rules.defaults = default_pod_template_object;
  template_object_rules.validate = validate_pod_template_object;
  ResourceType templates = basic_type("", "v1", "podtemplates", "PodTemplate", true);
  templates.has_generation = true;
  templates.strategy = make_strategy(std::move(template_object_rules));
  return {std::make_shared<const ResourceType>(std::move(controllers)),
          std::make_shared<const ResourceType>(std::move(templates))};
}

}  // namespace basalt::apiserver
