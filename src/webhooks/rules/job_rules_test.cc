#include "webhooks/webhooks_test_support.h"

// Jobs. Tests named J<n> are the scenarios of the job sheet, V<n>, P<n> and U<n> its rules.

namespace basalt::webhooks {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace testing;

class JobRulesTest : public RulesTest {
 protected:
  json::Value mutate(std::string_view spec) { return mutated("/jobs/mutate", job_yaml(spec)); }
  ReviewAnswer validate(std::string_view spec, std::string_view name = "j") {
    return create("/jobs/validate", job_yaml(spec, name));
  }
  // Both hooks, as the API server calls them.
  ReviewAnswer submit(std::string_view spec) {
    const json::Value job = mutate(spec);
    return send("/jobs/validate", Operation::Create, &job);
  }
  ReviewAnswer change(std::string_view before, std::string_view after) {
    return update("/jobs/validate", job_yaml(before), job_yaml(after));
  }
};

std::string task(std::string_view members) {
  return "  tasks: [{name: worker, replicas: 2, " + kTemplate + ", " + std::string(members) + "}]\n";
}

TEST_F(JobRulesTest, J1JobDefaults) {
  const json::Value job = mutate(kOneTask);
  EXPECT_EQ("default", job.string_at({"spec", "queue"}));
  EXPECT_EQ("volcano", job.string_at({"spec", "schedulerName"}));
  EXPECT_EQ(json::Value(3), *job.find_path({"spec", "maxRetry"}));
  options_.scheduler_names = {"mine", "other"};
  EXPECT_EQ("mine", mutate(kOneTask).string_at({"spec", "schedulerName"}));
  const json::Value kept = mutate(kOneTask + "  queue: q\n  schedulerName: s\n  maxRetry: 7\n  minAvailable: 1\n");
  EXPECT_EQ("q", kept.string_at({"spec", "queue"}));
  EXPECT_EQ("s", kept.string_at({"spec", "schedulerName"}));
  EXPECT_EQ(json::Value(7), *kept.find_path({"spec", "maxRetry"}));
  EXPECT_EQ(json::Value(1), *kept.find_path({"spec", "minAvailable"}));
}

TEST_F(JobRulesTest, J2UnnamedTasks) {
  const json::Value job = mutate("  tasks: [{replicas: 1}, {replicas: 1}]\n");
  EXPECT_EQ("default0", text_at(list_at(spec_of(job), "tasks")[0], "name"));
  EXPECT_EQ("default1", text_at(list_at(spec_of(job), "tasks")[1], "name"));
}

TEST_F(JobRulesTest, J3Minimums) {
  const json::Value job = mutate("  tasks: [{replicas: 2}, {replicas: 3, minAvailable: 1}]\n");
  EXPECT_EQ(json::Value(3), *job.find_path({"spec", "minAvailable"}));
  EXPECT_EQ(json::Value(2), *list_at(spec_of(job), "tasks")[0].find("minAvailable"));
  EXPECT_EQ(json::Value(1), *list_at(spec_of(job), "tasks")[1].find("minAvailable"));
  EXPECT_EQ(json::Value(3), *list_at(spec_of(job), "tasks")[1].find("maxRetry"));
}

TEST_F(JobRulesTest, J4PartitionMinimum) {
  const json::Value job =
      mutate("  tasks: [{replicas: 8, partitionPolicy: {totalPartitions: 4, partitionSize: 2, minPartitions: 3}}]\n");
  EXPECT_EQ(json::Value(6), *list_at(spec_of(job), "tasks")[0].find("minAvailable"));
}

TEST_F(JobRulesTest, J5HostNetwork) {
  const json::Value job = mutate("  tasks: [{replicas: 1, template: {spec: {hostNetwork: true}}}]\n");
  EXPECT_EQ("ClusterFirstWithHostNet", list_at(spec_of(job), "tasks")[0].string_at({"template", "spec", "dnsPolicy"}));
  const json::Value kept = mutate("  tasks: [{replicas: 1, template: {spec: {hostNetwork: true, dnsPolicy: None}}}]\n");
  EXPECT_EQ("None", list_at(spec_of(kept), "tasks")[0].string_at({"template", "spec", "dnsPolicy"}));
}

TEST_F(JobRulesTest, J6MpiBringsServiceAndSsh) {
  const json::Value job = mutate(kOneTask + "  plugins: {mpi: [--master=worker]}\n");
  EXPECT_NE(nullptr, job.find_path({"spec", "plugins", "svc"}));
  EXPECT_NE(nullptr, job.find_path({"spec", "plugins", "ssh"}));
  const json::Value torch = mutate(kOneTask + "  plugins: {pytorch: [], svc: [--x]}\n");
  EXPECT_EQ(nullptr, torch.find_path({"spec", "plugins", "ssh"}));
  EXPECT_EQ(json::Value("--x"), torch.find_path({"spec", "plugins", "svc"})->as_array()[0]);
}

TEST_F(JobRulesTest, UnknownFieldsSurviveDefaults) {
  const json::Value job = mutate(
      "  future: {a: 1}\n  tasks: [{replicas: 1, fresh: [x], template: {spec: {newField: 2, containers: [{z: "
      "1}]}}}]\n");
  EXPECT_EQ(json::Value(1), *job.find_path({"spec", "future", "a"}));
  const json::Value& first = list_at(spec_of(job), "tasks")[0];
  EXPECT_NE(nullptr, first.find("fresh"));
  EXPECT_EQ(json::Value(2), *first.find_path({"template", "spec", "newField"}));
}

TEST_F(JobRulesTest, JobWithoutSpecIsDefaultedAndRefused) {
  const json::Value job = mutated("/jobs/mutate", "{kind: Job, metadata: {name: j}}");
  EXPECT_EQ("default", job.string_at({"spec", "queue"}));
  EXPECT_DENIED(send("/jobs/validate", Operation::Create, &job), "No task specified in job spec");
}

TEST_F(JobRulesTest, J7MpiWithoutMaster) {
  EXPECT_DENIED(validate("  tasks: [{name: mater, replicas: 1, " + kTemplate + "}]\n  plugins: {mpi: []}\n"),
                "mpi master task was not found");
  EXPECT_THAT(validate("  tasks: [{name: mater, replicas: 1, " + kTemplate + "}]\n  plugins: {mpi: []}\n").message,
              HasSubstr("did you mean \"mater\"?"));
  EXPECT_ALLOWED(
      validate("  tasks: [{name: head, replicas: 1, " + kTemplate + "}]\n  plugins: {mpi: [\"--master\", head]}\n"));
  EXPECT_ALLOWED(
      validate("  tasks: [{name: head, replicas: 1, " + kTemplate + "}]\n  plugins: {mpi: [\"-master=head\"]}\n"));
}

TEST_F(JobRulesTest, V3TwoTiers) {
  EXPECT_DENIED(validate(kOneTask + "  networkTopology: {highestTierAllowed: 1, highestTierName: rack}\n"),
                "must not specify 'highestTierAllowed' and 'highestTierName'");
  EXPECT_ALLOWED(validate(kOneTask + "  networkTopology: {highestTierAllowed: 1}\n"));
}

TEST_F(JobRulesTest, V4TaskMinimumAboveReplicas) {
  EXPECT_DENIED(validate(task("minAvailable: 3")), "'minAvailable' is greater than 'replicas' in task: worker (3 > 2)");
  EXPECT_ALLOWED(validate(task("minAvailable: 2")));
}

TEST_F(JobRulesTest, J8DuplicateTaskName) {
  EXPECT_DENIED(
      validate("  tasks: [{name: a, replicas: 1, " + kTemplate + "}, {name: a, replicas: 1, " + kTemplate + "}]\n"),
      "duplicated task name a: spec.tasks[0] has it already");
}

TEST_F(JobRulesTest, J9MinimumAboveReplicas) {
  EXPECT_DENIED(validate(kOneTask + "  minAvailable: 6\n"),
                "job 'minAvailable' should not be greater than total replicas in tasks (6 > 2)");
  EXPECT_ALLOWED(validate(kOneTask + "  minAvailable: 2\n"));
}

TEST_F(JobRulesTest, J11DuplicateEvent) {
  EXPECT_DENIED(validate(kOneTask + "  policies: [{event: PodFailed, action: AbortJob}, {event: PodFailed, action: "
                                    "RestartJob}]\n"),
                "duplicate event PodFailed");
  EXPECT_ALLOWED(validate(kOneTask + "  policies: [{event: PodFailed, events: [PodFailed], action: AbortJob}]\n"));
}

TEST_F(JobRulesTest, J12AnyEvent) {
  EXPECT_DENIED(
      validate(kOneTask + "  policies: [{event: '*', action: AbortJob}, {event: PodEvicted, action: RestartJob}]\n"),
      "if there's * here, no other policy should be here");
  EXPECT_ALLOWED(
      validate(kOneTask + "  policies: [{event: '*', action: AbortJob}, {exitCode: 3, action: RestartJob}]\n"));
}

TEST_F(JobRulesTest, J13EventOrExitCode) {
  EXPECT_DENIED(validate(kOneTask + "  policies: [{event: PodFailed, exitCode: 3, action: AbortJob}]\n"),
                "must not specify event and exitCode simultaneously");
  EXPECT_DENIED(validate(kOneTask + "  policies: [{action: AbortJob}]\n"),
                "either event and exitCode should be specified");
  EXPECT_DENIED(validate(kOneTask + "  policies: [{exitCode: 0, action: AbortJob}]\n"), "0 is not a valid error code");
  EXPECT_DENIED(validate(kOneTask + "  policies: [{exitCode: 3, action: AbortJob}, {exitCode: 3, action: AbortJob}]\n"),
                "duplicate exitCode 3");
}

TEST_F(JobRulesTest, J14PolicyWords) {
  EXPECT_DENIED(validate(kOneTask + "  policies: [{event: OutOfSync, action: AbortJob}]\n"), "invalid policy event");
  const ReviewAnswer answer = validate(kOneTask + "  policies: [{event: PodFaild, action: AbortJob}]\n");
  EXPECT_DENIED(answer, "invalid policy event \"PodFaild\"; did you mean \"PodFailed\"?");
  EXPECT_THAT(answer.message, HasSubstr("valid events are"));
  EXPECT_THAT(answer.message, HasSubstr("valid actions are"));
  EXPECT_DENIED(validate(kOneTask + "  policies: [{event: PodFailed, action: SyncJob}]\n"), "invalid policy action");
  EXPECT_DENIED(validate(kOneTask + "  policies: [{event: PodFailed}]\n"), "invalid policy action");
  EXPECT_DENIED(validate(kOneTask + "  policies: [{exitCode: 2, action: Nonsense}]\n"), "invalid policy action");
  EXPECT_DENIED(validate(task("policies: [{event: PodFailed, action: restartjob}]")),
                "spec.tasks[0].policies[0].action: invalid policy action \"restartjob\"; did you mean \"RestartJob\"?");
  for (const std::string action : {"AbortJob", "RestartJob", "TerminateJob", "CompleteJob", "ResumeJob", "RestartTask",
                                   "RestartPod", "RestartPartition"}) {
    EXPECT_ALLOWED(validate(kOneTask + "  policies: [{event: TaskFailed, action: " + action + "}]\n"));
  }
}

TEST_F(JobRulesTest, J15Dependencies) {
  const auto tasks = [](std::string_view a, std::string_view b) {
    return "  tasks: [{name: a, replicas: 1, " + kTemplate + ", dependsOn: {name: [" + std::string(a) +
           "]}}, {name: b, replicas: 1, " + kTemplate + ", dependsOn: {name: [" + std::string(b) + "]}}]\n";
  };
  EXPECT_DENIED(validate(tasks("b", "a")), "doesn't form a directed acyclic graph");
  EXPECT_THAT(validate(tasks("b", "a")).message, HasSubstr("a waits for b waits for a"));
  EXPECT_DENIED(validate(tasks("a", "")), "doesn't form a directed acyclic graph");
  EXPECT_DENIED(validate(tasks("c", "")), "doesn't form a directed acyclic graph(DAG): there is no task \"c\"");
  EXPECT_ALLOWED(validate(tasks("b", "")));
}

TEST_F(JobRulesTest, J17PodNameTooLong) {
  const std::string name(58, 'x');
  EXPECT_DENIED(validate(kOneTask, name), "create pod with name");
  EXPECT_THAT(validate(kOneTask, name).message, HasSubstr("by 4 characters"));
  EXPECT_ALLOWED(validate(kOneTask, std::string(54, 'x')));
  EXPECT_DENIED(validate(kOneTask, std::string(64, 'x')), "create job with name");
}

TEST_F(JobRulesTest, HostNamesOfAServiceFit) {
  // Ten thousand replicas: the last one's name has four digits.
  const std::string many = "  tasks: [{name: worker, replicas: 10000, " + kTemplate + "}]\n";
  EXPECT_ALLOWED(validate(many, std::string(54, 'x')));
  EXPECT_DENIED(validate(many + "  plugins: {svc: []}\n", std::string(54, 'x')), "create pod with name");
}

TEST_F(JobRulesTest, J18Volumes) {
  EXPECT_DENIED(validate(kOneTask + "  volumes: [{mountPath: /a, volumeClaimName: x, volumeClaim: {storageClassName: "
                                    "s}}]\n"),
                "conflict");
  EXPECT_DENIED(validate(kOneTask + "  volumes: [{mountPath: /a}]\n"),
                "either VolumeClaim or VolumeClaimName must be specified");
  EXPECT_DENIED(validate(kOneTask + "  volumes: [{mountPath: /a, volumeClaimName: x}, {mountPath: /a, "
                                    "volumeClaimName: y}]\n"),
                "duplicated mountPath");
  EXPECT_DENIED(validate(kOneTask + "  volumes: [{volumeClaimName: x}]\n"), "mountPath is required");
  EXPECT_DENIED(validate(kOneTask + "  volumes: [{mountPath: /a, volumeClaimName: X_}]\n"), "invalid VolumeClaimName");
  EXPECT_ALLOWED(validate(kOneTask + "  volumes: [{mountPath: /a, volumeClaimName: x}, {mountPath: /b, "
                                     "volumeClaim: {}}]\n"));
}

TEST_F(JobRulesTest, J19WhatMayChange) {
  const std::string before = kOneTask + "  minAvailable: 2\n  queue: default\n  maxRetry: 3\n";
  const auto with_task = [](std::string_view replicas, std::string_view minimum, std::string_view rest) {
    return "  tasks: [{name: worker, replicas: " + std::string(replicas) + ", minAvailable: " + std::string(minimum) +
           ", " + kTemplate + "}]\n" + std::string(rest);
  };
  const std::string rest = "  minAvailable: 1\n  queue: default\n  maxRetry: 3\n";
  EXPECT_ALLOWED(change(before, with_task("5", "1", rest + "  priorityClassName: high\n")));
  EXPECT_DENIED(change(before, with_task("5", "1", "  queue: other\n  maxRetry: 3\n")),
                "job updates may not change fields other than");
  EXPECT_THAT(change(before, with_task("5", "1", "  queue: other\n  maxRetry: 3\n")).message,
              HasSubstr("spec.queue was changed from \"default\" to \"other\""));
  EXPECT_DENIED(change(before, before + "  policies: [{event: PodFailed, action: AbortJob}]\n"),
                "spec.policies was added");
  EXPECT_DENIED(change(before,
                       "  tasks: [{name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: "
                       "other}]}}}]\n" +
                           rest),
                "spec.tasks[0].template.spec.containers[0].image was changed from \"busybox\" to \"other\"");
  EXPECT_DENIED(change(before, "  tasks: [{name: worker, replicas: 2, " + kTemplate + "}, {name: b, replicas: 1, " +
                                   kTemplate + "}]\n" + rest),
                "job updates may not add or remove tasks");
  EXPECT_DENIED(change(before, before + "  ttlSecondsAfterFinished: 0\n"), "ttlSecondsAfterFinished");
  EXPECT_DENIED(change(before, before + "  minSuccess: 1\n"), "minSuccess");
}

TEST_F(JobRulesTest, U1ToU4) {
  const auto scaled = [](std::string_view members, std::string_view rest = "") {
    return "  tasks: [{name: worker, " + std::string(members) + ", " + kTemplate + "}]\n" + std::string(rest);
  };
  EXPECT_DENIED(change(kOneTask, scaled("replicas: -1")), "'replicas' must be >= 0");
  EXPECT_DENIED(change(kOneTask, scaled("replicas: 1, minAvailable: -1")), "'minAvailable' must be >= 0");
  EXPECT_DENIED(change(kOneTask, scaled("replicas: 1, minAvailable: 2")), "'minAvailable' must be <= 'replicas'");
  EXPECT_DENIED(change(kOneTask, scaled("replicas: 1", "  minAvailable: 2\n")),
                "must not be greater than total replicas");
  EXPECT_DENIED(change(kOneTask, scaled("replicas: 1", "  minAvailable: -2\n")), "must be >= 0");
  EXPECT_DENIED(change(kOneTask, kOneTask + "  networkTopology: {highestTierAllowed: 1, highestTierName: x}\n"),
                "must not specify 'highestTierAllowed' and 'highestTierName'");
}

TEST_F(JobRulesTest, UpdateComparesByMeaning) {
  const auto with = [](std::string_view resources, std::string_view rest) {
    return "  tasks: [{name: w, replicas: 1, template: {spec: {containers: [{name: c, image: i, resources: " +
           std::string(resources) + "}]}}}]\n" + std::string(rest);
  };
  EXPECT_ALLOWED(change(with("{requests: {cpu: \"1\"}}", ""),
                        with("{requests: {cpu: 1000m}}", "  policies: []\n  plugins: {}\n  schedulerName: ''\n")));
  EXPECT_DENIED(change(with("{requests: {cpu: \"1\"}}", ""), with("{requests: {cpu: 1001m}}", "")), "requests.cpu");
  EXPECT_DENIED(change(with("{}", ""), with("{limits: {memory: 1Gi}}", "")), "resources");
  // The controller writes the names of claims that it made, of no other.
  EXPECT_ALLOWED(change(kOneTask + "  volumes: [{mountPath: /a, volumeClaim: {storageClassName: s}}]\n",
                        kOneTask + "  volumes: [{mountPath: /a, volumeClaim: {storageClassName: s}, volumeClaimName: "
                                   "n}]\n"));
  EXPECT_DENIED(change(kOneTask + "  volumes: [{mountPath: /a, volumeClaimName: m}]\n",
                       kOneTask + "  volumes: [{mountPath: /a, volumeClaimName: n}]\n"),
                "volumeClaimName");
  // Zero is not absent where it means something.
  EXPECT_ALLOWED(change(task("maxRetry: 0"), kOneTask));
}

TEST_F(JobRulesTest, StoredJobsStayWritable) {
  // Rules of creation are not asked again: a job of a closed queue, with a plugin that is gone, takes labels.
  const std::string spec = kOneTask + "  queue: gone\n  plugins: {old: []}\n";
  EXPECT_ALLOWED(change(spec, spec));
}

TEST_F(JobRulesTest, J20PartitionedTaskKeepsItsSize) {
  const auto sized = [](std::string_view replicas) {
    return "  tasks: [{name: w, replicas: " + std::string(replicas) + ", " + kTemplate +
           ", partitionPolicy: {totalPartitions: 2, partitionSize: 2}}]\n";
  };
  EXPECT_ALLOWED(validate(sized("4")));
  EXPECT_DENIED(change(sized("4"), sized("6")), "'Replicas' are not equal to TotalPartitions*PartitionSize");
}

TEST_F(JobRulesTest, V10Partitions) {
  const auto with = [](std::string_view policy, std::string_view more = "") {
    return "  tasks: [{name: w, replicas: 4, " + kTemplate + ", partitionPolicy: {" + std::string(policy) + "}" +
           std::string(more) + "}]\n";
  };
  EXPECT_DENIED(validate(with("totalPartitions: 0, partitionSize: 2")), "'TotalPartitions' must be greater than 0");
  EXPECT_DENIED(validate(with("totalPartitions: 2, partitionSize: 0")), "'PartitionSize' must be greater than 0");
  EXPECT_DENIED(validate(with("totalPartitions: 3, partitionSize: 2")),
                "'Replicas' are not equal to TotalPartitions*PartitionSize");
  EXPECT_DENIED(validate(with("totalPartitions: 2, partitionSize: 2, minPartitions: 1", ", minAvailable: 3")),
                "'MinAvailable' is not equal to MinPartitions*PartitionSize");
  EXPECT_ALLOWED(validate(with("totalPartitions: 2, partitionSize: 2, minPartitions: 1", ", minAvailable: 2")));
  EXPECT_DENIED(validate(with("totalPartitions: 2, partitionSize: 2, networkTopology: {highestTierAllowed: 1, "
                              "highestTierName: r}")),
                "must not specify 'highestTierAllowed' and 'highestTierName'");
}

TEST_F(JobRulesTest, J21UnknownPlugin) {
  EXPECT_DENIED(validate(kOneTask + "  plugins: {jax: []}\n"), "unable to find job plugin: jax");
  EXPECT_DENIED(validate(kOneTask + "  plugins: {tensorfow: []}\n"), "did you mean \"tensorflow\"?");
  EXPECT_ALLOWED(validate(kOneTask + "  plugins: {ssh: [], env: [], svc: [], hcclrank: []}\n"));
}

TEST_F(JobRulesTest, V9WholeProcessors) {
  const auto with = [](std::string_view resources, std::string_view policy) {
    return "  tasks: [{name: w, replicas: 1, topologyPolicy: " + std::string(policy) +
           ", template: {spec: {containers: [{name: c, image: i, resources: " + std::string(resources) + "}]}}}]\n";
  };
  EXPECT_DENIED(validate(with("{requests: {cpu: 500m}}", "restricted")), "the cpu request isn't an integer");
  EXPECT_DENIED(validate(with("{}", "best-effort")), "the cpu request isn't an integer");
  EXPECT_ALLOWED(validate(with("{requests: {cpu: 2000m}}", "restricted")));
  EXPECT_ALLOWED(validate(with("{limits: {cpu: 3}}", "single-numa-node")));
  EXPECT_ALLOWED(validate(with("{}", "none")));
  EXPECT_DENIED(validate(with("{}", "restrictd")), "did you mean \"restricted\"?");
}

TEST_F(JobRulesTest, V16Queues) {
  put_queue(cluster_, "{metadata: {name: closed}, status: {state: Closed}}");
  put_queue(cluster_, "{metadata: {name: fresh}}");
  put_queue(cluster_, "{metadata: {name: parent}, status: {state: Open}}");
  put_queue(cluster_, "{metadata: {name: child}, spec: {parent: parent}, status: {state: Open}}");
  EXPECT_DENIED(validate(kOneTask + "  queue: defaul\n"), "unable to find job queue");
  EXPECT_DENIED(validate(kOneTask + "  queue: defaul\n"), "did you mean \"default\"?");
  EXPECT_DENIED(validate(kOneTask + "  queue: closed\n"),
                "can only submit job to queue with state `Open`, queue `closed` status is `Closed`");
  EXPECT_DENIED(validate(kOneTask + "  queue: fresh\n"), "status is `not set yet`");
  EXPECT_DENIED(validate(kOneTask + "  queue: root\n"), "can not submit job to root queue");
  EXPECT_DENIED(validate(kOneTask + "  queue: parent\n"), "can only submit job to leaf queue");
  EXPECT_ALLOWED(validate(kOneTask + "  queue: child\n"));
}

TEST_F(JobRulesTest, PriorityClassIsOnlyWarnedOf) {
  cluster_.set_priority_classes({"high", "low"});
  const ReviewAnswer answer = validate(kOneTask + "  priorityClassName: hihg\n");
  EXPECT_ALLOWED(answer);
  ASSERT_EQ(1u, answer.warnings.size());
  EXPECT_THAT(answer.warnings[0], HasSubstr("did you mean \"high\"?"));
  EXPECT_TRUE(validate(kOneTask + "  priorityClassName: low\n").warnings.empty());
}

TEST_F(JobRulesTest, Operations) {
  const json::Value job = from_yaml(job_yaml(kOneTask));
  EXPECT_DENIED(send("/jobs/mutate", Operation::Update, &job, &job), "expect operation to be 'CREATE'");
  EXPECT_DENIED(send("/jobs/validate", Operation::Delete, nullptr, &job), "expect operation to be");
  ReviewRequest request;
  request.resource = "pods";
  request.version = "v1";
  request.object = &job;
  const RuleContext context{options_, cluster_, nullptr, {}};
  EXPECT_DENIED(review(*find_hook("/jobs/mutate"), context, request), "expect resource to be");
}

TEST_F(JobRulesTest, EveryProblemIsSaidAtOnce) {
  const ReviewAnswer answer = submit(
      "  queue: nowhere\n  minAvailable: 9\n  plugins: {jax: []}\n"
      "  tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: C}]}}}]\n");
  EXPECT_EQ(
      "spec.task[0].template.spec.containers[0].name: Invalid value: \"C\": a lowercase RFC 1123 label must consist of "
      "lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. "
      "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?'); "
      "spec.task[0].template.spec.containers[0].image: Required value; "
      "spec.minAvailable: job 'minAvailable' should not be greater than total replicas in tasks (9 > 1): the job could "
      "never start; "
      "spec.plugins: unable to find job plugin: jax (known plugins are ssh, env, svc, tensorflow, mpi, pytorch, "
      "hcclrank, ray); "
      "spec.queue: unable to find job queue: queue.scheduling.volcano.sh \"nowhere\" not found",
      answer.message);
  EXPECT_EQ(5u, answer.causes.size());
  EXPECT_EQ("spec.queue", answer.causes[4].field);
}

TEST_F(JobRulesTest, LimitsAreNamed) {
  options_.tasks_max = 3;
  std::string tasks = "  tasks: [";
  for (int i = 0; i < 4; ++i) tasks += "{name: t" + std::to_string(i) + ", replicas: 1, " + kTemplate + "},";
  EXPECT_DENIED(validate(tasks + "]\n"), "spec.tasks: Too many: 4: must have at most 3 items");
  options_.policies_max = 1;
  EXPECT_DENIED(validate(kOneTask + "  policies: [{exitCode: 1, action: AbortJob}, {exitCode: 2, action: AbortJob}]\n"),
                "spec.policies: Too many: 2");
  options_.volumes_max = 1;
  EXPECT_DENIED(validate(kOneTask + "  volumes: [{mountPath: /a, volumeClaimName: a}, {mountPath: /b, "
                                    "volumeClaimName: b}]\n"),
                "spec.volumes: Too many: 2");
}

TEST_F(JobRulesTest, ProblemsBeyondThirtyAreCounted) {
  std::string labels;
  for (int i = 0; i < 33; ++i) labels += "'a b" + std::to_string(i) + "': c, ";
  EXPECT_DENIED(validate("  tasks: [{name: t, replicas: 1, template: {metadata: {labels: {" + labels +
                         "}}, spec: {containers: [{name: c, image: b}]}}}]\n"),
                "; and 3 more problems");
}

TEST_F(JobRulesTest, K25AllThatIsWrongWithACronJobIsSaidAtOnce) {
  const std::string name(53, 'a');
  EXPECT_DENIED(create("/cronjobs/validate", "{metadata: {name: " + name + "}, spec: {schedule: '* * * *'}}"),
                "day of week; metadata.name: cronJob name must be no more than 52 characters");
}

TEST_F(JobRulesTest, TextsHaveASize) {
  const std::string annotated =
      "  tasks: [{name: t, replicas: 1, template: {metadata: {annotations: {a: " + std::string(300'000, 'x') +
      "}}, spec: {containers: [{name: c, image: b}]}}}]\n";
  EXPECT_DENIED(validate(annotated), "template.metadata.annotations: Too long: may not be more than 262144 bytes");
  std::string schedule = "0";
  while (schedule.size() <= 1'000) schedule += ",0";
  EXPECT_DENIED(create("/cronjobs/validate", "{metadata: {name: a}, spec: {schedule: '" + schedule + " * * * *'}}"),
                "it is longer than 1000 bytes");
  EXPECT_DENIED(create("/hypernodes/validate",
                       "{metadata: {name: a}, spec: {members: [{type: Node, selector: {regexMatch: {pattern: " +
                           std::string(5'000, 'x') + "}}}]}}"),
                "it is longer than 4096 bytes");
  std::string groups;
  for (int i = 0; i < 5'001; ++i) groups += "{},";
  EXPECT_DENIED(
      create("/podgroups/validate", "{metadata: {name: a}, spec: {queue: default, subGroupPolicy: [" + groups + "]}}"),
      "spec.subGroupPolicy: Too many: 5001: must have at most 5000 items");
}

TEST_F(JobRulesTest, LongDependencyChainsTakeLinearTime) {
  // A thousand tasks, each waiting for all before it: a search by paths would never end.
  std::string tasks = "  tasks:\n";
  for (int i = 0; i < 300; ++i) {
    tasks += "  - {name: t" + std::to_string(i) + ", replicas: 1, " + kTemplate + ", dependsOn: {name: [";
    for (int j = 0; j < i; ++j) tasks += "t" + std::to_string(j) + ",";
    tasks += "]}}\n";
  }
  EXPECT_ALLOWED(validate(tasks));
  options_.edges_max = 1'000;
  EXPECT_DENIED(validate(tasks), "Too many");
}

TEST_F(JobRulesTest, GeneratedNamesCount) {
  const std::string text = "{kind: Job, metadata: {generateName: " + std::string(56, 'x') +
                           "}, spec: {tasks: [{name: worker, replicas: 1, " + kTemplate + "}]}}";
  EXPECT_DENIED(create("/jobs/validate", text), "create pod with name");
}

TEST_F(JobRulesTest, WrongTypesAreLeftToTheSchema) {
  for (const std::string text : {"{spec: 3}", "{spec: {tasks: 3}}", "{spec: {tasks: [3, null, x]}}",
                                 "{spec: {tasks: [{replicas: x, template: 4, policies: {}}], plugins: 3, volumes: {}}}",
                                 "{spec: {tasks: [{partitionPolicy: {totalPartitions: 9223372036854775807, "
                                 "partitionSize: 9223372036854775807, minPartitions: 9223372036854775807}}]}}"}) {
    const json::Value job = from_yaml(text);
    const ReviewAnswer answer = send("/jobs/mutate", Operation::Create, &job);
    EXPECT_TRUE(json::apply_json_patch(job, json::Value(answer.patch)).ok()) << text;
    EXPECT_FALSE(send("/jobs/validate", Operation::Create, &job).allowed);
  }
}

class RefusingProbe final : public TemplateProbe {
 public:
  explicit RefusingProbe(Error error) : error_(std::move(error)) {}
  Done check(const ReviewUser&, const std::string&, const json::Value&) override {
    ++asked;
    return error_;
  }
  int asked = 0;

 private:
  Error error_;
};

TEST_F(JobRulesTest, ProbesAreAskedLast) {
  RefusingProbe refusing(Error::make(Reason::Invalid, "pods \"x\" is invalid: spec.foo"));
  probes_ = {&refusing};
  EXPECT_DENIED(validate(kOneTask + "  queue: nowhere\n"), "unable to find job queue");
  EXPECT_EQ(0, refusing.asked);
  EXPECT_DENIED(validate(kOneTask), "spec.task[0].template: pods \"x\" is invalid");
  RefusingProbe broken(Error::make(Reason::Unreachable, "no answer"));
  probes_ = {&broken};
  const ReviewAnswer answer = validate(kOneTask);
  EXPECT_FALSE(answer.allowed);
  EXPECT_EQ(503, answer.code);
}

}  // namespace
}  // namespace basalt::webhooks
