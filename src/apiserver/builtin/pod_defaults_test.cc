#include "apiserver/builtin/pod_defaults.h"

#include "apiserver/builtin/builtin_test_support.h"
#include "apiserver/builtin/pod_strategy.h"

namespace basalt::apiserver {
namespace {

json::Value pod_of(std::string_view spec) {
  json::Value pod = from_yaml("{apiVersion: v1, kind: Pod, metadata: {name: p}}");
  pod.as_object().set("spec", from_yaml(spec));
  return prepared(*pod_type(), std::move(pod));
}

TEST(PodDefaults, OfEveryPod) {
  // What a Kubernetes API server answers, admission aside.
  EXPECT_EQ(pod_of("{containers: [{name: a, image: b}]}").to_pretty_text(), from_yaml(R"(
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: a
    image: b
    imagePullPolicy: Always
    resources: {}
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  terminationGracePeriodSeconds: 30
status: {phase: Pending, qosClass: BestEffort}
)")
                                                                                .to_pretty_text());
}

TEST(PodDefaults, WhatIsGivenStays) {
  const std::string_view spec =
      "{containers: [{name: a, image: b, imagePullPolicy: Never, terminationMessagePath: /x, terminationMessagePolicy: "
      "FallbackToLogsOnError}], dnsPolicy: Default, enableServiceLinks: false, restartPolicy: Never, schedulerName: "
      "volcano, "
      "securityContext: {runAsUser: 1}, terminationGracePeriodSeconds: 0}";
  expect_contains(pod_of(spec),
                  from_yaml("spec: {dnsPolicy: Default, enableServiceLinks: false, restartPolicy: Never, "
                            "schedulerName: volcano, securityContext: {runAsUser: 1}, "
                            "terminationGracePeriodSeconds: 0}"),
                  "");
}

TEST(PodDefaults, InPlaces) {
  const DefaultsCase table[] = {
      {"{containers: [{name: a, ports: [{containerPort: 1}]}]}",
       "[{name: a, ports: [{containerPort: 1, protocol: TCP}]}]"},
      {"{hostNetwork: true, containers: [{name: a, ports: [{containerPort: 1}]}]}",
       "[{name: a, ports: [{containerPort: 1, hostPort: 1, protocol: TCP}]}]"},
      {"{containers: [{name: a, livenessProbe: {httpGet: {port: 1}}}]}",
       "[{name: a, livenessProbe: {httpGet: {port: 1, path: /, scheme: HTTP}, timeoutSeconds: 1, periodSeconds: 10, "
       "successThreshold: 1, failureThreshold: 3}}]"},
      {"{containers: [{name: a, readinessProbe: {grpc: {port: 1}, periodSeconds: 5}}]}",
       "[{name: a, readinessProbe: {grpc: {port: 1, service: ''}, timeoutSeconds: 1, periodSeconds: 5, "
       "successThreshold: "
       "1, failureThreshold: 3}}]"},
      {"{containers: [{name: a, lifecycle: {preStop: {httpGet: {port: 1}}}}]}",
       "[{name: a, lifecycle: {preStop: {httpGet: {port: 1, path: /, scheme: HTTP}}}}]"},
      {"{containers: [{name: a, env: [{name: X, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: Y, "
       "valueFrom: "
       "{resourceFieldRef: {resource: limits.cpu}}}]}]}",
       "[{name: a, env: [{name: X, valueFrom: {fieldRef: {apiVersion: v1, fieldPath: metadata.name}}}, {name: Y, "
       "valueFrom: {resourceFieldRef: {divisor: '0', resource: limits.cpu}}}]}]"},
      {"{containers: [{name: a, resources: {limits: {cpu: 2, memory: 1024Mi}, requests: {cpu: 1000m}}}]}",
       "[{name: a, resources: {limits: {cpu: '2', memory: 1Gi}, requests: {cpu: '1', memory: 1Gi}}}]"},
  };
  const json::Value common = from_yaml(
      "{imagePullPolicy: IfNotPresent, resources: {}, terminationMessagePath: /dev/termination-log, "
      "terminationMessagePolicy: File}");
  for (const DefaultsCase& line : table) {
    json::Value expected = from_yaml(line.expected);
    expected.as_array()[0] = json::apply_merge_patch(common, expected.as_array()[0]);
    const json::Value pod = pod_of(line.given);
    EXPECT_EQ(pod.find_path({"spec", "containers"})->to_text(), expected.to_text()) << line.given;
  }
}

TEST(PodDefaults, Volumes) {
  const DefaultsCase table[] = {
      {"{name: v}", "{name: v, emptyDir: {}}"},
      {"{name: v, secret: {secretName: s}}", "{name: v, secret: {secretName: s, defaultMode: 420}}"},
      {"{name: v, configMap: {name: c, defaultMode: 256}}", "{name: v, configMap: {name: c, defaultMode: 256}}"},
      {"{name: v, hostPath: {path: /x}}", "{name: v, hostPath: {path: /x, type: ''}}"},
      {"{name: v, downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}}",
       "{name: v, downwardAPI: {defaultMode: 420, items: [{path: p, fieldRef: {apiVersion: v1, fieldPath: "
       "metadata.name}}]}}"},
      {"{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}",
       "{name: v, projected: {defaultMode: 420, sources: [{serviceAccountToken: {path: t, expirationSeconds: "
       "3600}}]}}"},
      {"{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce]}}}}",
       "{name: v, ephemeral: {volumeClaimTemplate: {metadata: {}, spec: {accessModes: [ReadWriteOnce], resources: {}, "
       "volumeMode: Filesystem}}}}"},
  };
  for (const DefaultsCase& line : table) {
    const json::Value pod = pod_of("{volumes: [" + std::string(line.given) + "]}");
    EXPECT_EQ(pod.find_path({"spec", "volumes"})->as_array()[0].to_text(), from_yaml(line.expected).to_text());
  }
}

TEST(PodDefaults, PullPolicyFollowsTheTag) {
  const std::pair<std::string_view, std::string_view> table[] = {
      {"busybox", "Always"},
      {"busybox:latest", "Always"},
      {"busybox:1.36", "IfNotPresent"},
      {"registry:5000/busybox", "Always"},
      {"registry:5000/busybox:1", "IfNotPresent"},
      {"busybox@sha256:abc", "IfNotPresent"},
      {"busybox:latest@sha256:abc", "Always"},
      {"", "IfNotPresent"},
  };
  for (const auto& [image, policy] : table) EXPECT_EQ(default_pull_policy(image), policy) << image;
}

TEST(PodDefaults, ServiceAccountHasTwoNames) {
  expect_contains(pod_of("{serviceAccountName: s}"), from_yaml("spec: {serviceAccount: s, serviceAccountName: s}"), "");
  expect_contains(pod_of("{serviceAccount: s}"), from_yaml("spec: {serviceAccount: s, serviceAccountName: s}"), "");
  expect_contains(pod_of("{serviceAccount: s, serviceAccountName: t}"),
                  from_yaml("spec: {serviceAccount: t, serviceAccountName: t}"), "");
}

TEST(PodDefaults, QosClass) {
  const std::pair<std::string_view, std::string_view> table[] = {
      {"[{name: a}]", "BestEffort"},
      {"[{name: a, resources: {requests: {cpu: 0}}}]", "BestEffort"},
      {"[{name: a, resources: {limits: {example.com/gpu: 1}}}]", "BestEffort"},
      {"[{name: a, resources: {requests: {cpu: 1}}}]", "Burstable"},
      {"[{name: a, resources: {limits: {cpu: 1}}}]", "Burstable"},
      {"[{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]", "Guaranteed"},
      {"[{name: a, resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1000m, memory: 1024Mi}}}]", "Guaranteed"},
      {"[{name: a, resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1, memory: 1Mi}}}]", "Burstable"},
      {"[{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}, {name: b}]", "Burstable"},
  };
  for (const auto& [containers, expected] : table) {
    EXPECT_EQ(pod_of("{containers: " + std::string(containers) + "}").string_at({"status", "qosClass"}), expected)
        << containers;
  }
}

TEST(PodDefaults, EmptyIsAbsent) {
  const json::Value pod =
      pod_of("{containers: [{name: a, image: b, command: [], env: null}], nodeSelector: {}, tolerations: []}");
  EXPECT_EQ(pod.find_path({"spec", "nodeSelector"}), nullptr);
  EXPECT_EQ(pod.find_path({"spec", "tolerations"}), nullptr);
  const json::Value& container = pod.find_path({"spec", "containers"})->as_array()[0];
  EXPECT_EQ(container.find("command"), nullptr);
  EXPECT_EQ(container.find("env"), nullptr);
  expect_contains(pod_of("{containers: [{name: a, image: b, env: null, resources: null}], securityContext: null}"),
                  from_yaml("spec: {securityContext: {}}"), "");
}

TEST(PodDefaults, GatesShowInTheStatus) {
  const json::Value pod = pod_of("{containers: [{name: a}], schedulingGates: [{name: g}]}");
  const json::Value* conditions = pod.find_path({"status", "conditions"});
  ASSERT_NE(conditions, nullptr);
  EXPECT_EQ(conditions->as_array()[0].string_at({"reason"}), "SchedulingGated");
}

TEST(PodDefaults, AreStable) {
  const auto type = pod_type();
  const json::Value once = pod_of(
      "{containers: [{name: a, image: b, ports: [{containerPort: 1}], resources: {limits: {cpu: 1}}}], volumes: "
      "[{name: v}]}");
  json::Value twice = once;
  type->strategy->apply_defaults(twice);
  EXPECT_EQ(once.to_text(), twice.to_text());
}

}  // namespace
}  // namespace basalt::apiserver
