// Kinds that a cluster has and that nothing here acts on: autoscalers, ingresses, certificate requests, what CSI
// drivers say of themselves, aggregated APIs. They are kept and shown, so that manifests and tools that bring them
// work.

#include <utility>

#include "apiserver/builtin/fields.h"
#include "apiserver/builtin/kind_rules.h"
#include "apiserver/builtin/misc_types.h"
#include "apiserver/registry/metadata.h"
#include "base/strings.h"

namespace basalt::apiserver {
namespace {

std::shared_ptr<const ResourceType> done(ResourceType type, KindRules rules = {}) {
  rules.has_status = type.has_status;
  rules.has_generation = type.has_generation;
  type.strategy = make_strategy(std::move(rules));
  return std::make_shared<const ResourceType>(std::move(type));
}

// Autoscalers. The first version knows one metric, the CPU in percent; the second a list, which is what is stored. What
// the first cannot say is in an annotation of its objects, so that it survives a read and a write.
constexpr std::string_view kMetricsAnnotation = "autoscaling.alpha.kubernetes.io/metrics";
constexpr std::string_view kBehaviorAnnotation = "autoscaling.alpha.kubernetes.io/behavior";
constexpr std::int64_t kCpuPercent = 80;

bool is_cpu_percent(const json::Value& metric) {
  return text_at(metric, "type") == "Resource" && metric.string_at({"resource", "name"}) == "cpu" &&
         metric.string_at({"resource", "target", "type"}) == "Utilization";
}

json::Value cpu_metric(std::int64_t percent) {
  return json::Object{
      {"type", "Resource"},
      {"resource", json::Object{{"name", "cpu"},
                                {"target", json::Object{{"type", "Utilization"}, {"averageUtilization", percent}}}}}};
}

// Takes a JSON value out of an annotation.
json::Value taken_annotation(json::Value& object, std::string_view key) {
  json::Value* metadata = object.find("metadata");
  json::Object* annotations = metadata != nullptr ? mutable_map(*metadata, "annotations") : nullptr;
  const json::Value* kept = annotations != nullptr ? annotations->find(key) : nullptr;
  if (kept == nullptr || !kept->is_string()) return {};
  auto value = json::Value::parse(kept->as_string());
  annotations->erase(key);
  if (annotations->empty()) metadata->as_object().erase("annotations");
  return value.ok() ? std::move(*value) : json::Value();
}

void annotate(json::Value& object, std::string_view key, const json::Value& value) {
  json::Value& annotations = object.ensure_path({"metadata", "annotations"});
  if (!annotations.is_object()) annotations = json::Object();
  annotations.as_object().set(key, value.to_text());
}

void autoscaler_to_second(json::Value& object) {
  json::Array metrics;
  if (json::Value* spec = object.find("spec"); spec != nullptr && spec->is_object()) {
    if (const auto percent = int_at(*spec, "targetCPUUtilizationPercentage")) metrics.push_back(cpu_metric(*percent));
    spec->as_object().erase("targetCPUUtilizationPercentage");
  }
  json::Value others = taken_annotation(object, kMetricsAnnotation);
  if (others.is_array()) {
    for (json::Value& metric : others.as_array()) metrics.push_back(std::move(metric));
  }
  json::Value behavior = taken_annotation(object, kBehaviorAnnotation);
  if (!metrics.empty()) object.ensure_path({"spec", "metrics"}) = std::move(metrics);
  if (behavior.is_object()) object.ensure_path({"spec", "behavior"}) = std::move(behavior);
}

void autoscaler_to_first(json::Value& object) {
  json::Value* spec = object.find("spec");
  if (spec == nullptr || !spec->is_object()) return;
  json::Array others;
  std::optional<std::int64_t> percent;
  for (const json::Value& metric : list_at(*spec, "metrics")) {
    if (!percent && is_cpu_percent(metric)) {
      percent = int_at(metric, {"resource", "target", "averageUtilization"});
    } else {
      others.push_back(metric);
    }
  }
  const json::Value* found = member(*spec, "behavior");
  const json::Value behavior = found != nullptr ? *found : json::Value();
  spec->as_object().erase("metrics");
  spec->as_object().erase("behavior");
  if (percent) spec->as_object().set("targetCPUUtilizationPercentage", *percent);
  if (!others.empty()) annotate(object, kMetricsAnnotation, json::Value(std::move(others)));
  if (behavior.is_object()) annotate(object, kBehaviorAnnotation, behavior);
}

std::string same_field(std::string_view field) { return std::string(field); }

constexpr Conversion kFirstAutoscaler{autoscaler_to_second, autoscaler_to_first, same_field};

void default_autoscaler(json::Value& object) {
  json::Value* spec = object.find("spec");
  if (spec == nullptr || !spec->is_object()) return;
  set_default(spec->as_object(), "minReplicas", 1);
}

void default_second_autoscaler(json::Value& object) {
  default_autoscaler(object);
  json::Value* spec = object.find("spec");
  if (spec == nullptr || !spec->is_object()) return;
  if (list_at(*spec, "metrics").empty()) spec->as_object().set("metrics", json::Array{cpu_metric(kCpuPercent)});
}

void validate_autoscaler(const json::Value& object, Causes& causes) {
  static const json::Value kNothing{json::Object()};
  const json::Value* found = member(object, "spec");
  const json::Value& spec = found != nullptr ? *found : kNothing;
  const std::int64_t least = int_at(spec, "minReplicas").value_or(1);
  const std::int64_t most = int_at(spec, "maxReplicas").value_or(0);
  if (least < 1) {
    causes.push_back(invalid_value("spec.minReplicas", std::to_string(least), "must be greater than or equal to 1"));
  }
  if (most < 1) causes.push_back(invalid_value("spec.maxReplicas", std::to_string(most), "must be greater than 0"));
  if (most < least) {
    causes.push_back(
        invalid_value("spec.maxReplicas", std::to_string(most), "must be greater than or equal to `minReplicas`"));
  }
  for (const std::string_view name : {"kind", "name"}) {
    if (spec.string_at({"scaleTargetRef", name}).empty()) {
      causes.push_back(required("spec.scaleTargetRef." + std::string(name)));
    }
  }
}

json::Array autoscaler_cells(const json::Value& object, api::Time now) {
  const json::Value* spec = member(object, "spec");
  const std::int64_t least = spec != nullptr ? int_at(*spec, "minReplicas").value_or(0) : 0;
  return {metadata_text(object, "name"),
          std::string(object.string_at({"spec", "scaleTargetRef", "kind"})) + "/" +
              std::string(object.string_at({"spec", "scaleTargetRef", "name"})),
          "<unknown>",
          least == 0 ? json::Value("<unset>") : json::Value(least),
          int_at(object, {"spec", "maxReplicas"}),
          int_at(object, {"status", "currentReplicas"}),
          age_of(object, now)};
}

ResourceType autoscaler(std::string version) {
  ResourceType type =
      basic_type("autoscaling", std::move(version), "horizontalpodautoscalers", "HorizontalPodAutoscaler", true);
  type.short_names = {"hpa"};
  type.categories = {"all"};
  type.has_status = true;
  type.storage_version = "v2";
  type.columns = {name_column(),
                  column("Reference", "string", "What is scaled."),
                  column("Targets", "string", "What is aimed at."),
                  column("MinPods", "string", "The fewest pods."),
                  column("MaxPods", "string", "The most pods."),
                  column("Replicas", "string", "The pods there are."),
                  age_column()};
  return type;
}

void prepare_autoscaler(json::Value& object) {
  object.as_object().set("status", json::Object{{"currentReplicas", 0}, {"desiredReplicas", 0}});
}

TypeList autoscaler_types() {
  KindRules second;
  second.defaults = default_second_autoscaler;
  second.prepare_create = prepare_autoscaler;
  second.validate = validate_autoscaler;
  second.cells = autoscaler_cells;
  KindRules first = second;
  first.defaults = default_autoscaler;
  ResourceType first_type = autoscaler("v1");
  first_type.conversion = &kFirstAutoscaler;
  return {done(autoscaler("v2"), std::move(second)), done(std::move(first_type), std::move(first))};
}

void default_ingress(json::Value& object) {
  json::Value* spec = object.find("spec");
  json::Array* rules = spec != nullptr ? mutable_list(*spec, "rules") : nullptr;
  for (std::size_t i = 0; rules != nullptr && i < rules->size(); ++i) {
    json::Value* http = (*rules)[i].find("http");
    json::Array* paths = http != nullptr ? mutable_list(*http, "paths") : nullptr;
    for (std::size_t j = 0; paths != nullptr && j < paths->size(); ++j) {
      if ((*paths)[j].is_object()) set_default_text((*paths)[j].as_object(), "pathType", "ImplementationSpecific");
    }
  }
}

void validate_ingress(const json::Value& object, Causes& causes) {
  static const json::Value kNothing{json::Object()};
  const json::Value* found = member(object, "spec");
  const json::Value& spec = found != nullptr ? *found : kNothing;
  if (list_at(spec, "rules").empty() && member(spec, "defaultBackend") == nullptr) {
    causes.push_back(invalid_value("spec", shown(json::Value(list_at(spec, "rules"))),
                                   "either `defaultBackend` or `rules` must be specified"));
  }
}

json::Array ingress_cells(const json::Value& object, api::Time now) {
  std::string hosts;
  for (const json::Value& rule : list_at(object, {"spec", "rules"})) {
    if (const std::string_view host = text_at(rule, "host"); !host.empty()) {
      hosts.append(hosts.empty() ? "" : ",").append(host);
    }
  }
  std::string addresses;
  for (const json::Value& one : list_at(object, {"status", "loadBalancer", "ingress"})) {
    const std::string_view ip = text_at(one, "ip");
    addresses.append(addresses.empty() ? "" : ",").append(ip.empty() ? text_at(one, "hostname") : ip);
  }
  const bool has_tls = !list_at(object, {"spec", "tls"}).empty();
  return {metadata_text(object, "name"),
          or_none(object.string_at({"spec", "ingressClassName"})),
          hosts.empty() ? std::string("*") : hosts,
          addresses,
          has_tls ? "80, 443" : "80",
          age_of(object, now)};
}

TypeList networking_types() {
  KindRules rules;
  rules.defaults = default_ingress;
  rules.validate = validate_ingress;
  rules.cells = ingress_cells;
  ResourceType ingress = basic_type("networking.k8s.io", "v1", "ingresses", "Ingress", true);
  ingress.short_names = {"ing"};
  ingress.has_status = true;
  ingress.has_generation = true;
  ingress.columns = {name_column(),
                     column("Class", "string", "The class of its controller."),
                     column("Hosts", "string", "The hosts of its rules."),
                     column("Address", "string", "Where it can be reached."),
                     column("Ports", "string", "The ports that it answers at."),
                     age_column()};
  KindRules class_rules;
  class_rules.cells = [](const json::Value& object, api::Time now) -> json::Array {
    const std::string_view kind = object.string_at({"spec", "parameters", "kind"});
    const std::string_view name = object.string_at({"spec", "parameters", "name"});
    return {metadata_text(object, "name"), object.string_at({"spec", "controller"}),
            kind.empty() ? std::string("<none>") : std::string(kind) + "/" + std::string(name), age_of(object, now)};
  };
  ResourceType classes = basic_type("networking.k8s.io", "v1", "ingressclasses", "IngressClass", false);
  classes.has_generation = true;
  classes.columns = {name_column(), column("Controller", "string", "Who serves it."),
                     column("Parameters", "string", "What it is told."), age_column()};
  return {done(std::move(ingress), std::move(rules)), done(std::move(classes), std::move(class_rules))};
}

void validate_signing_request(const json::Value& object, Causes& causes) {
  static const json::Value kNothing{json::Object()};
  const json::Value* found = member(object, "spec");
  const json::Value& spec = found != nullptr ? *found : kNothing;
  if (text_at(spec, "request").empty()) causes.push_back(required("spec.request"));
  if (list_at(spec, "usages").empty()) causes.push_back(required("spec.usages", "usages is required"));
  if (text_at(spec, "signerName").empty()) causes.push_back(required("spec.signerName"));
}

json::Array signing_request_cells(const json::Value& object, api::Time now) {
  std::string condition;
  for (const json::Value& one : list_at(object, {"status", "conditions"})) {
    condition.append(condition.empty() ? "" : ",").append(text_at(one, "type"));
  }
  if (!object.string_at({"status", "certificate"}).empty())
    condition.append(condition.empty() ? "" : ",").append("Issued");
  return {metadata_text(object, "name"), age_of(object, now), object.string_at({"spec", "signerName"}),
          object.string_at({"spec", "username"}), condition.empty() ? std::string("Pending") : condition};
}

std::shared_ptr<const ResourceType> signing_request_type() {
  KindRules rules;
  rules.validate = validate_signing_request;
  rules.cells = signing_request_cells;
  rules.selectable = {{"spec.signerName", ""}};
  ResourceType type =
      basic_type("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", false);
  type.short_names = {"csr"};
  type.has_status = true;
  type.other_subresources = {"approval"};
  type.columns = {name_column(), age_column(), column("SignerName", "string", "Who is to sign."),
                  column("Requestor", "string", "Who asked."), column("Condition", "string", "What came of it.")};
  return done(std::move(type), std::move(rules));
}

// What CSI drivers say of themselves, for schedulers that look at it.
TypeList storage_types() {
  constexpr std::string_view kGroup = "storage.k8s.io";
  const auto named = [&](std::string_view plural, std::string_view kind, bool namespaced) {
    return basic_type(std::string(kGroup), "v1", std::string(plural), std::string(kind), namespaced);
  };
  ResourceType attachments = named("volumeattachments", "VolumeAttachment", false);
  attachments.has_status = true;
  return {done(named("csidrivers", "CSIDriver", false)), done(named("csinodes", "CSINode", false)),
          done(named("csistoragecapacities", "CSIStorageCapacity", true)), done(std::move(attachments)),
          done(named("volumeattributesclasses", "VolumeAttributesClass", false))};
}

std::shared_ptr<const ResourceType> api_service_type() {
  ResourceType type = basic_type("apiregistration.k8s.io", "v1", "apiservices", "APIService", false);
  type.categories = {"api-extensions"};
  type.has_status = true;
  return done(std::move(type));
}

}  // namespace

TypeList stored_types() {
  TypeList types = {signing_request_type(), api_service_type()};
  for (TypeList part : {autoscaler_types(), networking_types(), storage_types()}) {
    for (auto& type : part) types.push_back(std::move(type));
  }
  return types;
}

}  // namespace basalt::apiserver
