// Nodes, services, config maps, secrets, volumes, quotas: what is accepted and in which words the rest is refused.

#include "apiserver/builtin/builtin_test_support.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kNode = R"(
apiVersion: v1
kind: Node
metadata: {name: w}
)";

TEST(Node, Validation) {
  expect_create(*type_named("", "nodes"), kNode,
                {
                    {"status: {capacity: {cpu: 4, memory: 8Gi, pods: 110}}"},
                    {"spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}]}"},
                    {"spec: {taints: [{key: a}]}", {"metadata.taints[0].effect: Required value"}},
                    {"spec: {taints: [{key: a, effect: Odd}]}",
                     {"metadata.taints[0].effect: Unsupported value: \"Odd\": supported values: \"NoSchedule\", "
                      "\"PreferNoSchedule\", "
                      "\"NoExecute\""}},
                    {"status: {capacity: {cpu: -1}}",
                     {"status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                      "status.allocatable.cpu: Invalid value: \"-1\": must be greater than or equal to 0"}},
                    {"status: {capacity: {pods: 500m}}",
                     {"status.capacity.pods: Invalid value: \"500m\": must be an integer",
                      "status.allocatable.pods: Invalid value: \"500m\": must be an integer"}},
                });
}

TEST(Node, TaintsAreUnique) {
  const auto complaints =
      create_complaints(*type_named("", "nodes"),
                        changed(kNode, "spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}]}"));
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_TRUE(complaints[0].starts_with("metadata.taints[1]: Duplicate value: "));
  EXPECT_TRUE(complaints[0].ends_with(": taints must be unique by key and effect pair"));
}

TEST(Node, UpdatesKeepIdentity) {
  expect_update(*type_named("", "nodes"), "{metadata: {name: w}, spec: {providerID: a, podCIDRs: [10.0.0.0/24]}}",
                {{"spec: {unschedulable: true}"},
                 {"spec: {providerID: b}",
                  {"spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid"}},
                 {"spec: {podCIDRs: []}",
                  {"spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid"}}});
}

TEST(Node, AllocatableDefaultsToCapacity) {
  const json::Value node =
      prepared(*type_named("", "nodes"), changed(kNode, "status: {capacity: {cpu: 2000m, memory: 1024Mi}}"));
  expect_contains(node, from_yaml("status: {capacity: {cpu: '2', memory: 1Gi}, allocatable: {cpu: '2', memory: 1Gi}}"),
                  "");
}

TEST(Node, Columns) {
  EXPECT_EQ(cells_text(*type_named("", "nodes"), R"(
metadata: {name: w, creationTimestamp: '2026-01-01T00:00:00Z', labels: {node-role.kubernetes.io/worker: '', node-role.kubernetes.io/gpu: ''}}
spec: {unschedulable: true}
status:
  conditions: [{type: Ready, status: 'True'}]
  addresses: [{type: InternalIP, address: 10.0.0.1}]
  nodeInfo: {kubeletVersion: v1.36.0, kernelVersion: '6.1', architecture: amd64}
)",
                       "2026-01-01T00:05:00Z"),
            "w | Ready,SchedulingDisabled | gpu,worker | 5m | v1.36.0 | 10.0.0.1 | <none> | <unknown> | 6.1 (amd64) | "
            "<unknown>");
  EXPECT_EQ(cells_text(*type_named("", "nodes"), "metadata: {name: w}", "2026-01-01T00:05:00Z"),
            "w | Unknown | <none> | <unknown> |  | <none> | <none> | <unknown> | <unknown> | <unknown>");
}

constexpr std::string_view kService = R"(
apiVersion: v1
kind: Service
metadata: {name: s, namespace: default}
spec: {ports: [{port: 80}]}
)";

TEST(Service, Validation) {
  expect_create(
      *type_named("", "services"), kService,
      {
          {""},
          {"spec: {ports: []}", {"spec.ports: Required value"}},
          {"spec: {ports: [], clusterIP: None}"},
          {"spec: {ports: [{port: 0}]}",
           {"spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive"}},
          {"spec: {ports: [{port: 80, protocol: ICMP}]}",
           {"spec.ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", \"UDP\""}},
          {"spec: {ports: [{port: 80}, {port: 81}]}",
           {"spec.ports[0].name: Required value", "spec.ports[1].name: Required value"}},
          {"spec: {ports: [{name: a, port: 80}, {name: a, port: 81}]}", {"spec.ports[1].name: Duplicate value: \"a\""}},
          {"spec: {ports: [{name: a, port: 80}, {name: b, port: 81}]}"},
          {"spec: {ports: [{port: 80, targetPort: Bad_Name}]}",
           {"spec.ports[0].targetPort: Invalid value: \"Bad_Name\": must contain only alpha-numeric characters (a-z, "
            "0-9), "
            "and hyphens (-)"}},
          {"spec: {type: Odd}",
           {"spec.type: Unsupported value: \"Odd\": supported values: \"ClusterIP\", \"ExternalName\", "
            "\"LoadBalancer\", "
            "\"NodePort\""}},
          {"spec: {sessionAffinity: Odd}",
           {"spec.sessionAffinity: Unsupported value: \"Odd\": supported values: \"ClientIP\", \"None\""}},
          {"spec: {sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 90000}}}",
           {"spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: must be greater than 0 and less "
            "than "
            "86400"}},
          {"spec: {type: ExternalName, ports: null}", {"spec.externalName: Required value"}},
          {"spec: {type: ExternalName, externalName: a.b., ports: null}"},
          {"spec: {type: NodePort, clusterIP: None}",
           {"spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"}},
          {"spec: {ports: [{port: 80, nodePort: 30000}]}",
           {"spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"}},
          {"spec: {externalTrafficPolicy: Local}",
           {"spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible "
            "services"}},
          {"spec: {allocateLoadBalancerNodePorts: true}",
           {"spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'"}},
      });
}

TEST(Service, Defaults) {
  const auto type = type_named("", "services");
  const DefaultsCase table[] = {
      {"spec: {ports: [{port: 80}]}",
       "spec: {sessionAffinity: None, type: ClusterIP, internalTrafficPolicy: Cluster, ports: [{port: 80, protocol: "
       "TCP, "
       "targetPort: 80}]}"},
      {"spec: {type: LoadBalancer, sessionAffinity: ClientIP}",
       "spec: {allocateLoadBalancerNodePorts: true, externalTrafficPolicy: Cluster, sessionAffinityConfig: {clientIP: "
       "{timeoutSeconds: 10800}}}"},
      {"spec: {type: NodePort}", "spec: {externalTrafficPolicy: Cluster}"},
  };
  for (const DefaultsCase& line : table) {
    expect_contains(prepared(*type, changed(kService, line.given)), from_yaml(line.expected), line.given);
  }
}

TEST(Service, AddressStays) {
  expect_update(*type_named("", "services"),
                "{metadata: {name: s}, spec: {ports: [{port: 80}], clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]}}",
                {{"spec: {selector: {a: b}}"},
                 {"spec: {clusterIP: 10.0.0.2, clusterIPs: [10.0.0.2]}",
                  {"spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"}},
                 {"spec: {type: ExternalName, externalName: a, clusterIP: null, clusterIPs: null, ports: null}"}});
}

TEST(Service, Columns) {
  const auto type = type_named("", "services");
  EXPECT_EQ(cells_text(*type, R"(
metadata: {name: s, creationTimestamp: '2026-01-01T00:00:00Z'}
spec: {type: LoadBalancer, clusterIPs: [10.0.0.1], selector: {a: b}, ports: [{port: 80, nodePort: 30080, protocol: TCP}]}
)",
                       "2026-01-01T00:00:10Z"),
            "s | LoadBalancer | 10.0.0.1 | <pending> | 80:30080/TCP | 10s | a=b");
  EXPECT_EQ(
      cells_text(*type, "{metadata: {name: s}, spec: {type: ExternalName, externalName: a.b}}", "2026-01-01T00:00:10Z"),
      "s | ExternalName | <none> | a.b | <none> | <unknown> | <none>");
}

constexpr std::string_view kConfigMap = R"(
apiVersion: v1
kind: ConfigMap
metadata: {name: c, namespace: default}
)";

TEST(ConfigMap, Validation) {
  expect_create(
      *type_named("", "configmaps"), kConfigMap,
      {
          {"data: {a.b_c-D: x}"},
          {"data: {a/b: x}",
           {"data[a/b]: Invalid value: \"a/b\": a valid config key must consist of alphanumeric characters, '-', '_' "
            "or '.' "
            "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"}},
          {"{data: {a: x}, binaryData: {a: eA==}}",
           {"data[a]: Invalid value: \"a\": duplicate of key present in binaryData"}},
          {"binaryData: {a: eA==}"},
      });
  json::Value big = from_yaml(kConfigMap);
  big.ensure_path({"data", "a"}) = std::string(1u << 20, 'x');
  EXPECT_TRUE(create_complaints(*type_named("", "configmaps"), big).empty());
  big.ensure_path({"data", "b"}) = "x";
  EXPECT_EQ(create_complaints(*type_named("", "configmaps"), big),
            std::vector<std::string>{"Too long: may not be more than 1048576 bytes"});
}

TEST(ConfigMap, Immutable) {
  expect_update(*type_named("", "configmaps"), "{metadata: {name: c}, data: {a: b}, immutable: true}",
                {{"metadata: {labels: {a: b}}"},
                 {"data: {a: c}", {"data: Forbidden: field is immutable when `immutable` is set"}},
                 {"immutable: null", {"immutable: Forbidden: field is immutable when `immutable` is set"}}});
  expect_update(*type_named("", "configmaps"), "{metadata: {name: c}, data: {a: b}}", {{"data: {a: c}"}});
}

constexpr std::string_view kSecret = R"(
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: default}
)";

TEST(Secret, Validation) {
  expect_create(
      *type_named("", "secrets"), kSecret,
      {
          {"data: {a: eA==}"},
          {"type: kubernetes.io/tls", {"data[tls.crt]: Required value", "data[tls.key]: Required value"}},
          {"{type: kubernetes.io/tls, data: {tls.crt: eA==, tls.key: eA==}}"},
          {"type: kubernetes.io/basic-auth", {"data[username]: Required value", "data[password]: Required value"}},
          {"{type: kubernetes.io/basic-auth, stringData: {username: a}}"},
          {"type: kubernetes.io/ssh-auth", {"data[ssh-privatekey]: Required value"}},
          {"type: kubernetes.io/dockerconfigjson", {"data[.dockerconfigjson]: Required value"}},
          {"{type: kubernetes.io/dockerconfigjson, stringData: {.dockerconfigjson: '{}'}}"},
          {"type: kubernetes.io/service-account-token",
           {"metadata.annotations[kubernetes.io/service-account.name]: Required value"}},
          {"type: example.com/own"},
      });
}

TEST(Secret, StringDataBecomesData) {
  const json::Value secret =
      prepared(*type_named("", "secrets"), changed(kSecret, "{data: {a: eA==, b: eQ==}, stringData: {a: new}}"));
  EXPECT_EQ(secret.find("stringData"), nullptr);
  expect_contains(secret, from_yaml("{type: Opaque, data: {a: bmV3, b: eQ==}}"), "");
}

TEST(Secret, TypeStays) {
  expect_update(*type_named("", "secrets"), "{metadata: {name: s}, type: a}",
                {{"type: b", {"type: Invalid value: \"b\": field is immutable"}}, {"data: {a: eA==}"}});
}

constexpr std::string_view kClaim = R"(
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, namespace: default}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
)";

TEST(PersistentVolumeClaim, Validation) {
  expect_create(
      *type_named("", "persistentvolumeclaims"), kClaim,
      {
          {""},
          {"spec: {accessModes: []}", {"spec.accessModes: Required value: at least 1 access mode is required"}},
          {"spec: {accessModes: [Odd]}",
           {"spec.accessModes: Unsupported value: \"Odd\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", "
            "\"ReadWriteOnce\", \"ReadWriteOncePod\""}},
          {"spec: {accessModes: [ReadWriteOnce, ReadWriteOncePod]}",
           {"spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"}},
          {"spec: {resources: null}", {"spec.resources[storage]: Required value"}},
          {"spec: {resources: {requests: {storage: 0}}}",
           {"spec.resources[storage]: Invalid value: \"0\": must be greater than zero"}},
          {"spec: {volumeMode: Odd}",
           {"spec.volumeMode: Unsupported value: \"Odd\": supported values: \"Block\", \"Filesystem\""}},
      });
}

TEST(PersistentVolumeClaim, HardlyChanges) {
  const std::string rule =
      "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for "
      "bound claims";
  const auto type = type_named("", "persistentvolumeclaims");
  expect_update(*type, kClaim,
                {{"spec: {volumeName: v}"},
                 {"spec: {storageClassName: s}"},
                 {"spec: {accessModes: [ReadOnlyMany]}", {rule}},
                 {"spec: {resources: {requests: {storage: 2Gi}}}", {rule}}});
  json::Value bound = prepared(*type, from_yaml(kClaim));
  bound.ensure_path({"status", "phase"}) = "Bound";
  bound.ensure_path({"status", "capacity"}) = from_yaml("storage: 1Gi");
  EXPECT_TRUE(
      update_complaints(*type, bound,
                        json::apply_merge_patch(bound, from_yaml("spec: {resources: {requests: {storage: 2Gi}}}")))
          .empty());
  EXPECT_EQ(
      update_complaints(*type, bound,
                        json::apply_merge_patch(bound, from_yaml("spec: {resources: {requests: {storage: 1Mi}}}"))),
      std::vector<std::string>{
          "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"});
}

TEST(PersistentVolumeClaim, ColumnsAndDefaults) {
  const auto type = type_named("", "persistentvolumeclaims");
  expect_contains(prepared(*type, from_yaml(kClaim)),
                  from_yaml("{spec: {volumeMode: Filesystem}, status: {phase: Pending}}"), "");
  EXPECT_EQ(cells_text(*type, R"(
metadata: {name: c, creationTimestamp: '2026-01-01T00:00:00Z'}
spec: {volumeName: v, storageClassName: s, volumeMode: Filesystem}
status: {phase: Bound, capacity: {storage: 1Gi}, accessModes: [ReadWriteMany, ReadWriteOnce]}
)",
                       "2026-01-03T01:00:00Z"),
            "c | Bound | v | 1Gi | RWO,RWX | s | <unset> | 2d1h | Filesystem");
}

constexpr std::string_view kVolume = R"(
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /x}}
)";

TEST(PersistentVolume, Validation) {
  expect_create(
      *type_named("", "persistentvolumes"), kVolume,
      {
          {""},
          {"spec: {accessModes: []}", {"spec.accessModes: Required value"}},
          {"spec: {hostPath: null}", {"spec: Required value: must specify a volume type"}},
          {"spec: {nfs: {server: s, path: /p}}", {"spec.nfs: Forbidden: may not specify more than 1 volume type"}},
          {"spec: {persistentVolumeReclaimPolicy: Odd}",
           {"spec.persistentVolumeReclaimPolicy: Unsupported value: \"Odd\": supported values: \"Delete\", "
            "\"Recycle\", "
            "\"Retain\""}},
          {"spec: {capacity: {storage: 0}}",
           {"spec.capacity[storage]: Invalid value: \"0\": must be greater than zero"}},
          {"spec: {hostPath: null, local: {path: /x}}",
           {"spec.nodeAffinity: Required value: Local volume requires node affinity"}},
      });
}

TEST(PersistentVolume, SourceStays) {
  expect_update(*type_named("", "persistentvolumes"), kVolume,
                {{"spec: {claimRef: {name: c, namespace: d}}"},
                 {"spec: {hostPath: {path: /y}}",
                  {"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"}},
                 {"spec: {volumeMode: Block}", {"volumeMode: Invalid value: \"Block\": field is immutable"}}});
}

constexpr std::string_view kLimits = R"(
apiVersion: v1
kind: LimitRange
metadata: {name: l, namespace: default}
)";

TEST(LimitRange, DefaultsOfContainers) {
  const json::Value range = prepared(
      *type_named("", "limitranges"),
      changed(kLimits,
              "spec: {limits: [{type: Container, max: {cpu: 2}, min: {memory: 1Mi}, default: {memory: 1Gi}}]}"));
  expect_contains(
      range,
      from_yaml(
          "spec: {limits: [{type: Container, max: {cpu: '2'}, min: {memory: 1Mi}, default: {cpu: '2', memory: 1Gi}, "
          "defaultRequest: {cpu: '2', memory: 1Gi}}]}"),
      "");
}

TEST(Quota, Columns) {
  EXPECT_EQ(cells_text(*type_named("", "resourcequotas"), R"(
metadata: {name: q, creationTimestamp: '2026-01-01T00:00:00Z'}
status: {hard: {pods: '5', limits.cpu: '4'}, used: {pods: '1'}}
)",
                       "2026-01-01T00:01:00Z"),
            "q | pods: 1/5 | limits.cpu: 0/4 | 60s");
}

TEST(Event, Columns) {
  EXPECT_EQ(cells_text(*type_named("", "events"), R"(
metadata: {name: e}
involvedObject: {kind: Pod, name: p, fieldPath: 'spec.containers{a}'}
type: Warning
reason: Failed
message: ' no such image '
source: {component: node, host: w}
firstTimestamp: '2026-01-01T00:00:00Z'
lastTimestamp: '2026-01-01T00:04:00Z'
count: 3
)",
                       "2026-01-01T00:05:00Z"),
            "60s | Warning | Failed | pod/p | spec.containers{a} | node, w | no such image | 5m | 3 | e");
}

TEST(Endpoints, ValidationAndColumns) {
  const auto type = type_named("", "endpoints");
  EXPECT_EQ(create_complaints(*type, from_yaml("{metadata: {name: e}, subsets: [{ports: [{port: 80}]}]}")),
            std::vector<std::string>{"subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"});
  EXPECT_EQ(cells_text(*type, R"(
metadata: {name: e}
subsets: [{addresses: [{ip: 1.1.1.1}, {ip: 1.1.1.2}], ports: [{port: 80}, {port: 81}]}]
)",
                       "2026-01-01T00:05:00Z"),
            "e | 1.1.1.1:80,1.1.1.2:80,1.1.1.1:81 + 1 more... | <unknown>");
}

}  // namespace
}  // namespace basalt::apiserver
