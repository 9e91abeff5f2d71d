#include "apiserver/builtin/pod_validation.h"

#include "apiserver/builtin/builtin_test_support.h"
#include "apiserver/builtin/pod_strategy.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kPod = R"(
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec: {containers: [{name: a, image: b}]}
)";

constexpr const char* kLabelRule =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr const char* kSubdomainRule =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

std::string quoted(std::string_view field, std::string_view value, std::string_view rule) {
  return std::string(field) + ": Invalid value: \"" + std::string(value) + "\": " + std::string(rule);
}

void check(const std::vector<ValidationCase>& table) { expect_create(*pod_type(), kPod, table); }

TEST(PodValidation, TakesAPlainPod) { check({{""}}); }

TEST(PodValidation, Containers) {
  check({
      {"spec: {containers: []}", {"spec.containers: Required value"}},
      {"spec: {containers: wrong}", {"spec.containers: Required value"}},
      {"spec: null", {"spec.containers: Required value"}},
      {"spec: {containers: [{}]}",
       {"spec.containers[0].name: Required value", "spec.containers[0].image: Required value"}},
      {"spec: {containers: [{name: A, image: b}]}", {quoted("spec.containers[0].name", "A", kLabelRule)}},
      {"spec: {containers: [{name: a, image: ' b'}]}",
       {quoted("spec.containers[0].image", " b", "must not have leading or trailing whitespace")}},
      {"spec: {containers: [{name: a, image: b}, {name: a, image: b}]}",
       {"spec.containers[1].name: Duplicate value: \"a\""}},
      {"spec: {containers: [{name: a, image: b}], initContainers: [{name: a, image: b}]}",
       {"spec.initContainers[0].name: Duplicate value: \"a\""}},
      {"spec: {initContainers: [{name: i, image: b}, {name: j, image: c}]}"},
      {"spec: {containers: [{name: a, image: b, imagePullPolicy: Sometimes}]}",
       {"spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", "
        "\"IfNotPresent\", \"Never\""}},
      {"spec: {containers: [{name: a, image: b, terminationMessagePolicy: Log}]}",
       {"spec.containers[0].terminationMessagePolicy: Unsupported value: \"Log\": supported values: \"File\", "
        "\"FallbackToLogsOnError\""}},
      {"spec: {initContainers: [{name: i, image: b, livenessProbe: {exec: {command: [a]}}}]}",
       {"spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
        "restartPolicy=Always"}},
      {"spec: {initContainers: [{name: i, image: b, restartPolicy: Always, livenessProbe: {exec: {command: [a]}}}]}"},
      {"spec: {ephemeralContainers: [{name: e, image: b}]}",
       {"spec.ephemeralContainers: Forbidden: cannot be set on create"}},
  });
}

TEST(PodValidation, Ports) {
  check({
      {"spec: {containers: [{name: a, image: b, ports: [{containerPort: 80, name: http}, {containerPort: 81}]}]}"},
      {"spec: {containers: [{name: a, image: b, ports: [{}]}]}",
       {"spec.containers[0].ports[0].containerPort: Required value"}},
      {"spec: {containers: [{name: a, image: b, ports: [{containerPort: 70000}]}]}",
       {"spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"}},
      {"spec: {containers: [{name: a, image: b, ports: [{containerPort: 80, hostPort: -1}]}]}",
       {"spec.containers[0].ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive"}},
      {"spec: {containers: [{name: a, image: b, ports: [{containerPort: 80, protocol: ICMP}]}]}",
       {"spec.containers[0].ports[0].protocol: Unsupported value: \"ICMP\": supported values: \"SCTP\", \"TCP\", "
        "\"UDP\""}},
      {"spec: {containers: [{name: a, image: b, ports: [{containerPort: 80, name: p}, {containerPort: 81, name: p}]}]}",
       {"spec.containers[0].ports[1].name: Duplicate value: \"p\""}},
      {"spec: {containers: [{name: a, image: b, ports: [{containerPort: 1, hostPort: 9}, {containerPort: 2, hostPort: "
       "9}]}]}",
       {"spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//9\""}},
      {"spec: {hostNetwork: true, containers: [{name: a, image: b, ports: [{containerPort: 1, hostPort: 9}]}]}",
       {"spec.containers[0].ports[0].hostPort: Invalid value: 9: must match `containerPort` when `hostNetwork` is "
        "true"}},
      {"spec: {hostNetwork: true, containers: [{name: a, image: b, ports: [{containerPort: 1}]}]}"},
  });
}

TEST(PodValidation, Environment) {
  check({
      {"spec: {containers: [{name: a, image: b, env: [{name: A.B-c_1, value: x}, {name: EMPTY}]}]}"},
      {"spec: {containers: [{name: a, image: b, env: [{value: x}]}]}",
       {"spec.containers[0].env[0].name: Required value"}},
      {"spec: {containers: [{name: a, image: b, env: [{name: A, valueFrom: {}}]}]}",
       {"spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, "
        "`resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"}},
      {"spec: {containers: [{name: a, image: b, env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: "
       "metadata.name}}}]}]}",
       {"spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"}},
      {"spec: {containers: [{name: a, image: b, env: [{name: A, valueFrom: {fieldRef: {fieldPath: "
       "\"metadata.labels['x/y']\"}}}]}]}"},
      {"spec: {containers: [{name: a, image: b, env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.phase}}}]}]}",
       {"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"status.phase\": supported "
        "values: "
        "\"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", "
        "\"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\""}},
      {"spec: {containers: [{name: a, image: b, env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.foo}}}]}]}",
       {"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.foo\": error converting "
        "fieldPath: field label not supported: spec.foo"}},
      {"spec: {containers: [{name: a, image: b, env: [{name: A, valueFrom: {resourceFieldRef: {resource: gpu}}}]}]}",
       {"spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: \"gpu\": supported values: "
        "\"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", "
        "\"requests.ephemeral-storage\", \"requests.memory\""}},
      {"spec: {containers: [{name: a, image: b, env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]}]}",
       {"spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value"}},
      {"spec: {containers: [{name: a, image: b, envFrom: [{configMapRef: {name: c}, prefix: P_}]}]}"},
      {"spec: {containers: [{name: a, image: b, envFrom: [{}]}]}",
       {"spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"}},
  });
}

TEST(PodValidation, Resources) {
  check({
      {"spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 2, memory: 1Gi, example.com/gpu: 1}, "
       "requests: {cpu: 500m}}}]}"},
      {"spec: {containers: [{name: a, image: b, resources: {limits: {cpu: 1}, requests: {cpu: 2}}}]}",
       {"spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"}},
      {"spec: {containers: [{name: a, image: b, resources: {requests: {cpu: -1}}}]}",
       {"spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"}},
      {"spec: {containers: [{name: a, image: b, resources: {requests: {cpu: lots}}}]}",
       {"spec.containers[0].resources.requests[cpu]: Invalid value: \"lots\": quantities must match the regular "
        "expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"}},
      {"spec: {containers: [{name: a, image: b, resources: {limits: {example.com/gpu: 500m}}}]}",
       {"spec.containers[0].resources.limits[example.com/gpu]: Invalid value: \"500m\": must be an integer",
        "spec.containers[0].resources.requests[example.com/gpu]: Invalid value: \"500m\": must be an integer"}},
      {"spec: {containers: [{name: a, image: b, resources: {requests: {example.com/gpu: 1}}}]}",
       {"spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"}},
      {"spec: {containers: [{name: a, image: b, resources: {limits: {example.com/gpu: 2}, requests: {example.com/gpu: "
       "1}}}]}",
       {"spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2"}},
      {"spec: {containers: [{name: a, image: b, resources: {requests: {gpu: 1}}}]}",
       {"spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully "
        "qualified",
        "spec.containers[0].resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource for "
        "containers"}},
      {"spec: {containers: [{name: a, image: b, resources: {limits: {hugepages-2Mi: 4Mi}}}]}",
       {"spec.containers[0].resources: Forbidden: HugePages require cpu or memory"}},
      {"spec: {containers: [{name: a, image: b, resources: {limits: {hugepages-2Mi: 3Mi, cpu: 1}}}]}",
       {"spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer "
        "multiple of hugepages-2Mi",
        "spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer "
        "multiple of hugepages-2Mi"}},
      {"spec: {containers: [{name: a, image: b, resources: {claims: [{name: c}]}}]}",
       {"spec.containers[0].resources.claims[0]: Not found: \"c\": must be one of the names in pod.spec.resourceClaims "
        "which is empty"}},
      {"spec: {resourceClaims: [{name: c, resourceClaimName: x}], containers: [{name: a, image: b, resources: {claims: "
       "[{name: c}]}}]}"},
  });
}

TEST(PodValidation, Volumes) {
  check({
      {"spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: a, image: b, volumeMounts: [{name: v, "
       "mountPath: /v}]}]}"},
      {"spec: {volumes: [{name: v}, {name: v}]}", {"spec.volumes[1].name: Duplicate value: \"v\""}},
      {"spec: {volumes: [{emptyDir: {}}]}", {"spec.volumes[0].name: Required value"}},
      {"spec: {volumes: [{name: v, emptyDir: {}, hostPath: {path: /x}}]}",
       {"spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"}},
      {"spec: {volumes: [{name: v, secret: {}}]}", {"spec.volumes[0].secret.secretName: Required value"}},
      {"spec: {volumes: [{name: v, configMap: {}}]}", {"spec.volumes[0].configMap.name: Required value"}},
      {"spec: {volumes: [{name: v, configMap: {name: c, defaultMode: 512}}]}",
       {"spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both "
        "inclusive"}},
      {"spec: {volumes: [{name: v, configMap: {name: c, items: [{key: k, path: ../p}]}}]}",
       {"spec.volumes[0].configMap.items[0].path: Invalid value: \"../p\": must not contain '..'"}},
      {"spec: {volumes: [{name: v, hostPath: {}}]}", {"spec.volumes[0].hostPath.path: Required value"}},
      {"spec: {volumes: [{name: v, hostPath: {path: /x, type: Odd}}]}",
       {"spec.volumes[0].hostPath.type: Unsupported value: \"Odd\": supported values: \"\", \"BlockDevice\", "
        "\"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\""}},
      {"spec: {volumes: [{name: v, persistentVolumeClaim: {}}]}",
       {"spec.volumes[0].persistentVolumeClaim.claimName: Required value"}},
      {"spec: {volumes: [{name: v, nfs: {server: s, path: p}}]}",
       {"spec.volumes[0].nfs.path: Invalid value: \"p\": must be an absolute path"}},
      {"spec: {volumes: [{name: v, emptyDir: {sizeLimit: -1}}]}",
       {"spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"}},
      {"spec: {volumes: [{name: v, projected: {sources: [{secret: {name: s}, configMap: {name: c}}]}}]}",
       {"spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"}},
      {"spec: {volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}",
       {"spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when "
        "serviceAccountName is not set"}},
      {"spec: {serviceAccountName: s, volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}"},
      {"spec: {volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: "
       "{requests: {storage: 1Gi}}}}}}]}"},
      {"spec: {volumes: [{name: v, ephemeral: {}}]}",
       {"spec.volumes[0].ephemeral.volumeClaimTemplate: Required value"}},
  });
}

TEST(PodValidation, Mounts) {
  check({
      {"spec: {containers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /v}]}]}",
       {"spec.containers[0].volumeMounts[0].name: Not found: \"v\""}},
      {"spec: {volumes: [{name: v}], containers: [{name: a, image: b, volumeMounts: [{name: v}]}]}",
       {"spec.containers[0].volumeMounts[0].mountPath: Required value"}},
      {"spec: {volumes: [{name: v}], containers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /v}, {name: "
       "v, mountPath: /v}]}]}",
       {"spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/v\": must be unique"}},
      {"spec: {volumes: [{name: v}], containers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /v, subPath: "
       "/abs}]}]}",
       {"spec.containers[0].volumeMounts.subPath: Invalid value: \"/abs\": must be a relative path"}},
      {"spec: {volumes: [{name: v}], containers: [{name: a, image: b, volumeMounts: [{name: v, mountPath: /v, "
       "mountPropagation: Bidirectional}]}]}",
       {"spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available "
        "only to privileged containers"}},
      {"spec: {volumes: [{name: v}], containers: [{name: a, image: b, volumeDevices: [{name: v, devicePath: /d}]}]}",
       {"spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of "
        "PersistentVolumeClaim or Ephemeral for block mode"}},
  });
}

TEST(PodValidation, ProbesAndLifecycle) {
  check({
      {"spec: {containers: [{name: a, image: b, livenessProbe: {httpGet: {port: http}}, readinessProbe: {tcpSocket: "
       "{port: 80}}}]}"},
      {"spec: {containers: [{name: a, image: b, livenessProbe: {}}]}",
       {"spec.containers[0].livenessProbe: Required value: must specify a handler type"}},
      {"spec: {containers: [{name: a, image: b, livenessProbe: {httpGet: {port: 80}, exec: {command: [a]}}}]}",
       {"spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type"}},
      {"spec: {containers: [{name: a, image: b, livenessProbe: {exec: {}}}]}",
       {"spec.containers[0].livenessProbe.exec.command: Required value"}},
      {"spec: {containers: [{name: a, image: b, livenessProbe: {httpGet: {port: 0}}}]}",
       {"spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive"}},
      {"spec: {containers: [{name: a, image: b, livenessProbe: {httpGet: {port: 80, scheme: FTP}}}]}",
       {"spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", "
        "\"HTTPS\""}},
      {"spec: {containers: [{name: a, image: b, livenessProbe: {tcpSocket: {port: 80}, successThreshold: 2}}]}",
       {"spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"}},
      {"spec: {containers: [{name: a, image: b, readinessProbe: {tcpSocket: {port: 80}, periodSeconds: -1}}]}",
       {"spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0"}},
      {"spec: {containers: [{name: a, image: b, readinessProbe: {tcpSocket: {port: 80}, terminationGracePeriodSeconds: "
       "1}}]}",
       {"spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for "
        "readinessProbes"}},
      {"spec: {containers: [{name: a, image: b, lifecycle: {preStop: {sleep: {seconds: 31}}}}]}",
       {"spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than "
        "terminationGracePeriodSeconds (30)"}},
      {"spec: {containers: [{name: a, image: b, lifecycle: {preStop: {sleep: {seconds: 30}}}}]}"},
  });
}

TEST(PodValidation, Scheduling) {
  check({
      {"spec: {nodeSelector: {a/b: c}, tolerations: [{operator: Exists}, {key: k, value: v, effect: NoSchedule}]}"},
      {"spec: {tolerations: [{key: k, operator: Exists, value: v}]}",
       {"spec.tolerations[0].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'"}},
      {"spec: {tolerations: [{value: v}]}",
       {"spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means "
        "\"match all values and all keys\""}},
      {"spec: {tolerations: [{key: k, operator: Odd}]}",
       {"spec.tolerations[0].operator: Unsupported value: \"Odd\": supported values: \"Equal\", \"Exists\""}},
      {"spec: {tolerations: [{key: k, effect: NoSchedule, tolerationSeconds: 1}]}",
       {"spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when "
        "`tolerationSeconds` is set"}},
      {"spec: {tolerations: [{key: k, effect: Never}]}",
       {"spec.tolerations[0].effect: Unsupported value: \"Never\": supported values: \"NoSchedule\", "
        "\"PreferNoSchedule\", \"NoExecute\""}},
      {"spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
       "[{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}}"},
      {"spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}}",
       {"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: "
        "must have at least one node selector term"}},
      {"spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
       "[{matchExpressions: [{key: a, operator: In}]}]}}}}",
       {"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
        "matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}},
      {"spec: {affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: "
       "{}}]}}}",
       {"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must "
        "be in the range 1-100"}},
      {"spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: "
       "kubernetes.io/hostname, labelSelector: {matchLabels: {a: b}}}]}}}"},
      {"spec: {topologySpreadConstraints: [{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]}",
       {"spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"}},
      {"spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: Maybe}]}",
       {"spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Maybe\": supported values: "
        "\"DoNotSchedule\", \"ScheduleAnyway\""}},
      {"spec: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: "
       "1}]}",
       {"spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if "
        "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"}},
      {"spec: {schedulingGates: [{name: g}, {name: g}]}", {"spec.schedulingGates[1]: Duplicate value: \"g\""}},
      {"spec: {schedulingGates: [{name: g}], nodeName: w}",
       {"spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"}},
  });
}

TEST(PodValidation, PoliciesAndNames) {
  check({
      {"spec: {restartPolicy: Never, dnsPolicy: Default, priorityClassName: p, hostname: h, subdomain: s}"},
      {"spec: {restartPolicy: Maybe}",
       {"spec.restartPolicy: Unsupported value: \"Maybe\": supported values: \"Always\", \"OnFailure\", \"Never\""}},
      {"spec: {dnsPolicy: Odd}",
       {"spec.dnsPolicy: Unsupported value: \"Odd\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", "
        "\"Default\", \"None\""}},
      {"spec: {dnsPolicy: None}",
       {"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
      {"spec: {dnsPolicy: None, dnsConfig: {nameservers: [1.2.3.4], searches: [a_b.c]}}"},
      {"spec: {nodeName: A}", {quoted("spec.nodeName", "A", kSubdomainRule)}},
      {"spec: {hostname: a.b}", {quoted("spec.hostname", "a.b", std::string("must not contain dots"))}},
      {"spec: {activeDeadlineSeconds: 0}",
       {"spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"}},
      {"spec: {preemptionPolicy: Odd}",
       {"spec.preemptionPolicy: Unsupported value: \"Odd\": supported values: \"PreemptLowerPriority\", \"Never\""}},
      {"metadata: {annotations: {controller.kubernetes.io/pod-deletion-cost: x}}",
       {"metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"x\": must be a 32bit "
        "integer"}},
  });
}

TEST(PodValidation, Security) {
  check({
      {"spec: {securityContext: {runAsUser: 1000, fsGroup: 0, seccompProfile: {type: RuntimeDefault}}}"},
      {"spec: {securityContext: {runAsUser: -1}}",
       {"spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"}},
      {"spec: {securityContext: {supplementalGroups: [1, -1]}}",
       {"spec.securityContext.supplementalGroups[1]: Invalid value: -1: must be between 0 and 2147483647, inclusive"}},
      {"spec: {securityContext: {seccompProfile: {type: Localhost}}}",
       {"spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is "
        "Localhost"}},
      {"spec: {securityContext: {seccompProfile: {type: Odd}}}",
       {"spec.securityContext.seccompProfile.type: Unsupported value: \"Odd\": supported values: \"Localhost\", "
        "\"RuntimeDefault\", \"Unconfined\""}},
      {"spec: {securityContext: {fsGroupChangePolicy: Odd}}",
       {"spec.securityContext.fsGroupChangePolicy: Unsupported value: \"Odd\": supported values: \"Always\", "
        "\"OnRootMismatch\""}},
      {"spec: {containers: [{name: a, image: b, securityContext: {privileged: true, allowPrivilegeEscalation: "
       "false}}]}",
       {"spec.containers[0].securityContext: Invalid value: {\"allowPrivilegeEscalation\":false,\"privileged\":true}: "
        "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"}},
  });
}

// Members of wrong types are no reason to fall over.
TEST(PodValidation, SurvivesNonsense) {
  const auto type = pod_type();
  for (const std::string_view text :
       {"{spec: 1}", "{spec: []}", "{spec: {containers: [1, [], null, {env: 3, ports: {}, resources: []}]}}",
        "{spec: {volumes: {}, tolerations: [1], affinity: [], nodeSelector: [a], securityContext: 5}}",
        "{spec: {containers: [{name: {}, image: [], volumeMounts: [[]], livenessProbe: 1, lifecycle: 2}]}}",
        "{spec: {containers: [{name: a, image: b, resources: {limits: [1], requests: {cpu: {}}}}]}}"}) {
    json::Value object = from_yaml(text);
    object.as_object().set("metadata", json::Object{{"name", "p"}});
    EXPECT_FALSE(create_complaints(*type, object).empty()) << text;
  }
}

TEST(PodUpdate, WhatMayChange) {
  constexpr std::string_view kStored = R"(
metadata: {name: p, namespace: default, uid: u}
spec:
  containers: [{name: a, image: b}]
  tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]
  activeDeadlineSeconds: 100
)";
  const std::string fields =
      "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
      "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
      "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
  expect_update(
      *pod_type(), kStored,
      {
          {"metadata: {labels: {a: b}}"},
          {"spec: {containers: [{name: a, image: c}]}"},
          {"spec: {containers: [{name: a, image: b, command: [x]}]}",
           {"spec: Forbidden: " + fields + "\nchanged: spec.containers"}},
          {"spec: {activeDeadlineSeconds: 50}"},
          {"spec: {activeDeadlineSeconds: 200}",
           {"spec.activeDeadlineSeconds: Invalid value: 200: must be less than or equal to previous value"}},
          {"spec: {activeDeadlineSeconds: null}",
           {"spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"}},
          {"spec: {tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 9}, {key: l, "
           "operator: "
           "Exists}]}"},
          {"spec: {tolerations: []}",
           {"spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"}},
          {"spec: {nodeName: w}", {"spec: Forbidden: " + fields + "\nchanged: spec.nodeName"}},
          {"spec: {schedulingGates: [{name: g}]}",
           {"spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"}},
          {"spec: {containers: []}",
           {"spec.containers: Required value",
            "spec.containers: Forbidden: pod updates may not add or remove containers"}},
      });
}

TEST(PodUpdate, AnImageMayChange) {
  const auto type = pod_type();
  const json::Value old = prepared(*type, from_yaml(kPod));
  json::Value object = old;
  json::Value& container = (*object.find_path({"spec", "containers"})).as_array()[0];
  container.as_object().set("image", "c:1");
  EXPECT_TRUE(update_complaints(*type, old, object).empty());
}

TEST(PodUpdate, Gates) {
  expect_update(
      *pod_type(), R"(
metadata: {name: p}
spec: {containers: [{name: a, image: b}], schedulingGates: [{name: g}, {name: h}], nodeSelector: {a: b}}
)",
      {
          {"spec: {schedulingGates: [{name: g}]}"},
          {"spec: {schedulingGates: null}"},
          {"spec: {nodeSelector: {c: d}}"},
          {"spec: {nodeSelector: {a: x}}",
           {"spec.nodeSelector: Invalid value: {\"a\":\"x\"}: only additions to spec.nodeSelector are allowed "
            "(no mutations or deletions)"}},
      });
}

TEST(PodStatus, Rules) {
  constexpr std::string_view kStored = R"(
metadata: {name: p}
spec: {containers: [{name: a, image: b}], restartPolicy: Never, nodeName: w}
)";
  const auto type = pod_type();
  expect_update(
      *type, kStored,
      {
          {"status: {phase: Running, conditions: [{type: Ready, status: 'True'}]}"},
          {"status: {qosClass: Guaranteed}", {"status.qosClass: Invalid value: \"Guaranteed\": field is immutable"}},
          {"status: {nominatedNodeName: m}",
           {"status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"}},
      },
      WritePart::Status);
  json::Value old = prepared(*type, from_yaml(kStored));
  old.ensure_path({"status", "containerStatuses"}) = from_yaml("[{name: a, state: {terminated: {exitCode: 1}}}]");
  json::Value object = old;
  object.ensure_path({"status", "containerStatuses"}) = from_yaml("[{name: a, state: {running: {}}}]");
  EXPECT_EQ(update_complaints(*type, old, object, WritePart::Status),
            std::vector<std::string>{"status.containerStatuses[0].state: Forbidden: may not be transitioned to "
                                     "non-terminated state"});
}

}  // namespace
}  // namespace basalt::apiserver
