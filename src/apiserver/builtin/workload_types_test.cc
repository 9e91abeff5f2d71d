#include "apiserver/builtin/builtin_test_support.h"

namespace basalt::apiserver {
namespace {

constexpr std::string_view kDeployment = R"(
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: default}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
)";

TEST(Deployment, Validation) {
  expect_create(
      *type_named("apps", "deployments"), kDeployment,
      {
          {""},
          {"spec: {selector: null}",
           {"spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template "
            "`labels`"}},
          {"spec: {selector: {matchLabels: {a: c}}}",
           {"spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template "
            "`labels`"}},
          {"spec: {selector: {matchLabels: null, matchExpressions: [{key: a, operator: In, values: [b, c]}]}}"},
          {"spec: {replicas: -1}", {"spec.replicas: Invalid value: -1: must be greater than or equal to 0"}},
          {"spec: {template: {spec: {restartPolicy: Never}}}",
           {"spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""}},
          {"spec: {template: {spec: {containers: []}}}", {"spec.template.spec.containers: Required value"}},
          {"spec: {strategy: {type: Recreate}}"},
          {"spec: {strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}}",
           {"spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"}},
          {"spec: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}}",
           {"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"}},
          {"spec: {strategy: {rollingUpdate: {maxSurge: -1}}}",
           {"spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0"}},
          {"spec: {progressDeadlineSeconds: 5, minReadySeconds: 5}",
           {"spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds"}},
          {"spec: {template: {spec: {activeDeadlineSeconds: 5}}}",
           {"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not "
            "Supported"}},
      });
}

TEST(Deployment, DefaultsAndColumns) {
  const auto type = type_named("apps", "deployments");
  expect_contains(
      prepared(*type, from_yaml(kDeployment)),
      from_yaml("spec: {replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600, strategy: {type: "
                "RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}, template: {spec: "
                "{restartPolicy: Always, dnsPolicy: ClusterFirst}}}"),
      "");
  EXPECT_EQ(cells_text(*type, R"(
metadata: {name: d, creationTimestamp: '2026-01-01T00:00:00Z'}
spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c, image: i}, {name: e, image: j}]}}}
status: {readyReplicas: 2, updatedReplicas: 3, availableReplicas: 1}
)",
                       "2026-01-01T00:00:01Z"),
            "d | 2/3 | 3 | 1 | 1s | c,e | i,j | a=b");
}

TEST(Deployment, SelectorStays) {
  const auto type = type_named("apps", "deployments");
  const json::Value old = prepared(*type, from_yaml(kDeployment));
  const auto complaints = update_complaints(
      *type, old,
      json::apply_merge_patch(
          old, from_yaml("spec: {selector: {matchLabels: {c: d}}, template: {metadata: {labels: {c: d}}}}")));
  ASSERT_EQ(complaints.size(), 1u);
  EXPECT_TRUE(complaints[0].starts_with("spec.selector: Invalid value: ")) << complaints[0];
  EXPECT_TRUE(complaints[0].ends_with("field is immutable")) << complaints[0];
}

TEST(Deployment, GenerationFollowsTheSpec) {
  const auto type = type_named("apps", "deployments");
  const json::Value old = prepared(*type, from_yaml(kDeployment));
  EXPECT_FALSE(
      type->strategy->raises_generation(json::apply_merge_patch(old, from_yaml("metadata: {labels: {a: b}}")), old));
  EXPECT_FALSE(
      type->strategy->raises_generation(json::apply_merge_patch(old, from_yaml("status: {replicas: 1}")), old));
  EXPECT_TRUE(type->strategy->raises_generation(json::apply_merge_patch(old, from_yaml("spec: {replicas: 2}")), old));
  EXPECT_TRUE(type->strategy->raises_generation(json::apply_merge_patch(old, from_yaml("spec: null")), old));
}

constexpr std::string_view kStatefulSet = R"(
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: s, namespace: default}
spec:
  serviceName: x
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
)";

TEST(StatefulSet, Validation) {
  expect_create(
      *type_named("apps", "statefulsets"), kStatefulSet,
      {
          {""},
          {"spec: {podManagementPolicy: Odd}",
           {"spec.podManagementPolicy: Invalid value: \"Odd\": must be 'OrderedReady' or 'Parallel'"}},
          {"spec: {volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: "
           "{requests: "
           "{storage: 1Gi}}}}], template: {spec: {containers: [{name: c, image: i, volumeMounts: [{name: v, mountPath: "
           "/v}]}]}}}"},
          {"spec: {selector: null}",
           {"spec.selector: Required value",
            "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template "
            "`labels`"}},
      });
}

TEST(StatefulSet, Defaults) {
  expect_contains(
      prepared(*type_named("apps", "statefulsets"), from_yaml(kStatefulSet)),
      from_yaml("{spec: {replicas: 1, podManagementPolicy: OrderedReady, revisionHistoryLimit: 10, updateStrategy: "
                "{type: RollingUpdate, rollingUpdate: {partition: 0}}, persistentVolumeClaimRetentionPolicy: "
                "{whenDeleted: Retain, whenScaled: Retain}}, status: {replicas: 0, availableReplicas: 0}}"),
      "");
}

TEST(StatefulSet, Updates) {
  expect_update(
      *type_named("apps", "statefulsets"), kStatefulSet,
      {{"spec: {replicas: 3}"},
       {"spec: {serviceName: y}",
        {"spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
         "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
         "'minReadySeconds' are forbidden"}}});
}

constexpr std::string_view kReplicaSet = R"(
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: r, namespace: default}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
)";

TEST(ReplicaSet, Validation) {
  expect_create(*type_named("apps", "replicasets"), kReplicaSet,
                {
                    {""},
                    {"spec: {template: null}",
                     {"spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                      "spec.template.spec.containers: Required value"}},
                    {"spec: {selector: {matchLabels: null}, template: {metadata: {labels: null}}}",
                     {"spec.selector: Invalid value: {}: empty selector is invalid for deployment"}},
                });
}

constexpr std::string_view kDaemonSet = R"(
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: d, namespace: default}
spec:
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
)";

TEST(DaemonSet, ValidationAndDefaults) {
  expect_create(
      *type_named("apps", "daemonsets"), kDaemonSet,
      {
          {""},
          {"spec: {template: {spec: {restartPolicy: OnFailure}}}",
           {"spec.template.spec.restartPolicy: Unsupported value: \"OnFailure\": supported values: \"Always\""}},
      });
  expect_contains(
      prepared(*type_named("apps", "daemonsets"), from_yaml(kDaemonSet)),
      from_yaml("{spec: {revisionHistoryLimit: 10, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, "
                "maxUnavailable: 1}}}, status: {numberReady: 0}}"),
      "");
}

constexpr std::string_view kJob = R"(
apiVersion: batch/v1
kind: Job
metadata: {name: j, namespace: default}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
)";

TEST(BatchJob, Validation) {
  expect_create(
      *type_named("batch", "jobs"), kJob,
      {
          {""},
          {"spec: {template: {spec: {restartPolicy: Always}}}",
           {"spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""}},
          {"spec: {parallelism: -1}", {"spec.parallelism: Invalid value: -1: must be greater than or equal to 0"}},
          {"spec: {completionMode: Indexed, parallelism: 1}",
           {"spec.completions: Required value: when completion mode is Indexed"}},
          {"spec: {completionMode: Odd}",
           {"spec.completionMode: Unsupported value: \"Odd\": supported values: \"NonIndexed\", \"Indexed\""}},
      });
}

TEST(BatchJob, MarksItsPods) {
  json::Value job = from_yaml(kJob);
  job.ensure_path({"metadata", "uid"}) = "u";
  expect_contains(
      prepared(*type_named("batch", "jobs"), job),
      from_yaml("{spec: {completions: 1, parallelism: 1, backoffLimit: 6, completionMode: NonIndexed, suspend: false, "
                "podReplacementPolicy: TerminatingOrFailed, selector: {matchLabels: "
                "{batch.kubernetes.io/controller-uid: u}}, template: {metadata: {labels: "
                "{batch.kubernetes.io/controller-uid: u, controller-uid: u, batch.kubernetes.io/job-name: j, job-name: "
                "j}}}}, metadata: {labels: {job-name: j}}}"),
      "");
}

TEST(BatchJob, Columns) {
  EXPECT_EQ(cells_text(*type_named("batch", "jobs"), R"(
metadata: {name: j, creationTimestamp: '2026-01-01T00:00:00Z'}
spec: {completions: 3, selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c, image: i}]}}}
status: {succeeded: 3, startTime: '2026-01-01T00:00:00Z', completionTime: '2026-01-01T00:00:42Z', conditions: [{type: Complete, status: 'True'}]}
)",
                       "2026-01-01T01:00:00Z"),
            "j | Complete | 3/3 | 42s | 60m | c | i | a=b");
}

constexpr std::string_view kCronJob = R"(
apiVersion: batch/v1
kind: CronJob
metadata: {name: j, namespace: default}
spec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}}
)";

TEST(CronJob, Validation) {
  expect_create(
      *type_named("batch", "cronjobs"), kCronJob,
      {
          {""},
          {"spec: {schedule: null}", {"spec.schedule: Required value"}},
          {"spec: {schedule: '@hourly', timeZone: UTC}"},
          {"spec: {schedule: '60 * * * *'}",
           {"spec.schedule: Invalid value: \"60 * * * *\": \"60\" is out of range in the field minute (0 to "
            "59)"}},
          {"spec: {schedule: 'TZ=UTC * * * * *'}",
           {"spec.schedule: Invalid value: \"TZ=UTC * * * * *\": cannot use TZ or CRON_TZ in schedule, use "
            "timeZone field instead"}},
          {"spec: {timeZone: Local}",
           {"spec.timeZone: Invalid value: \"Local\": must be an explicit time zone as defined in "
            "https://www.iana.org/time-zones"}},
          {"spec: {timeZone: ../etc}", {"spec.timeZone: Invalid value: \"../etc\": unknown time zone ../etc"}},
          {"spec: {jobTemplate: {spec: {successPolicy: {rules: [{succeededCount: 1}]}}}}",
           {"spec.jobTemplate.spec.successPolicy: Invalid value: {\"rules\":[{\"succeededCount\":1}]}: requires "
            "indexed completion mode"}},
          {"spec: {jobTemplate: {spec: {completionMode: Indexed, completions: 2, successPolicy: {rules: "
           "[{succeededIndexes: '0'}, {}, {succeededCount: 3}]}}}}",
           {"spec.jobTemplate.spec.successPolicy.rules[1]: Required value: at least one of succeededCount or "
            "succeededIndexes must be specified",
            "spec.jobTemplate.spec.successPolicy.rules[2].succeededCount: Invalid value: 3: must be between 1 "
            "and the number of completions"}},
          {"spec: {concurrencyPolicy: Odd}",
           {"spec.concurrencyPolicy: Unsupported value: \"Odd\": supported values: \"Allow\", \"Forbid\", "
            "\"Replace\""}},
          {"spec: {jobTemplate: {spec: {template: {spec: {restartPolicy: Always}}}}}",
           {"spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", "
            "\"Never\""}},
      });
}

constexpr std::string_view kController = R"(
apiVersion: v1
kind: ReplicationController
metadata: {name: r, namespace: default}
spec: {template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}
)";

TEST(ReplicationController, ValidationAndDefaults) {
  expect_create(*type_named("", "replicationcontrollers"), kController,
                {
                    {""},
                    {"spec: {selector: {a: c}}",
                     {"spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template "
                      "`labels`"}},
                    {"spec: {template: {metadata: {labels: null}}}", {"spec.selector: Required value"}},
                });
  expect_contains(prepared(*type_named("", "replicationcontrollers"), from_yaml(kController)),
                  from_yaml("{metadata: {labels: {a: b}}, spec: {replicas: 1, selector: {a: b}}}"), "");
}

}  // namespace
}  // namespace basalt::apiserver
