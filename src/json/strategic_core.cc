#include "json/strategic_core.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace basalt::json {
namespace {

// The shapes that the strategies hang on. A shape is reached by different ways in different kinds: a pod's spec is also
// the spec of a template.
enum class Shape : std::uint8_t {
  Plain,  // nothing special below
  Other,  // a kind of which only the metadata is special
  Meta,
  Pod,
  PodSpec,
  PodStatus,
  Container,
  PodTemplate,      // template metadata and spec
  PodTemplateKind,  // the kind PodTemplate
  Workload,         // spec.template and status.conditions
  WorkloadSpec,
  Deployment,
  DeploymentSpec,
  CronJob,
  CronJobSpec,
  JobTemplate,
  Service,
  ServiceSpec,
  ServiceAccount,
  Node,
  NodeSpec,
  NodeStatus,
  WithConditions,  // status.conditions
  Conditions,
  ComponentStatus,
  DisruptionBudget,
  DisruptionBudgetSpec,
  CsiNode,
  CsiNodeSpec,
  ResourceClaim,
  ResourceClaimStatus,
  WebhookConfiguration,
  Webhook,
  AdmissionPolicy,
  AdmissionPolicySpec,
  MutatingPolicy,
  MutatingPolicySpec,
};

struct Field {
  Shape parent;
  std::string_view name;
  FieldStrategy strategy;
  Shape shape;
};

constexpr FieldStrategy kDefault{};
constexpr FieldStrategy kReplace{.kind = FieldStrategy::Kind::Replace};
constexpr FieldStrategy kSet{.kind = FieldStrategy::Kind::MergePrimitives};
constexpr FieldStrategy by(std::string_view key) { return {.kind = FieldStrategy::Kind::MergeByKey, .merge_key = key}; }
constexpr FieldStrategy by_retaining(std::string_view key) {
  return {.kind = FieldStrategy::Kind::MergeByKey, .merge_key = key, .retain_keys = true};
}

// Facts from the struct tags of k8s.io/api and apimachinery v0.36. What is not here has the default strategy; lists
// such as tolerations, taints, args and volumeClaimTemplates are replaced.
constexpr std::array kFields = {
    Field{Shape::Meta, "ownerReferences", by("uid"), Shape::Plain},
    Field{Shape::Meta, "finalizers", kSet, Shape::Plain},

    Field{Shape::Pod, "spec", kDefault, Shape::PodSpec},
    Field{Shape::Pod, "status", kDefault, Shape::PodStatus},
    Field{Shape::PodSpec, "volumes", by_retaining("name"), Shape::Plain},
    Field{Shape::PodSpec, "containers", by("name"), Shape::Container},
    Field{Shape::PodSpec, "initContainers", by("name"), Shape::Container},
    Field{Shape::PodSpec, "ephemeralContainers", by("name"), Shape::Container},
    Field{Shape::PodSpec, "imagePullSecrets", by("name"), Shape::Plain},
    Field{Shape::PodSpec, "hostAliases", by("ip"), Shape::Plain},
    Field{Shape::PodSpec, "topologySpreadConstraints", by("topologyKey"), Shape::Plain},
    Field{Shape::PodSpec, "schedulingGates", by("name"), Shape::Plain},
    Field{Shape::PodSpec, "resourceClaims", by_retaining("name"), Shape::Plain},
    Field{Shape::Container, "ports", by("containerPort"), Shape::Plain},
    Field{Shape::Container, "env", by("name"), Shape::Plain},
    Field{Shape::Container, "volumeMounts", by("mountPath"), Shape::Plain},
    Field{Shape::Container, "volumeDevices", by("devicePath"), Shape::Plain},
    Field{Shape::PodStatus, "conditions", by("type"), Shape::Plain},
    Field{Shape::PodStatus, "hostIPs", by("ip"), Shape::Plain},
    Field{Shape::PodStatus, "podIPs", by("ip"), Shape::Plain},
    Field{Shape::PodStatus, "resourceClaimStatuses", by_retaining("name"), Shape::Plain},
    Field{Shape::PodTemplate, "spec", kDefault, Shape::PodSpec},
    Field{Shape::PodTemplateKind, "template", kDefault, Shape::PodTemplate},

    Field{Shape::Workload, "spec", kDefault, Shape::WorkloadSpec},
    Field{Shape::Workload, "status", kDefault, Shape::Conditions},
    Field{Shape::WorkloadSpec, "template", kDefault, Shape::PodTemplate},
    Field{Shape::Deployment, "spec", kDefault, Shape::DeploymentSpec},
    Field{Shape::Deployment, "status", kDefault, Shape::Conditions},
    Field{Shape::DeploymentSpec, "strategy", FieldStrategy{.retain_keys = true}, Shape::Plain},
    Field{Shape::DeploymentSpec, "template", kDefault, Shape::PodTemplate},
    Field{Shape::CronJob, "spec", kDefault, Shape::CronJobSpec},
    Field{Shape::CronJobSpec, "jobTemplate", kDefault, Shape::JobTemplate},
    Field{Shape::JobTemplate, "spec", kDefault, Shape::WorkloadSpec},

    Field{Shape::Service, "spec", kDefault, Shape::ServiceSpec},
    Field{Shape::Service, "status", kDefault, Shape::Conditions},
    Field{Shape::ServiceSpec, "ports", by("port"), Shape::Plain},
    Field{Shape::ServiceAccount, "secrets", by("name"), Shape::Plain},
    Field{Shape::Node, "spec", kDefault, Shape::NodeSpec},
    Field{Shape::Node, "status", kDefault, Shape::NodeStatus},
    Field{Shape::NodeSpec, "podCIDRs", kSet, Shape::Plain},
    Field{Shape::NodeStatus, "conditions", by("type"), Shape::Plain},
    Field{Shape::NodeStatus, "addresses", by("type"), Shape::Plain},
    Field{Shape::WithConditions, "status", kDefault, Shape::Conditions},
    Field{Shape::Conditions, "conditions", by("type"), Shape::Plain},
    Field{Shape::ComponentStatus, "conditions", by("type"), Shape::Plain},

    Field{Shape::DisruptionBudget, "spec", kDefault, Shape::DisruptionBudgetSpec},
    Field{Shape::DisruptionBudget, "status", kDefault, Shape::Conditions},
    Field{Shape::DisruptionBudgetSpec, "selector", kReplace, Shape::Plain},
    Field{Shape::CsiNode, "spec", kDefault, Shape::CsiNodeSpec},
    Field{Shape::CsiNodeSpec, "drivers", by("name"), Shape::Plain},
    Field{Shape::ResourceClaim, "status", kDefault, Shape::ResourceClaimStatus},
    Field{Shape::ResourceClaimStatus, "reservedFor", by("uid"), Shape::Plain},
    Field{Shape::WebhookConfiguration, "webhooks", by("name"), Shape::Webhook},
    Field{Shape::Webhook, "matchConditions", by("name"), Shape::Plain},
    Field{Shape::AdmissionPolicy, "spec", kDefault, Shape::AdmissionPolicySpec},
    Field{Shape::AdmissionPolicySpec, "matchConditions", by("name"), Shape::Plain},
    Field{Shape::AdmissionPolicySpec, "variables", by("name"), Shape::Plain},
    Field{Shape::MutatingPolicy, "spec", kDefault, Shape::MutatingPolicySpec},
    Field{Shape::MutatingPolicySpec, "matchConditions", by("name"), Shape::Plain},
};

struct KindShape {
  std::string_view group;
  std::string_view kind;
  Shape shape;
};

constexpr std::array kKinds = {
    KindShape{"", "Pod", Shape::Pod},
    KindShape{"", "PodTemplate", Shape::PodTemplateKind},
    KindShape{"", "ReplicationController", Shape::Workload},
    KindShape{"", "Service", Shape::Service},
    KindShape{"", "ServiceAccount", Shape::ServiceAccount},
    KindShape{"", "Node", Shape::Node},
    KindShape{"", "Namespace", Shape::WithConditions},
    KindShape{"", "PersistentVolumeClaim", Shape::WithConditions},
    KindShape{"", "ComponentStatus", Shape::ComponentStatus},
    KindShape{"apps", "Deployment", Shape::Deployment},
    KindShape{"apps", "StatefulSet", Shape::Workload},
    KindShape{"apps", "DaemonSet", Shape::Workload},
    KindShape{"apps", "ReplicaSet", Shape::Workload},
    KindShape{"batch", "Job", Shape::Workload},
    KindShape{"batch", "CronJob", Shape::CronJob},
    KindShape{"policy", "PodDisruptionBudget", Shape::DisruptionBudget},
    KindShape{"autoscaling", "HorizontalPodAutoscaler", Shape::WithConditions},
    KindShape{"networking.k8s.io", "ServiceCIDR", Shape::WithConditions},
    KindShape{"storage.k8s.io", "CSINode", Shape::CsiNode},
    KindShape{"flowcontrol.apiserver.k8s.io", "FlowSchema", Shape::WithConditions},
    KindShape{"flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration", Shape::WithConditions},
    KindShape{"resource.k8s.io", "ResourceClaim", Shape::ResourceClaim},
    KindShape{"admissionregistration.k8s.io", "MutatingWebhookConfiguration", Shape::WebhookConfiguration},
    KindShape{"admissionregistration.k8s.io", "ValidatingWebhookConfiguration", Shape::WebhookConfiguration},
    KindShape{"admissionregistration.k8s.io", "ValidatingAdmissionPolicy", Shape::AdmissionPolicy},
    KindShape{"admissionregistration.k8s.io", "MutatingAdmissionPolicy", Shape::MutatingPolicy},
    KindShape{"apiregistration.k8s.io", "APIService", Shape::WithConditions},
};

constexpr std::array<std::string_view, 21> kBuiltInGroups = {
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
};

// Kinds and templates have metadata; what is below them does not.
constexpr bool has_metadata(Shape shape) {
  switch (shape) {
    case Shape::Other:
    case Shape::PodTemplate:
    case Shape::JobTemplate:
      return true;
    default:
      return std::any_of(kKinds.begin(), kKinds.end(), [shape](const KindShape& kind) { return kind.shape == shape; });
  }
}

class CoreSchema final : public StrategicSchema {
 public:
  explicit CoreSchema(Shape root) : root_(root) {}

  [[nodiscard]] FieldStrategy strategy_of(std::span<const std::string_view> path) const override {
    Shape shape = root_;
    FieldStrategy strategy;
    for (const std::string_view name : path) {
      strategy = {};
      if (name == "metadata" && has_metadata(shape)) {
        shape = Shape::Meta;
        continue;
      }
      const auto field = std::find_if(kFields.begin(), kFields.end(), [&](const Field& candidate) {
        return candidate.parent == shape && candidate.name == name;
      });
      if (field == kFields.end()) return {};
      strategy = field->strategy;
      shape = field->shape;
    }
    return strategy;
  }

 private:
  Shape root_;
};

}  // namespace

const StrategicSchema* core_strategic_schema(std::string_view group, std::string_view kind) {
  if (std::find(kBuiltInGroups.begin(), kBuiltInGroups.end(), group) == kBuiltInGroups.end()) return nullptr;
  // Constants in all but name: g++ 12 takes no constexpr objects with virtual functions.
  static const std::vector<CoreSchema> schemas = [] {
    std::vector<CoreSchema> made;
    for (const KindShape& row : kKinds) made.emplace_back(row.shape);
    made.emplace_back(Shape::Other);
    return made;
  }();
  const auto row = std::find_if(kKinds.begin(), kKinds.end(), [&](const KindShape& candidate) {
    return candidate.group == group && candidate.kind == kind;
  });
  return &schemas[static_cast<std::size_t>(row - kKinds.begin())];
}

}  // namespace basalt::json
