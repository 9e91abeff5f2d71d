#include "test/scenario/controller_scenarios.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/gen/names.h"
#include "base/strings.h"
#include "yaml/reader.h"

namespace basalt::test {
namespace {

namespace resources = sim::resources;
using std::chrono::seconds;

constexpr auto kPatience = seconds(60);

// A job of one task; `extra` is more of the spec, indented by two.
std::string job(std::string_view name, int replicas, std::string_view extra = "") {
  return "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: " + std::string(name) +
         "}\nspec:\n  schedulerName: volcano\n  queue: default\n  maxRetry: 3\n  minAvailable: " +
         std::to_string(replicas) + "\n" + std::string(extra) +
         "\n  tasks:\n    - name: t\n      maxRetry: 3\n      replicas: " + std::to_string(replicas) +
         "\n      minAvailable: " + std::to_string(replicas) +
         "\n      template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}\n";
}

std::string command(std::string_view name, std::string_view action, const json::Value& target, std::string_view kind,
                    std::string_view api_version) {
  return "apiVersion: bus.volcano.sh/v1alpha1\nkind: Command\nmetadata: {name: " + std::string(name) +
         "}\naction: " + std::string(action) + "\ntarget: {apiVersion: " + std::string(api_version) +
         ", kind: " + std::string(kind) + ", name: " + std::string(target.string_at({"metadata", "name"})) +
         ", uid: " + std::string(target.string_at({"metadata", "uid"})) + "}\n";
}

std::int64_t number_at(const json::Value& object, std::initializer_list<std::string_view> path) {
  const json::Value* value = object.find_path(path);
  return value != nullptr && value->is_int() ? value->as_int() : 0;
}

std::size_t pods_of(World& world, std::string_view name) {
  return world.api.list(resources::kPods, "default", "volcano.sh/job-name=" + std::string(name)).size();
}

json::Value job_of(World& world, std::string_view name) {
  const auto found = world.api.get(resources::kJobs, "default", name);
  EXPECT_TRUE(found.has_value()) << name;
  return found ? *found : json::Value(json::Object());
}

bool reaches(World& world, std::string_view name, std::string_view phase) {
  const bool reached = world.api.wait_job_phase(name, phase, kPatience);
  EXPECT_TRUE(reached) << "job " << name << " is " << world.api.job_phase(name) << ", not " << phase << ": "
                       << job_of(world, name).to_text();
  return reached;
}

bool has_pod_groups(World& world, const json::Value& owner) {
  const std::string name =
      std::string(owner.string_at({"metadata", "name"})) + "-" + std::string(owner.string_at({"metadata", "uid"}));
  return world.api.get(resources::kPodGroups, "default", name).has_value();
}

void a_gang_runs_to_its_end(World& world) {
  world.api.apply(job("gang", 3));
  if (!reaches(world, "gang", "Completed")) return;
  const json::Value done = job_of(world, "gang");
  EXPECT_EQ(number_at(done, {"status", "succeeded"}), 3);
  EXPECT_EQ(number_at(done, {"status", "running"}), 0);
  EXPECT_EQ(pods_of(world, "gang"), 3u) << "succeeded pods are kept";
  EXPECT_TRUE(world.api.wait_until([&] { return !has_pod_groups(world, done); }, kPatience));
}

void plugins_make_objects_and_take_them_away(World& world) {
  const json::Value created = world.api.apply(job("plugged-long", 2, "  plugins: {env: [], svc: [], ssh: []}"));
  if (!reaches(world, "plugged-long", "Running")) return;
  EXPECT_TRUE(world.api.get(resources::kServices, "default", "plugged-long"));
  EXPECT_TRUE(world.api.get(resources::kConfigMaps, "default", "plugged-long-svc"));
  EXPECT_TRUE(world.api.get(resources::kSecrets, "default", "plugged-long-ssh"));
  EXPECT_TRUE(world.api.get(resources::kNetworkPolicies, "default", "plugged-long"));
  const auto pod = world.api.get(resources::kPods, "default", "plugged-long-t-1");
  if (pod) {
    EXPECT_NE(pod->to_text().find("VC_TASK_INDEX"), std::string::npos);
    EXPECT_NE(pod->to_text().find("VC_T_HOSTS"), std::string::npos);
  } else {
    ADD_FAILURE() << "no pod";
  }
  // The hosts follow the number of pods.
  world.api.patch(
      resources::kJobs, "default", "plugged-long",
      R"({"spec":{"minAvailable":2,"tasks":[{"name":"t","maxRetry":3,"replicas":3,"minAvailable":2,"template":{"spec":)"
      R"({"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}]}})");
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        const auto map = world.api.get(resources::kConfigMaps, "default", "plugged-long-svc");
        return map && map->string_at({"data", "VC_T_NUM"}) == "3";
      },
      kPatience));
  world.api.apply(command("end-plugged", "TerminateJob", created, "Job", "batch.volcano.sh/v1alpha1"));
  if (!reaches(world, "plugged-long", "Terminated")) return;
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        return !world.api.get(resources::kServices, "default", "plugged-long") &&
               !world.api.get(resources::kConfigMaps, "default", "plugged-long-svc") &&
               !world.api.get(resources::kSecrets, "default", "plugged-long-ssh") &&
               !world.api.get(resources::kNetworkPolicies, "default", "plugged-long");
      },
      kPatience));
}

void a_failed_pod_restarts_the_job(World& world) {
  world.api.apply(job("flaky", 2, "  policies: [{event: PodFailed, action: RestartJob}]"));
  if (!reaches(world, "flaky", "Completed")) return;
  const json::Value done = job_of(world, "flaky");
  EXPECT_EQ(number_at(done, {"status", "retryCount"}), 1);
  EXPECT_EQ(number_at(done, {"status", "succeeded"}), 2);
}

void a_restart_has_a_budget(World& world) {
  world.api.apply(job("broken", 1, "  policies: [{event: PodFailed, action: RestartJob}]"));
  if (!reaches(world, "broken", "Failed")) return;
  EXPECT_EQ(number_at(job_of(world, "broken"), {"status", "retryCount"}), 3);
}

void a_job_is_aborted_and_resumed(World& world) {
  const json::Value created = world.api.apply(job("paused-until-resumed", 2));
  if (!reaches(world, "paused-until-resumed", "Running")) return;
  world.api.apply(command("abort", "AbortJob", created, "Job", "batch.volcano.sh/v1alpha1"));
  if (!reaches(world, "paused-until-resumed", "Aborted")) return;
  EXPECT_TRUE(world.api.wait_until([&] { return pods_of(world, "paused-until-resumed") == 0; }, kPatience));
  world.api.apply(command("resume", "ResumeJob", created, "Job", "batch.volcano.sh/v1alpha1"));
  if (!reaches(world, "paused-until-resumed", "Completed")) return;
  EXPECT_TRUE(world.api.list(resources::kCommands).empty()) << "commands are consumed";
}

void one_task_waits_for_another(World& world) {
  world.api.apply(R"(
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: ordered-long}
spec:
  schedulerName: volcano
  queue: default
  maxRetry: 3
  minAvailable: 1
  tasks:
    - name: first
      maxRetry: 3
      replicas: 1
      minAvailable: 1
      template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
    - name: second
      maxRetry: 3
      replicas: 2
      minAvailable: 0
      dependsOn: {name: [first]}
      template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
)");
  EXPECT_TRUE(world.api.wait_until([&] { return pods_of(world, "ordered-long") == 3; }, kPatience));
  const auto first = world.api.get(resources::kPods, "default", "ordered-long-first-0");
  const auto second = world.api.get(resources::kPods, "default", "ordered-long-second-0");
  ASSERT_TRUE(first && second);
  EXPECT_LE(first->string_at({"metadata", "creationTimestamp"}), second->string_at({"metadata", "creationTimestamp"}));
  world.api.remove(resources::kJobs, "default", "ordered-long");
}

void a_claim_is_made_for_the_job(World& world) {
  world.api.apply(job("stored", 1,
                      "  volumes: [{mountPath: /data, volumeClaim: {accessModes: [ReadWriteOnce], resources: "
                      "{requests: {storage: 1Gi}}}}]"));
  if (!reaches(world, "stored", "Completed")) return;
  const json::Value done = job_of(world, "stored");
  const json::Value* volumes = done.find_path({"spec", "volumes"});
  ASSERT_NE(volumes, nullptr);
  const std::string claim(volumes->as_array()[0].string_at({"volumeClaimName"}));
  EXPECT_TRUE(claim.starts_with("stored-pvc-")) << claim;
  EXPECT_TRUE(world.api.get(resources::kClaims, "default", claim)) << claim;
}

void a_finished_job_is_collected(World& world) {
  world.api.apply(job("short-lived", 1, "  ttlSecondsAfterFinished: 1"));
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        const auto found = world.api.get(resources::kJobs, "default", "short-lived");
        // Without somebody who deletes what it owns, the mark is all.
        return !found || (!world.collects_garbage && !found->string_at({"metadata", "deletionTimestamp"}).empty());
      },
      kPatience));
}

void a_plain_pod_gets_a_group(World& world) {
  world.api.apply(
      "{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {schedulerName: volcano, restartPolicy: Never, "
      "containers: [{name: c, image: i}]}}");
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        const auto pod = world.api.get(resources::kPods, "default", "plain");
        const json::Value* annotations = pod ? pod->find_path({"metadata", "annotations"}) : nullptr;
        if (annotations == nullptr) return false;
        const std::string group(annotations->string_at({api::keys::kGroupName}));
        return !group.empty() && world.api.get(resources::kPodGroups, "default", group).has_value();
      },
      kPatience));
}

void a_queue_closes_and_opens(World& world) {
  const json::Value queue = world.api.apply(
      "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: side}, spec: {weight: 1, parent: "
      "root}}");
  const auto state_is = [&](std::string_view state) {
    return world.api.wait_until(
        [&] {
          const auto found = world.api.get(resources::kQueues, "", "side");
          return found && found->string_at({"status", "state"}) == state;
        },
        kPatience);
  };
  EXPECT_TRUE(state_is("Open"));
  for (const char* round : {"first", "second"}) {
    world.api.apply(
        command(std::string("close-") + round, "CloseQueue", queue, "Queue", "scheduling.volcano.sh/v1beta1"));
    EXPECT_TRUE(state_is("Closed"));
    world.api.apply(
        command(std::string("open-") + round, "OpenQueue", queue, "Queue", "scheduling.volcano.sh/v1beta1"));
    EXPECT_TRUE(state_is("Open"));
  }
  // One event that says how often.
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        for (const json::Value& event : world.api.list(resources::kEvents, "default")) {
          if (event.string_at({"involvedObject", "name"}) == "side" && event.string_at({"reason"}) == "CloseQueue" &&
              number_at(event, {"count"}) == 2)
            return true;
        }
        return false;
      },
      kPatience));
}

void a_job_scales_up(World& world) {
  world.api.apply(job("growing-long", 2));
  if (!reaches(world, "growing-long", "Running")) return;
  const json::Value before = job_of(world, "growing-long");
  world.api.patch(
      resources::kJobs, "default", "growing-long",
      R"({"spec":{"minAvailable":3,"tasks":[{"name":"t","maxRetry":3,"replicas":3,"minAvailable":3,"template":{"spec":)"
      R"({"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}]}})");
  const std::string group = "growing-long-" + std::string(before.string_at({"metadata", "uid"}));
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        const auto found = world.api.get(resources::kPodGroups, "default", group);
        return pods_of(world, "growing-long") == 3 && found && number_at(*found, {"spec", "minMember"}) == 3;
      },
      kPatience));
  world.api.remove(resources::kJobs, "default", "growing-long");
}

void a_job_waits_for_its_queue_and_says_so(World& world) {
  world.api.apply(base::replace_all(job("homeless", 1), "queue: default", "queue: later"));
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        return job_of(world, "homeless").string_at({"status", "state", "message"}).find("later") !=
               std::string_view::npos;
      },
      kPatience))
      << job_of(world, "homeless").to_text();
  EXPECT_EQ(world.api.job_phase("homeless"), "Pending");
  world.api.apply(
      "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: later}, spec: {weight: 1, parent: "
      "root}}");
  reaches(world, "homeless", "Completed");
}

std::string group_of(World& world, std::string_view pod) {
  const auto found = world.api.get(resources::kPods, "default", pod);
  const json::Value* annotations = found ? found->find_path({"metadata", "annotations"}) : nullptr;
  return annotations == nullptr ? "" : std::string(annotations->string_at({api::keys::kGroupName}));
}

// A workload of this kind with one pod, as the workload's own controller would make it. Returns the name of the group.
std::string pod_of_workload(World& world, const std::string& kind, const std::string& api_version,
                            const std::string& spec) {
  const std::string name = "owned-by-a-" + base::to_lower_ascii(kind);
  const std::string pod_spec =
      "{schedulerName: volcano, restartPolicy: " + std::string(kind == "Job" ? "Never" : "Always") +
      ", containers: [{name: c, image: i}]}";
  const json::Value owner =
      world.api.apply("{apiVersion: " + api_version + ", kind: " + kind + ", metadata: {name: " + name + "}, spec: {" +
                      spec + "template: {metadata: {labels: {app: " + name + "}}, spec: " + pod_spec + "}}}");
  const std::string uid(owner.string_at({"metadata", "uid"}));
  world.api.apply("{apiVersion: v1, kind: Pod, metadata: {name: " + name + "-long-0, labels: {app: " + name +
                  "}, ownerReferences: [{apiVersion: " + api_version + ", kind: " + kind + ", name: " + name +
                  ", uid: " + uid + ", controller: true, blockOwnerDeletion: true}]}, spec: " + pod_spec + "}");
  const std::string group = "podgroup-" + uid;
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        return group_of(world, name + "-long-0") == group &&
               world.api.get(resources::kPodGroups, "default", group).has_value();
      },
      kPatience))
      << kind;
  return group;
}

void pods_of_every_workload_get_a_group(World& world) {
  const auto selector = [](std::string_view kind) {
    return "selector: {matchLabels: {app: owned-by-a-" + std::string(kind) + "}}, ";
  };
  pod_of_workload(world, "DaemonSet", "apps/v1", selector("daemonset"));
  pod_of_workload(world, "Job", "batch/v1", "");
  const std::string replicas =
      pod_of_workload(world, "ReplicaSet", "apps/v1", "replicas: 1, " + selector("replicaset"));
  const std::string stateful =
      pod_of_workload(world, "StatefulSet", "apps/v1", "replicas: 1, serviceName: s, " + selector("statefulset"));
  // Without replicas there is no group.
  world.api.patch(resources::kReplicaSets, "default", "owned-by-a-replicaset", R"({"spec":{"replicas":0}})");
  world.api.patch(resources::kStatefulSets, "default", "owned-by-a-statefulset", R"({"spec":{"replicas":0}})");
  world.api.remove(resources::kPods, "default", "owned-by-a-replicaset-long-0", 0);
  world.api.remove(resources::kPods, "default", "owned-by-a-statefulset-long-0", 0);
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        return !world.api.get(resources::kPodGroups, "default", replicas) &&
               !world.api.get(resources::kPodGroups, "default", stateful);
      },
      kPatience));
}

void a_tree_of_queues_closes_from_above(World& world) {
  world.api.apply(
      "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: above}, spec: {weight: 1}}");
  world.api.apply(
      "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: below}, spec: {weight: 1, parent: "
      "above}}");
  const auto state_is = [&](std::string_view name, std::string_view state) {
    return world.api.wait_until(
        [&] {
          const auto found = world.api.get(resources::kQueues, "", name);
          return found && found->string_at({"status", "state"}) == state;
        },
        kPatience);
  };
  EXPECT_TRUE(state_is("above", "Open"));
  EXPECT_TRUE(state_is("below", "Open"));
  const json::Value above = *world.api.get(resources::kQueues, "", "above");
  EXPECT_EQ(above.string_at({"spec", "parent"}), "root");
  world.api.apply(command("close-above", "CloseQueue", above, "Queue", "scheduling.volcano.sh/v1beta1"));
  EXPECT_TRUE(state_is("below", "Closed"));
  EXPECT_EQ(world.api.get(resources::kQueues, "", "below")
                ->string_at({"metadata", "annotations", "volcano.sh/closed-by-parent"}),
            "true");
  world.api.apply(command("open-above", "OpenQueue", above, "Queue", "scheduling.volcano.sh/v1beta1"));
  EXPECT_TRUE(state_is("below", "Open"));
}

// Two jobs one after the other; when both are done they are deleted.
void a_flow_runs_its_jobs_in_order(World& world) {
  const kube::Resource flows{"flow.volcano.sh", "v1alpha1", "jobflows"};
  const kube::Resource templates{"flow.volcano.sh", "v1alpha1", "jobtemplates"};
  for (const char* name : {"first", "second"}) {
    std::string text = job(name, 1);
    text.replace(0, text.find("\nmetadata"), "apiVersion: flow.volcano.sh/v1alpha1\nkind: JobTemplate");
    world.api.apply(text);
  }
  world.api.apply(
      "{apiVersion: flow.volcano.sh/v1alpha1, kind: JobFlow, metadata: {name: chain}, spec: {jobRetainPolicy: delete, "
      "flows: [{name: first}, {name: second, dependsOn: {targets: [first]}}]}}");
  const auto flow = [&] { return world.api.get(flows, "default", "chain").value_or(json::Value(json::Object())); };
  EXPECT_TRUE(
      world.api.wait_until([&] { return flow().string_at({"status", "state", "phase"}) == "Succeed"; }, kPatience))
      << flow().to_text();
  const json::Value ended = flow();
  const json::Value* completed = ended.find_path({"status", "completedJobs"});
  EXPECT_TRUE(completed != nullptr && completed->as_array().size() == 2) << ended.to_text();
  for (const char* name : {"chain-first", "chain-second"}) {
    EXPECT_TRUE(
        world.api.wait_until([&] { return !world.api.get(resources::kJobs, "default", name).has_value(); }, kPatience))
        << name;
  }
  // Jobs that stay are named by their template.
  world.api.apply(
      "{apiVersion: flow.volcano.sh/v1alpha1, kind: JobFlow, metadata: {name: kept}, spec: {flows: [{name: first}]}}");
  EXPECT_TRUE(world.api.wait_until(
      [&] {
        const auto found = world.api.get(templates, "default", "first");
        const json::Value* users = found ? found->find_path({"status", "jobDependsOnList"}) : nullptr;
        return users != nullptr && users->to_text() == R"(["kept-first"])";
      },
      kPatience));
}

// A job for every time; one that completed is not kept.
void a_cron_job_runs_its_jobs(World& world) {
  const std::string spec = yaml::read(job("unused", 1))->find("spec")->to_text();
  world.api.apply(
      "{apiVersion: batch.volcano.sh/v1alpha1, kind: CronJob, metadata: {name: often}, spec: {schedule: "
      "'@every 1s', concurrencyPolicy: Forbid, successfulJobsHistoryLimit: 0, jobTemplate: {spec: " +
      spec + "}}}");
  const auto status = [&](std::string_view field) {
    const auto found = world.api.get(resources::kCronJobs, "default", "often");
    return found ? std::string(found->string_at({"status", field})) : std::string();
  };
  const auto jobs = [&] {
    std::vector<std::string> names;
    for (const json::Value& one : world.api.list(resources::kJobs, "default")) {
      if (one.string_at({"metadata", "name"}).starts_with("often-"))
        names.emplace_back(one.string_at({"metadata", "name"}));
    }
    return names;
  };
  EXPECT_TRUE(world.api.wait_until([&] { return !status("lastSuccessfulTime").empty(); }, kPatience));
  EXPECT_NE(status("lastScheduleTime"), "");
  world.api.patch(resources::kCronJobs, "default", "often", R"({"spec":{"suspend":true}})");
  EXPECT_TRUE(world.api.wait_until([&] { return jobs().empty(); }, kPatience));
  world.api.remove(resources::kCronJobs, "default", "often");
}

constexpr Scenario kScenarios[] = {
    {"a_gang_runs_to_its_end", &a_gang_runs_to_its_end},
    {"plugins_make_objects_and_take_them_away", &plugins_make_objects_and_take_them_away},
    {"a_failed_pod_restarts_the_job", &a_failed_pod_restarts_the_job},
    {"a_restart_has_a_budget", &a_restart_has_a_budget},
    {"a_job_is_aborted_and_resumed", &a_job_is_aborted_and_resumed},
    {"one_task_waits_for_another", &one_task_waits_for_another},
    {"a_claim_is_made_for_the_job", &a_claim_is_made_for_the_job},
    {"a_finished_job_is_collected", &a_finished_job_is_collected},
    {"a_plain_pod_gets_a_group", &a_plain_pod_gets_a_group},
    {"a_queue_closes_and_opens", &a_queue_closes_and_opens},
    {"a_job_scales_up", &a_job_scales_up},
    {"a_job_waits_for_its_queue_and_says_so", &a_job_waits_for_its_queue_and_says_so},
    {"pods_of_every_workload_get_a_group", &pods_of_every_workload_get_a_group},
    {"a_tree_of_queues_closes_from_above", &a_tree_of_queues_closes_from_above},
    {"a_flow_runs_its_jobs_in_order", &a_flow_runs_its_jobs_in_order},
    {"a_cron_job_runs_its_jobs", &a_cron_job_runs_its_jobs},
};

}  // namespace

std::span<const Scenario> controller_scenarios() { return kScenarios; }

sim::PodFate scenario_fate(const api::core::PodProjection& pod) {
  sim::PodFate fate;
  fate.run_for = std::chrono::milliseconds(20);
  const std::string_view name = pod.metadata.name;
  const std::string_view version = pod.metadata.annotations.get(api::keys::kJobVersion);
  if (name.starts_with("broken")) fate.exit_code = 1;
  if (name == "flaky-t-1" && version == "0") fate.exit_code = 1;
  if (name.find("-long-") != std::string_view::npos) fate.run_for = rt::Duration::max();
  if (name.starts_with("paused") && version == "0") fate.run_for = rt::Duration::max();
  return fate;
}

}  // namespace basalt::test
