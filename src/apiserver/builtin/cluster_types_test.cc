#include "apiserver/builtin/builtin_test_support.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kPriorityClass = R"(
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: p}
value: 5
)";

TEST(PriorityClass, Validation) {
  expect_create(
      *type_named("scheduling.k8s.io", "priorityclasses"), kPriorityClass,
      {
          {""},
          {"value: -5"},
          {"value: 1000000001", {"value: Forbidden: maximum allowed value of a user defined priority is 1000000000"}},
          {"preemptionPolicy: Odd",
           {"preemptionPolicy: Unsupported value: \"Odd\": supported values: \"PreemptLowerPriority\", \"Never\""}},
          {"metadata: {name: system-own}",
           {"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: "
            "system-own is not a known system priority class"}},
          {"metadata: {name: system-node-critical}",
           {"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
            "error: "
            "value of system-node-critical PriorityClass must be 2000001000"}},
      });
}

TEST(PriorityClass, UpdateAndColumns) {
  const auto type = type_named("scheduling.k8s.io", "priorityclasses");
  expect_update(*type, kPriorityClass,
                {{"description: x"},
                 {"value: 6", {"value: Forbidden: may not be changed in an update."}},
                 {"preemptionPolicy: Never", {"preemptionPolicy: Invalid value: \"Never\": field is immutable"}}});
  EXPECT_EQ(
      cells_text(*type,
                 "{metadata: {name: p, creationTimestamp: '2026-01-01T00:00:00Z'}, value: 5, preemptionPolicy: Never}",
                 "2026-01-01T00:00:05Z"),
      "p | 5 | false | 5s | Never");
}

constexpr std::string_view kLease = R"(
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: l, namespace: default}
spec: {holderIdentity: me}
)";

TEST(Lease, ValidationAndColumns) {
  const auto type = type_named("coordination.k8s.io", "leases");
  expect_create(
      *type_named("coordination.k8s.io", "leases"), kLease,
      {
          {"spec: {leaseDurationSeconds: 15, leaseTransitions: 0}"},
          {"spec: {leaseDurationSeconds: 0}", {"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"}},
          {"spec: {leaseTransitions: -1}",
           {"spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"}},
      });
  EXPECT_EQ(cells_text(*type, kLease, "2026-01-01T00:00:05Z"), "l | me | <unknown>");
}

constexpr std::string_view kBudget = R"(
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b, namespace: default}
spec: {minAvailable: 1, selector: {matchLabels: {a: b}}}
)";

TEST(PodDisruptionBudget, ValidationAndColumns) {
  expect_create(
      *type_named("policy", "poddisruptionbudgets"), kBudget,
      {
          {"spec: {minAvailable: 50%}"},
          {"spec: {minAvailable: -1}", {"spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"}},
          {"spec: {minAvailable: 120%}", {"spec.minAvailable: Invalid value: \"120%\": must not be greater than 100%"}},
          {"spec: {selector: {matchLabels: null, matchExpressions: [{key: a, operator: In}]}}",
           {"spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or "
            "'NotIn'"}},
      });
  EXPECT_EQ(cells_text(*type_named("policy", "poddisruptionbudgets"), kBudget, "2026-01-01T00:00:05Z"),
            "b | 1 | N/A | 0 | <unknown>");
}

constexpr std::string_view kNetworkPolicy = R"(
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: w, namespace: default}
spec: {podSelector: {}}
)";

TEST(NetworkPolicy, Validation) {
  expect_create(
      *type_named("networking.k8s.io", "networkpolicies"), kNetworkPolicy,
      {
          {"spec: {ingress: [{from: [{podSelector: {}}], ports: [{port: 80}, {port: http}]}]}"},
          {"spec: {ingress: [{from: [{}]}]}", {"spec.ingress[0].from[0]: Required value: must specify a peer"}},
          {"spec: {egress: [{ports: [{port: 0}]}]}",
           {"spec.egress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"}},
          {"spec: {egress: [{ports: [{protocol: Odd}]}]}",
           {"spec.egress[0].ports[0].protocol: Unsupported value: \"Odd\": supported values: \"TCP\", \"UDP\", "
            "\"SCTP\""}},
          {"spec: {policyTypes: [Odd]}",
           {"spec.policyTypes[0]: Unsupported value: \"Odd\": supported values: \"Ingress\", \"Egress\""}},
      });
}

TEST(NetworkPolicy, DefaultTypes) {
  const auto type = type_named("networking.k8s.io", "networkpolicies");
  expect_contains(prepared(*type, from_yaml(kNetworkPolicy)), from_yaml("spec: {policyTypes: [Ingress]}"), "");
  expect_contains(prepared(*type, changed(kNetworkPolicy, "spec: {egress: [{ports: [{port: 1}]}]}")),
                  from_yaml("spec: {policyTypes: [Ingress, Egress], egress: [{ports: [{port: 1, protocol: TCP}]}]}"),
                  "");
}

constexpr std::string_view kStorageClass = R"(
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: s}
provisioner: example.com/p
)";

TEST(StorageClass, ValidationAndColumns) {
  expect_create(*type_named("storage.k8s.io", "storageclasses"), kStorageClass,
                {
                    {""},
                    {"provisioner: null", {"provisioner: Required value"}},
                    {"volumeBindingMode: Odd",
                     {"volumeBindingMode: Unsupported value: \"Odd\": supported values: \"Immediate\", "
                      "\"WaitForFirstConsumer\""}},
                });
  expect_update(*type_named("storage.k8s.io", "storageclasses"), kStorageClass,
                {{"allowVolumeExpansion: true"},
                 {"provisioner: q", {"provisioner: Forbidden: updates to provisioner are forbidden."}},
                 {"parameters: {a: b}", {"parameters: Forbidden: updates to parameters are forbidden."}}});
  EXPECT_EQ(cells_text(*type_named("storage.k8s.io", "storageclasses"), R"(
metadata: {name: s, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}
provisioner: p
reclaimPolicy: Delete
volumeBindingMode: Immediate
)",
                       "2026-01-01T00:00:05Z"),
            "s (default) | p | Delete | Immediate | false | <unknown>");
}

constexpr std::string_view kRole = R"(
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: default}
rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]
)";

TEST(Role, Validation) {
  expect_create(
      *type_named("rbac.authorization.k8s.io", "roles"), kRole,
      {
          {""},
          {"rules: [{apiGroups: [''], resources: [pods]}]",
           {"rules[0].verbs: Required value: verbs must contain at least one value"}},
          {"rules: [{verbs: [get]}]",
           {"rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource"}},
          {"rules: [{verbs: [get], nonResourceURLs: [/x]}]",
           {"rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs"}},
      });
}

constexpr std::string_view kBinding = R"(
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: b}
roleRef: {kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: a, namespace: w}, {kind: User, name: u}]
)";

TEST(ClusterRoleBinding, ValidationAndColumns) {
  const auto type = type_named("rbac.authorization.k8s.io", "clusterrolebindings");
  expect_create(
      *type_named("rbac.authorization.k8s.io", "clusterrolebindings"), kBinding,
      {
          {""},
          {"roleRef: {kind: Role}", {"roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\""}},
          {"roleRef: {name: null}", {"roleRef.name: Required value"}},
          {"subjects: [{kind: ServiceAccount, name: a}]", {"subjects[0].namespace: Required value"}},
          {"subjects: [{kind: Odd, name: a}]",
           {"subjects[0].kind: Unsupported value: \"Odd\": supported values: \"ServiceAccount\", \"User\", \"Group\""}},
      });
  expect_contains(
      prepared(*type, from_yaml(kBinding)),
      from_yaml(
          "{roleRef: {apiGroup: rbac.authorization.k8s.io}, subjects: [{kind: ServiceAccount, name: a, namespace: "
          "w}, {kind: User, name: u, apiGroup: rbac.authorization.k8s.io}]}"),
      "");
  EXPECT_EQ(cells_text(*type, kBinding, "2026-01-01T00:00:05Z"), "b | ClusterRole/view | <unknown> | u |  | w/a");
}

constexpr std::string_view kWebhooks = R"(
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks:
- name: a.b.c
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {service: {name: s, namespace: w}}
)";

TEST(Webhooks, ValidationAndDefaults) {
  const auto type = type_named("admissionregistration.k8s.io", "validatingwebhookconfigurations");
  expect_create(
      *type_named("admissionregistration.k8s.io", "validatingwebhookconfigurations"), kWebhooks,
      {
          {""},
          {"webhooks: [{name: a.b.c, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {}}]",
           {"webhooks[0].clientConfig: Required value: exactly one of url or service is required"}},
          {"webhooks: [{name: a.b.c, admissionReviewVersions: [v1], clientConfig: {url: 'https://x'}}]",
           {"webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"}},
          {"webhooks: [{name: a.b.c, admissionReviewVersions: [v1], sideEffects: None, timeoutSeconds: 31, "
           "clientConfig: {url: "
           "'https://x'}}]",
           {"webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"}},
          {"webhooks: [{name: a.b, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {url: "
           "'https://x'}}]",
           {"webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by "
            "dots"}},
      });
  const json::Value made = prepared(*type, from_yaml(kWebhooks));
  ASSERT_EQ(made.find("webhooks")->as_array().size(), 1u);
  expect_contains(made.find("webhooks")->as_array()[0],
                  from_yaml("{failurePolicy: Fail, matchPolicy: Equivalent, timeoutSeconds: 10, namespaceSelector: {}, "
                            "objectSelector: {}, clientConfig: {service: {port: 443}}}"),
                  "");
}

// A patch of the status is worked out on the status alone and relies on it.
TEST(Status, AWriteOfItKeepsEverythingElseOfEveryKind) {
  int kinds = 0;
  const auto types = builtin_types();
  for (const auto& type : types->all()) {
    if (!type->has_status) continue;
    ++kinds;
    json::Value old = from_yaml("{metadata: {name: a, labels: {x: y}}, spec: {a: 1}, other: kept, status: {a: 1}}");
    json::Value object = from_yaml("{metadata: {name: a, labels: {x: y}}, status: {b: 2}}");
    type->strategy->prepare_for_update(object, old, WritePart::Status);
    EXPECT_EQ(object.find_path({"status", "a"}), nullptr) << type->kind;
    ASSERT_NE(object.find_path({"status", "b"}), nullptr) << type->kind;
    object.as_object().erase("status");
    old.as_object().erase("status");
    EXPECT_EQ(object.to_text(), old.to_text()) << type->kind;
  }
  EXPECT_GT(kinds, 10);
}

}  // namespace
}  // namespace basalt::apiserver
